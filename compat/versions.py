"""The versions of TensorFlow that this package supports."""

import functools
import logging

from compat.errors import CompatError

OLDEST_SUPPORTED = (2, 15)
FIRST_WITHOUT_ESTIMATOR = (2, 16)
# Of the releases in docs/migrating.md (tests/compat/matrix.py).
NEWEST_TESTED = (2, 22)


def parse(version: str) -> tuple[int, int]:
  """Returns (major, minor) of a version such as "2.16.2" or "2.21.0-rc1".

  Args:
    version: a TensorFlow version, as `tf.__version__` gives it.

  Raises:
    CompatError: if the text does not begin with two numbers.
  """
  numbers = version.split(".")[:2]
  if len(numbers) < 2 or not all(number.isdigit() for number in numbers):
    raise CompatError(
      f"TensorFlow's version {version!r} does not begin with two numbers, as "
      "in '2.21.0'; install a released TensorFlow, 2.15 or later."
    )
  return int(numbers[0]), int(numbers[1])


def check_supported(version: str) -> None:
  """Refuses a TensorFlow older than 2.15.

  Args:
    version: a TensorFlow version, as `tf.__version__` gives it.

  Raises:
    CompatError: if the version is below 2.15, or is not a version.
  """
  if parse(version) < OLDEST_SUPPORTED:
    raise CompatError(
      f"TensorFlow {version} is too old: compat needs 2.15 or later. Upgrade "
      "with: pip install 'tensorflow>=2.15'."
    )


@functools.cache  # Once is enough.
def warn_of_untested(version: str) -> None:
  """Logs a warning of a TensorFlow newer than all that were tested.

  Args:
    version: a TensorFlow version, as `tf.__version__` gives it.
  """
  if parse(version) <= NEWEST_TESTED:
    return
  major, minor = NEWEST_TESTED
  logging.getLogger("tensorflow").warning(
    "TensorFlow %s is newer than %d.%d, the newest that compat was tested on. "
    "`python -m compat.private.probe` says which of the names that it needs "
    "are gone; if one is, or a program fails: pip install 'tensorflow<%d.%d'.",
    *(version, major, minor, major, minor + 1),
  )


def check_protobuf(version: str) -> None:
  """Refuses protobuf 7 beside TensorFlow 2.20, which accepts but cannot use it.

  That TensorFlow writes the graph of an Estimator with an argument that
  protobuf 7 has removed; training would fail when its first session starts.

  Args:
    version: a TensorFlow version, as `tf.__version__` gives it.

  Raises:
    CompatError: if it is 2.20 and protobuf is 7 or later.
  """
  if parse(version) != (2, 20):
    return
  from importlib import metadata  # Only now: it takes 0.05 s.

  protobuf = metadata.version("protobuf")
  if int(protobuf.partition(".")[0]) >= 7:
    raise CompatError(
      f"TensorFlow {version} cannot write graphs with protobuf {protobuf}, so "
      "no Estimator can train. Install an older one with: "
      "pip install 'protobuf<7'; or TensorFlow 2.21."
    )


def has_own_estimator(version: str) -> bool:
  """Returns whether this TensorFlow brings tf.estimator by itself."""
  return parse(version) < FIRST_WITHOUT_ESTIMATOR
