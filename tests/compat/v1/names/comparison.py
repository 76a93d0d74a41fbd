"""Compares 1.15's names with those that a TensorFlow 1 program sees today."""

import dataclasses
import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from compat.contrib import absent
from compat.v1 import names
from tests.compat.v1.names import listing

_HERE = os.path.dirname(os.path.abspath(__file__))
# Of contrib, what the project promises to bring.
PROMISED = (
  "batching",
  "bayesflow",
  "cluster_resolver",
  "compiler",
  "crf",
  "cudnn_rnn",
  "data",
  "distribute",
  "distributions",
  "estimator",
  "feature_column",
  "framework",
  "graph_editor",
  "hooks",
  "image",
  "integrate",
  "kernel_methods",
  "layers",
  "learn",
  "lookup",
  "losses",
  "memory_stats",
  "metrics",
  "nn",
  "opt",
  "quantize",
  "rnn",
  "seq2seq",
  "signal",
  "slim",
  "sparsemax",
  "summary",
  "tensor_forest",
  "tpu",
  "training",
  "util",
)
# What has its members only when it is made.
_INSTANCES: Mapping[str, Callable[[Any], Any]] = {
  "Tensor": lambda tf: type(tf.zeros([])),
}
_ANYTHING = "(*args, **kwargs)"
# Differences that make none; (path, difference) as patterns.
_HARMLESS = (
  # None is what 1.15 computed with: all cores, one element.
  (r"data\..*\.interleave", "`(cycle|block)_length` is None"),
  (r"data\..*\.shuffle", "`reshuffle_each_iteration` is True, not None"),
  (r"estimator\.RNN.*", "`cell_type` is None, not <object>"),
  (r"data.*make_batched_features_dataset", "`reader` is None"),
  (r"keras\.(layers\.)?Input(Layer)?", "`(sparse|ragged)` is None"),
  (r"shape|size", "`out_type` is None, not tf.int32"),
  # It had to be None, which said that all others are given by name.
  (r"nn\..*cross_entropy_with_logits", ".*"),
  (r"RaggedTensor|nn\.rnn_cell\.RNNCell\.build", ".*"),  # Not by users.
)
_LINE = re.compile(r"(\S+) (class|def|value) ?(.*)")


@dataclasses.dataclass(frozen=True)
class Recorded:
  """A name of 1.15.

  Attributes:
    path: what it is below `tf`, or below tf.contrib.
    kind: one of listing's three.
    signature: its arguments, "" if they are not known.
  """

  path: str
  kind: str
  signature: str


@dataclasses.dataclass(frozen=True)
class Found:
  """What a program finds today under a name of 1.15.

  Attributes:
    recorded: the name.
    replacement: what the error says to use, if the name is not there.
    is_lost: whether neither it nor a replacement is there.
    is_supplied: whether compat supplies it.
    differences: each argument that is not as it was, in words.
  """

  recorded: Recorded
  replacement: str = ""
  is_lost: bool = False
  is_supplied: bool = False
  differences: tuple[str, ...] = ()

  @property
  def is_there(self) -> bool:
    """Whether a program can use it."""
    return not self.is_lost and not self.replacement


def read(file: str) -> list[Recorded]:
  """Returns the names that record.py has written."""
  with open(os.path.join(_HERE, file), encoding="utf-8") as listed:
    found = [_LINE.fullmatch(line.strip()) for line in listed]
  return [Recorded(*match.groups()) for match in found if match]


def outside_contrib(tf: Any) -> list[Found]:
  """Returns what is there of 1.15's names outside contrib.

  Args:
    tf: what a program of TensorFlow 1 sees.
  """
  return [_find(tf, one) for one in read("outside_contrib.txt")]


def contrib(tf: Any) -> list[Found]:
  """Returns what is there of 1.15's names in contrib.

  Args:
    tf: what a program of TensorFlow 1 sees.
  """
  return [_find_in_contrib(tf, one) for one in read("contrib.txt")]


def _find(tf: Any, recorded: Recorded) -> Found:
  path = recorded.path
  try:
    value = resolve(tf, path)
  except (AttributeError, ImportError):
    replacement = names.replacement_of(path) or ""
    return Found(recorded, replacement, is_lost=not replacement)
  return Found(
    recorded,
    is_supplied=names.is_supplied(path),
    differences=tuple(differences(recorded, value)),
  )


def _find_in_contrib(tf: Any, recorded: Recorded) -> Found:
  try:
    value = resolve(tf, f"contrib.{recorded.path}")
  except (AttributeError, ImportError):
    replacement = absent.replacement_of(recorded.path) or ""
    return Found(recorded, replacement, is_lost=not replacement)
  return Found(recorded, differences=tuple(differences(recorded, value)))


def resolve(tf: Any, path: str) -> Any:
  """Returns what stands at a path below `tf`.

  Raises:
    AttributeError: if nothing does.
  """
  found = tf
  below = ""
  for name in path.split("."):
    if below in _INSTANCES:
      found = _INSTANCES[below](tf)
    if inspect.isclass(found):
      found = inspect.getattr_static(found, name, None) or getattr(found, name)
    else:
      found = getattr(found, name)
    below = f"{below}.{name}" if below else name
  return found


def differences(recorded: Recorded, value: Any) -> Iterator[str]:
  """Yields what a call written for 1.15 would not find as it was."""
  for text in _differences(recorded, value):
    if not any(
      re.fullmatch(path, recorded.path) and re.match(what, text)
      for path, what in _HARMLESS
    ):
      yield text


def _differences(recorded: Recorded, value: Any) -> Iterator[str]:
  now = listing.describe(value)
  match = _LINE.fullmatch(f"x {now}")
  if recorded.kind == listing.CLASS and not callable(value):
    yield "is no class"
    return
  signature = match[3] if match else ""
  if not signature or recorded.signature in ("", _ANYTHING):
    return
  before, after = _arguments(recorded.signature), _arguments(signature)
  if before[:1] == [("self", "")]:  # Whatever it is called today.
    before, after = before[1:], after[1:]
  taken = dict(after)
  has_rest = "**" in "".join(name for name, _ in after)
  has_list = any(re.fullmatch(r"\*\w+", name) for name, _ in after)
  for place, (name, default) in enumerate(before):
    if name.startswith("*"):
      if name not in taken and not (has_rest or has_list):
        yield f"no {name}"
      break
    if name not in taken:
      if not has_rest:
        yield f"no `{name}`"
    elif place >= len(after) or after[place][0] != name:
      if not has_list:
        yield f"`{name}` not in place {place}"
    elif default and taken[name] != default:
      yield f"`{name}` is {taken[name] or 'required'}, not {default}"
  for name, default in after[len(before) :]:
    if not default and not name.startswith("*") and name not in dict(before):
      yield f"`{name}` is required"


def _arguments(signature: str) -> list[tuple[str, str]]:
  """Returns names and defaults of "(x, axis=None)"."""
  parts, depth, start = [], 0, 1
  quote = ""
  for place, sign in enumerate(signature):
    if quote:
      quote = "" if sign == quote else quote
    elif sign in "'\"":
      quote = sign
    elif sign in "([<":
      depth += 1
    elif sign in ")]>" and signature[place - 1] != "-":
      depth -= 1
    if not quote and ((sign == "," and depth == 1) or depth == 0):
      parts.append(signature[start:place].strip())
      start = place + 1
  pairs = (part.partition("=") for part in parts if part)
  return [(name, default) for name, _, default in pairs]
