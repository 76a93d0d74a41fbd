"""Input specs: what a model_fn is fed, written as text.

  x:float32[?,10],ids:int32[?,128]     features by name
  int32[?,1]                           one tensor, such as labels
  tags:sparse int64[?,50]              a SparseTensor

`?` is a dimension that the graph does not know, nearly always the batch.
"""

import re

from estimator_mp.comparison.inspect_model import InputSpec, Spec

import tensorflow as tf

_ENTRY = re.compile(
  r"(?:(?P<name>[^:,\[\]]+):)?\s*(?P<sparse>sparse\s+)?(?P<dtype>\w+)\s*"
  r"\[(?P<shape>[^\[\]]*)\]"
)
_EXAMPLE = "x:float32[?,10],ids:int32[?,128]"


def parse(text: str) -> InputSpec:
  """Returns what a text says.

  Args:
    text: Entries `name:dtype[dimensions]` with commas between them, or one
      entry without a name.

  Raises:
    ValueError: If the text is malformed; it says where, and what is right.
  """
  found: dict[str | None, Spec] = {}
  position = 0
  while position < len(text):
    match = _ENTRY.match(text, position)
    if match is None:
      rest = text[position:].strip()
      raise ValueError(
        f"{rest!r} is no name:dtype[dimensions]; write it like {_EXAMPLE}, "
        "with ? for the batch"
      )
    name = match["name"] and match["name"].strip()
    if name in found:
      raise ValueError(f"{name or match[0]!r} comes twice; give it once")
    found[name] = _spec(match)
    position = match.end()
    comma = re.compile(r"\s*(,\s*|$)").match(text, position)
    if comma is None:
      raise ValueError(
        f"{text[position:].strip()!r} follows {match[0]!r}; put a comma "
        f"between entries, as in {_EXAMPLE}"
      )
    position = comma.end()
  if None not in found:
    if not found:
      raise ValueError(f"it is empty; write it like {_EXAMPLE}")
    return {name or "": spec for name, spec in found.items()}
  if len(found) > 1:
    raise ValueError(
      f"of several entries each needs a name; write them like {_EXAMPLE}"
    )
  return found[None]


def _spec(match: re.Match[str]) -> Spec:
  """Returns what one entry says."""
  try:
    dtype = tf.dtypes.as_dtype(match["dtype"])
  except TypeError as error:
    raise ValueError(
      f"{match['dtype']!r} is no dtype of TensorFlow; use one such as float32, "
      "int32, int64, bool or string"
    ) from error
  shape = [_dimension(word.strip(), match) for word in _words(match["shape"])]
  if match["sparse"]:
    return tf.SparseTensorSpec(shape, dtype)
  return tf.TensorSpec(shape, dtype)


def _words(shape: str) -> list[str]:
  return shape.split(",") if shape.strip() else []


def _dimension(word: str, match: re.Match[str]) -> int | None:
  if word == "?":
    return None
  if not word.isdecimal() or int(word) < 1:
    raise ValueError(
      f"dimension {word!r} of {match[0]!r} is neither a positive number nor ?; "
      "use one of them"
    )
  return int(word)
