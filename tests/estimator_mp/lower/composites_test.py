"""Composites: what slices exchange of a batch normalization is TensorFlow's."""

from estimator_mp.capture import micro_batches
from estimator_mp.lower.slicing import bridges as bridges_lib
from estimator_mp.lower.slicing import composites, slices
from estimator_mp.plan.batch_plan import BY_SLICE, Rows
from estimator_mp.plan.bridge import Kind
from tests.estimator_mp.lower import each_slice

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_EACH = Rows(0, 1)
# A mean that is large beside the deviations shows how they are computed.
_IMAGES = np.random.RandomState(1).randn(5, 2, 3, 4).astype(np.float32) + 30.0


class BatchNormTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.enter_context(tf.Graph().as_default())
    self.enter_context(v1.device("/device:CPU:0"))

  def _normalize(self, size, dtype=tf.float32, **options):
    """Makes the op of a batch of images, and slice 0's part of it."""
    self._x = v1.placeholder(dtype, [size, 2, 3, 4], "x")
    channels = 2 if options.get("data_format") == "NCHW" else 4
    inputs = micro_batches.inputs_with_examples({"features": self._x})
    self._slices = slices.Slices(inputs, 2, 1, "/device:CPU:0")
    of_slice = self._slices.first
    rows = of_slice.examples
    self._bridges = bridges_lib.Bridges(None if tf.is_tensor(rows) else rows)
    scale = tf.range(1.0, channels + 1.0)
    whole = tf.raw_ops.FusedBatchNormV3(
      x=self._x,
      scale=scale,
      offset=-scale,
      mean=options.pop("mean", tf.constant([], tf.float32)),
      variance=options.pop("variance", tf.constant([], tf.float32)),
      epsilon=1e-3,
      **options,
    )
    part = self._bridges.cut(self._x, _EACH)
    found = composites.batch_norm(
      whole.y.op, [part, scale, -scale], of_slice, self._bridges
    )
    return [whole.y, whole.batch_mean, whole.batch_variance], found

  def _check(self, whole, found, sizes, x=None, tolerance=1e-4):
    """Compares parts and moments with what the plain op makes."""
    x = _IMAGES[: sum(sizes)] if x is None else x
    with v1.Session() as session:
      images, *moments = session.run(whole, {self._x: x})
    own = each_slice.run(
      found, self._bridges, self._slices.first, sizes, {self._x: x}
    )
    parts = [images for images, *_ in own]
    np.testing.assert_allclose(
      np.concatenate(parts)[: len(x)], images, tolerance, tolerance
    )
    for _, *of_slice in own:
      for ours, theirs in zip(of_slice, moments, strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-4)

  def test_moments_are_exchanged_and_no_images(self):
    whole, found = self._normalize(4)
    exchanged = [
      (x.kind, x.rows, x.output.shape.as_list())
      for x in self._bridges.all.values()
    ]
    self.assertEqual(
      exchanged,
      [
        (Kind.CUT, _EACH, [2, 2, 3, 4]),
        (Kind.JOIN, BY_SLICE, [None, 1]),  # How many entries.
        (Kind.JOIN, BY_SLICE, [None, 4]),  # Their means.
        (Kind.SUM, None, [4]),  # Their squared deviations.
        (Kind.READ, None, [4]),
        (Kind.READ, None, [4]),
      ],
    )
    self._check(whole, found, (2, 2))

  @parameterized.named_parameters(
    ("uneven", (3, 2)), ("more_slices_than_examples", (1, 0))
  )
  def test_an_open_batch(self, sizes):
    self._check(*self._normalize(None), sizes)

  def test_half_precision_has_moments_of_full_precision(self):
    whole, found = self._normalize(4, tf.float16)
    self.assertEqual([x.dtype for x in found[1:]], [tf.float32] * 2)
    self.assertEqual(found[0].dtype, tf.float16)
    x = (_IMAGES[:4] - 30.0).astype(np.float16)
    self._check(whole, found, (2, 2), x, 1e-2)

  def test_moving_moments(self):
    old = {
      "mean": tf.constant([1.0, 2.0, 3.0, 4.0]),
      "variance": tf.constant([0.5] * 4),
    }
    whole, found = self._normalize(4, exponential_avg_factor=0.25, **old)
    self._check(whole, found, (2, 2))

  def test_channels_first(self):
    """No CPU has such an op, but slices have one."""
    _, found = self._normalize(4, data_format="NCHW")
    x = _IMAGES[:4]
    own = each_slice.run(
      found, self._bridges, self._slices.first, (2, 2), {self._x: x}
    )
    axes = (0, 2, 3)
    mean, variance = x.mean(axes), x.var(axes)
    centred = (x - mean[:, None, None]) / np.sqrt(
      variance[:, None, None] + 1e-3
    )
    scale = np.array([1.0, 2.0])[:, None, None]
    np.testing.assert_allclose(
      np.concatenate([y for y, *_ in own]), centred * scale - scale, 1e-3, 1e-3
    )
    count = x.size / 2
    for _, *moments in own:
      np.testing.assert_allclose(moments[0], mean, 1e-4)
      np.testing.assert_allclose(
        moments[1], variance * count / (count - 1), 1e-3
      )


if __name__ == "__main__":
  absltest.main()
