"""What slices read instead of whole tensors, and on which stages they are."""

import re

import estimator_mp
from estimator_mp.planning import sharding_plan
from tests.estimator_mp import parts

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_BATCH, _LENGTH, _MASKED = 8, 5, 2
_rng = np.random.RandomState(3)
_SEQUENCES = _rng.normal(size=[_BATCH, _LENGTH, 6]).astype(np.float32)
_WHERE = _rng.randint(_LENGTH, size=[_BATCH, _MASKED]).astype(np.int32)


def _model_fn(features, labels, mode):
  net = v1.layers.dense(features["sequences"], 4, tf.tanh)
  shape = tf.shape(net)
  begins = tf.reshape(tf.range(0, shape[0]) * shape[1], [-1, 1])
  indices = tf.reshape(features["where"] + begins, [-1])
  masked = tf.gather(tf.reshape(net, [-1, 4]), indices)
  losses = tf.square(v1.layers.dense(masked, 1))
  loss = tf.sqrt(tf.reduce_mean(losses))
  return parts.spec(mode, loss, parts.descend(loss, 0.5))


def _train(config, size, where):
  """Trains a step on one batch."""
  run_config, model_fn = tf.estimator.RunConfig(), _model_fn
  if config is not None:
    run_config = estimator_mp.run_config(config)
    model_fn = estimator_mp.shard_model_fn(model_fn, config)
  with tf.Graph().as_default():
    v1.train.create_global_step()
    v1.set_random_seed(7)
    tf.keras.utils.set_random_seed(11)
    features = {
      "sequences": v1.placeholder(tf.float32, [size, _LENGTH, 6]),
      "where": v1.placeholder(tf.int32, [size, _MASKED]),
    }
    feed = {features["sequences"]: _SEQUENCES, features["where"]: where}
    spec = model_fn(features, None, mode=tf.estimator.ModeKeys.TRAIN)
    session = v1.Session(config=run_config.session_config)
    with session:
      session.run(v1.global_variables_initializer())
      fetched = (spec.loss, spec.train_op)
      session.run(fetched, feed)


@parameterized.named_parameters(("static", _BATCH), ("open", None))
class PlacesTest(parameterized.TestCase):
  def test_rows_of_other_examples_are_an_error(self, size):
    """The plain model reads these; a slice of the batch has none of them."""
    where = _WHERE.copy()
    where[1, 0] = _LENGTH
    _train(None, size, where)
    config = estimator_mp.ShardingConfig("stage:2", num_micro_batches=4)
    with self.assertRaisesRegex(
      tf.errors.InvalidArgumentError,
      "gathers rows of other examples .*leave num_micro_batches and",
    ):
      _train(config, size, where)


class ShapesTest(parameterized.TestCase):
  @parameterized.named_parameters(("static", _BATCH), ("open", None))
  def test_no_activation_is_held_to_be_measured(self, size):
    """Gradients measure what has open sizes, in backward passes."""

    def model_fn(features, mode):
      batch = tf.shape(features)[0]
      net = v1.layers.dense(features, 6)
      heads = tf.reshape(net, [batch, 2, 3])
      net = heads + tf.nn.softmax(heads)
      net = v1.layers.dense(tf.reshape(net, [batch, 6]), 1)
      loss = tf.reduce_mean(tf.square(net))
      return parts.spec(mode, loss, parts.descend(loss, 0.5))

    config = estimator_mp.ShardingConfig("stage:2", num_micro_batches=4)
    with tf.Graph().as_default() as graph:
      v1.train.create_global_step()
      features = v1.placeholder(tf.float32, [size, 4])
      sharded = estimator_mp.shard_model_fn(model_fn, config)
      sharded(features=features, mode=tf.estimator.ModeKeys.TRAIN)
    (cells,) = sharding_plan.get_plan(graph).pipeline.cells
    ops = map(graph.get_operation_by_name, cells)
    measures = [op for op in ops if op.type == "Shape"]
    if size is not None:
      self.assertEmpty(measures)
    for op in measures:
      of = op.inputs[0].op.name
      self.assertEqual(cells[op.name].phase, cells[of].phase, op.name)


class StagesTest(parameterized.TestCase):
  @parameterized.parameters(("1f1b", 1), ("interleaved", 2), ("zbv", 2))
  def test_slices_are_on_the_stages_of_the_plain_ops(self, schedule, virtual):
    """Virtual stages share their devices, so that no device says which."""
    count = 2 * virtual

    @tf.custom_gradient
    def doubled(x):
      return tf.identity(x), lambda dy: tf.multiply(dy, 2.0, "twice")

    def model_fn(features, mode):
      net = features
      for i in range(count):
        with v1.variable_scope(f"layer_{i}"):
          net = doubled(v1.layers.dense(net, 4, tf.tanh))
      loss = tf.reduce_mean(tf.square(net))
      return parts.spec(mode, loss, parts.descend(loss, 0.5))

    config = estimator_mp.ShardingConfig(
      "stage:2",
      num_micro_batches=4,
      schedule=schedule,
      num_virtual_stages=virtual,
      placement=[(f"^layer_{i}/", i) for i in range(count)],
      weight_gradients="each",
    )
    with tf.Graph().as_default() as graph:
      v1.train.create_global_step()
      features = v1.placeholder(tf.float32, [None, 4])
      sharded = estimator_mp.shard_model_fn(model_fn, config)
      sharded(features=features, mode=tf.estimator.ModeKeys.TRAIN)
    (cells,) = sharding_plan.get_plan(graph).pipeline.cells
    found = {
      (int(re.search(r"layer_(\d)/", name)[1]), cell.stage)
      for name, cell in cells.items()
      if re.search(r"layer_\d/.*(MatMul|twice)", name)
    }
    self.assertEqual(found, {(i, i) for i in range(count)})


if __name__ == "__main__":
  absltest.main()
