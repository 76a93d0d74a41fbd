"""Gradients of split variables: what is asked for, and what model_fn gets."""

from estimator_mp.lower.splitting import gradients as gradients_lib
from estimator_mp.model_axis.decisions import ByTurns, LookUp, Shard
from tests.estimator_mp.lower import split_case

import numpy as np
import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1
_COLUMNS = Shard(1, (2, 1))
_ROWS = Shard(0, (3, 1))


class GradientsTest(split_case.SplitCase):
  def setUp(self):
    super().setUp()
    self._gradients = gradients_lib.Gradients(self.tensors, self.tensors.tables)

  def _variable(self, split, name="v"):
    return self.split_variable(name, np.ones([4, 3]), split)

  def _parts(self, variable):
    return self.tensors.parts[variable.handle.name]

  def _answer(self, variable, gradients):
    """Returns what model_fn gets for the gradients of parts."""
    sources = self._gradients.expand([variable])
    self.assertLen(sources.tensors, len(gradients))
    (found,) = self._gradients.contract(
      *self._gradients.without_lookups(sources, gradients)
    )
    return found

  def test_shards_are_asked_for_in_place_of_a_variable(self):
    variable = self._variable(_COLUMNS)
    other = v1.get_variable("other", [2], use_resource=True)
    sources = self._gradients.expand([other, variable, other])
    self.assertEqual(sources.tensors, [other, *self._parts(variable), other])
    self.assertEqual(sources.groups, [[0], [1, 2], [3]])
    self.assertEqual(sources.splits, [None, _COLUMNS, None])
    self.assertEqual(sources.lookups, [0, 0, 0])

  def test_parts_are_asked_for_in_place_of_a_tensor(self):
    x = self.split_placeholder("x", [4, 3], _COLUMNS)
    sources = self._gradients.expand([x])
    self.assertEqual(sources.tensors, self.tensors.parts[x.name])

  def test_a_sum_over_devices_is_asked_for_in_place_of_a_tensor(self):
    x, whole = tf.constant(1.0), tf.constant(2.0)
    self.tensors.wholes[x.name] = whole
    self.assertEqual(self._gradients.expand([x]).tensors, [whole])

  def test_what_nothing_stands_for_is_asked_for_as_it_is(self):
    """The very list, which somebody may look at."""
    asked = [tf.constant(1.0)]
    self.assertIs(self._gradients.expand(asked).tensors, asked)

  def test_model_fn_gets_a_concat(self):
    variable = self._variable(_COLUMNS)
    parts = [tf.fill([4, size], float(size)) for size in (2, 1)]
    found = self._answer(variable, parts)
    self.assertEqual(found.device, self.devices[0])
    self.assertEqual(self._gradients.joined, {found.name: _COLUMNS})
    self.assertEqual(self.tensors.parts[found.name], parts)
    (value,) = self.run_steps(found)
    np.testing.assert_array_equal(value, [[2.0, 2.0, 1.0]] * 4)

  def test_a_part_that_nothing_depends_on(self):
    found = self._answer(self._variable(_COLUMNS), [None, tf.ones([4, 1])])
    (value,) = self.run_steps(found)
    np.testing.assert_array_equal(value, [[0.0, 0.0, 1.0]] * 4)

  def test_nothing_depends_on_it(self):
    self.assertIsNone(self._answer(self._variable(_COLUMNS), [None, None]))

  def test_parts_of_rows_that_take_turns(self):
    variable = self._variable(ByTurns(0, (2, 2)))
    parts = [tf.fill([2, 3], float(i)) for i in range(2)]
    (value,) = self.run_steps(self._answer(variable, parts))
    np.testing.assert_array_equal(value[:, 0], [0.0, 1.0, 0.0, 1.0])

  def test_rows_of_columns(self):
    """The gradient of a lookup in a table that is split by columns."""
    variable = self._variable(_COLUMNS)
    indices = tf.constant([3, 0])
    parts = [
      tf.IndexedSlices(tf.fill([2, size], float(size)), indices)
      for size in (2, 1)
    ]
    found = self._answer(variable, parts)
    self.assertIs(found.indices, indices)
    (value,) = self.run_steps(found)
    np.testing.assert_array_equal(value.values, [[2.0, 2.0, 1.0]] * 2)
    self.assertEqual(value.dense_shape.tolist(), [4, 3])

  def test_rows_of_some_shards(self):
    """They have the numbers that they have in the whole variable."""
    variable = self._variable(_ROWS)
    own = tf.IndexedSlices(tf.ones([1, 3]), tf.constant([0]))
    for parts, rows in (([None, own], [3]), ([own, own], [0, 3])):
      (value,) = self.run_steps(self._answer(variable, parts))
      self.assertEqual(value.indices.tolist(), rows)
      self.assertEqual(value.values.shape, (len(rows), 3))

  def _look_up(self, split):
    """Looks up rows 3 and 0 of a table; returns it, and what was asked for."""
    variable = self._variable(split, "table")
    lookup = tf.raw_ops.ResourceGather(
      resource=variable.handle, indices=[3, 0], dtype=tf.float32
    ).op
    (rows,) = self.tensors.tables.look_up(
      [lookup], LookUp(split.rows), self._parts(variable), self.devices[0]
    )
    sources = self._gradients.expand([variable])
    self.assertEqual(sources.tensors, [rows, *self._parts(variable)])
    self.assertEqual(sources.lookups, [1])
    return variable, sources

  def test_a_table_that_is_only_looked_up_has_the_plain_gradient(self):
    variable, sources = self._look_up(_ROWS)
    found, kept = self._gradients.without_lookups(
      sources, [tf.ones([2, 3]), None, None]
    )
    self.assertEqual((found.tensors, found.lookups), ([variable], [1]))
    (gradient,) = self._gradients.contract(found, kept)
    self.assertIs(gradient, kept[0])
    (value,) = self.run_steps(gradient)
    self.assertEqual(value.indices.tolist(), [3, 0])
    unique = tf.raw_ops.Unique(x=gradient.indices).y.op
    self.assertTrue(self.tensors.tables.finds_distinct_ids(unique))

  def test_a_table_that_is_read_whole_too(self):
    """Of which other ops than lookups ask for shards."""
    variable, sources = self._look_up(_ROWS)
    asked = [tf.ones([2, 3]), tf.fill([3, 3], 5.0), None]
    found, kept = self._gradients.without_lookups(sources, asked)
    self.assertEqual(found.tensors, self._parts(variable))
    (gradient,) = self._gradients.contract(found, kept)
    (value,) = self.run_steps(gradient)
    np.testing.assert_array_equal(value[:, 0], [6.0, 5.0, 5.0, 1.0])


if __name__ == "__main__":
  absltest.main()
