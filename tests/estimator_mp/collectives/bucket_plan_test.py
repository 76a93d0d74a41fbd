"""The plan of buckets, as data."""

import itertools

from estimator_mp.collectives import buckets as buckets_lib
from tests.estimator_mp import drawn

import hypothesis
import tensorflow as tf
from absl.testing import absltest, parameterized
from hypothesis import strategies

Bucket = buckets_lib.Bucket
_F16, _F32 = tf.float16, tf.float32


@strategies.composite
def _plans(draw):
  """Arguments of `plan_buckets`, as a dict."""
  sizes = draw(
    strategies.lists(
      strategies.one_of(strategies.none(), strategies.integers(0, 40)),
      max_size=12,
    )
  )
  return {
    "sizes": sizes,
    "dtypes": [draw(strategies.sampled_from([_F16, _F32])) for _ in sizes],
    "bucket_bytes": draw(strategies.integers(0, 200)),
    "order": draw(strategies.permutations(range(len(sizes)))),
  }


class PlanTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("nothing", [], [], 64, []),
    ("bytes_0_fuse_nothing", [1, 0], [_F32] * 2, 0, [[0], [1]]),
    ("a_full_bucket_is_closed", [4, 4, 4], [_F32] * 3, 32, [[0, 1], [2]]),
    ("as_large_as_a_bucket_is_alone", [2, 8, 2], [_F32] * 3, 32, [[1], [0, 2]]),
    ("unknown_is_alone", [None, 2, 2], [_F32] * 3, 32, [[0], [1, 2]]),
    (
      "dtypes_apart_in_order_of_completion",
      [2, 2, 2, 2],
      [_F32, _F16, _F16, _F32],
      32,
      [[1, 2], [0, 3]],
    ),
    (
      "order_of_the_backward_pass",
      [4, 4, 4],
      [_F32] * 3,
      32,
      [[2, 1], [0]],
      [2, 1, 0],
    ),
  )
  def test_plan(self, sizes, dtypes, bucket_bytes, expected, order=None):
    order = range(len(sizes)) if order is None else order
    found = buckets_lib.plan_buckets(sizes, dtypes, bucket_bytes, order)
    buckets = [Bucket((*x,), dtypes[x[0]]) for x in expected]
    self.assertEqual(found, buckets)

  @hypothesis.given(_plans())
  @drawn.examples(300)
  def test_every_gradient_is_there_once(self, plan):
    found = [x.gradients for x in buckets_lib.plan_buckets(**plan)]
    self.assertCountEqual(itertools.chain(*found), range(len(plan["sizes"])))

  @hypothesis.given(_plans())
  @drawn.examples(300)
  def test_order_is_kept(self, plan):
    place = {index: i for i, index in enumerate(plan["order"])}
    buckets = buckets_lib.plan_buckets(**plan)
    places = [[place[i] for i in bucket.gradients] for bucket in buckets]
    for found in places:
      self.assertEqual(found, sorted(found))
    lasts = [found[-1] for found in places]
    self.assertEqual(lasts, sorted(lasts))
    for dtype in (_F16, _F32):
      fused = [
        i
        for bucket in buckets
        if bucket.dtype == dtype and self._is_fused(plan, bucket)
        for i in bucket.gradients
      ]
      self.assertEqual(fused, sorted(fused, key=place.__getitem__))

  @hypothesis.given(_plans())
  @drawn.examples(300)
  def test_limits_and_dtypes(self, plan):
    sizes, dtypes = plan["sizes"], plan["dtypes"]
    for bucket in buckets_lib.plan_buckets(**plan):
      self.assertEqual({dtypes[i] for i in bucket.gradients}, {bucket.dtype})
      if len(bucket.gradients) > 1:
        elements = sum(sizes[i] for i in bucket.gradients)
        self.assertLessEqual(elements * bucket.dtype.size, plan["bucket_bytes"])

  @hypothesis.given(_plans())
  @drawn.examples(300)
  def test_no_two_neighbours_fit_in_one_bucket(self, plan):
    sizes = plan["sizes"]
    for dtype in (_F16, _F32):
      fused = [
        [sizes[i] * dtype.size for i in bucket.gradients]
        for bucket in buckets_lib.plan_buckets(**plan)
        if bucket.dtype == dtype and self._is_fused(plan, bucket)
      ]
      for one, two in itertools.pairwise(fused):
        self.assertGreater(sum(one) + two[0], plan["bucket_bytes"])

  def _is_fused(self, plan, bucket):
    """Whether a bucket's gradients are small enough to be fused."""
    first = plan["sizes"][bucket.gradients[0]]
    small = first is not None and (
      first * bucket.dtype.size < plan["bucket_bytes"]
    )
    return small


if __name__ == "__main__":
  absltest.main()
