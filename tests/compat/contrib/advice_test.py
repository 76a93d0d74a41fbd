"""What an error says to use is there, for a program that has tf.contrib."""

import compat

compat.install(contrib=True)

from tests.compat import advice  # noqa: E402

import tensorflow as tf  # noqa: E402
from absl.testing import absltest  # noqa: E402


class AdviceTest(absltest.TestCase):
  def test_names_in_the_place_of_those_of_contrib(self):
    self.assertEmpty(advice.missing_names(tf, advice.of_contrib().items()))

  def test_names_in_errors(self):
    self.assertEmpty(advice.missing_names(tf, advice.of_raised_errors()))

  def test_packages(self):
    named = advice.packages(advice.of_contrib().values())
    self.assertContainsSubset(named, advice.PACKAGES)

  def test_a_name_that_is_there_has_no_advice(self):
    there = [
      name
      for name in advice.of_contrib()
      if "." in name and advice.is_there(tf, f"contrib.{name}")
    ]
    self.assertEmpty(there)


class MissingNamesTest(absltest.TestCase):
  def test_what_is_not_there_is_seen(self):
    texts = [("a", "Use tf.nn.relu, or tf.nonesuch.x of tf.nn."), ("b", "tf")]
    self.assertEqual(advice.missing_names(tf, texts), ["a: tf.nonesuch.x"])
    self.assertEqual(advice.packages(["the package a-b, or c"]), {"a-b"})


if __name__ == "__main__":
  absltest.main()
