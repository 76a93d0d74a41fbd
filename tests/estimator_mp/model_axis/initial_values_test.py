"""Initial values of shards: the plain model's, or drawn by each shard."""

import estimator_mp
from estimator_mp.graph import traversal
from tests import tiers
from tests.estimator_mp import parts

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1

_UNITS = 16
_NUM_SHARDS = 3


def _layer(x):
  """Its kernel's seed is drawn in Python, and numbers follow from it."""
  return v1.layers.dense(x, _UNITS, use_bias=False, name="net")


def _keras(x):
  return tf.keras.layers.Dense(_UNITS, use_bias=False, name="net")(x)


def _variable(x):
  kernel = v1.get_variable("net/kernel", [20, _UNITS], use_resource=True)
  return tf.matmul(x, kernel)


def _normal(x):
  initializer = tf.keras.initializers.TruncatedNormal(stddev=0.1, seed=7)
  return v1.layers.dense(
    x,
    _UNITS,
    use_bias=False,
    kernel_initializer=initializer,
    name="net",
  )


_NETS = (
  ("layer", _layer),
  ("keras", _keras),
  ("variable", _variable),
  ("normal", _normal),
)


def _initial(net, load=None, **config):
  """Returns the initial values of a kernel's shards, and the largest output.

  That is of the ops that make the values, in elements.
  """

  def model_fn(features, labels, mode):
    loss = tf.reduce_mean(
      (v1.layers.dense(net(features["x"]), 1) - labels) ** 2
    )
    step = v1.train.get_global_step()
    train_op = v1.train.AdagradOptimizer(0.1).minimize(loss, step)
    return parts.spec(mode, loss, train_op)

  config = estimator_mp.ShardingConfig(
    mesh=f"model:{_NUM_SHARDS}", split=[("net/kernel", 1)], **config
  )
  with tf.Graph().as_default() as graph:
    v1.set_random_seed(5)
    tf.keras.utils.set_random_seed(5)
    v1.train.create_global_step()
    features = {"x": v1.placeholder(tf.float32, [None, 20])}
    labels = v1.placeholder(tf.float32, [None, 1])
    sharded = estimator_mp.shard_model_fn(model_fn, config)
    sharded(features, labels, tf.estimator.ModeKeys.TRAIN)
    shards = [
      variable
      for variable in v1.trainable_variables()
      if variable.op.name.startswith("net/kernel/")
    ]
    makers = traversal.ops_run_with(*[shard.initializer for shard in shards])
    sizes = [
      output.shape.num_elements() or 0 for op in makers for output in op.outputs
    ]
    devices = v1.ConfigProto(
      device_count={"CPU": _NUM_SHARDS}, allow_soft_placement=False
    )
    with v1.Session(graph=graph, config=devices) as session:
      session.run(v1.global_variables_initializer())
      if load is not None:
        load(session)
      return session.run(shards), max(sizes)


class InitialValuesTest(parameterized.TestCase):
  @parameterized.named_parameters(*_NETS)
  def test_each_shard_draws_its_own(self, net):
    """No op makes the whole value, and no shard's numbers are another's."""
    shards, largest = _initial(net, plain_initial_bytes=0)
    self.assertEqual(
      [shard.shape for shard in shards], [(20, 6), (20, 5), (20, 5)]
    )
    self.assertEqual(largest, 20 * 6)
    numbers = np.concatenate([shard.ravel() for shard in shards])
    self.assertLen(set(numbers.tolist()), numbers.size)
    again, _ = _initial(net, plain_initial_bytes=0)
    for one, other in zip(shards, again, strict=True):
      np.testing.assert_array_equal(one, other)

  @parameterized.named_parameters(tiers.sample(_NETS))
  def test_they_are_spread_as_the_plain_ones(self, net):
    shards, _ = _initial(net, plain_initial_bytes=0)
    plain, _ = _initial(net)
    ours, theirs = np.concatenate(shards, 1), np.concatenate(plain, 1)
    self.assertAlmostEqual(ours.std() / theirs.std(), 1.0, delta=0.15)
    self.assertAlmostEqual(ours.mean() / theirs.std(), 0.0, delta=0.15)
    self.assertLess(np.abs(ours).max(), 1.2 * np.abs(theirs).max())

  @parameterized.named_parameters(tiers.sample(_NETS))
  def test_a_variable_that_is_too_large_is_drawn_by_shard(self, net):
    by_shard, _ = _initial(net, plain_initial_bytes=0)
    too_large, _ = _initial(net, plain_initial_bytes=20 * 16 * 4 - 1)
    for one, other in zip(by_shard, too_large, strict=True):
      np.testing.assert_array_equal(one, other)
    fits, largest = _initial(net, plain_initial_bytes=20 * 16 * 4)
    self.assertEqual(largest, 20 * 16)
    self.assertFalse(np.array_equal(fits[1], by_shard[1]))

  def test_a_scaffold_loads_what_is_split(self):
    """The shards get their pieces of a value that a hook or an init_fn has."""
    kept = []

    def net(x):
      kept.append(v1.get_variable("net/kernel", [20, _UNITS]))
      return tf.matmul(x, kept[0])

    value = np.arange(20.0 * _UNITS, dtype=np.float32).reshape(20, _UNITS)
    shards, _ = _initial(net, lambda session: kept[0].load(value, session))
    np.testing.assert_array_equal(np.concatenate(shards, 1), value)


if __name__ == "__main__":
  absltest.main()
