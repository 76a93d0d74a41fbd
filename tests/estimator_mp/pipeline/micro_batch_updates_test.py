"""Updates by each micro-batch: which, of what, and in which order."""

import estimator_mp  # noqa: F401
from estimator_mp.graph import clones as clones_lib
from estimator_mp.lower import micro_batch_updates as lower_updates
from estimator_mp.pipeline import micro_batch_updates

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


def _names(ops):
  return [op.name for op in ops]


class MicroBatchUpdatesTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self._graph = self.enterContext(tf.Graph().as_default())
    self._average = v1.get_variable("average", [], use_resource=True)
    self._x = v1.placeholder(tf.float32, [], "x")

  def _read(self, name):
    return tf.raw_ops.ReadVariableOp(
      resource=self._average.handle, dtype=tf.float32, name=name
    )

  def _update(self, name):
    """Makes `average -= (average - x) * 0.1`, of four named ops."""
    with tf.name_scope(name):
      difference = tf.subtract(self._read("read"), self._x, "difference")
      return tf.raw_ops.AssignSubVariableOp(
        resource=self._average.handle, value=difference * 0.1, name="write"
      )

  def _plan(self, is_cloned=("x:0",)):
    differing = {"x:0"}
    for op in self._graph.get_operations():
      if differing.intersection(x.name for x in op.inputs):
        differing.update(x.name for x in op.outputs)
    return micro_batch_updates.plan_micro_batch_updates(
      self._graph.get_operations(),
      set(),
      lambda tensor: tensor.name in differing,
      lambda tensor: tensor.name in is_cloned,
    )

  def test_what_an_update_is_made_of(self):
    self._update("one")
    self._average.assign(3.0)  # The same for all.
    plan = self._plan()
    self.assertEqual(
      _names(plan.ops), ["one/read", "one/difference", "one/mul", "one/write"]
    )
    (update,) = plan.updates
    self.assertEqual(update.variable, self._average.handle.op)
    self.assertEqual(_names(update.turn), ["one/read", "one/write"])

  def test_what_each_micro_batch_has_is_left_out(self):
    self._update("one")
    plan = self._plan(is_cloned=("one/difference:0",))
    self.assertEqual(_names(plan.ops), ["one/mul", "one/write"])

  def test_a_value_that_others_read_is_refused(self):
    self._update("one")
    read = self._graph.get_tensor_by_name("one/read:0")
    tf.exp(read, "other")
    with self.assertRaisesWithLiteralMatch(
      ValueError,
      "one/write updates average by one/read, which other reads, too, so "
      "micro-batches cannot update it one after the other; use "
      'batch_norm="deferred", or let each read the variable by itself '
      "(tf.identity of it)",
    ):
      self._plan()

  def test_the_first_micro_batch_comes_last(self):
    self._update("one")
    clones = clones_lib.Clones([clones_lib.Home("b1"), clones_lib.Home("b2")])
    clones.pair(self._x, [v1.placeholder(tf.float32, []) for _ in range(2)])
    lower_updates.repeat_for_micro_batches(self._plan(), clones)
    waits = {
      name: _names(self._graph.get_operation_by_name(name).control_inputs)
      for scope in ("b1/", "b2/", "")
      for name in (f"{scope}one/read", f"{scope}one/write")
    }
    self.assertEqual(
      waits,
      {
        "b1/one/read": [],
        "b1/one/write": [],
        "b2/one/read": ["b1/one/write"],
        "b2/one/write": ["b1/one/write"],
        "one/read": ["b2/one/write"],
        "one/write": ["b2/one/write"],
      },
    )


if __name__ == "__main__":
  absltest.main()
