"""Copies: conds, loops and others without a rule update split variables."""

import estimator_mp  # noqa: F401, before TensorFlow
from estimator_mp.lower.splitting import part_ops
from estimator_mp.model_axis import inference
from estimator_mp.model_axis.decisions import ByTurns, OnCopies, Shard
from estimator_mp.model_axis.rules.table import TABLE
from tests.estimator_mp.lower import split_case

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_VALUE = np.arange(12, dtype=np.float32).reshape(4, 3)


class CopiesTest(split_case.SplitCase):
  def setUp(self):
    super().setUp()
    self._parts = part_ops.PartOps(self.tensors)

  def _lower(self, ops):
    """Decides about ops as they are after all requests, and makes parts."""
    inferred = inference.Inference(ops, TABLE).infer(
      {"v": self.tensors.splits["v:0"]}, on_copies=True
    )
    self._parts.apply(ops, inferred)
    return inferred

  def _halved(self, variable, condition):
    """Returns a cond that halves a variable, and says whether it did."""

    def halve():
      with tf.control_dependencies([variable.assign(variable / 2.0)]):
        return tf.constant(True)

    return tf.cond(condition, halve, lambda: tf.constant(False))

  @parameterized.parameters(
    Shard(0, (2, 2)), Shard(1, (1, 2)), Shard(0, (4, 0)), ByTurns(0, (2, 2))
  )
  def test_a_cond_updates_all_shards(self, split):
    variable = self.split_variable("v", _VALUE, split)
    asked = v1.placeholder(tf.bool, [])
    done = self._halved(variable, asked)
    inferred = self._lower([done.op.inputs[0].op, done.op])
    ((op, decision),) = inferred.decisions.items()
    self.assertEqual(op.type, "If")
    self.assertIsInstance(decision, OnCopies)
    shards = self.tensors.parts["v:0"]
    reads = [self.read(shard) for shard in shards]
    with self.session() as session:
      session.run(self._start)
      before = session.run(reads)
      for value, scale in ((False, 1.0), (True, 0.5), (True, 0.25)):
        self.assertEqual(session.run(done, {asked: value}), value)
        for part, begin in zip(session.run(reads), before, strict=True):
          np.testing.assert_array_equal(part, begin * scale)

  def test_the_copy_is_made_after_what_the_op_waits_for(self):
    variable = self.split_variable("v", _VALUE, Shard(0, (2, 2)))
    first = variable.assign(tf.ones([4, 3]), read_value=False)
    with tf.control_dependencies([first]):
      halved = self._halved(variable, v1.placeholder_with_default(True, []))
    with tf.control_dependencies([halved]):
      last = tf.no_op("last")
    self._lower([first, halved.op.inputs[0].op, halved.op, last])
    reads = [self.read(shard) for shard in self.tensors.parts["v:0"]]
    _, values = self.run_steps(last, reads)
    np.testing.assert_array_equal(np.concatenate(values), np.full([4, 3], 0.5))

  def test_an_op_without_outputs_ends_when_all_shards_are_written(self):
    variable = self.split_variable("v", _VALUE, Shard(0, (2, 2)))
    update = tf.raw_ops.ResourceScatterNdAdd(
      ref=variable.handle, indices=[[1], [2]], updates=[[1.0] * 3] * 2
    )
    self._lower([update])
    run = self._parts.to_run(update)
    self.assertIsNot(run, update)
    reads = [self.read(shard) for shard in self.tensors.parts["v:0"]]
    _, values = self.run_steps(run, reads)
    expected = _VALUE + np.array([[0.0], [1.0], [1.0], [0.0]])
    np.testing.assert_array_equal(np.concatenate(values), expected)


if __name__ == "__main__":
  absltest.main()
