"""The splitter: a layer whose variable is split, from plan to checkpoint."""

import os

from estimator_mp.lower.splitting import splitter
from estimator_mp.model_axis import inference
from estimator_mp.model_axis.decisions import (
  OwnShard,
  Partial,
  PerPart,
  Replicate,
  Shard,
)
from estimator_mp.model_axis.split_plan import SplitPass
from tests.estimator_mp.lower import split_case

import numpy as np
import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1
_ROWS = Shard(0, (2, 1))
_WEIGHT = np.arange(6, dtype=np.float32).reshape(3, 2)
_X = np.array([[1.0, 2.0, 3.0]], np.float32)


class SplitterTest(split_case.SplitCase):
  """y = x w, of which each device has some of the inner dimension."""

  def setUp(self):
    super().setUp()
    self._splitter = splitter.Splitter(lambda op: self.devices, self.ledger)
    self._x = v1.placeholder_with_default(_X, [1, 3], "x")
    self._w = v1.get_variable("w", initializer=_WEIGHT, use_resource=True)
    self._y = tf.matmul(self._x, self._w, name="y")

  def _plan(self, ops, variables):
    """Returns what is split of ops that work on the weight."""
    decisions = {}
    for op in ops:
      if op.type == "ReadVariableOp":
        decisions[op] = PerPart((OwnShard(),), (_ROWS,))
      if op.type == "MatMul":
        decisions[op] = PerPart((_ROWS.at(1), _ROWS), (Partial(),))
      if op.type == "AssignVariableOp":
        decisions[op] = PerPart((OwnShard(), _ROWS), ())
      if op.type == "VarIsInitializedOp":
        decisions[op] = PerPart((OwnShard(),), (Replicate(),))
    splits = {self._w.handle.name: _ROWS}
    return SplitPass(
      ops, inference.Inferred(splits, decisions, (), {}), variables
    )

  def _split(self):
    return self._splitter.split(self._plan(self.ops(), {self._w.op: _ROWS}))

  def _finish(self):
    spec = tf.estimator.EstimatorSpec("infer", predictions={"y": self._y})
    return self._splitter.finish(spec)

  def test_a_pass_returns_the_variable_and_its_shards(self):
    found = self._split()
    self.assertEqual([x.name for x in found], ["w", "w/part_0", "w/part_1"])
    self.assertTrue(self._splitter.is_replaced(self._y.op))
    self.assertFalse(self._splitter.is_replaced(self._x.op))

  def test_a_plan_of_nothing(self):
    before = len(self.ops())
    self.assertEqual(self._splitter.split(self._plan([], {})), [])
    self.assertLen(self.ops(), before)

  def test_the_spec_has_whole_tensors(self):
    self._split()
    found = self._finish().predictions["y"]
    self.assertIs(found, self._splitter.whole(self._y))
    (x,) = {p.op.inputs[0].op for p in found.op.inputs}
    self.assertEqual((found.op.type, x.type), ("AddN", "SplitV"))
    start = v1.global_variables_initializer()
    _, value = self.run_steps(start, found)
    np.testing.assert_allclose(value, _X @ _WEIGHT)

  def test_gradients(self):
    self._split()
    sources = self._splitter.gradients.expand([self._w])
    found = tf.gradients(self._splitter.whole(self._y), sources.tensors)
    (gradient,) = self._splitter.gradients.contract(
      *self._splitter.gradients.without_lookups(sources, found)
    )
    self._finish()
    start = v1.global_variables_initializer()
    _, value = self.run_steps(start, gradient)
    np.testing.assert_allclose(value, np.repeat(_X.T, 2, 1))

  def test_checkpoints_are_those_of_the_plain_variable(self):
    self._split()
    self._finish()
    saver = v1.train.Saver()
    start = v1.global_variables_initializer()
    path = os.path.join(self.create_tempdir().full_path, "model")
    with self.session() as session:
      session.run(start)
      saver.save(session, path)
    reader = tf.train.load_checkpoint(path)
    self.assertEqual(reader.get_variable_to_shape_map(), {"w": [3, 2]})
    np.testing.assert_array_equal(reader.get_tensor("w"), _WEIGHT)

  def test_what_hooks_make_is_split_before_a_session(self):
    self._split()
    self._finish()
    self._splitter.split_late(lambda ops: self._plan(ops, {}))
    late = tf.raw_ops.AssignVariableOp(
      resource=self._w.handle, value=tf.constant(10 * _WEIGHT)
    )
    self.assertEqual(late.inputs[0], self._w.handle)
    read = tf.raw_ops.ReadVariableOp(
      resource=self._w.handle, dtype=tf.float32, name="late_read"
    )
    self.graph.finalize()
    self.assertEqual(late.inputs[0].op.name, "w/part_0")
    _, value = self.run_steps(late, read)
    np.testing.assert_array_equal(value, 10 * _WEIGHT)

  def test_what_an_export_makes_is_split_at_once(self):
    self._split()
    self._finish()
    read = tf.raw_ops.ReadVariableOp(resource=self._w.handle, dtype=tf.float32)
    late = tf.negative(read)
    seen = []

    def plan(ops):
      seen.extend(ops)
      return self._plan(ops, {})

    self._splitter.split_now(plan)
    self.assertEqual(seen, [read.op, late.op])
    start = v1.global_variables_initializer()
    _, value = self.run_steps(start, late)
    np.testing.assert_array_equal(value, -_WEIGHT)


if __name__ == "__main__":
  absltest.main()
