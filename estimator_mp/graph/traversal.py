"""Traversal: ancestors and descendants of ops of a graph.

A search is `walk` with a function that says where it goes on. The others are
the ways that are often taken.
"""

from collections.abc import (
  Callable,
  Collection,
  Hashable,
  Iterable,
  Iterator,
  Sequence,
)
from typing import TypeVar

from compat.private import graph_reads

import tensorflow as tf

_Item = TypeVar("_Item")
_Node = TypeVar("_Node", bound=Hashable)


def walk(
  start: Iterable[_Node],
  next_of: Callable[[_Node], Iterable[_Node]],
  seen: Collection[_Node] = (),
) -> Iterator[_Node]:
  """Yields the nodes that can be reached, each once.

  Args:
    start: Where to begin; these are yielded, too.
    next_of: Returns where a node leads to. It is asked after the node was
      yielded, and so the caller may still give the place of that.
    seen: The nodes that are not yielded, and that no way leads through.

  Yields:
    The nodes, of those that were found the last one first.
  """
  visited = set(seen)
  todo = list(start)
  while todo:
    node = todo.pop()
    if node not in visited:
      visited.add(node)
      yield node
      todo.extend(next_of(node))


def sources(op: tf.Operation) -> list[tf.Operation]:
  """Returns the ops that one reads from or waits for."""
  return [*[tensor.op for tensor in op.inputs], *control_inputs(op)]


def control_inputs(op: tf.Operation) -> list[tf.Operation]:
  """Returns the control inputs of an op, in an order that is always the same.

  TensorFlow has a set of them, in whatever order their addresses have.
  """
  waits = op.control_inputs
  return sorted(waits, key=lambda x: x.name) if len(waits) > 1 else waits


def inputs(op: tf.Operation) -> list[tf.Operation]:
  """Returns the ops that an op reads from."""
  return [tensor.op for tensor in op.inputs]


def tensor_of_name(graph: tf.Graph, name: str) -> tf.Tensor:
  """Returns the tensor of a name, "op:0"; a handle, too.

  For a program, the name of a reference variable is its value, also where it is
  a resource (`compat.private.reference_variables`).
  """
  op, _, index = name.rpartition(":")
  return graph.get_operation_by_name(op).outputs[int(index)]


def consumers(op: tf.Operation) -> list[tf.Operation]:
  """Returns the ops that read from an op."""
  return [reader for tensor in op.outputs for reader in tensor.consumers()]


def in_order(
  ops: Collection[tf.Operation],
  sources: Callable[[tf.Operation], Iterable[tf.Operation]] = sources,
) -> list[tf.Operation]:
  """Returns ops so that each comes after those that it reads or waits for.

  A graph's own order is not always like that: a tensor that a v1 cond reads
  from outside goes through a switch that is made after its reader.

  Args:
    ops: Some ops in the order of the graph, which they keep where they can; in
      a loop no op waits for the end of it.
    sources: Returns the ops that one comes after.
  """
  within = set(ops)
  seen: set[tf.Operation] = set()
  ordered: list[tf.Operation] = []
  for op in ops:
    todo = [] if op in seen else [(op, iter(sources(op)))]
    seen.add(op)
    while todo:
      reader, before = todo[-1]
      for x in before:
        if x in within and x not in seen:
          seen.add(x)
          todo.append((x, iter(sources(x))))
          break
      else:
        ordered.append(reader)
        todo.pop()
  return ordered


def ancestors(
  targets: Iterable[tf.Operation], within: Collection[tf.Operation]
) -> list[tf.Operation]:
  """Returns the ops that targets are computed from.

  Args:
    targets: Ops; those of them that are in `within` are among the result.
    within: The ops that count; no way through others is found.

  Returns:
    Those of `within`, in their order.
  """
  return _reached(targets, inputs, within)


def descendants(
  origins: Iterable[tf.Operation], within: Collection[tf.Operation]
) -> list[tf.Operation]:
  """Returns the ops that are computed from others.

  Args:
    origins: Ops; those of them that are in `within` are among the result.
    within: The ops that count; no way through others is found.

  Returns:
    Those of `within`, in their order.
  """
  return _reached(origins, consumers, within)


def _reached(
  start: Iterable[tf.Operation],
  next_of: Callable[[tf.Operation], Iterable[tf.Operation]],
  within: Collection[tf.Operation],
) -> list[tf.Operation]:
  """Returns the ops that can be reached from others within some ops."""
  inside = frozenset(within)
  first = inside.intersection(start)
  reached = set(walk(first, lambda op: inside.intersection(next_of(op))))
  return [op for op in within if op in reached]


def ops_run_with(*fetches: tf.Operation | tf.Tensor) -> set[tf.Operation]:
  """Returns the ops that run if some are asked for, these among them.

  Args:
    *fetches: Ops of a graph, or tensors that they make.
  """
  return set(walk((getattr(x, "op", x) for x in fetches), sources))


class Loops:
  """The loops of TensorFlow 1 in a graph, each as a whole."""

  def __init__(self, ops: Iterable[tf.Operation]):
    """Finds the loops of ops."""
    self._ops: dict[int, list[tf.Operation]] = {}
    for op in ops:
      loop = graph_reads.outermost_loop(op)
      if loop is not None:
        self._ops.setdefault(id(loop), []).append(op)

  def ops_with(self, op: tf.Operation) -> Sequence[tf.Operation]:
    """Returns the ops of the outermost loop that an op is in; () if in none."""
    loop = graph_reads.outermost_loop(op)
    return () if loop is None else self._ops.get(id(loop), ())


def repeat_until_stable(
  visit: Callable[[_Item], bool], items: Collection[_Item]
) -> None:
  """Visits items in their order, again until a whole round changes nothing.

  Where no order is right, as loops feed back, and the `Switch` of a v1 cond is
  made after the op in the branch.

  Args:
    visit: Looks at an item once more; returns whether anything has changed.
    items: Ops, say, or edges.
  """
  while any([visit(item) for item in items]):
    pass
