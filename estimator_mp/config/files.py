"""Files that the library writes: whole, and with the version of their format.

No reader sees half of a file, and a full disk leaves none. `read_json` refuses
a file that is damaged or another program's.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

from estimator_mp import json_values

import tensorflow as tf


def write_atomically(path: str, content: str | bytes) -> None:
  """Makes or replaces a file in one step.

  Args:
    path: Its path.
    content: The new content. If it cannot be written, the file stays unchanged.
  """
  temporary = f"{path}.{os.getpid()}.tmp"
  mode = "wb" if isinstance(content, bytes) else "w"
  try:
    with tf.io.gfile.GFile(temporary, mode) as file:
      file.write(content)
    tf.io.gfile.rename(temporary, path, overwrite=True)
  except Exception:
    if tf.io.gfile.exists(temporary):
      tf.io.gfile.remove(temporary)
    raise


def write_json(path: str, value: Any) -> None:
  """Makes or replaces a file of JSON in one step.

  Args:
    path: Its path.
    value: The value to write.
  """
  write_atomically(path, json.dumps(value, indent=1) + "\n")


def read_json(path: str, newest: int, otherwise: str) -> dict[str, Any]:
  """Returns the JSON object that is in a file.

  Args:
    path: Its path.
    newest: The newest format that is known.
    otherwise: The alternative to upgrading, for the message.

  Raises:
    FormatError: If a newer library wrote it.
    ValueError: If it holds no JSON object; the message says why, in one line
      that does not name the file.
    tf.errors.OpError: If it cannot be read.
  """
  with tf.io.gfile.GFile(path) as file:
    values = json_values.parse(file.read())
  if not isinstance(values, dict):
    raise ValueError("it is not a JSON object")
  check_format(values, newest, otherwise)
  return values


class FormatError(ValueError):
  """A newer library wrote a file."""


def check_format(
  values: Mapping[str, Any], newest: int, otherwise: str
) -> None:
  """Raises if a file has a format that is not known here.

  Args:
    values: The JSON object that is in it. Its "format" is a number; files of
      before there were numbers have none, and are of format 1.
    newest: The newest format that is known.
    otherwise: The alternative to upgrading, for the message.

  Raises:
    FormatError: If a newer library wrote it.
  """
  number = values.get("format", 1)
  if type(number) is not int or not 1 <= number <= newest:
    raise FormatError(
      f"it has format {number!r}, but this estimator_mp reads formats up to "
      f"{newest}; upgrade estimator_mp, or {otherwise}"
    )
