"""What the fast tier leaves out of a file."""

from unittest import mock

from tests import tiers

from absl.testing import absltest, parameterized


class TiersTest(parameterized.TestCase):
  @parameterized.parameters((True, [1], None), (False, [1, 2, 3], "test"))
  def test_cases(self, fast, sample, slow):
    with mock.patch.object(tiers, "FAST", fast):
      self.assertEqual(tiers.sample(range(1, 4)), sample)
      self.assertEqual(tiers.slow("test"), slow)


if __name__ == "__main__":
  absltest.main()
