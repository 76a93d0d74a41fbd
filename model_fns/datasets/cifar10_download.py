"""Downloads CIFAR-10 once and keeps it as files in its binary format."""

import os
import pathlib
import shutil
import socket
import tempfile
from typing import Any

from model_fns.datasets import dataset

import numpy as np

ARCHIVE = "cifar-10-binary.tar.gz"
DIRECTORY = "cifar-10-batches-bin"
PAGE = "the University of Toronto's CIFAR-10 page"
HOW_TO_GET_FILES = (
  f"get {ARCHIVE} from {PAGE}, unpack it, and pass its directory as"
  f" --data_dir={DIRECTORY}"
)

_IMAGES_PER_FILE = 10_000
_TIMEOUT_SECONDS = 30.0


def cached_directory() -> pathlib.Path:
  """Returns a directory with CIFAR-10's six binary files; downloads if needed.

  The directory is made in one step from a complete copy, under
  `$XDG_CACHE_HOME/estimator_mp` (by default `~/.cache/estimator_mp`).

  Raises:
    DatasetError: the images could not be downloaded or not be stored.
  """
  cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
  directory = pathlib.Path(cache).expanduser() / "estimator_mp" / DIRECTORY
  if directory.is_dir():
    return directory
  (train_images, train_labels), (test_images, test_labels) = _download()
  try:
    directory.parent.mkdir(parents=True, exist_ok=True)
    work = pathlib.Path(tempfile.mkdtemp(dir=directory.parent))
    try:
      for start in range(0, len(train_images), _IMAGES_PER_FILE):
        part = slice(start, start + _IMAGES_PER_FILE)
        name = f"data_batch_{start // _IMAGES_PER_FILE + 1}.bin"
        write_records(work / name, train_images[part], train_labels[part])
      write_records(work / "test_batch.bin", test_images, test_labels)
      work.rename(directory)
    finally:
      shutil.rmtree(work, ignore_errors=True)
  except OSError as error:
    raise dataset.DatasetError(
      f"CIFAR-10 cannot be stored in {directory} ({error.strerror}); set"
      " XDG_CACHE_HOME to a directory that can be written, with 180 MB free"
    ) from error
  return directory


def write_records(
  path: pathlib.Path, images: np.ndarray, labels: np.ndarray
) -> None:
  """Writes images as a file in CIFAR-10's binary format.

  Args:
    path: The file to write.
    images: uint8 [n, 32, 32, 3].
    labels: Integers 0 to 9, [n] or [n, 1].
  """
  channels_first = np.transpose(images, (0, 3, 1, 2)).astype(np.uint8)
  columns = [
    np.reshape(labels, (-1, 1)).astype(np.uint8),
    np.reshape(channels_first, (len(images), -1)),
  ]
  np.concatenate(columns, axis=1).tofile(path)


def _download() -> Any:
  """Returns what tf_keras.datasets.cifar10.load_data() returns."""
  # tf_keras takes seconds to import; only a download needs it.
  from tf_keras.datasets import cifar10  # pylint: disable=g-import-not-at-top

  timeout = socket.getdefaulttimeout()
  socket.setdefaulttimeout(_TIMEOUT_SECONDS)
  try:
    return cifar10.load_data()
  # tf_keras raises a bare Exception where there is no network.
  except Exception as error:
    reason = " ".join(str(error).split())
    raise dataset.DatasetError(
      f"CIFAR-10 could not be downloaded ({reason}); {HOW_TO_GET_FILES}"
    ) from error
  finally:
    socket.setdefaulttimeout(timeout)
