"""CIFAR-10 (A. Krizhevsky, 2009) in its official binary format.

A file is a sequence of records without a header. A record is one label byte
and 3,072 bytes of a 32x32 image, channel by channel: red, green, blue, each
row by row. Five files hold the training images, one the test images.
"""

import pathlib

from model_fns.datasets import cifar10_download, dataset

import numpy as np
import tensorflow as tf

TRAIN_FILES = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
TEST_FILE = "test_batch.bin"

_NUM_CLASSES = 10
_SIDE = 32
_CHANNELS = 3
_RECORD_BYTES = 1 + _SIDE * _SIDE * _CHANNELS
_CROP_PADDING = 2
_SHUFFLE_BUFFER = 10_000
# Of the 50,000 official training images, in [0, 1].
_MEAN = (0.4914, 0.4822, 0.4465)
_STDDEV = (0.2470, 0.2435, 0.2616)
_UNPACK = (
  f"unpack {cifar10_download.ARCHIVE} (from {cifar10_download.PAGE}) again"
)


def load(data_dir: str | None = None) -> dataset.Dataset:
  """Loads CIFAR-10 and checks every record of it.

  Args:
    data_dir: Directory with `data_batch_1.bin` to `data_batch_5.bin` and
      `test_batch.bin`. None downloads the images once, through
      tf_keras.datasets, and keeps such a directory in the user's cache.

  Returns:
    The data set, with images [32, 32, 3]. Training images are augmented:
    flipped left to right at random, and shifted by up to two pixels.

  Raises:
    DatasetError: a directory or file is missing, empty or truncated, a label
      is out of range, or the download failed.
  """
  if data_dir is None:
    directory = cifar10_download.cached_directory()
  else:
    directory = pathlib.Path(data_dir)
  _check_directory(directory)
  train_files = [directory / name for name in TRAIN_FILES]
  test_file = directory / TEST_FILE
  num_train = sum(count_valid_records(path) for path in train_files)
  num_test = count_valid_records(test_file)

  def train_examples(seed: int) -> tf.data.Dataset:
    # Records, not images: checkpoints have what is in the buffer.
    records = _read_records(train_files)
    records = records.shuffle(min(num_train, _SHUFFLE_BUFFER), seed=seed)

    # The position in the endless stream seeds the augmentation of an example.
    def example(
      position: tf.Tensor, record: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
      image, label = _decode(record)
      return _augment(image, seed, position), label

    return (
      records.repeat()
      .enumerate()
      .map(example, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    )

  return dataset.Dataset(
    name="cifar10",
    num_classes=_NUM_CLASSES,
    image_shape=(_SIDE, _SIDE, _CHANNELS),
    num_train=num_train,
    num_test=num_test,
    mean=_MEAN,
    stddev=_STDDEV,
    train_examples=train_examples,
    test_examples=lambda: _read([test_file]),
  )


def count_valid_records(path: pathlib.Path) -> int:
  """Returns the number of records in a file, all of which are valid.

  Args:
    path: A file in CIFAR-10's binary format.

  Raises:
    DatasetError: the file is missing, unreadable, empty or truncated, or one
      of its labels is over 9.
  """
  try:
    content = np.fromfile(path, np.uint8)
  except OSError as error:
    raise dataset.DatasetError(
      f"{path}: cannot be read ({error.strerror}); make it a readable file, or"
      f" {_UNPACK}"
    ) from error
  if not content.size:
    raise dataset.DatasetError(
      f"{path}: is empty (0 bytes; one record has {_RECORD_BYTES}); {_UNPACK}"
    )
  records, rest = divmod(content.size, _RECORD_BYTES)
  if rest:
    raise dataset.DatasetError(
      f"{path}: record {records} (at byte {records * _RECORD_BYTES}) is"
      f" truncated: it has {rest} of {_RECORD_BYTES} bytes; {_UNPACK}"
    )
  labels = content[::_RECORD_BYTES]
  wrong = np.flatnonzero(labels >= _NUM_CLASSES)
  if wrong.size:
    record = int(wrong[0])
    raise dataset.DatasetError(
      f"{path}: record {record} (at byte {record * _RECORD_BYTES}) has label"
      f" {labels[record]}; labels are 0 to {_NUM_CLASSES - 1}: the file is"
      f" damaged or is not CIFAR-10's binary format; {_UNPACK}"
    )
  return int(records)


def _check_directory(directory: pathlib.Path) -> None:
  if not directory.is_dir():
    state = "is not a directory" if directory.exists() else "does not exist"
    raise dataset.DatasetError(
      f"data_dir={directory} {state}; {cifar10_download.HOW_TO_GET_FILES}"
    )
  nested = directory / cifar10_download.DIRECTORY
  for name in (*TRAIN_FILES, TEST_FILE):
    if (directory / name).exists():
      continue
    if (nested / name).exists():
      fix = f"use --data_dir={nested}"
    else:
      fix = cifar10_download.HOW_TO_GET_FILES
    raise dataset.DatasetError(f"{directory / name}: is missing; {fix}")


def _read_records(paths: list[pathlib.Path]) -> tf.data.Dataset:
  names = [str(path) for path in paths]
  return tf.data.FixedLengthRecordDataset(names, _RECORD_BYTES)


def _read(paths: list[pathlib.Path]) -> tf.data.Dataset:
  return _read_records(paths).map(
    _decode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
  )


def _decode(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
  values = tf.io.decode_raw(record, tf.uint8)
  channels_first = tf.reshape(values[1:], [_CHANNELS, _SIDE, _SIDE])
  image = tf.transpose(channels_first, [1, 2, 0])
  return tf.cast(image, tf.float32) / 255.0, tf.cast(values[0], tf.int32)


def _augment(image: tf.Tensor, seed: int, position: tf.Tensor) -> tf.Tensor:
  flip_seed = tf.stack([tf.constant(2 * seed, tf.int64), position])
  crop_seed = tf.stack([tf.constant(2 * seed + 1, tf.int64), position])
  image = tf.image.stateless_random_flip_left_right(image, flip_seed)
  padding = [_CROP_PADDING, _CROP_PADDING]
  padded = tf.pad(image, [padding, padding, [0, 0]], mode="REFLECT")
  shape = [_SIDE, _SIDE, _CHANNELS]
  return tf.image.stateless_random_crop(padded, shape, crop_seed)
