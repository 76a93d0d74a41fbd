"""Random graphs give what they give unsplit: values and gradients."""

from tests import tiers
from tests.estimator_mp import drawn
from tests.estimator_mp.model_axis import random_graphs, split_graphs

import hypothesis
import numpy as np
from absl.testing import absltest


def assert_as_plain(program):
  """Runs a graph split and plain, in float64, and compares all numbers.

  Sums of parts round differently, and what cancels is left with that.
  """
  feeds = program.feeds()
  plain = split_graphs.run(program.build, feeds, {}, program.unknown)
  split = split_graphs.run(
    program.build, feeds, program.splits, program.unknown
  )
  theirs = dict(enumerate(plain.values)) | plain.gradients
  ours = dict(enumerate(split.values)) | split.gradients
  scale = max(
    np.max(np.abs(x), initial=1.0) for x in theirs.values() if x is not None
  )
  for name, expected in theirs.items():
    if expected is None:
      assert ours[name] is None, name
    else:
      np.testing.assert_allclose(
        ours[name], expected, rtol=1e-7, atol=1e-11 * scale, err_msg=name
      )
  return split


class RandomGraphsTest(absltest.TestCase):
  @tiers.slow
  @hypothesis.given(program=random_graphs.chains())
  @drawn.examples(28)
  def test_long_ones(self, program):
    hypothesis.assume(program.splits)
    assert_as_plain(program)

  @hypothesis.given(program=random_graphs.fans())
  @drawn.examples(2 if tiers.FAST else 14)
  def test_wide_ones(self, program):
    hypothesis.assume(program.splits)
    assert_as_plain(program)


if __name__ == "__main__":
  absltest.main()
