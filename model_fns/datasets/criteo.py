"""Criteo's format: a click, 13 integers and 26 categories in each line.

That of the Display Advertising Challenge (2014) and of the Terabyte Click Logs:
columns are separated by tabs, categories are 8 hexadecimal digits, and any but
the first column may be empty. Files are read as a stream, and no line is kept.
"""

import functools
import itertools
import os
import pathlib
import re

from model_fns.datasets import click_log, dataset

import tensorflow as tf

FILE = "train.txt"

_NUM_INTEGERS = 13
_CATEGORIES = tuple(f"C{i}" for i in range(1, 27))
_NUM_COLUMNS = 1 + _NUM_INTEGERS + len(_CATEGORIES)
# Python and TensorFlow's RE2 understand it alike.
_LINE = r"[01](\t(-?[0-9]+)?){13}(\t([0-9a-f]{8})?){26}"
_HELD_OUT_EVERY = 10
_CHECKED_LINES = 1000
_SHUFFLED_LINES = 100_000
_ROWS_OF_TABLE = 50_000
_EXPECTED = (
  "a line of this format has 40 columns, separated by tabs: 0 or 1, 13 integers"
  " and 26 times 8 digits of 0-9a-f, of which all but the first may be empty;"
  " remove the line, or get the file anew"
)


def load(data_dir: str | None) -> click_log.ClickLog:
  """Returns a log in Criteo's format, to be read from its file.

  Every tenth line is held out. Integers x are log(1 + x), or 0 if they are
  negative or missing (Naumov et al., 2019). Categories are text; a missing one
  is empty, which is a value like others.

  The first thousand lines are checked now. A later line that is wrong is an
  `InvalidArgumentError` while it is read, which names the file and the line,
  too.

  Args:
    data_dir: The file, or a directory with a file `train.txt`.

  Raises:
    DatasetError: If the file is missing or too short, or a line is wrong.
  """
  if data_dir is None:
    raise dataset.DatasetError(
      "dataset=criteo is read from a file; pass --data_dir=DIRECTORY with its"
      f" {FILE}, or a file of your own in that format"
    )
  path = pathlib.Path(data_dir)
  if path.is_dir():
    path = path / FILE
  _check(path)
  batches = functools.partial(_batches, str(path))
  return click_log.ClickLog(
    name=f"{path.name} in Criteo's format",
    features={
      "dense": tf.TensorSpec([None, _NUM_INTEGERS], tf.float32),
      **{name: tf.TensorSpec([None], tf.string) for name in _CATEGORIES},
    },
    tables=dict.fromkeys(_CATEGORIES, _ROWS_OF_TABLE),
    train_batches=functools.partial(_shuffled, str(path)),
    train_pass=functools.partial(batches, False),
    test_batches=functools.partial(batches, True),
  )


def _check(path: pathlib.Path) -> None:
  """Raises if a file cannot be read, or its first lines are wrong."""
  try:
    with path.open(encoding="utf-8", errors="replace") as file:
      lines = list(itertools.islice(file, _CHECKED_LINES))
  except OSError as error:
    raise dataset.DatasetError(
      f"{path}: cannot be read ({os.strerror(error.errno or 0)}); pass"
      f" --data_dir=DIRECTORY with Criteo's {FILE}, or a file"
    ) from error
  for number, line in enumerate(lines, start=1):
    line = line.rstrip("\r\n")
    if not re.fullmatch(_LINE, line):
      columns = line.count("\t") + 1
      raise dataset.DatasetError(
        f"{path}:{number}: is wrong ({columns} columns); {_EXPECTED}"
      )
  if len(lines) < _HELD_OUT_EVERY:
    raise dataset.DatasetError(
      f"{path}: has {len(lines)} lines, of which every {_HELD_OUT_EVERY}th is"
      f" held out; use a file of at least {_HELD_OUT_EVERY} lines"
    )


def _lines(path: str, is_held_out: bool) -> tf.data.Dataset:
  """Returns numbered lines, those that are held out or the others."""

  def is_wanted(number: tf.Tensor, line: tf.Tensor) -> tf.Tensor:
    del line
    return tf.equal(tf.equal(number % _HELD_OUT_EVERY, 0), is_held_out)

  return tf.data.TextLineDataset(path).enumerate(1).filter(is_wanted)


def _shuffled(path: str, batch_size: int, seed: int) -> tf.data.Dataset:
  lines = _lines(path, is_held_out=False).shuffle(_SHUFFLED_LINES, seed=seed)
  batches = lines.repeat().batch(batch_size, drop_remainder=True)
  return batches.map(functools.partial(_parse, path))


def _batches(path: str, is_held_out: bool, batch_size: int) -> tf.data.Dataset:
  batches = _lines(path, is_held_out).batch(batch_size)
  return batches.map(functools.partial(_parse, path))


def _parse(
  path: str, numbers: tf.Tensor, lines: tf.Tensor
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
  """Returns the features and the labels [batch, 1] of some lines."""
  with tf.control_dependencies([_check_lines(path, numbers, lines)]):
    lines = tf.identity(lines)
  columns = tf.strings.split(lines, "\t").to_tensor(
    default_value="", shape=[None, _NUM_COLUMNS]
  )
  values = columns[:, : 1 + _NUM_INTEGERS]
  values = tf.strings.to_number(tf.where(tf.equal(values, ""), "0", values))
  features = {"dense": tf.math.log1p(tf.nn.relu(values[:, 1:]))}
  for position, name in enumerate(_CATEGORIES, 1 + _NUM_INTEGERS):
    features[name] = columns[:, position]
  return features, values[:, :1]


def _check_lines(
  path: str, numbers: tf.Tensor, lines: tf.Tensor
) -> tf.Operation:
  """Returns what fails if a line is wrong, and names the first one."""
  is_right = tf.strings.regex_full_match(lines, _LINE)
  first = tf.argmin(tf.cast(is_right, tf.int32))
  text = tf.strings.join(
    [path, ":", tf.as_string(numbers[first]), ": is wrong; ", _EXPECTED]
  )
  return tf.debugging.Assert(tf.reduce_all(is_right), [text], summarize=1)
