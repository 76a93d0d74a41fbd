"""What the two tiers run of a test, and what TensorFlow 2.15 does."""

from unittest import mock

from tests import tiers

from absl.testing import absltest, parameterized


class TiersTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("fast", True, False, [1], [1, 2, 3, 4]),
    ("all", False, False, [1, 2, 3, 4], [1, 2, 3, 4]),
    ("fast_on_2_15", True, True, [1], [1, 4]),
    ("all_on_2_15", False, True, [1, 4], [1, 4]),
  )
  def test_cases(self, fast, oldest, sample, thin):
    with mock.patch.multiple(tiers, FAST=fast, OLDEST=oldest):
      self.assertEqual(tiers.sample(range(1, 5)), sample)
      self.assertEqual(tiers.thin(range(1, 5)), thin)
      self.assertEqual(
        tiers.thin(range(1, 5), by=2), [1, 3] if oldest else thin
      )
      self.assertEqual(tiers.slow("test"), None if fast else "test")
      self.assertEqual(tiers.newest_only("test"), None if oldest else "test")
      self.assertEqual(tiers.steps(2, 20), 2 if fast else 20)


if __name__ == "__main__":
  absltest.main()
