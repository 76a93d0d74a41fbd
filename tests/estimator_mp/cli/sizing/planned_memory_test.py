"""What a step needs on each device, for graphs whose needs are known."""

from estimator_mp import mesh as mesh_lib
from estimator_mp import sharding
from estimator_mp.cli.sizing.planned_memory import planned_memory
from estimator_mp.config.schedules.orders import make_schedule
from estimator_mp.config.sharding_config import ShardingConfig
from estimator_mp.plan import sharding_plan
from tests.estimator_mp import parts

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1

# Examples of a micro-batch, and units of each of two layers.
_ROWS, _UNITS = 64, 8
_KERNEL = 4 * _UNITS * _UNITS
_ACTIVATION = 4 * _ROWS * _UNITS


def _model_fn(features, labels, mode):
  """Two layers whose sigmoids the backward pass reads, on two stages."""
  net = features["x"]
  for i in range(2):
    kernel = v1.get_variable(
      f"layer_{i}/kernel", [_UNITS, _UNITS], use_resource=True
    )
    net = tf.matmul(net, kernel, name=f"layer_{i}/product")
    net = tf.sigmoid(net, name=f"layer_{i}/sigmoid")
  return parts.spec(mode, tf.reduce_mean(net))


class PlannedMemoryTest(parameterized.TestCase):
  def _plan(self, recompute="never", schedule="1f1b", slices=1, variable_on=0):
    rules = [("layer_0/kernel", variable_on), ("layer_0|^x", 0), (".*", 1)]
    config = ShardingConfig("stage:2", placement=rules)
    with tf.Graph().as_default() as graph:
      v1.train.create_global_step()
      x = v1.placeholder(tf.float32, [_ROWS, _UNITS], "x")
      spec = sharding.shard_model_fn(_model_fn, config)(
        {"x": x}, None, tf.estimator.ModeKeys.TRAIN
      )
      return planned_memory(
        graph.get_operations(),
        spec.loss.op,
        mesh_lib.Mesh.create("stage:2"),
        sharding_plan.get_placement(graph),
        make_schedule(schedule, 2, slices),
        recompute,
      )

  def test_variables_and_their_gradients_are_counted(self):
    one, several = self._plan(), self._plan(slices=4)
    for device in one:
      self.assertBetween(device.variables, _KERNEL, _KERNEL + 8)
      self.assertEqual(device.gradients, 0)
    for device in several:
      self.assertEqual(device.gradients, _KERNEL)

  def test_a_variable_of_another_device_is_there_for_all_micro_batches(self):
    """It is no variable of the device that reads it, but takes memory there."""
    here, there = (
      self._plan("always", "gpipe", 4, variable_on=stage) for stage in (0, 1)
    )
    self.assertEqual(here[0].variables - there[0].variables, _KERNEL)
    self.assertGreaterEqual(there[0].tensors - here[0].tensors, _KERNEL)

  def test_each_micro_batch_that_waits_keeps_what_is_read_backward(self):
    """Those of stage 0 keep what they read, and their sigmoid."""
    once = self._plan(schedule="gpipe")[0].tensors
    for slices in (2, 4):
      planned = self._plan(schedule="gpipe", slices=slices)[0].tensors
      self.assertEqual(planned - once, (slices - 1) * 2 * _ACTIVATION)

  def test_a_schedule_says_how_many_wait(self):
    once = self._plan()
    several = self._plan(slices=8)
    self.assertEqual(several[0].tensors - once[0].tensors, 2 * _ACTIVATION)
    self.assertEqual(several[1].tensors, once[1].tensors)

  def test_recomputing_keeps_what_was_received(self):
    once = self._plan(schedule="gpipe")
    planned = self._plan("always", "gpipe", slices=4)
    for stage in range(2):
      more = planned[stage].tensors - once[stage].tensors
      self.assertEqual(more, 3 * _ACTIVATION)


if __name__ == "__main__":
  absltest.main()
