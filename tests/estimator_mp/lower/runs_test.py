"""Runs: the sums of gradients, and the cells of ops, of one segment."""

import estimator_mp  # noqa: F401, before TensorFlow
from estimator_mp import devices
from estimator_mp.config.schedules import orders
from estimator_mp.config.schedules.schedule import Cell, Phase
from estimator_mp.graph import clones as clones_lib
from estimator_mp.lower.slicing import runs
from estimator_mp.pipeline.cells import Pass
from estimator_mp.pipeline.weight_products import WeightProduct
from estimator_mp.plan.bridge import Bridge, Kind
from estimator_mp.plan.finish_plan import RunPlan

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_DEVICES = ("/device:CPU:0", "/device:CPU:1")
_FORWARD, _BACKWARD = Phase.FORWARD, Phase.BACKWARD


class RunTest(parameterized.TestCase):
  """y = x w on stage 0, z = y^2 on stage 1, and back: dy and dw = x^T dy."""

  def setUp(self):
    super().setUp()
    self.enter_context(tf.Graph().as_default())
    self._schedule = orders.make_schedule("gpipe", 2, 2)
    self._clones = clones_lib.Clones(
      [clones_lib.Home("micro_batch_1", number=1)]
    )
    x = [tf.constant([[float(m), 1.0]], name=f"x_{m}") for m in range(2)]
    self._clones.pair(x[0], x[1:])
    self._x = x
    w = tf.constant([[2.0], [3.0]], name="w")
    with tf.device(_DEVICES[0]):
      y = tf.matmul(x[0], w, name="y")
    with tf.device(_DEVICES[1]):
      z = tf.square(y, "z")
      dy = tf.add(z, y, name="dy")  # Any that reads both will do.
    with tf.device(_DEVICES[0]):
      self._dw = tf.matmul(x[0], dy, transpose_a=True, name="dw")
      total = tf.identity(self._dw, "sum")
    self._bridge = Bridge(total.op, Kind.SUM, request=0)
    self._y, self._z, self._dy = y, z, dy
    self._ops = [a.op for a in (y, z, dy, self._dw)]
    self._stages = dict(zip(self._ops, (0, 1, 1, 0), strict=True))
    phases = (_FORWARD, _FORWARD, _BACKWARD, _BACKWARD)
    self._passes = {
      op: Pass(self._stages[op], phase)
      for op, phase in zip(self._ops, phases, strict=True)
    }

  def _run(self, products=None, ops=None):
    plan = RunPlan(
      ops or self._ops, [self._bridge], products or {}, self._passes
    )
    return runs.Run(plan, self._schedule, self._stages, self._clones)

  def _order(self, run, kept=()):
    cells = [{}]
    run.order(kept, cells)
    return cells[0]

  def _values(self, *tensors):
    devices.check_local_devices_exist(_DEVICES)
    config = v1.ConfigProto(device_count={"CPU": 2})
    with v1.Session(config=config) as session:
      return session.run(tensors)

  def _cells(self, name, of_pass):
    return {
      name: Cell(of_pass.stage, 0, of_pass.phase),
      f"micro_batch_1/{name}": Cell(of_pass.stage, 1, of_pass.phase),
    }

  def test_each_op_of_each_micro_batch_is_in_a_cell(self):
    self._clones.add(self._ops)
    expected = {}
    for op, of_pass in self._passes.items():
      expected |= self._cells(op.name, of_pass)
    self.assertEqual(self._order(self._run()), expected)

  def test_a_stage_s_cells_follow_each_other(self):
    """In GPipe the last micro-batch goes back first."""
    self._clones.add(self._ops)
    self._order(self._run())
    copies = {op: self._clones.op(0, op) for op in self._ops}
    dy, y = self._dy.op, self._y.op
    self.assertEmpty(y.control_inputs)
    for op, before in ((copies[y], y), (copies[dy], copies[self._z.op])):
      (done,) = op.control_inputs
      self.assertIn(before, done.control_inputs)
    (done,) = dy.control_inputs
    self.assertIn(copies[dy], done.control_inputs)

  @parameterized.parameters(False, True)
  def test_gradients_are_summed(self, by_calls):
    self._clones.add(self._ops)
    found = self._run().totals([self._bridge], by_calls)
    ((total,),) = found.values()
    found, *expected = self._values(total, self._dw, *self._clones.of(self._dw))
    np.testing.assert_allclose(found, sum(expected))

  def test_one_product_of_several_micro_batches(self):
    """So no slice multiplies for itself, and dw has no clone."""
    own = self._ops[:-1]
    del self._passes[self._dw.op]
    self._clones.add(own)
    run = self._run({self._bridge.op: WeightProduct(self._dw.op, 2)}, own)
    ((total,),) = run.totals([self._bridge], False).values()
    self.assertEqual(total.op.type, "MatMul")
    dy = [self._dy, *self._clones.of(self._dy)]
    found, *operands = self._values(total, *self._x, *dy)
    expected = [
      x.T @ y for x, y in zip(operands[:2], operands[2:], strict=True)
    ]
    np.testing.assert_allclose(found, sum(expected))

  def test_what_is_computed_again_is_in_the_backward_pass(self):
    with tf.device(_DEVICES[1]):
      again = tf.square(self._y, "again")
    run = self._run()
    run.add_recomputed({again.op: 1}, [again.op, self._dy.op, self._dw.op])
    self.assertEqual(run.recomputed, {again.op: 1})
    self.assertEqual(run.passes[again.op], Pass(1, _BACKWARD))
    self.assertIn(again.op, run.ops)
    self._clones.add(run.ops)
    self.assertEqual(self._order(run, kept=[1])["again"], Cell(1, 0, _BACKWARD))

  @parameterized.parameters(0, 1)
  def test_a_micro_batch_that_keeps_its_activations(self, kept):
    with tf.device(_DEVICES[1]):
      again = tf.square(self._y, "again")
    run = self._run()
    run.add_recomputed({again.op: 1}, [again.op, self._dy.op, self._dw.op])
    self._clones.add(run.ops)
    names = ["again", "micro_batch_1/again"]
    cells = self._order(run, kept=[kept])
    self.assertNotIn(names[kept], cells)
    self.assertIn(names[1 - kept], cells)

  def test_what_is_there_of_gradients(self):
    rows = tf.IndexedSlices(tf.zeros([1, 2]), tf.constant([0]))
    found = runs.flat([self._dw, None, rows])
    self.assertEqual(
      [x.op for x in found], [self._dw.op, rows.values.op, rows.indices.op]
    )


if __name__ == "__main__":
  absltest.main()
