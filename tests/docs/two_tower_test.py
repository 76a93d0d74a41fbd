"""The guide to two towers runs, draws and finds what it says."""

import contextlib
import io

from estimator_mp.cli import run_train, train_flags
from tests import tiers
from tests.docs import guide_case, guides

import numpy as np
from absl.testing import absltest

_GUIDE = "docs/two_tower.md"


class GuideTest(guide_case.GuideCase):
  @tiers.slow
  def test_train(self):
    """tests/model_fns/recipes runs the command."""
    (arguments,) = guide_case.commands(_GUIDE, "train")
    options = train_flags.parse(["train", *arguments])
    self.assertEqual(options.sharding.mesh, "stage:2")
    baseline = run_train.prepare(options).recipe.baseline()
    self.assertAlmostEqual(baseline.value, 0.23, delta=0.005)

  @tiers.slow
  def test_train_from_the_command(self):
    (arguments,) = guide_case.commands(_GUIDE, "train")
    result = self.train(arguments)
    self.assertEqual(result.mesh, "stage:2")
    self.assertAlmostEqual(result.baseline_value, 0.23, delta=0.005)

  @tiers.slow
  def test_inspect(self):
    """The picture has each tower on a device of its own."""
    output = self.inspect(_GUIDE)
    for stage, tower in enumerate(("query", "item")):
      self.assertRegex(output, rf"{stage} +/device:CPU:{stage} +{tower}/\S+, ")
    self.picture(_GUIDE)

  @tiers.slow
  def test_programs(self):
    with contextlib.redirect_stdout(io.StringIO()) as output:
      found = guides.run(guides.programs(_GUIDE)[-1])
    # By chance it is 0.01.
    self.assertGreater(float(output.getvalue().split()[-1]), 0.05)
    scores, ids = found["scores"], found["ids"]
    every = np.asarray(found["queries"]) @ found["items"].vectors.T
    np.testing.assert_allclose(
      scores, np.take_along_axis(every, ids, axis=1), rtol=1e-5
    )
    np.testing.assert_allclose(scores, -np.sort(-every)[:, :10], rtol=1e-5)


if __name__ == "__main__":
  absltest.main()
