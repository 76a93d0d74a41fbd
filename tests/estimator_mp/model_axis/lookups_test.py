"""Which lookups of a table share an exchange of rows, as data."""

from estimator_mp.model_axis import lookups
from estimator_mp.model_axis.decisions import LookUp, PerPart, Replicate, Shard
from tests.estimator_mp import graph_case

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1
_ROWS = Shard(0, (2, 2))


class TogetherTest(graph_case.GraphCase):
  def setUp(self):
    super().setUp()
    self._handles = {
      name: self.variable(name).handle for name in ("table", "other")
    }
    self._ids = v1.placeholder(tf.int32, [3], "ids")
    self._parts = set()

  def _look_up(self, name, ids=None, table="table"):
    return tf.raw_ops.ResourceGather(
      resource=self._handles[table],
      indices=self._ids if ids is None else ids,
      dtype=tf.float32,
      name=name,
    )

  def _groups(self, place=lambda op: "here"):
    """Returns the names of the lookups that share an exchange."""
    decisions = {
      op: LookUp(_ROWS.rows) for op in self.ops() if "Gather" in op.type
    }
    decisions |= {op: PerPart((Replicate(),), (_ROWS,)) for op in self._parts}
    groups = lookups.together(self.ops(), decisions, place)
    for op, group in groups.items():
      self.assertIn(op, group)
    return {tuple(x.name for x in group) for group in groups.values()}

  def test_lookups_of_one_table(self):
    for name, table in (("a", "table"), ("b", "other"), ("c", "table")):
      self._look_up(name, table=table)
    self.assertEqual(self._groups(), {("a", "c"), ("b",)})

  def test_rows_that_are_wanted_elsewhere(self):
    for name in ("a", "b", "c"):
      self._look_up(name)
    groups = self._groups(lambda op: op.name == "b")
    self.assertEqual(groups, {("a", "c"), ("b",)})

  def test_what_waits_for_others(self):
    update = tf.no_op("update")
    self._look_up("a")
    with tf.control_dependencies([update]):
      self._look_up("b")
      self._look_up("c")
    self.assertEqual(self._groups(), {("a",), ("b", "c")})

  def test_ids_that_follow_from_rows_of_the_same_table(self):
    rows = self._look_up("first")
    ids = tf.cast(tf.reduce_sum(rows, 1), tf.int32)
    self._look_up("next", ids)
    self._look_up("last")
    self.assertEqual(self._groups(), {("first", "last"), ("next",)})

  def test_ids_that_parts_make(self):
    ids = tf.negative(self._ids)
    self._parts.add(ids.op)
    self._look_up("a")
    self._look_up("b", ids)
    self._look_up("c", tf.abs(ids))
    self.assertEqual(self._groups(), {("a",), ("b",), ("c",)})

  def test_a_lookup_in_a_branch_is_alone(self):
    """The branch may not run."""
    self.use_v1_control_flow()
    self._look_up("a")
    v1.cond(
      v1.placeholder(tf.bool, []),
      lambda: self._look_up("inside", self._ids),
      lambda: tf.zeros([3, 2]),
    )
    self.assertEqual(self._groups(), {("a",), ("cond/inside",)})


if __name__ == "__main__":
  absltest.main()
