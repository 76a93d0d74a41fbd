"""Same ops: ops of a graph that compute the same.

A program computes the same value several times: each layer of BERT makes the
bias of its attention scores of the same mask.
"""

import functools
from collections.abc import Hashable

from compat.private import op_registry
from estimator_mp.graph import feeds, op_types

import tensorflow as tf

# A larger constant is only the same as itself: to read its value is to copy it.
# So is one that the program may feed.
_MOST_ELEMENTS = 1024


class SameOps:
  """The first of the ops that compute the same, by value numbering.

  Ops compute the same if types, devices, attributes and inputs are the same.
  """

  def __init__(self) -> None:
    self._firsts: dict[tf.Operation, tf.Operation] = {}
    self._alike: dict[Hashable, list[tf.Operation]] = {}

  def first(self, op: tf.Operation) -> tf.Operation:
    """Returns the first op that was seen to compute the same as an op.

    Args:
      op: An op of a graph, whose ancestors are looked at, too.
    """
    todo = [op]
    while todo:
      seen = todo.pop()
      if seen in self._firsts:
        continue
      if not is_pure(seen):
        self._firsts[seen] = seen
        continue
      before = [x.op for x in seen.inputs if x.op not in self._firsts]
      if before:
        todo += [seen, *before]
      else:
        self._firsts[seen] = self._find(seen)
    return self._firsts[op]

  def _find(self, op: tf.Operation) -> tf.Operation:
    """Returns the first of the same ops, if those of inputs are known."""
    # Another device may round in another way.
    kind: list[Hashable] = [op.type, op.device]
    kind += [(self._firsts[x.op], x.value_index) for x in op.inputs]
    if not op.inputs:
      is_large = (op.outputs[0].shape.num_elements() or 0) > _MOST_ELEMENTS
      if is_large or (op.type == "Const" and not feeds.can_be_copied(op)):
        return op
      kind.append(_attributes(op))
    alike = self._alike.setdefault(tuple(kind), [])
    for other in alike:  # There is hardly ever any.
      if _attributes(other) == _attributes(op):
        return other
    alike.append(op)
    return op


def _attributes(op: tf.Operation) -> frozenset[tuple[str, bytes]]:
  """Returns the attributes of an op that change its result."""
  return frozenset(
    (name, value.SerializeToString(deterministic=True))
    for name, value in op.node_def.attr.items()
    if not name.startswith("_")
  )


def is_pure(op: tf.Operation) -> bool:
  """Whether the results of an op follow from its inputs alone.

  Args:
    op: An op. Those of a v1 cond or loop depend on the branch taken, too.
  """
  return (
    _is_pure_type(op.type)
    and not op.control_inputs
    and not any(map(op_types.is_reference, op.inputs))
  )


@functools.cache
def _is_pure_type(op_type: str) -> bool:
  """Whether the results of a type's ops follow from their inputs alone."""
  return not (
    op_registry.is_stateful(op_type)
    or op_type in op_types.PLACEHOLDERS
    or op_type in op_types.V1_CONTROL_FLOW
  )
