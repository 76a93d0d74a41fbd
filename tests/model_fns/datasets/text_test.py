"""Text as bytes: Python's documentation, and files."""

import ast
import os
import sysconfig
import tempfile

import estimator_mp  # noqa: F401
from model_fns.datasets import dataset, text
from tests import tiers

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


def _batches(input_fn, count):
  """Returns some batches of an input function."""
  with tf.Graph().as_default(), v1.Session() as session:
    fetched = v1.data.make_one_shot_iterator(input_fn()).get_next()
    return [session.run(fetched) for _ in range(count)]


def _text(train, test=b"abcabc", length=4):
  arrays = (np.frombuffer(part, np.uint8) for part in (train, test))
  return text.Text("bytes", length, *arrays)


class WindowsTest(parameterized.TestCase):
  def test_labels_are_the_bytes_that_follow(self):
    """Windows do not overlap, and each is there once in a pass."""
    data = _text(bytes(range(21)))
    batches = _batches(data.train_input_fn(5, seed=1), 2)
    for features, labels in batches:
      self.assertEqual(features["tokens"].dtype, np.int32)
      np.testing.assert_array_equal(features["tokens"] + 1, labels)
      starts = sorted(features["tokens"][:, 0])
      self.assertEqual(starts, [0, 4, 8, 12, 16])
    first, second = (features["tokens"] for features, _ in batches)
    self.assertTrue((first != second).any())

  def test_the_seed_fixes_the_order(self):
    data = _text(bytes(range(200)))
    one, same, other = (
      _batches(data.train_input_fn(8, seed), 1)[0][1] for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    self.assertTrue((one != other).any())

  def test_evaluation_sees_each_held_out_window_once(self):
    data = _text(b"x" * 9, bytes(range(14)))
    batches = _batches(data.test_input_fn(2), 2)
    starts = [list(features["tokens"][:, 0]) for features, _ in batches]
    self.assertEqual(starts, [[0, 4], [8]])

  def test_says_what_does_not_fit(self):
    with self.assertRaisesRegex(ValueError, "batch_size=9 does not fit the 2"):
      _text(b"x" * 9).train_input_fn(9, 1)
    with self.assertRaisesRegex(ValueError, "batch_size=0 is too small"):
      _text(b"x" * 9).test_input_fn(0)

  def test_prompts_are_texts_of_any_lengths(self):
    with tf.Graph().as_default(), v1.Session() as session:
      receiver = _text(b"x" * 9).serving_input_receiver_fn()
      (received,) = receiver.receiver_tensors.values()
      texts = ["def", "é:"]
      found = session.run(receiver.features, {received: texts})
    np.testing.assert_array_equal(found["length"], [3, 3])
    for row, size, expected in zip(
      found["tokens"], found["length"], texts, strict=True
    ):
      self.assertEqual(bytes(row[:size].tolist()).decode(), expected)


class PerplexityTest(absltest.TestCase):
  def test_of_a_text_that_repeats(self):
    """Each of three bytes is as frequent; each one tells the next."""
    data = _text(b"abc" * 10_000, b"abc" * 11)
    self.assertAlmostEqual(data.unigram_perplexity(), 3.0, delta=0.03)
    self.assertAlmostEqual(data.bigram_perplexity(), 1.0, delta=0.01)

  def test_of_what_was_not_seen_is_finite(self):
    data = _text(b"a" * 100, b"abcdefghi")
    self.assertLess(data.unigram_perplexity(), 1000.0)
    self.assertLess(data.bigram_perplexity(), 100_000.0)


class SourcesTest(parameterized.TestCase):
  @tiers.slow
  def test_python_documents_itself(self):
    data = text.python_docs(length=64)
    held_out = data.test.tobytes().decode()
    learned = data.train.tobytes().decode()
    self.assertGreater(len(data.test), 50_000)
    self.assertGreater(len(data.train), 5 * len(data.test))
    for name in ("ast", "os", "typing"):
      path = os.path.join(sysconfig.get_path("stdlib"), f"{name}.py")
      with open(path, encoding="utf-8") as file:
        documentation = ast.get_docstring(ast.parse(file.read()))
      places = [documentation in learned, documentation in held_out]
      self.assertCountEqual(places, [True, False])

  def test_a_tenth_of_the_files_is_held_out(self):
    folder = self.create_tempdir()
    for number in range(20):
      content = chr(ord("a") + number) * 8
      folder.create_file(f"{number:02}.txt", content=content)
    folder.create_file("other.md", content="#" * 8)
    data = text.files(folder.full_path, length=4)
    self.assertEqual(data.test.tobytes(), b"j" * 8 + b"\n\n" + b"t" * 8)
    self.assertLen(data.train, 18 * 8 + 17 * 2)
    self.assertNotIn(b"#", data.train.tobytes())

  @parameterized.parameters(0, 1)
  def test_says_that_there_is_too_little(self, count):
    folder = tempfile.mkdtemp()
    for number in range(count):
      with open(os.path.join(folder, f"{number}.txt"), "w") as file:
        file.write("much text " * 100)
    with self.assertRaisesRegex(
      dataset.DatasetError, rf"the {count} files \*.txt in .* are too few: 0 by"
    ):
      text.files(folder)
    with self.assertRaisesRegex(dataset.DatasetError, "dataset=text has no fi"):
      text.files(None)


if __name__ == "__main__":
  absltest.main()
