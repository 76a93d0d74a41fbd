"""The terms of a loss that adds examples up.

A penalty on weights is there once per batch. Micro-batches that are added up
would count it once each, so only the first one may count it.
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

_ADDS = frozenset(["Add", "AddN", "AddV2", "Sub"])
_KEEPS = frozenset(["Identity", "Mul", "Neg", "RealDiv"])


@dataclasses.dataclass(frozen=True)
class SumTerms:
  """What a sum over examples consists of.

  Attributes:
    sums: Tensors that are sums over examples themselves, the loss first.
    shared: Where terms that do not depend on examples are added: ops and the
      numbers of their inputs.
  """

  sums: list[tf.Tensor]
  shared: list[tuple[tf.Operation, int]]


def sum_terms(
  loss: tf.Tensor, differs: Callable[[tf.Tensor], bool]
) -> SumTerms:
  """Returns the terms of a loss.

  Args:
    loss: A sum over examples, and of terms that do not depend on them.
    differs: Whether a tensor depends on examples.
  """
  found = SumTerms([], [])
  todo = [loss]
  seen: set[str] = set()
  while todo:
    tensor = todo.pop()
    if tensor.name in seen:
      continue
    seen.add(tensor.name)
    found.sums.append(tensor)
    op = tensor.op
    varying = [differs(x) for x in op.inputs]
    if op.type in _ADDS:
      found.shared.extend((op, i) for i, v in enumerate(varying) if not v)
    elif op.type not in _KEEPS or sum(varying) != 1:
      continue  # Not linear in one term.
    if op.type != "RealDiv" or varying[0]:
      todo += [x for x, v in zip(op.inputs, varying, strict=True) if v]
  return found
