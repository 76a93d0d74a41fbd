"""What an error says to use is there, for a program of TensorFlow 1."""

import compat

compat.install(v1=True, v1_packages=["tests.compat.v1"])

from compat.v1.names.replaced import REPLACED  # noqa: E402
from tests.compat import advice  # noqa: E402

import tensorflow as tf  # noqa: E402
from absl.testing import absltest, parameterized  # noqa: E402


class AdviceTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("of_tf", REPLACED.items()),
    ("of_contrib", advice.of_contrib().items()),
    ("errors", advice.of_raised_errors()),
  )
  def test_names(self, texts):
    self.assertEmpty(advice.missing_names(tf, texts))

  def test_packages(self):
    named = advice.packages(REPLACED.values())
    self.assertContainsSubset(named, advice.PACKAGES)

  def test_each_package_is_advised(self):
    texts = [*REPLACED.values(), *advice.of_contrib().values()]
    self.assertEqual(advice.packages(texts), advice.PACKAGES.keys())


if __name__ == "__main__":
  absltest.main()
