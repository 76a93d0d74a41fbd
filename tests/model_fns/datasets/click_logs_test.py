"""Logs of clicks: the generated one, Criteo's format, and the baseline."""

import pathlib

from model_fns import datasets
from model_fns.datasets import clicks, criteo
from model_fns.recipes import hashed_regression

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


def _batches(input_fn, count=None):
  """Runs an input function in a graph of its own, as Estimator does."""
  found = []
  with tf.Graph().as_default(), v1.Session() as session:
    batch = v1.data.make_one_shot_iterator(input_fn()).get_next()
    while count is None or len(found) < count:
      try:
        found.append(session.run(batch))
      except tf.errors.OutOfRangeError:
        break
  return found


class ClicksTest(absltest.TestCase):
  def test_is_the_same_each_time_and_its_probabilities_are_true(self):
    log, again = (clicks.load(3000, 20_000) for _ in range(2))
    (first,), (second,) = (
      _batches(x.test_input_fn(20_000)) for x in (log, again)
    )
    tf.nest.map_structure(np.testing.assert_array_equal, first, second)
    self.assertEqual(log.best_auc, again.best_auc)
    features, labels = first
    self.assertBetween(log.best_auc, 0.8, 0.9)
    self.assertLess(log.best_logloss, 0.45)
    self.assertBetween(labels.mean(), 0.2, 0.35)
    self.assertEqual({len(x) for x in features.values()}, {20_000})
    num_tags = (features["tags"] >= 0).sum(1)
    self.assertEqual(set(num_tags), {0, 1, 2, 3, 4, 5})
    self.assertCountEqual(log.tables, set(features) - {"dense"})
    # As an id is rarer, the more ids there are before it.
    items, counts = np.unique(features["item"], return_counts=True)
    self.assertEqual(items[0], 0)
    self.assertGreater(counts[0], 5 * counts[-1])

  def test_batches(self):
    log = clicks.load(100, 50)
    full = _batches(log.train_input_fn(30, seed=1), 7)
    again = _batches(log.train_input_fn(30, seed=1), 7)
    tf.nest.map_structure(np.testing.assert_array_equal, full, again)
    other = _batches(log.train_input_fn(30, seed=2), 1)
    self.assertFalse(np.array_equal(full[0][0]["dense"], other[0][0]["dense"]))
    self.assertEqual([len(x[1]) for x in full], [30] * 7)
    # The first three batches and a third of the next one are all examples.
    seen = np.concatenate([x[0]["dense"] for x in full])[:100]
    all_of_them = _batches(lambda: log.train_pass(100))[0][0]["dense"]
    self.assertCountEqual(seen[:, 0].tolist(), all_of_them[:, 0].tolist())
    short = _batches(log.test_input_fn(30))
    self.assertEqual([len(x[1]) for x in short], [30, 20])

  def test_errors(self):
    with self.assertRaisesRegex(datasets.DatasetError, "num_test=1 are too"):
      clicks.load(100, 1)
    with self.assertRaisesRegex(ValueError, "batch_size=0 is too small"):
      clicks.load(100, 50).test_input_fn(0)


def _line(label, integers, categories):
  return "\t".join([label, *integers, *categories])


_INTEGERS = ["1", "", "-2", *map(str, range(10))]
_CATEGORIES = ["68fd1e64", "", *["0123abcd"] * 24]
_GOOD = _line("1", _INTEGERS, _CATEGORIES)


class CriteoTest(parameterized.TestCase):
  def _file(self, lines, name="train.txt"):
    path = pathlib.Path(self.create_tempdir().full_path) / name
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path

  def test_reads_columns(self):
    lines = [_line(str(i % 2), _INTEGERS, _CATEGORIES) for i in range(25)]
    log = criteo.load(str(self._file(lines).parent))
    self.assertEqual(log.num_dense, 13)
    (train,) = _batches(lambda: log.train_pass(100))
    (test,) = _batches(log.test_input_fn(100))
    features, labels = train
    self.assertEqual([len(labels), len(test[1])], [23, 2])
    # Lines 10 and 20 are held out; the first line has no click.
    self.assertEqual(labels[:3].tolist(), [[0.0], [1.0], [0.0]])
    np.testing.assert_allclose(
      features["dense"][0],
      np.log1p([1, 0, 0, *range(10)]),
      rtol=1e-6,
    )
    self.assertEqual(features["C1"][0], b"68fd1e64")
    self.assertEqual(features["C2"][0], b"")
    self.assertEqual(features["C26"][0], b"0123abcd")
    self.assertLen(_batches(log.train_input_fn(16, 1), 3), 3)

  @parameterized.named_parameters(
    ("columns", _GOOD + "\t", r"train.txt:3: is wrong \(41 columns\); a line"),
    ("label", "2" + _GOOD[1:], "train.txt:3: is wrong"),
    ("integer", _GOOD.replace("-2", "2.5"), "train.txt:3: is wrong"),
    ("digits", _GOOD.replace("68fd", "68FD"), "train.txt:3: is wrong"),
  )
  def test_names_a_wrong_line(self, wrong, message):
    lines = [_GOOD, _GOOD, wrong, *[_GOOD] * 20]
    with self.assertRaisesRegex(datasets.DatasetError, message) as caught:
      criteo.load(str(self._file(lines)))
    self.assertIn("remove the line, or get", str(caught.exception))

  def test_names_a_wrong_line_that_is_read_later(self):
    log = criteo.load(str(self._file([*[_GOOD] * 1234, "1", _GOOD])))
    with self.assertRaisesRegex(
      tf.errors.InvalidArgumentError,
      r"train\.txt:1235: is wrong; a line of this format has 40 columns",
    ):
      _batches(lambda: log.train_pass(100))

  def test_errors(self):
    for data_dir, message in (
      (None, "pass --data_dir=DIRECTORY"),
      ("/no/such/file", r"cannot be read \(No such file or directory\)"),
      (str(self._file([_GOOD] * 9)), "has 9 lines, of which every 10th is"),
    ):
      with self.assertRaisesRegex(datasets.DatasetError, message):
        criteo.load(data_dir)


class HashedRegressionTest(absltest.TestCase):
  def test_learns_what_is_linear(self):
    """Clicks of a known word, told from those of a number and of padding."""
    random = np.random.RandomState(2)
    words = random.choice([b"a", b"b", b"c", b"d"], [4000])
    tags = random.randint(-1, 3, [4000, 2])
    numbers = random.randn(4000, 1).astype(np.float32)
    log_odds = 4.0 * (words == b"b") + 2.0 * (tags == 1).sum(1) - 3.0
    clicks_ = random.uniform(size=4000) < 1 / (1 + np.exp(-log_odds))
    data = (
      {"dense": numbers, "word": words, "tags": tags},
      clicks_.astype(np.float32)[:, np.newaxis],
    )

    def input_fn():
      return tf.data.Dataset.from_tensor_slices(data).batch(1500)

    auc = hashed_regression.held_out_auc(input_fn, input_fn, 1000)
    order = np.argsort(np.argsort(log_odds + 1e-9 * random.randn(4000)))
    positives = clicks_.sum()
    best = (order[clicks_].sum() - positives * (positives - 1) / 2) / (
      positives * (4000 - positives)
    )
    self.assertAlmostEqual(auc, best, delta=0.01)
    self.assertGreater(auc, 0.8)


if __name__ == "__main__":
  absltest.main()
