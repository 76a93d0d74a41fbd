"""Whole variables: shards under the name of the plain one, joined and cut."""

from estimator_mp.comparison import whole_variables
from tests.estimator_mp import programs

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


class WholeVariablesTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.enter_context(tf.Graph().as_default())
    self.enter_context(v1.variable_scope("a", use_resource=True))

  def _make(self, shape, partitions):
    """Makes a variable that model_fn partitions, and a whole one."""
    v1.get_variable(
      "kernel",
      shape,
      initializer=v1.random_normal_initializer(seed=1),
      partitioner=lambda **_: partitions,
    )
    v1.get_variable("bias", [4])

  @parameterized.named_parameters(
    ("rows", [7, 4], [3, 1], 0, [3, 2, 2]),
    ("columns", [4, 5], [1, 3], 1, [2, 2, 1]),
    ("many", [12, 1], [12, 1], 0, [1] * 12),
  )
  def test_shards_are_one_variable(self, shape, partitions, axis, sizes):
    """Also where the collection has them in another order."""
    self._make(shape, partitions)
    tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=shape, name="kernel")
    found = whole_variables.by_name(reversed(v1.global_variables()))
    self.assertCountEqual(found, ["a/kernel", "a/bias"])
    kernel = found["a/kernel"]
    self.assertEqual(kernel.axis, axis)
    self.assertEqual([part.shape[axis] for part in kernel.parts], sizes)
    with v1.Session() as session:
      session.run(v1.global_variables_initializer())
      parts = session.run({name: x.parts for name, x in found.items()})
    values = whole_variables.joined(found, parts)
    self.assertEqual(values["a/kernel"].shape, tuple(shape))
    self.assertEqual(values["a/bias"].shape, (4,))
    for part, again in zip(
      parts["a/kernel"],
      programs.slices_of(kernel, values["a/kernel"]),
      strict=True,
    ):
      np.testing.assert_array_equal(part, again)

  def test_what_model_fn_partitions_is_no_shard(self):
    """Of such a variable the plain model has the parts alone."""
    self._make([4, 2], [2, 1])
    found = whole_variables.by_name(v1.global_variables())
    self.assertCountEqual(
      found, ["a/kernel/part_0", "a/kernel/part_1", "a/bias"]
    )


if __name__ == "__main__":
  absltest.main()
