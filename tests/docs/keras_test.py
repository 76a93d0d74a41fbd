"""The command of the guide to Keras models trains what it says."""

from tests import tiers
from tests.docs import guide_case

from absl.testing import absltest

_GUIDE = "docs/keras.md"


class GuideTest(guide_case.GuideCase):
  @tiers.slow
  def test_train(self):
    (arguments,) = guide_case.commands(_GUIDE, "train")
    result = self.train(arguments)
    self.assertEqual(result.mesh, "stage:2")
    self.assertEqual(result.figure, "accuracy")


if __name__ == "__main__":
  absltest.main()
