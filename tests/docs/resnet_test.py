"""The guide to residual networks runs and finds what it says."""

from estimator_mp.cli import run_train, train_flags
from tests import tiers
from tests.docs import guide_case

from absl.testing import absltest

_GUIDE = "docs/resnet.md"


class GuideTest(guide_case.GuideCase):
  @tiers.slow
  def test_train(self):
    """tests/model_fns/recipes runs the first command."""
    digits, cifar10 = (
      train_flags.parse(["train", *arguments])
      for arguments in guide_case.commands(_GUIDE, "train")
    )
    self.assertEqual(digits.sharding.mesh, "stage:2")
    baseline = run_train.prepare(digits).recipe.baseline()
    self.assertAlmostEqual(baseline.value, 0.94, delta=0.005)
    self.assertEqual(cifar10.optimizer, "own")

  @tiers.slow
  def test_train_from_the_command(self):
    digits, _ = guide_case.commands(_GUIDE, "train")
    result = self.train(digits)
    self.assertEqual(result.mesh, "stage:2")
    self.assertAlmostEqual(result.baseline_value, 0.94, delta=0.005)

  @tiers.slow
  def test_inspect(self):
    self.assertRegex(
      self.inspect(_GUIDE), r"1 +/device:CPU:1 +resnet/group_\S+, "
    )


if __name__ == "__main__":
  absltest.main()
