"""Tests of barriers and of gradient aggregation, in sessions with devices."""

import estimator_mp
from estimator_mp import toolbox
from estimator_mp.graph import traversal
from tests.estimator_mp import drawn
from tests.estimator_mp.collectives import device_steps

import hypothesis
import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized
from hypothesis import strategies

run = device_steps.run


class BarrierTest(parameterized.TestCase):
  def test_no_result_before_every_tensor_is_computed(self):
    with tf.Graph().as_default():
      x = tf.compat.v1.placeholder(tf.float32, [2])
      tensors = []
      for rank in range(3):
        with tf.device(f"/cpu:{rank}"):
          tensors.append(tf.identity(x))
      for passed in toolbox.barrier(tensors):
        before = [*traversal.walk([passed.op], traversal.sources)]
        self.assertContainsSubset([tensor.op for tensor in tensors], before)

  def test_values_structure_and_devices_are_kept(self):
    with tf.Graph().as_default() as graph:
      x = tf.compat.v1.placeholder(tf.float32, [3])
      with tf.device("/cpu:1"):
        double = x * 2.0
        rows = tf.IndexedSlices(x + 1.0, tf.cast(x, tf.int64), tf.constant([9]))
      with tf.device("/cpu:2"):
        sparse = tf.sparse.from_dense(x)
      nest = {"a": double, "b": (rows, None, [sparse])}
      passed = toolbox.barrier(nest, device="/cpu:3")
      tf.nest.assert_same_structure(nest, passed, expand_composites=True)
      gates = [op for op in graph.get_operations() if op.type == "NoOp"]
      self.assertEqual([op.device for op in gates], ["/device:CPU:3"])
      self.assertEqual(
        passed["a"].op.colocation_groups(), double.op.colocation_groups()
      )
      values = run(
        [passed["a"], passed["b"][0].values, passed["b"][2][0]],
        {x: [0.0, 1.0, 2.0]},
      )
    np.testing.assert_array_equal(values[0], [0.0, 2.0, 4.0])
    np.testing.assert_array_equal(values[1], [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(values[2].values, [1.0, 2.0])

  def test_gradients_flow_through(self):
    with tf.Graph().as_default():
      x = tf.compat.v1.placeholder(tf.float32, [2])
      with tf.device("/cpu:1"):
        a = x * x
      with tf.device("/cpu:2"):
        b = 3.0 * x
      a, b = toolbox.barrier((a, b), device="/cpu:0")
      (gradient,) = tf.gradients(tf.reduce_sum(a * b), [x])
      value = run(gradient, {x: [1.0, 2.0]})
    np.testing.assert_allclose(value, [9.0, 36.0])

  def test_nothing_to_wait_for_is_an_error(self):
    with (
      tf.Graph().as_default(),
      self.assertRaisesRegex(
        ValueError, "^barrier 'barrier' got no tensor to wait for"
      ),
    ):
      toolbox.barrier([None, []])


class AggregateGradientsTest(parameterized.TestCase):
  @parameterized.named_parameters(("mean", "mean", 0.5), ("sum", "sum", 1.0))
  def test_sparse_stays_sparse(self, method, factor):
    mesh = estimator_mp.Mesh.create("data:2")
    with tf.Graph().as_default():
      with mesh.at(data=0):
        table = tf.compat.v1.get_variable("table", [6, 2])
      ids = tf.compat.v1.placeholder(tf.int64, [2, 3])
      per_device = []
      for i in range(2):
        with mesh.at(data=i):
          loss = tf.reduce_sum(tf.gather(table, ids[i]) * (i + 1.0))
        per_device.append(tf.gradients(loss, [table]))
      (total,) = estimator_mp.aggregate_gradients(per_device, method)
      self.assertIsInstance(total, tf.IndexedSlices)
      dense = tf.math.unsorted_segment_sum(total.values, total.indices, 6)
      value = run(dense, {ids: [[0, 1, 1], [1, 5, 0]]})
    expected = np.zeros([6, 2])
    expected[0], expected[1], expected[5] = 1 + 2, 2 + 2, 2
    np.testing.assert_allclose(value, expected * factor)

  def test_sparse_and_dense_become_dense(self):
    with tf.Graph().as_default():
      x = tf.compat.v1.placeholder(tf.float32, [3, 2])
      rows = tf.IndexedSlices(x[:2], tf.constant([2, 2]), tf.constant([3, 2]))
      (total,) = estimator_mp.aggregate_gradients([[x], [rows]], "sum")
      fed = np.arange(6.0, dtype=np.float32).reshape(3, 2)
      value = run(total, {x: fed})
    expected = fed.copy()
    expected[2] += fed[0] + fed[1]
    np.testing.assert_allclose(value, expected)

  def test_none_counts_as_zero_and_stays_none_if_alone(self):
    with tf.Graph().as_default():
      x = tf.compat.v1.placeholder(tf.float32, [2])
      result = estimator_mp.aggregate_gradients(
        [[x, None], [None, None], [x, None], [None, None]], "mean"
      )
      self.assertIsNone(result[1])
      np.testing.assert_allclose(run(result[0], {x: [2.0, 4.0]}), [1.0, 2.0])

  def test_result_is_on_the_first_gradients_device(self):
    with tf.Graph().as_default():
      x = tf.compat.v1.placeholder(tf.float32, [2])
      parts = []
      for i in (2, 0, 1):
        with tf.device(f"/cpu:{i}"):
          parts.append([x + float(i)])
      (total,) = estimator_mp.aggregate_gradients(parts, "mean")
      hook = toolbox.PlacementVerificationHook()
      with tf.compat.v1.train.SingularMonitoredSession(
        [hook], config=device_steps.HARD
      ) as session:
        value = session.run(total, {x: [0.0, 1.0]})
    np.testing.assert_allclose(value, [1.0, 2.0])
    self.assertIn("AddN", hook.observed["/device:CPU:2"].op_types)

  @hypothesis.given(
    strategies.integers(1, 9),
    strategies.lists(strategies.integers(0, 4), min_size=1, max_size=3),
    strategies.sampled_from(["mean", "sum"]),
    strategies.sampled_from([np.float16, np.float32, np.float64]),
  )
  @drawn.examples(20)
  def test_any_number_of_devices_and_any_shape(self, n, shape, method, dtype):
    parts = np.random.RandomState(n).randn(n, *shape).astype(dtype)
    with tf.Graph().as_default():
      fed = tf.compat.v1.placeholder(dtype, parts.shape)
      per_device = []
      for i in range(n):
        with tf.device(f"/cpu:{i % 4}"):
          per_device.append([tf.identity(fed[i])])
      (total,) = estimator_mp.aggregate_gradients(per_device, method)
      self.assertEqual(total.dtype, dtype)
      value = run(total, {fed: parts})
    expected = getattr(np, method)(parts.astype(np.float64), axis=0)
    rounding = 2 * n * np.finfo(dtype).eps
    np.testing.assert_allclose(value, expected, rtol=rounding, atol=rounding)

  @parameterized.named_parameters(
    ("method", lambda x: ([[x]], "median"), "method='median' .* mean, sum"),
    ("no_device", lambda x: ([], "sum"), "^per_device_gradients is empty"),
    ("counts", lambda x: ([[x, x], [x]], "sum"), r"has \[2, 1\] gradients"),
    (
      "shapes",
      lambda x: ([[x], [x[:1]]], "sum"),
      r"at index 0 have shapes \(2,\) and \(1,\)",
    ),
  )
  def test_what_cannot_be_aggregated_is_an_error(self, arguments, message):
    with tf.Graph().as_default():
      x = tf.compat.v1.placeholder(tf.float32, [2])
      with self.assertRaisesRegex(ValueError, message):
        estimator_mp.aggregate_gradients(*arguments(x))


if __name__ == "__main__":
  absltest.main()
