"""The data sets: validation before training, the pipelines, the split."""

import os
import pathlib
from unittest import mock

from model_fns import datasets
from model_fns.datasets import cifar10, cifar10_download, digits

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_RECORD = 3073
_GET_FILES = (
  "get cifar-10-binary.tar.gz from the University of Toronto's CIFAR-10 page,"
  " unpack it, and pass its directory as --data_dir=cifar-10-batches-bin"
)
_UNPACK = (
  "unpack cifar-10-binary.tar.gz (from the University of Toronto's CIFAR-10"
  " page) again"
)


def _random_images(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
  random = np.random.RandomState(seed)
  images = random.randint(0, 256, (count, 32, 32, 3)).astype(np.uint8)
  return images, np.arange(count) % 10


def _write_cifar10(directory: pathlib.Path, images_per_file: int = 12) -> None:
  directory.mkdir(parents=True, exist_ok=True)
  for index, name in enumerate((*cifar10.TRAIN_FILES, cifar10.TEST_FILE)):
    images, labels = _random_images(images_per_file, seed=index)
    cifar10_download.write_records(directory / name, images, labels)


def _batches(input_fn, count: int | None = None):
  """Runs an input function in a graph of its own, as Estimator does."""
  with tf.Graph().as_default():
    tf.compat.v1.set_random_seed(7)
    dataset = input_fn()
    if count is not None:
      dataset = dataset.take(count)
    following = tf.compat.v1.data.make_one_shot_iterator(dataset).get_next()
    batches: list[tuple[np.ndarray, np.ndarray]] = []
    with tf.compat.v1.Session() as session:
      while True:
        try:
          features, labels = session.run(following)
        except tf.errors.OutOfRangeError:
          return batches
        batches.append((features["image"], labels))


class _TemporaryDirectoryTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.directory = pathlib.Path(self.create_tempdir().full_path) / "cifar"


class Cifar10ErrorsTest(_TemporaryDirectoryTest):
  """Every error names the file, the record, the value and the fix."""

  def setUp(self):
    super().setUp()
    _write_cifar10(self.directory)

  def _check(self, expected: str, data_dir: pathlib.Path | None = None) -> None:
    with self.assertRaises(datasets.DatasetError) as caught:
      datasets.load("cifar10", str(data_dir or self.directory))
    self.assertEqual(str(caught.exception), expected)

  def test_missing_directory(self):
    missing = self.directory / "nowhere"
    self._check(f"data_dir={missing} does not exist; {_GET_FILES}", missing)

  def test_file_for_a_directory(self):
    path = self.directory / "test_batch.bin"
    self._check(f"data_dir={path} is not a directory; {_GET_FILES}", path)

  @parameterized.named_parameters(
    ("train", "data_batch_3.bin"), ("test", "test_batch.bin")
  )
  def test_missing_file(self, name):
    path = self.directory / name
    path.unlink()
    self._check(f"{path}: is missing; {_GET_FILES}")

  def test_parent_of_the_directory(self):
    parent = self.directory.parent / "parent"
    parent.mkdir()
    nested = parent / "cifar-10-batches-bin"
    self.directory.rename(nested)
    missing = parent / "data_batch_1.bin"
    self._check(f"{missing}: is missing; use --data_dir={nested}", parent)

  @parameterized.named_parameters(
    ("train", "data_batch_5.bin"), ("test", "test_batch.bin")
  )
  def test_empty_file(self, name):
    path = self.directory / name
    path.write_bytes(b"")
    self._check(f"{path}: is empty (0 bytes; one record has 3073); {_UNPACK}")

  @parameterized.named_parameters(
    ("in_the_last_record", 11 * _RECORD + 100, 11, 33803, 100),
    ("in_the_first_record", 3072, 0, 0, 3072),
    ("after_a_label", 2 * _RECORD + 1, 2, 6146, 1),
  )
  def test_truncated_record(self, size, record, byte, rest):
    path = self.directory / "data_batch_2.bin"
    os.truncate(path, size)
    self._check(
      f"{path}: record {record} (at byte {byte}) is truncated: it has {rest} of"
      f" 3073 bytes; {_UNPACK}"
    )

  @parameterized.named_parameters(
    ("train", "data_batch_4.bin", 10), ("test", "test_batch.bin", 255)
  )
  def test_label_over_nine(self, name, label):
    path = self.directory / name
    content = bytearray(path.read_bytes())
    content[7 * _RECORD] = label
    path.write_bytes(content)
    self._check(
      f"{path}: record 7 (at byte 21511) has label {label}; labels are 0 to 9:"
      " the file is damaged or is not CIFAR-10's binary format; " + _UNPACK
    )

  def test_directory_for_a_file(self):
    path = self.directory / "data_batch_1.bin"
    path.unlink()
    path.mkdir()
    self._check(
      f"{path}: cannot be read (Is a directory); make it a readable file, or"
      f" {_UNPACK}"
    )


class Cifar10PipelineTest(_TemporaryDirectoryTest):
  def setUp(self):
    super().setUp()
    _write_cifar10(self.directory)
    self.dataset = datasets.load("cifar10", str(self.directory))

  def test_sizes(self):
    self.assertEqual(self.dataset.num_train, 60)
    self.assertEqual(self.dataset.num_test, 12)
    self.assertEqual(self.dataset.image_shape, (32, 32, 3))

  def test_test_images_are_the_files_images_standardised(self):
    images, labels = _random_images(12, seed=5)
    batches = _batches(self.dataset.test_input_fn(batch_size=8))
    self.assertEqual([len(batch[1]) for batch in batches], [8, 4])
    got = np.concatenate([batch[0] for batch in batches])
    raw = got * np.array(self.dataset.stddev) + np.array(self.dataset.mean)
    np.testing.assert_allclose(raw, images / 255.0, atol=1e-6)
    got_labels = np.concatenate([batch[1] for batch in batches])
    np.testing.assert_array_equal(got_labels, labels[:, np.newaxis])

  def test_training_batches_depend_on_the_seed_alone(self):
    # 20 batches of 16 pass the end of the 60 images five times.
    first = _batches(self.dataset.train_input_fn(16, seed=3), 20)
    second = _batches(self.dataset.train_input_fn(16, seed=3), 20)
    other = _batches(self.dataset.train_input_fn(16, seed=4), 20)
    self.assertLen(first, 20)
    for (images, labels), (same_images, same_labels) in zip(
      first, second, strict=True
    ):
      self.assertEqual(images.shape, (16, 32, 32, 3))
      self.assertEqual(labels.shape, (16, 1))
      np.testing.assert_array_equal(images, same_images)
      np.testing.assert_array_equal(labels, same_labels)
    self.assertFalse(np.array_equal(first[0][0], other[0][0]))

  def test_training_images_are_shifted_and_flipped_images_of_the_files(self):
    images, _ = _random_images(12, seed=0)
    wanted = {}
    padded = np.pad(images[0], [(2, 2), (2, 2), (0, 0)], mode="reflect")
    for name, image in (("plain", padded), ("flipped", padded[:, ::-1])):
      for top in range(5):
        for left in range(5):
          window = image[top : top + 32, left : left + 32]
          wanted[window.tobytes()] = name
    seen = []
    for batch, _ in _batches(self.dataset.train_input_fn(60, seed=0), 12):
      scaled = batch * np.array(self.dataset.stddev) + self.dataset.mean
      for image in np.rint(scaled * 255).astype(np.uint8):
        if image.tobytes() in wanted:
          seen.append(wanted[image.tobytes()])
    # Twelve epochs show the first image of the first file twelve times.
    self.assertLen(seen, 12)
    self.assertSetEqual(set(seen), {"plain", "flipped"})

  def test_graph_holds_no_images(self):
    with tf.Graph().as_default() as graph:
      self.dataset.train_input_fn(4, seed=0)()
      self.assertLess(len(graph.as_graph_def().SerializeToString()), 50_000)


class Cifar10DownloadTest(_TemporaryDirectoryTest):
  def setUp(self):
    super().setUp()
    cache = mock.patch.dict(os.environ, XDG_CACHE_HOME=str(self.directory))
    self.enter_context(cache)

  def test_no_network(self):
    def fail():
      raise Exception("URL fetch failure on\nX: None -- [Errno -2] no name")

    with (
      mock.patch("tf_keras.datasets.cifar10.load_data", fail),
      self.assertRaises(datasets.DatasetError) as caught,
    ):
      datasets.load("cifar10")
    self.assertEqual(
      str(caught.exception),
      "CIFAR-10 could not be downloaded (URL fetch failure on X: None -- [Errno"
      f" -2] no name); {_GET_FILES}",
    )

  def test_download_happens_once_and_keeps_the_images(self):
    train = _random_images(50, seed=0)
    test = _random_images(10, seed=1)
    load_data = mock.Mock(return_value=(train, test))
    with (
      mock.patch("tf_keras.datasets.cifar10.load_data", load_data),
      mock.patch.object(cifar10_download, "_IMAGES_PER_FILE", 10),
    ):
      datasets.load("cifar10")
      dataset = datasets.load("cifar10")
    load_data.assert_called_once_with()
    self.assertEqual((dataset.num_train, dataset.num_test), (50, 10))
    ((images, labels),) = _batches(dataset.test_input_fn(10))
    raw = images * np.array(dataset.stddev) + dataset.mean
    np.testing.assert_array_equal(np.rint(raw * 255), test[0])
    np.testing.assert_array_equal(labels[:, 0], test[1])
    left = os.listdir(self.directory / "estimator_mp")
    self.assertEqual(left, ["cifar-10-batches-bin"])

  def test_cache_that_cannot_be_written(self):
    self.directory.parent.mkdir(exist_ok=True)
    self.directory.write_text("a file where the cache should be")
    load_data = mock.Mock(return_value=(_random_images(5, 0),) * 2)
    with (
      mock.patch("tf_keras.datasets.cifar10.load_data", load_data),
      self.assertRaisesRegex(
        datasets.DatasetError,
        "^CIFAR-10 cannot be stored in .*/estimator_mp/cifar-10-batches-bin"
        r" \(Not a directory\); set XDG_CACHE_HOME to a directory that can be"
        " written, with 180 MB free$",
      ),
    ):
      datasets.load("cifar10")


class DigitsTest(parameterized.TestCase):
  def test_split_is_stratified_and_complete(self):
    labels = np.repeat(np.arange(10), np.arange(50, 150, 10))
    train, test = digits.stratified_split(labels, 0.2, seed=0)
    np.testing.assert_array_equal(
      np.sort(np.concatenate([train, test])), np.arange(len(labels))
    )
    np.testing.assert_array_equal(
      np.bincount(labels[test]), np.arange(10, 30, 2)
    )

  def test_split_never_changes(self):
    """Accuracies measured with one release hold for the next one."""
    labels = np.arange(100) % 10
    _, test = digits.stratified_split(labels, 0.2, seed=0)
    np.testing.assert_array_equal(test[:8], [7, 13, 15, 19, 20, 22, 24, 26])

  def test_sizes_and_range(self):
    dataset = datasets.load("digits")
    self.assertEqual(dataset.num_train + dataset.num_test, 1797)
    self.assertEqual(dataset.num_test, 359)
    (images, labels), *_ = _batches(dataset.test_input_fn(359))
    self.assertEqual(images.shape, (359, 8, 8, 1))
    raw = images * dataset.stddev[0] + dataset.mean[0]
    self.assertAlmostEqual(raw.min(), 0.0, places=6)
    self.assertAlmostEqual(raw.max(), 1.0, places=6)
    self.assertEqual(labels.shape, (359, 1))
    self.assertSetEqual(set(labels.ravel().tolist()), set(range(10)))

  def test_training_batches_depend_on_the_seed_alone(self):
    dataset = datasets.load("digits")
    runs = [
      _batches(dataset.train_input_fn(64, seed), 30) for seed in (1, 1, 2)
    ]
    for (images, labels), (same_images, same_labels) in zip(
      runs[0], runs[1], strict=True
    ):
      np.testing.assert_array_equal(images, same_images)
      np.testing.assert_array_equal(labels, same_labels)
    self.assertFalse(np.array_equal(runs[0][0][1], runs[2][0][1]))

  def test_every_training_image_is_seen_once_per_epoch(self):
    dataset = datasets.load("digits")
    ((images, _),) = _batches(dataset.train_input_fn(dataset.num_train, 0), 1)
    ((test_images, _),) = _batches(dataset.test_input_fn(dataset.num_test))
    seen = {image.tobytes() for image in images}
    self.assertLen(seen, dataset.num_train)
    self.assertEmpty(seen & {image.tobytes() for image in test_images})

  @parameterized.named_parameters(("none", 0), ("too_many", 1439))
  def test_batch_size_that_does_not_fit(self, batch_size):
    with self.assertRaisesRegex(
      ValueError,
      f"^batch_size={batch_size} does not fit the 1438 training images of"
      " digits; use 1 to 1438$",
    ):
      datasets.load("digits").train_input_fn(batch_size, seed=0)

  def test_evaluation_batch_size_that_does_not_fit(self):
    with self.assertRaisesRegex(
      ValueError, "^batch_size=0 is too small; use at least 1$"
    ):
      datasets.load("digits").test_input_fn(0)


class LoadTest(parameterized.TestCase):
  def test_unknown_name(self):
    with self.assertRaisesRegex(
      datasets.DatasetError,
      "^dataset=mnist is not known; use one of: digits, cifar10$",
    ):
      datasets.load("mnist")

  def test_directory_for_the_digits(self):
    with self.assertRaisesRegex(
      datasets.DatasetError,
      "^data_dir=x does not fit dataset=digits, which is embedded in"
      " scikit-learn; leave --data_dir out, or use --dataset=cifar10$",
    ):
      datasets.load("digits", "x")

  def test_serving_input_takes_raw_images(self):
    dataset = datasets.load("digits")
    with tf.Graph().as_default():
      receiver = dataset.serving_input_receiver_fn()
      placeholder = receiver.receiver_tensors["image"]
      self.assertEqual(placeholder.shape.as_list(), [None, 8, 8, 1])
      raw = np.full((3, 8, 8, 1), dataset.mean[0] + dataset.stddev[0])
      with tf.compat.v1.Session() as session:
        image = session.run(receiver.features["image"], {placeholder: raw})
    np.testing.assert_allclose(image, np.ones((3, 8, 8, 1)), atol=1e-6)


if __name__ == "__main__":
  absltest.main()
