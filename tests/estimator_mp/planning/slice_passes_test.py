"""Which passes through stages slices make, by a finished graph, as data."""

import estimator_mp
from estimator_mp import partitioner
from estimator_mp.config.schedules.schedule import Phase
from estimator_mp.graph import traversal
from tests.estimator_mp import parts

import tensorflow as tf
from absl.testing import absltest, parameterized

_v1 = tf.compat.v1
_EVERY = {
  (stage, x) for stage in (0, 1) for x in (Phase.FORWARD, Phase.BACKWARD)
}


def _layer(net, kernel):
  return tf.tanh(tf.matmul(net, kernel))


def _loop(net, kernel):
  def body(i, net):
    return i + 1, _layer(net, kernel)

  return tf.while_loop(lambda i, _: i < 3, body, (0, net))[1]


def _passes(loss_of, schedule="1f1b", layer=_layer):
  """Returns the passes of each segment: pairs of a stage and a phase."""
  x = _v1.placeholder(tf.float32, [None, 4])
  net = x
  for name in ("a", "b"):
    kernel = _v1.get_variable(name, [4, 4], use_resource=True)
    net = layer(net, kernel)
  loss = loss_of(net)
  train_op = _v1.train.GradientDescentOptimizer(0.1).minimize(loss)
  config = estimator_mp.ShardingConfig(
    "stage:2", num_micro_batches=3, schedule=schedule
  )
  made = partitioner.Partitioner(
    parts.inputs(x), [loss, train_op], config, config.create_mesh()
  )
  return [
    {(of_op.stage, of_op.phase) for of_op in passes.values()}
    for passes in made.passes
  ]


class SlicePassesTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.enter_context(tf.Graph().as_default())

  def test_a_mean_lets_slices_go_back_at_once(self):
    found = _passes(lambda net: tf.reduce_mean(tf.square(net)))
    self.assertEqual(found, [_EVERY])

  def test_loops_are_in_passes_as_all_layers(self):
    """Those of gradients count their rounds, which no gradient says."""
    found = _passes(tf.reduce_mean, layer=_loop)
    self.assertEqual(found, [_EVERY])

  def test_the_root_of_a_mean_waits_for_all_slices(self):
    found = _passes(lambda net: tf.sqrt(tf.reduce_mean(tf.square(net))))
    phases = [{phase for _, phase in passes} for passes in found]
    self.assertEqual(phases, [{Phase.FORWARD}, {Phase.BACKWARD}])

  def test_how_many_losses_there_are_waits_for_no_loss(self):
    """A loss of `tf.losses` is divided by their number, which sizes tell."""
    labels = tf.ones([1, 4])
    found = _passes(
      lambda net: _v1.losses.mean_squared_error(labels + net * 0, net)
    )
    self.assertEqual(found, [_EVERY])

  def test_gradients_do_not_wait_for_moving_averages(self):
    """Though `tf.control_dependencies` says so, as for batch normalization."""

    def loss_of(net):
      seen = _v1.get_variable("seen", [], trainable=False, use_resource=True)
      update = seen.assign_add(tf.reduce_mean(net))
      with tf.control_dependencies([update]):
        return tf.reduce_mean(tf.square(net))

    self.assertEqual(_passes(loss_of), [_EVERY])

  def test_gradients_of_weights_have_passes_of_their_own(self):
    (found,) = _passes(lambda net: tf.reduce_mean(tf.square(net)), "zb1p")
    self.assertContainsSubset(
      {(1, Phase.FORWARD), (1, Phase.BACKWARD), (1, Phase.WEIGHT)}, found
    )

  def test_slices_look_up_rows_before_these_are_updated(self):
    """Nothing orders both in the plain graph: lookups come first by chance."""
    ids = _v1.placeholder(tf.int32, [None])
    table = _v1.get_variable("table", [5, 4], use_resource=True)
    seen = _v1.get_variable("seen", [5, 4], use_resource=True)
    rows = tf.nn.embedding_lookup(table, ids)
    other = tf.nn.embedding_lookup(seen, ids)
    loss = tf.reduce_mean(tf.square(rows))
    train_op = tf.group(
      _v1.train.GradientDescentOptimizer(0.1).minimize(loss),
      seen.assign_add(seen * 0 + 1),
      _v1.assign_add(
        _v1.get_variable("sum", [], use_resource=True), tf.reduce_sum(other)
      ),
    )
    config = estimator_mp.ShardingConfig(num_micro_batches=3)
    made = partitioner.Partitioner(
      parts.inputs(ids), [loss, train_op], config, config.create_mesh()
    )
    _, train = made.lower().fetches
    step = traversal.ops_run_with(train)
    lookups = {
      op
      for op in step
      if op.type == "ResourceGather" and op.inputs[0] is seen.handle
    }
    (write,) = (
      op
      for op in step
      if op.type == "AssignAddVariableOp" and op.inputs[0] is seen.handle
    )
    self.assertLen(lookups, 3)
    self.assertContainsSubset(lookups, traversal.ops_run_with(write))


if __name__ == "__main__":
  absltest.main()
