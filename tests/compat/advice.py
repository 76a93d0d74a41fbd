"""What compat's errors say to use, and whether it is there."""

import ast
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import compat
from compat.contrib import absent

_NAME = re.compile(r"(?<![\w.])tf(?:\.\w+)+")
_PACKAGE = re.compile(r"the package ([\w-]+)")
# Those that PyPI has, and what of each is advised.
PACKAGES = {
  "h5py": "reads HDF5",
  "lmdb": "reads LMDB",
  "scikeras": "Keras models as those of scikit-learn",
  "tensorboard": "shows summaries",
  "tensorflow-constrained-optimization": "tf.contrib.constrained_optimization",
  "tensorflow-decision-forests": "tf.contrib.boosted_trees and tensor_forest",
  "tensorflow-gan": "tf.contrib.gan",
  "tensorflow-io": "file systems and data sets of tf.contrib",
  "tensorflow-model-optimization": "tf.contrib.model_pruning and quantize",
  "tensorflow-probability": "tf.contrib.distributions, bayesflow, timeseries",
  "tf-slim": "tf.contrib.layers and slim",
}


def of_contrib() -> Mapping[str, str]:
  """Returns what is said of the names of tf.contrib that are not there."""
  return absent.REPLACEMENTS


def of_raised_errors() -> Iterator[tuple[str, str]]:
  """Yields the place and the text of each error that is raised here."""
  root = pathlib.Path(compat.__file__).parents[1]
  paths = [
    path
    for package in ("compat", "estimator_mp")
    for path in sorted((root / package).rglob("*.py"))
  ]
  for path in paths:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
      if isinstance(node, ast.Raise):
        texts = [x.value for x in ast.walk(node) if isinstance(x, ast.Constant)]
        text = "".join(x for x in texts if isinstance(x, str))
        yield f"{path.relative_to(root)}:{node.lineno}", text


def missing_names(tf: Any, texts: Iterable[tuple[str, str]]) -> list[str]:
  """Returns what is named somewhere, and is not there.

  Args:
    tf: what a program sees.
    texts: where something is said, and what.
  """
  return [
    f"{place}: {name}"
    for place, text in texts
    for name in _NAME.findall(text)
    if not is_there(tf, name.removeprefix("tf."))
  ]


def is_there(tf: Any, path: str) -> bool:
  """Returns whether a program finds a name.

  Args:
    tf: what it sees.
    path: the name below `tf`.
  """
  found = tf
  try:
    for name in path.split("."):
      found = getattr(found, name)
  except AttributeError:
    return False
  return True


def packages(texts: Iterable[str]) -> set[str]:
  """Returns the packages that are named."""
  return {package for text in texts for package in _PACKAGE.findall(text)}
