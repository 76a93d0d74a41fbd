"""Tables of numbers from CSV files."""

import csv
import os
from typing import Any, NamedTuple

from compat.contrib import absent

import numpy as np
import tensorflow as tf

__path__: list[str] = []
__getattr__ = absent.getter(__name__)


class Dataset(NamedTuple):
  """Features and labels.

  Attributes:
    data: [examples, features].
    target: [examples].
  """

  data: Any
  target: Any


class Datasets(NamedTuple):
  """Three parts of a data set.

  Attributes:
    train: to train on.
    validation: to compare models on.
    test: to evaluate on.
  """

  train: Any
  validation: Any
  test: Any


def _table(
  rows: list[list[str]], target_dtype: Any, features_dtype: Any, column: int
) -> Dataset:
  target = np.array([row.pop(column) for row in rows], dtype=target_dtype)
  data = [np.asarray(row, dtype=features_dtype) for row in rows]
  return Dataset(np.array(data), target)


def load_csv_with_header(
  filename: str,
  target_dtype: Any,
  features_dtype: Any,
  target_column: int = -1,
) -> Dataset:
  """Reads a CSV file with a header.

  Args:
    filename: its path. Its header has the number of examples, and that of
      features.
    target_dtype: of the labels.
    features_dtype: of the features.
    target_column: where the label is.
  """
  with tf.io.gfile.GFile(filename) as file:
    rows = list(csv.reader(file))
  header, rows = rows[0], rows[1:]
  table = _table(rows, np.dtype(target_dtype), features_dtype, target_column)
  examples, features = int(header[0]), int(header[1])
  if table.data.shape != (examples, features):
    raise ValueError(
      f"The header of {filename} says {examples} examples of {features} "
      f"features; it has {table.data.shape}."
    )
  return table


def load_csv_without_header(
  filename: str,
  target_dtype: Any,
  features_dtype: Any,
  target_column: int = -1,
) -> Dataset:
  """Reads a CSV file without a header; see load_csv_with_header."""
  with tf.io.gfile.GFile(filename) as file:
    rows = list(csv.reader(file))
  return _table(rows, target_dtype, features_dtype, target_column)


def shrink_csv(filename: str, ratio: int) -> None:
  """Writes every `ratio`-th line of x.csv to x_small.csv."""
  name, extension = os.path.splitext(filename)
  with (
    tf.io.gfile.GFile(filename) as file,
    tf.io.gfile.GFile(f"{name}_small{extension}", "w") as small,
  ):
    for index, line in enumerate(file):
      if index % ratio == 0:
        small.write(line)


def load_iris(data_path: str | None = None) -> Dataset:
  """Returns the iris data set: 150 flowers of 3 kinds, with 4 lengths.

  Args:
    data_path: a CSV file with a header; by default scikit-learn has the data.

  Raises:
    ImportError: if scikit-learn is not installed.
  """
  if data_path is not None:
    return load_csv_with_header(data_path, int, float)
  try:
    from sklearn import datasets
  except ImportError as error:
    raise ImportError(
      "The iris data come from scikit-learn: pip install scikit-learn, or give "
      "load_iris the path of a CSV file."
    ) from error
  found = datasets.load_iris()
  data = found.data.copy()
  # 1.15's file has these two flowers as the UCI repository has them.
  data[34, 3], data[37, 1:3] = 0.1, (3.1, 1.5)
  return Dataset(data, found.target)


def load_boston(data_path: str | None = None) -> Dataset:
  """Reads the prices of houses in Boston from a file.

  Args:
    data_path: a CSV file with a header.

  Raises:
    NotImplementedError: without a file; scikit-learn removed the data in 1.2,
      for an ethical problem with one of the columns.
  """
  if data_path is not None:
    return load_csv_with_header(data_path, float, float)
  raise NotImplementedError(
    "The Boston data have an ethical problem and were removed from "
    "scikit-learn 1.2. Use sklearn.datasets.fetch_california_housing, or give "
    "load_boston the path of a CSV file."
  )


def maybe_download(filename: str, work_directory: str, source_url: str) -> str:
  """Returns the path of a file, which is downloaded if it is not there.

  Args:
    filename: its name.
    work_directory: where it is, or is written to.
    source_url: where it is downloaded from.
  """
  import urllib.request

  tf.io.gfile.makedirs(work_directory)
  path = os.path.join(work_directory, filename)
  if not tf.io.gfile.exists(path):
    temporary, _ = urllib.request.urlretrieve(source_url)
    tf.io.gfile.copy(temporary, path)
  return path
