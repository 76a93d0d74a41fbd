"""Traversal: what leads to ops of a graph, and what comes of them.

A search is `walk` with a function that says where it goes on. The others are
the ways that are often taken.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeVar

import tensorflow as tf

_Node = TypeVar("_Node")


def walk(
  start: Iterable[_Node], next_of: Callable[[_Node], Iterable[_Node]]
) -> Iterator[_Node]:
  """Yields what can be reached, each once.

  Args:
    start: Where to begin; these are yielded, too.
    next_of: Returns where a node leads to. It is asked after the node was
      yielded, and so whoever gets it may still change its edges.

  Yields:
    The nodes, the last one that was found first.
  """
  seen: set[_Node] = set()
  todo = list(start)
  while todo:
    node = todo.pop()
    if node not in seen:
      seen.add(node)
      yield node
      todo.extend(next_of(node))


def sources(op: tf.Operation) -> list[tf.Operation]:
  """Returns what an op reads from or waits for."""
  return [*inputs(op), *op.control_inputs]


def inputs(op: tf.Operation) -> list[tf.Operation]:
  """Returns the ops that an op reads from."""
  return [tensor.op for tensor in op.inputs]


def consumers(op: tf.Operation) -> list[tf.Operation]:
  """Returns the ops that read from an op."""
  return [reader for tensor in op.outputs for reader in tensor.consumers()]


def ancestors(
  targets: Iterable[tf.Operation], within: Collection[tf.Operation]
) -> set[tf.Operation]:
  """Returns the ops that targets are computed from, by their inputs.

  Args:
    targets: Ops; those of them that are in `within` are among the result.
    within: The ops that count; no way through others is found.
  """
  return _reached(targets, inputs, within)


def descendants(
  origins: Iterable[tf.Operation], within: Collection[tf.Operation]
) -> set[tf.Operation]:
  """Returns the ops that are computed from others, by their inputs.

  Args:
    origins: Ops; those of them that are in `within` are among the result.
    within: The ops that count; no way through others is found.
  """
  return _reached(origins, consumers, within)


def _reached(
  start: Iterable[tf.Operation],
  next_of: Callable[[tf.Operation], Iterable[tf.Operation]],
  within: Collection[tf.Operation],
) -> set[tf.Operation]:
  """Returns what can be reached from ops without leaving some ops."""
  inside = frozenset(within)
  first = inside.intersection(start)
  return set(walk(first, lambda op: inside.intersection(next_of(op))))


def ops_run_with(*ops: tf.Operation) -> set[tf.Operation]:
  """Returns the ops that run if some are asked for, these among them.

  Args:
    *ops: Ops of a graph.
  """
  return set(walk(ops, sources))


def tensors_before(
  tensors: Iterable[tf.Tensor],
  is_end: Callable[[tf.Tensor], bool] = lambda tensor: False,
) -> Iterator[tf.Tensor]:
  """Yields tensors, and whatever they are computed from, each once.

  Args:
    tensors: Where to begin.
    is_end: Whether what a tensor is computed from does not matter.

  Yields:
    The tensors, ends among them.
  """
  known: dict[str, tf.Tensor] = {}  # A tensor itself has no hash.

  def names(found: Iterable[tf.Tensor]) -> list[str]:
    known.update((tensor.name, tensor) for tensor in found)
    return [tensor.name for tensor in found]

  def inputs_of(name: str) -> list[str]:
    tensor = known[name]
    return [] if is_end(tensor) else names(tensor.op.inputs)

  for name in walk(names(list(tensors)), inputs_of):
    yield known[name]


def repeat_until_stable(
  visit: Callable[[_Node], bool], nodes: Collection[_Node]
) -> None:
  """Visits nodes in their order, again until a whole round changes nothing.

  Where no order is right, as loops feed back, and the `Switch` of a v1 cond is
  made after the op in the branch.

  Args:
    visit: Looks at a node once more; returns whether anything has changed.
    nodes: The nodes.
  """
  while any([visit(node) for node in nodes]):
    pass
