"""Shards: variables of their own in place of those that are split."""

from estimator_mp.model_axis.decisions import ByTurns, Shard
from tests.estimator_mp.lower import split_case

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_COLUMNS = Shard(1, (2, 1))


class ShardsTest(split_case.SplitCase):
  def _collected(self, name=v1.GraphKeys.GLOBAL_VARIABLES):
    return self.graph.get_collection(name)

  def _values(self, variable):
    return [self.read(x) for x in self.tensors.parts[variable.handle.name]]

  def _enter_first_writes(self, variable):
    """Enters first writes of shards in place of that of the variable."""
    handles = self.tensors.parts[variable.handle.name]
    self.writes[variable.initializer] = [
      tf.raw_ops.AssignVariableOp(
        resource=handle,
        value=v1.placeholder(tf.float32, handle.op.get_attr("shape")),
      )
      for handle in handles
    ]

  def test_handles(self):
    variable = v1.get_variable("scope/v", [4, 3], use_resource=True)
    found = self.shards.make(variable.op, _COLUMNS)
    self.assertEqual(
      [
        (
          op.name,
          op.device,
          tf.TensorShape(op.get_attr("shape")).as_list(),
          op.get_attr("shared_name").decode(),
        )
        for op in found
      ],
      [
        ("scope/v/part_0", self.devices[0], [4, 2], "scope/v/part_0"),
        ("scope/v/part_1", self.devices[1], [4, 1], "scope/v/part_1"),
      ],
    )
    self.assertEqual(self.tensors.splits[variable.handle.name], _COLUMNS)
    made_for = [self.ledger.made_for[op] for op in found]
    self.assertEqual(made_for, [variable.op] * 2)

  def test_collections_have_shards_as_slices_of_the_variable(self):
    variable = self.split_variable("v", np.ones([4, 3]), _COLUMNS)
    other = v1.get_variable("other", [2], use_resource=True)
    self.shards.replace_in_collections()
    *found, kept = self._collected()
    self.assertIs(kept, other)
    self.assertEqual([x.name for x in found], ["v/part_0:0", "v/part_1:0"])
    slices = [x.to_proto().save_slice_info_def for x in found]
    self.assertEqual(
      [
        (x.full_name, [*x.full_shape], [*x.var_offset], [*x.var_shape])
        for x in slices
      ],
      [("v", [4, 3], [0, 0], [4, 2]), ("v", [4, 3], [0, 2], [4, 1])],
    )
    trained = self._collected(v1.GraphKeys.TRAINABLE_VARIABLES)
    # One object for each shard, in whatever collection.
    self.assertEqual([*map(id, trained[:2])], [*map(id, found)])
    self.assertTrue(found[0].trainable)
    self.assertNotIn(variable.handle.name, [x.name for x in found])

  def test_a_partitioned_variable_s_slice_is_cut_again(self):
    """The program's own partitioner has made a slice of it already."""
    with v1.variable_scope(
      "s", partitioner=v1.fixed_size_partitioner(2, axis=0)
    ):
      parts = [*v1.get_variable("v", [8, 3], use_resource=True)]
    second = parts[1]
    self.shards.make(second.op, _COLUMNS)
    self.shards.replace_in_collections()
    found = self._collected()[1:]
    slices = [x.to_proto().save_slice_info_def for x in found]
    self.assertEqual({x.full_name for x in slices}, {"s/v"})
    self.assertEqual([[*x.full_shape] for x in slices], [[8, 3]] * 2)
    self.assertEqual([[*x.var_offset] for x in slices], [[4, 0], [4, 2]])

  def test_a_shard_without_rows_is_in_no_checkpoint(self):
    self.split_variable("v", np.ones([4, 3]), Shard(0, (4, 0)))
    self.shards.replace_in_collections()
    self.assertEqual([x.name for x in self._collected()], ["v/part_0:0"])
    (empty,) = self._collected(v1.GraphKeys.LOCAL_VARIABLES)
    self.assertEqual(empty.shape.as_list(), [0, 3])
    _, value = self.run_steps(empty.initializer, empty.value())
    self.assertEqual(value.shape, (0, 3))

  def test_a_table_by_turns_is_saved_whole(self):
    """A slice of a checkpoint holds consecutive rows."""
    variable = self.split_variable("v", np.ones([5, 2]), ByTurns(0, (3, 2)))
    self.shards.replace_in_collections()
    self.assertEqual(self._collected(), [variable])

  def test_a_tensor_that_is_split_is_whole_in_collections(self):
    whole = self.split_placeholder("x", [4, 3], _COLUMNS)
    self.graph.add_to_collection("mine", whole)
    self.graph.add_to_collection("mine", "a text")
    gathered = self.tensors.whole(whole)
    self.shards.replace_in_collections()
    self.assertEqual(self._collected("mine"), [gathered, "a text"])

  @parameterized.named_parameters(
    ("columns", _COLUMNS, [[[0, 1], [3, 4]], [[2], [5]]]),
    ("by_turns", ByTurns(0, (1, 1)), [[[0, 1, 2]], [[3, 4, 5]]]),
  )
  def test_load_writes_all_shards(self, split, parts):
    variable = self.split_variable("v", np.zeros([2, 3]), split)
    self._enter_first_writes(variable)
    self.shards.replace_in_collections()
    value = np.arange(6).reshape(2, 3)
    with self.session() as session:
      variable.load(value, session)
      found = session.run(self._values(variable))
    self.assertEqual([x.tolist() for x in found], parts)
    with (
      self.session() as session,
      self.assertRaisesRegex(
        ValueError, r"v.load\(value\) got the shape \[2\]; pass \[2, 3\]"
      ),
    ):
      variable.load(value[:, 0], session)

  def test_load_needs_a_session(self):
    variable = self.split_variable("v", np.zeros([4, 3]), _COLUMNS)
    self._enter_first_writes(variable)
    self.shards.replace_in_collections()
    with self.assertRaisesRegex(
      ValueError,
      r"v.load\(value\) has no session; pass it as the second argument, or "
      r"call it in `with session.as_default\(\)`",
    ):
      variable.load(np.zeros([4, 3]))


if __name__ == "__main__":
  absltest.main()
