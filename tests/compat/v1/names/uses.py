"""Which names of tf.contrib programs use most, in a sample of public code.

uses.txt has the sample, of November 2026. Each of its lines is a search for a
text in an index of public repositories, which shows ten places at most, and the
names that followed there ("layers.flatten*2": twice). The texts are what may
come before a name of tf.contrib in any program: the last letter of a variable,
"=", "return", an import. Left out are documents of TensorFlow, and what names
nothing.
"""

import collections
import dataclasses
import os
import re
from typing import Any

from compat.contrib import absent
from tests.compat.v1.names import comparison

_SAMPLE = os.path.join(os.path.dirname(__file__), "uses.txt")
_LINE = re.compile(r"(.*contrib(?:\.| import)): (.*)")
_PACKAGES = {
  "tensorflow_probability": "tensorflow-probability",
  "tf_slim": "tf-slim",
}
MOST = 50


@dataclasses.dataclass(frozen=True)
class Use:
  """A name that programs use.

  Attributes:
    path: the name, or its module, below tf.contrib.
    hits: how often the sample has it.
    package: what has to be installed for it, "" if nothing has.
    replacement: what the error says to use, if it is refused.
  """

  path: str
  hits: int
  package: str = ""
  replacement: str = ""


def sample() -> dict[str, collections.Counter[str]]:
  """Returns the names that each search found, and how often."""
  with open(_SAMPLE, encoding="utf-8") as listed:
    lines = listed.read().replace("\n  ", " ").splitlines()
  found = {}
  for line in lines:
    match = _LINE.fullmatch(line)
    if match is None:
      raise ValueError(f"{_SAMPLE} has {line!r}, which is no search.")
    names = collections.Counter[str]()
    for name in match[2].split():
      path, _, times = name.partition("*")
      names[path] += int(times or 1)
    found[match[1]] = names
  return found


def most_used(tf: Any) -> list[Use]:
  """Returns the names that the sample has most often, and what is there.

  Args:
    tf: what a program of TensorFlow 1 sees.
  """
  hits = sum(sample().values(), collections.Counter[str]())
  order = sorted(hits.items(), key=lambda item: (-item[1], item[0]))
  return [_use(tf, path, count) for path, count in order[:MOST]]


def _use(tf: Any, path: str, hits: int) -> Use:
  try:
    value = comparison.resolve(tf, f"contrib.{path}")
  except AttributeError:
    return Use(path, hits, replacement=absent.replacement_of(path) or "nothing")
  root = str(getattr(value, "__module__", "")).partition(".")[0]
  return Use(path, hits, package=_PACKAGES.get(root, ""))
