"""Traversal of small graphs."""

from estimator_mp.graph import traversal

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


def _names(ops):
  return [op.name for op in ops]


_EDGES = {1: [2, 3], 2: [4], 3: [4], 4: [1], 5: [1]}


class WalkTest(absltest.TestCase):
  def test_yields_each_once_the_last_found_first(self):
    self.assertEqual([*traversal.walk([1], _EDGES.get)], [1, 3, 4, 2])

  def test_what_is_seen_is_no_way(self):
    self.assertEqual([*traversal.walk([1], _EDGES.get, {3})], [1, 2, 4])
    self.assertEmpty([*traversal.walk([1], _EDGES.get, {1})])


class InOrderTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    v1.disable_control_flow_v2()
    self.addCleanup(v1.enable_control_flow_v2)

  def test_a_switch_comes_before_its_reader(self):
    """The graph has what a v1 cond reads of the outside after its reader."""
    with tf.Graph().as_default() as graph:
      x = v1.placeholder(tf.float32, [], name="x")
      v1.cond(x < 0.0, lambda: tf.tanh(x), lambda: x)
    ops = graph.get_operations()
    names = _names(ops)
    self.assertLess(names.index("cond/Tanh"), names.index("cond/Tanh/Switch"))
    found = traversal.in_order(ops)
    self.assertCountEqual(found, ops)
    for op in found:
      for source in traversal.sources(op):
        self.assertLess(found.index(source), found.index(op))

  def test_what_is_in_order_stays_as_it_is(self):
    with tf.Graph().as_default() as graph:
      tf.while_loop(lambda i: i < 2, lambda i: i + 1, [tf.constant(0)])
    ops = [op for op in graph.get_operations() if op.type != "NextIteration"]
    self.assertEqual(traversal.in_order(ops), ops)
    self.assertCountEqual(
      traversal.in_order(graph.get_operations()), graph.get_operations()
    )


class OpsTest(absltest.TestCase):
  """a and b make c, c makes d; e waits for d, and reads b."""

  def setUp(self):
    super().setUp()
    with tf.Graph().as_default() as self._graph:
      a, b = tf.constant(1.0, name="a"), tf.constant(2.0, name="b")
      c = tf.add(a, b, name="c")
      d = tf.negative(c, name="d")
      with tf.control_dependencies([d]):
        tf.identity(b, name="e")
    self._ops = self._graph.get_operations()
    self._op = self._graph.get_operation_by_name

  def test_neighbours(self):
    self.assertEqual(_names(traversal.inputs(self._op("c"))), ["a", "b"])
    self.assertEqual(_names(traversal.sources(self._op("e"))), ["b", "d"])
    self.assertEqual(_names(traversal.consumers(self._op("b"))), ["c", "e"])

  def test_ancestors_read_what_they_do_not_wait_for(self):
    found = traversal.ancestors([self._op("e")], self._ops)
    self.assertEqual(_names(found), ["b", "e"])
    found = traversal.ancestors([self._op("d")], self._ops)
    self.assertEqual(_names(found), ["a", "b", "c", "d"])

  def test_no_way_leads_through_what_is_left_out(self):
    within = [op for op in self._ops if op.name != "c"]
    found = traversal.ancestors([self._op("d")], within)
    self.assertEqual(_names(found), ["d"])
    self.assertEmpty(traversal.ancestors([self._op("c")], within))

  def test_results_are_in_the_order_of_what_counts(self):
    found = traversal.ancestors([self._op("c")], self._ops[::-1])
    self.assertEqual(_names(found), ["c", "b", "a"])

  def test_descendants(self):
    found = traversal.descendants([self._op("b")], self._ops)
    self.assertEqual(_names(found), ["b", "c", "d", "e"])
    found = traversal.descendants([self._op("a")], self._ops)
    self.assertEqual(_names(found), ["a", "c", "d"])

  def test_ops_run_with_others(self):
    found = traversal.ops_run_with(self._op("e"))
    self.assertCountEqual(_names(found), ["a", "b", "c", "d", "e"])
    found = traversal.ops_run_with(self._op("a"), self._op("b"))
    self.assertCountEqual(_names(found), ["a", "b"])


class RepeatTest(absltest.TestCase):
  def test_until_a_round_changes_nothing(self):
    """What follows in the wrong order needs a round each, and one to see it."""
    depths = {"a": 0}
    before = {"c": "b", "b": "a"}
    visits = []

    def visit(node):
      visits.append(node)
      is_new = node not in depths and before[node] in depths
      if is_new:
        depths[node] = depths[before[node]] + 1
      return is_new

    traversal.repeat_until_stable(visit, ["c", "b"])
    self.assertEqual(depths, {"a": 0, "b": 1, "c": 2})
    self.assertEqual(visits, ["c", "b"] * 3)


class LoopsTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    v1.disable_control_flow_v2()
    self.addCleanup(v1.enable_control_flow_v2)
    with tf.Graph().as_default() as self._graph:
      x = tf.constant(1.0, name="x")
      total = v1.while_loop(
        lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), [0, x], name="loop"
      )[1]
      tf.negative(total, name="after")
    self._ops = self._graph.get_operations()

  def test_a_loop_is_one(self):
    loops = traversal.Loops(self._ops)
    enter = next(op for op in self._ops if op.type == "Enter")
    self.assertContainsSubset(
      {"Enter", "Merge", "Switch", "NextIteration", "Exit", "Mul"},
      {op.type for op in loops.ops_with(enter)},
    )
    self.assertEmpty(loops.ops_with(self._graph.get_operation_by_name("after")))


if __name__ == "__main__":
  absltest.main()
