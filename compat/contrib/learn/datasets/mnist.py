"""MNIST, from the four files of its page."""

import gzip
from typing import Any

from compat.contrib import absent
from compat.contrib.learn.datasets.base import Datasets, maybe_download

import numpy as np
import tensorflow as tf

__path__: list[str] = []
__getattr__ = absent.getter(__name__)

DEFAULT_SOURCE_URL = "https://storage.googleapis.com/cvdf-datasets/mnist/"

_TRAIN_IMAGES = "train-images-idx3-ubyte.gz"
_TRAIN_LABELS = "train-labels-idx1-ubyte.gz"
_TEST_IMAGES = "t10k-images-idx3-ubyte.gz"
_TEST_LABELS = "t10k-labels-idx1-ubyte.gz"
_IMAGES_MAGIC = 2051
_LABELS_MAGIC = 2049


def _read(file: Any, magic: int, axes: int) -> Any:
  """An array of bytes of a gzipped file in the IDX format."""
  with gzip.GzipFile(fileobj=file) as stream:
    content = stream.read()
  header = np.frombuffer(content, ">u4", 1 + axes)
  if header[0] != magic:
    name = getattr(file, "name", file)
    raise ValueError(
      f"{name} begins with the number {header[0]}, and not with {magic} as a "
      "file of MNIST does."
    )
  values = np.frombuffer(content, np.uint8, offset=header.nbytes)
  return values.reshape(header[1:].astype(int))


def extract_images(f: Any) -> Any:
  """Returns the images of an open file, [images, rows, columns, 1] of uint8."""
  return _read(f, _IMAGES_MAGIC, 3)[..., np.newaxis]


def dense_to_one_hot(labels_dense: Any, num_classes: int) -> Any:
  """Returns a row of zeros and one 1.0 for each label."""
  return np.eye(num_classes)[np.ravel(labels_dense)]


def extract_labels(f: Any, one_hot: bool = False, num_classes: int = 10) -> Any:
  """Returns the labels of an open file, of uint8, or a row for each."""
  labels = _read(f, _LABELS_MAGIC, 1)
  return dense_to_one_hot(labels, num_classes) if one_hot else labels


class DataSet:
  """Images and labels, which are given batch by batch."""

  def __init__(
    self,
    images: Any,
    labels: Any,
    fake_data: bool = False,
    one_hot: bool = False,
    dtype: Any = tf.float32,
    reshape: bool = True,
    seed: int | None = None,
  ):
    """Makes the data set.

    Args:
      images: [examples, rows, columns, 1] of uint8.
      labels: a label for each.
      fake_data: whether every batch is of ones.
      one_hot: whether fake labels are rows.
      dtype: uint8, or float32 for numbers from 0 to 1.
      reshape: whether an image is one row of numbers.
      seed: of the order of the examples.

    Raises:
      TypeError: if dtype is another one.
      ValueError: unless there are as many labels as images.
    """
    graph_seed, op_seed = tf.compat.v1.get_seed(seed)
    np.random.seed(graph_seed if seed is None else op_seed)
    dtype = tf.as_dtype(dtype).base_dtype
    if dtype not in (tf.uint8, tf.float32):
      raise TypeError(f"dtype={dtype!r} must be uint8 or float32.")
    self.one_hot = one_hot
    self._fake_data = fake_data
    self._epochs_completed = 0
    self._index_in_epoch = 0
    if fake_data:
      self._num_examples = 10000
      self._images, self._labels = images, labels
      return
    if len(images) != len(labels):
      raise ValueError(f"There are {len(images)} images, {len(labels)} labels.")
    self._num_examples = len(images)
    if reshape:
      if images.shape[3] != 1:
        raise ValueError(f"images have {images.shape[3]} channels, not 1.")
      images = images.reshape(len(images), -1)
    if dtype == tf.float32:
      images = images.astype(np.float32) * np.float32(1.0 / 255.0)
    self._images, self._labels = images, labels

  @property
  def images(self) -> Any:
    """The images, in the order of this epoch."""
    return self._images

  @property
  def labels(self) -> Any:
    """The labels, in the order of this epoch."""
    return self._labels

  @property
  def num_examples(self) -> int:
    """How many examples there are."""
    return self._num_examples

  @property
  def epochs_completed(self) -> int:
    """How often all examples have been given."""
    return self._epochs_completed

  def next_batch(
    self, batch_size: int, fake_data: bool = False, shuffle: bool = True
  ) -> tuple[Any, Any]:
    """Returns images and labels, the next ones.

    Args:
      batch_size: how many.
      fake_data: whether to return lists of ones.
      shuffle: whether each epoch has another order.
    """
    if fake_data:
      label: Any = [1] + [0] * 9 if self.one_hot else 0
      return [[1] * 784] * batch_size, [label] * batch_size
    start = self._index_in_epoch
    if start == 0 and self._epochs_completed == 0 and shuffle:
      self._shuffle()
    end = start + batch_size
    if end <= self._num_examples:
      self._index_in_epoch = end
      return self._images[start:end], self._labels[start:end]
    rest = self._images[start:], self._labels[start:]
    self._epochs_completed += 1
    if shuffle:
      self._shuffle()
    self._index_in_epoch = missing = end - self._num_examples
    return (
      np.concatenate([rest[0], self._images[:missing]]),
      np.concatenate([rest[1], self._labels[:missing]]),
    )

  def _shuffle(self) -> None:
    order = np.arange(self._num_examples)
    np.random.shuffle(order)
    self._images, self._labels = self._images[order], self._labels[order]


def read_data_sets(
  train_dir: str,
  fake_data: bool = False,
  one_hot: bool = False,
  dtype: Any = tf.float32,
  reshape: bool = True,
  validation_size: int = 5000,
  seed: int | None = None,
  source_url: str = DEFAULT_SOURCE_URL,
) -> Datasets:
  """Reads MNIST, and downloads the files that are not there.

  Args:
    train_dir: where the files are.
    fake_data: whether every batch is of ones.
    one_hot: whether a label is a row of zeros and one 1.0.
    dtype: uint8, or float32 for numbers from 0 to 1.
    reshape: whether an image is one row of numbers.
    validation_size: how many of the 60,000 images to keep for validation.
    seed: of the order of the examples.
    source_url: where files are downloaded from, if they are not there.

  Raises:
    ValueError: if validation_size is more than there are.
  """
  options: dict[str, Any] = dict(
    fake_data=fake_data,
    one_hot=one_hot,
    dtype=dtype,
    reshape=reshape,
    seed=seed,
  )
  if fake_data:
    return Datasets(*(DataSet([], [], **options) for _ in range(3)))
  found: list[Any] = []
  for name in (_TRAIN_IMAGES, _TRAIN_LABELS, _TEST_IMAGES, _TEST_LABELS):
    path = maybe_download(
      name, train_dir, (source_url or DEFAULT_SOURCE_URL) + name
    )
    with open(path, "rb") as file:
      is_images = name in (_TRAIN_IMAGES, _TEST_IMAGES)
      found.append(
        extract_images(file) if is_images else extract_labels(file, one_hot)
      )
  images, labels, test_images, test_labels = found
  if not 0 <= validation_size <= len(images):
    raise ValueError(
      f"validation_size={validation_size} must be from 0 to {len(images)}."
    )
  kept = slice(validation_size, None)
  return Datasets(
    train=DataSet(images[kept], labels[kept], **options),
    validation=DataSet(
      images[:validation_size], labels[:validation_size], **options
    ),
    test=DataSet(test_images, test_labels, **options),
  )


def load_mnist(train_dir: str = "MNIST-data") -> Datasets:
  """Reads MNIST; see read_data_sets."""
  return read_data_sets(train_dir)
