"""Snippets: a few ops, written in TensorFlow and traced once, as definitions.

`Definitions.add_snippet` adds them as often as there are ops to make of them,
which costs no more than to copy as many ops.
"""

import dataclasses
import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import tensorflow as tf

_PART = re.compile(r"/job:part/(?:replica:0/)?task:(\d+)")


@dataclasses.dataclass(frozen=True)
class Snippet:
  """Ops, and the parts of an axis on whose devices they are.

  Attributes:
    nodes: The ops, each after those that it reads.
    parts: The number of the part that each is for.
    inputs: The names of the ops that stand for inputs.
    outputs: The names of the results, in the order of `tf.nest.flatten`.
    structure: The results, with anything in their places.
  """

  nodes: tuple[Any, ...]
  parts: tuple[int, ...]
  inputs: tuple[str, ...]
  outputs: tuple[str, ...]
  structure: Any


_traced: dict[Hashable, Snippet] = {}


def on_part(number: int) -> Any:
  """A context, in a function that is traced, for ops of a part."""
  return tf.device(f"/job:part/task:{number}")


def each(
  function: Callable[..., tf.Tensor], *parts: Sequence[tf.Tensor]
) -> list[tf.Tensor]:
  """Returns the result of a function for each part, on its device.

  Args:
    function: It is called with the tensors of each part.
    *parts: For each argument the tensors of parts.
  """
  results = []
  for number, arguments in enumerate(zip(*parts, strict=True)):
    with on_part(number):
      results.append(function(*arguments))
  return results


def trace(
  function: Callable[..., Any], dtypes: Sequence[tf.DType], key: Hashable
) -> Snippet:
  """Returns the ops that a function makes.

  Args:
    function: It is called with tensors of unknown shapes; ops outside of
      `on_part` are for the first part.
    dtypes: The dtypes of the tensors.
    key: Of two functions with an equal one, the first is traced for both.
  """
  key = key, *dtypes
  if key not in _traced:
    with tf.Graph().as_default() as graph, on_part(0):
      inputs = [tf.compat.v1.placeholder(dtype) for dtype in dtypes]
      result = function(*inputs)
    names = tuple(x.op.name for x in inputs)
    ops = [op for op in graph.get_operations() if op.name not in names]
    _traced[key] = Snippet(
      tuple(op.node_def for op in ops),
      tuple(_part_of(op) for op in ops),
      names,
      tuple(x.name for x in tf.nest.flatten(result)),
      tf.nest.map_structure(lambda x: x.name, result),
    )
  return _traced[key]


def _part_of(op: tf.Operation) -> int:
  match = _PART.match(op.device)
  assert match is not None, op.device
  return int(match[1])
