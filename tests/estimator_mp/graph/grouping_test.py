"""Which ops one function can compute, as data."""

from estimator_mp.graph.calls import grouping
from tests.estimator_mp import graph_case

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


class GroupsTest(graph_case.GraphCase):
  def setUp(self):
    super().setUp()
    self._x = v1.placeholder(tf.float32, [2], "x")

  def _chain(self, x, name, length=4):
    """Returns what comes of a chain of ops, named by their number."""
    for number in range(length):
      x = tf.negative(x, f"{name}_{number}")
    return x

  def _groups(self):
    """Returns the ops of each group, by name; keys are how names begin."""
    ops = [op for op in self.ops() if op.type != "Placeholder"]
    keys = {op: op.name.partition("_")[0] for op in ops}
    found = {}
    for op, group in grouping.groups_of(ops, keys).items():
      found.setdefault(group, []).append(op.name)
    return sorted(found.values())

  def _names(self, name, length=4):
    return [f"{name}_{i}" for i in range(length)]

  def test_one_group_of_each_key(self):
    self._chain(self._chain(self._x, "a"), "b")
    self.assertEqual(self._groups(), [self._names("a"), self._names("b")])

  def test_few_ops_are_not_worth_a_call(self):
    self._chain(self._chain(self._x, "a", 3), "b")
    self.assertEqual(self._groups(), [self._names("b")])

  def test_what_comes_back_to_a_group_is_another(self):
    """A function starts when all that it reads is there."""
    there = self._chain(self._x, "a")
    back = self._chain(self._chain(there, "b"), "a")
    tf.add(there, back, "a_last")
    groups = self._groups()
    self.assertEqual(groups[0], self._names("a"))
    self.assertEqual(groups[1], [*(f"a_{i}_1" for i in range(4)), "a_last"])
    self.assertEqual(groups[2], self._names("b"))

  def test_what_must_not_be_in_a_function_parts_a_group(self):
    before = self._chain(self._x, "a")
    read = v1.py_func(lambda x: x, [before], tf.float32, name="a_python")
    self._chain(read, "a")
    self.assertEqual(
      self._groups(), [self._names("a"), [f"a_{i}_1" for i in range(4)]]
    )

  def test_ops_without_a_key(self):
    ops = [x.op for x in (self._chain(self._x, "a"),)]
    self.assertEmpty(grouping.groups_of(ops, {}))
    self.assertEmpty(grouping.groups_of([], {}))

  def test_what_may_be_called(self):
    self.use_v1_control_flow()
    v = v1.get_variable("v", [2], use_resource=True)
    function = tf.function(tf.negative)
    cases = {
      "plain": (tf.negative(self._x), True),
      "random": (tf.random.uniform([2], seed=1), False),
      "state": (v.read_value(), False),
      "handle": (v.handle, False),
      "call": (function(self._x), False),
    }
    for name, (tensor, may) in cases.items():
      with self.subTest(name):
        op = tensor.op
        while op.type == "Identity":
          op = op.inputs[0].op
        self.assertEqual(grouping.may_be_called(op), may)

  def test_loops_and_branches(self):
    self.use_v1_control_flow()
    tf.while_loop(
      lambda i, _: i < 3,
      lambda i, y: (i + 1, self._chain(y, "loop")),
      [0, self._x],
    )
    v1.cond(
      v1.placeholder(tf.bool, []),
      lambda: self._chain(self._x, "branch"),
      lambda: self._x,
    )
    self.assertEmpty(self._groups())


if __name__ == "__main__":
  absltest.main()
