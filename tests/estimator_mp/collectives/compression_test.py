"""Compression: sums, what is late, what is sent, and where residuals are."""

from estimator_mp.collectives import compression
from tests.estimator_mp.collectives import device_steps

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1

# The largest relative error of rounding.
_ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
_SMALLEST = {"float16": 2.0**-24, "bfloat16": 2.0**-133}

_EXACT_SUMS = [
  ("float16_copies", lambda: compression.compressed(None, "float16")),
  ("bfloat16_copies", lambda: compression.compressed(None, "bfloat16")),
  ("top_k", lambda: compression.top_k(0.25)),
]


class HalfPrecisionTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (f"{mode}_{n}_{np.dtype(dtype).name}_{name}", mode, n, dtype, reduce)
    for mode in ("float16", "bfloat16")
    for n, dtype in ((1, np.float32), (2, np.float64), (3, np.float32))
    for name, reduce in (("copies", None), ("reduce", device_steps.add_copies))
  )
  def test_sum_of_one_step(self, mode, n, dtype, reduce):
    parts = np.random.RandomState(n).randn(n, 3, 5).astype(dtype)
    shaped = compression.compressed(reduce, mode)
    with device_steps.Steps(shaped, [3, 5], n, dtype) as steps:
      total = steps.step(parts)
    self.assertEqual(total.dtype, dtype)
    roundings = 1 if reduce is None else 2 * n
    error = roundings * _ROUNDING[mode] * np.abs(parts).sum(axis=0)
    self.assertTrue(np.all(np.abs(total - parts.sum(axis=0)) <= error))
    self.assertFalse(np.array_equal(total, parts.sum(axis=0)))

  @parameterized.parameters("float16", "bfloat16")
  def test_what_is_left_is_at_most_one_steps_rounding(self, mode):
    random = np.random.RandomState(4)
    reduce = compression.compressed(None, mode)
    with device_steps.Steps(reduce, [7], 3, np.float64) as steps:
      exact, sent = np.zeros(7), np.zeros(7)
      for _ in range(50):
        gradients = random.randn(3, 7) * 10.0 ** random.randint(-9, 3)
        before = steps.residuals()
        sent += steps.step(gradients)
        exact += gradients.sum(axis=0)
        # Not the sum of 50 roundings.
        bound = sum(
          np.maximum(_ROUNDING[mode] * np.abs(g + r), _SMALLEST[mode])
          for g, r in zip(gradients, before, strict=True)
        )
        self.assertTrue(np.all(np.abs(exact - sent) <= bound + 1e-12))

  def test_float16_sums_do_not_overflow(self):
    zeros = np.zeros([3, 2], np.float32)
    large = np.tile(np.float32([60000.0, -70000.0]), [3, 1])
    with device_steps.Steps(
      compression.compressed(None, "float16"), [2], 3
    ) as steps:
      np.testing.assert_array_equal(steps.step(large), [180000.0, -196512.0])
      np.testing.assert_allclose(steps.step(zeros), [0.0, -13488.0], rtol=1e-3)
    reduce = compression.compressed(device_steps.add_copies, "float16")
    with device_steps.Steps(reduce, [2], 3) as steps:
      # A quarter of 65504 each: three of them, and four, can be added.
      first = steps.step(large)
      np.testing.assert_allclose(first, [49128.0, -49128.0], rtol=1e-3)
      rest = sum(steps.step(zeros) for _ in range(9))
      np.testing.assert_allclose(first + rest, [18e4, -21e4], rtol=1e-3)
      np.testing.assert_array_equal(steps.step(zeros), [0.0, 0.0])

  @parameterized.parameters(1, 2, 3, 4)
  def test_the_largest_sums_are_finite(self, count):
    reduce = compression.compressed(device_steps.add_copies, "float16")
    with device_steps.Steps(reduce, [1], count) as steps:
      total = steps.step(np.full([count, 1], 1e6, np.float32))
    self.assertTrue(np.isfinite(total[0]))
    self.assertGreater(total[0], 65504 / 2 - 1)

  @parameterized.named_parameters(
    ("half", np.float16, "float16"),
    ("other_half", np.float16, "bfloat16"),
    ("integers", np.int32, "float16"),
  )
  def test_what_would_not_shrink_is_summed_as_it_is(self, dtype, mode):
    parts = np.array([[1, 2], [3, 4]], dtype)
    for reduce in (None, device_steps.add_copies):
      with tf.Graph().as_default():
        fed = device_steps.placeholders(parts)
        compressed = compression.compressed(reduce, mode)
        sums = compressed(device_steps.spread(fed), device_steps.devices_of(2))
        self.assertEmpty(v1.local_variables())
        feed = dict(zip(fed, parts, strict=True))
        for total in device_steps.run(sums, feed):
          self.assertEqual(total.dtype, dtype)
          np.testing.assert_array_equal(total, [4, 6])


class SentTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (
      "float16_copies",
      lambda: compression.compressed(None, "float16"),
      {tf.float16},
    ),
    (
      "float16_reduce",
      lambda: compression.compressed(device_steps.add_copies, "float16"),
      {tf.float16},
    ),
    (
      "bfloat16",
      lambda: compression.compressed(None, "bfloat16"),
      {tf.bfloat16},
    ),
    ("top_k", lambda: compression.top_k(0.1), {tf.float32, tf.int32}),
  )
  def test_what_goes_from_device_to_device(self, factory, dtypes):
    options = v1.RunOptions(output_partition_graphs=True)
    metadata = v1.RunMetadata()
    with tf.Graph().as_default():
      # Variables, because what is fed is sent, too.
      parts = []
      for device in device_steps.devices_of(3):
        with tf.device(device):
          parts.append(v1.Variable(tf.range(40.0), use_resource=True))
          parts[-1] = parts[-1].read_value()
      sums = factory()(parts, device_steps.devices_of(3))
      targets = []
      for total in sums:
        with v1.colocate_with(total):
          targets.append(tf.identity(total).op)
      with v1.Session(config=device_steps.HARD) as session:
        session.run(v1.global_variables_initializer())
        session.run(v1.local_variables_initializer())
        session.run(targets, None, options, metadata)
    sent = [
      tf.as_dtype(node.attr["T"].type)
      for graph in metadata.partition_graphs
      for node in graph.node
      if node.op == "_Send"
    ]
    self.assertEqual({*sent}, dtypes)
    # From each of three devices to both others.
    self.assertLen(sent, 6 * len(dtypes))


class TopKTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (f"{n}_replicas_{np.dtype(dtype).name}_{len(shape)}d", n, shape, dtype)
    for n, shape, dtype in (
      (1, [3, 4], np.float32),
      (2, [], np.float32),
      (3, [2, 3, 2], np.float64),
      (4, [5], np.float16),
      (2, [0, 3], np.float32),
    )
  )
  def test_fraction_1_is_the_dense_sum(self, n, shape, dtype):
    parts = np.random.RandomState(n).randn(n, *shape).astype(dtype)
    with device_steps.Steps(compression.top_k(1.0), shape, n, dtype) as steps:
      for _ in range(2):
        total = steps.step(parts)
        expected = np.zeros(shape, dtype)
        for part in parts:
          expected = expected + part
        self.assertEqual(total.dtype, dtype)
        np.testing.assert_array_equal(total, expected)
      for residual in steps.residuals():
        self.assertFalse(np.any(residual))

  def test_the_largest_come_first_and_the_others_later(self):
    one = np.array([[1.0, -9.0, 2.0], [0.0, 0.0, 0.5]], np.float32)
    two = np.array([[8.0, 1.0, 0.0], [0.0, -7.0, 0.0]], np.float32)
    zero = np.zeros_like(one)
    with device_steps.Steps(compression.top_k(1 / 3), [2, 3], 2) as steps:
      sent = [steps.step([one, two])]
      sent += [steps.step([zero, zero]) for _ in range(3)]
    np.testing.assert_array_equal(sent[0], [[8, -9, 2], [0, -7, 0]])
    # A second time the next largest; then nothing is left.
    np.testing.assert_array_equal(sent[1], [[1, 1, 0], [0, 0, 0.5]])
    np.testing.assert_array_equal(sent[2], zero)
    np.testing.assert_array_equal(sum(sent), one + two)

  @parameterized.named_parameters(
    ("rounded", 0.1, 30, 3), ("at_least_one", 0.001, 30, 1), ("all", 1, 30, 30)
  )
  def test_number_of_entries(self, fraction, size, expected):
    with device_steps.Steps(compression.top_k(fraction), [size], 1) as steps:
      total = steps.step([np.arange(1.0, size + 1)])
    self.assertEqual(np.count_nonzero(total), expected)

  def test_what_is_left_does_not_grow_with_the_steps(self):
    random = np.random.RandomState(8)
    size, fraction, longest = 20, 0.25, 1.0
    # |residual| <= c (|gradient| + |residual before|), and c is this:
    c = np.sqrt(1 - fraction)
    bound = longest * c / (1 - c)
    with device_steps.Steps(
      compression.top_k(fraction), [size], 2, np.float64
    ) as steps:
      exact, sent = np.zeros(size), np.zeros(size)
      for _ in range(60):
        gradients = random.randn(2, size) + 1.0
        gradients /= np.linalg.norm(gradients, axis=1, keepdims=True) / longest
        sent += steps.step(gradients)
        exact += gradients.sum(axis=0)
        self.assertLessEqual(np.linalg.norm(exact - sent), 2 * bound)
    # What was sent is most of it, not little.
    self.assertGreater(np.linalg.norm(exact), 5 * 2 * bound)

  def test_integers_are_summed_as_they_are(self):
    parts = np.array([[1, 2], [3, 4]], np.int64)
    with device_steps.Steps(compression.top_k(0.5), [2], 2, np.int64) as steps:
      np.testing.assert_array_equal(steps.step(parts), [4, 6])


class ResidualTest(parameterized.TestCase):
  @parameterized.named_parameters(_EXACT_SUMS)
  def test_residuals_are_what_was_not_sent(self, factory):
    random = np.random.RandomState(6)
    with device_steps.Steps(factory(), [4, 3], 3, np.float64) as steps:
      exact, sent = np.zeros([4, 3]), np.zeros([4, 3])
      for _ in range(30):
        gradients = random.randn(3, 4, 3)
        sent += steps.step(gradients)
        exact += gradients.sum(axis=0)
        left = sum(np.reshape(kept, [4, 3]) for kept in steps.residuals())
        np.testing.assert_allclose(exact - sent, left, atol=1e-12)
        self.assertGreater(np.abs(left).max(), 1e-6)

  @parameterized.named_parameters(
    *_EXACT_SUMS,
    (
      "float16_reduce",
      lambda: compression.compressed(device_steps.add_copies, "float16"),
    ),
  )
  def test_what_is_not_finite_is_sent_and_not_kept(self, factory):
    fine = np.array([[1.01, 2.02, 3.03, 4.04]] * 2, np.float32)
    for value in (np.nan, np.inf, -np.inf):
      bad = fine.copy()
      bad[1, 2] = value
      with device_steps.Steps(factory(), [4], 2) as steps:
        steps.step(fine)
        before = steps.residuals()
        np.testing.assert_array_equal(steps.step(bad)[2], value)
        after = steps.residuals()
        np.testing.assert_array_equal(after[1][2], before[1][2])
        self.assertTrue(np.all(np.isfinite(after)))
        self.assertTrue(np.all(np.isfinite(steps.step(fine))))

  @parameterized.named_parameters(_EXACT_SUMS)
  def test_they_are_local_variables_on_the_devices(self, factory):
    def refuse(*args, **kwargs):
      raise AssertionError("a residual is no variable of the model")

    with tf.Graph().as_default():
      fed = [v1.placeholder(tf.float32, [4]) for _ in range(2)]
      parts = device_steps.spread(fed)
      with (
        v1.variable_scope("model", reuse=True, custom_getter=refuse),
        v1.name_scope("train"),
        tf.device("/device:CPU:3"),
      ):
        for _ in range(2):
          factory()(parts, device_steps.devices_of(2))
      residuals = v1.local_variables()
      self.assertEqual(
        [residual.device for residual in residuals],
        ["/device:CPU:0", "/device:CPU:1"] * 2,
      )
      self.assertEmpty(v1.global_variables())
      self.assertEmpty(v1.trainable_variables())

  @parameterized.named_parameters(_EXACT_SUMS)
  def test_a_step_that_uses_one_sum_updates_all_residuals(self, factory):
    with tf.Graph().as_default():
      fed = [v1.placeholder(tf.float32, [4]) for _ in range(2)]
      sums = factory()(device_steps.spread(fed), device_steps.devices_of(2))
      residuals = v1.local_variables()
      with v1.Session(config=device_steps.HARD) as session:
        session.run(v1.local_variables_initializer())
        session.run(sums[1], {x: [1.01, 2.02, 3.03, 4.04] for x in fed})
        for kept in session.run(residuals):
          self.assertGreater(np.abs(kept).max(), 0)


class ErrorsTest(parameterized.TestCase):
  @parameterized.named_parameters(_EXACT_SUMS)
  def test_unknown_shape(self, factory):
    with tf.Graph().as_default():
      x = v1.placeholder(tf.float32, [None, 2], name="x")
      with self.assertRaisesRegex(
        ValueError, r"^x:0 has the shape \(None, 2\), "
      ):
        factory()([x, x], device_steps.devices_of(2))


if __name__ == "__main__":
  absltest.main()
