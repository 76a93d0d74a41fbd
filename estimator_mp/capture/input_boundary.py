"""The boundary between a model and its input pipeline.

    tf.data -> IteratorGetNext -> ops of input_fn -> slices | the model

Ops left of it run anew for each batch, before the model reads any of it. A
tensor that crosses the boundary may wait on the devices of its readers before
the step begins that reads it. It is the same then, if nothing in the input
depends on when it runs.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from compat.private import op_registry
from estimator_mp import devices
from estimator_mp.graph import op_types, traversal

import tensorflow as tf

# Tensors, and of each the ops that read it, with the numbers of their inputs.
Reads: TypeAlias = Sequence[
  tuple[tf.Tensor, Sequence[tuple[tf.Operation, int]]]
]

_OFF = "leave prefetch_inputs out"
_ON_HOST = (tf.string, tf.variant, tf.resource)
# They are stateful, but do the same whenever they run.
_ANY_TIME = (
  op_types.ITERATOR_READS
  | op_types.ITERATORS
  | op_types.REPORTS
  | op_types.FIXED_TABLES
)


@dataclasses.dataclass(frozen=True)
class Boundary:
  """Tensors and ops at the boundary.

  Attributes:
    getters: The ops that take elements from iterators.
    host: The device of the first of them.
    reads: The tensors that cross, each with the ops and inputs that read it, by
      the device where the tensors are to be.
    waits: The ops of the model that wait for ops of the input.
    awaited: Those ops of the input.
  """

  getters: tuple[tf.Operation, ...]
  host: str
  reads: Mapping[str, Reads]
  waits: tuple[tf.Operation, ...]
  awaited: tuple[tf.Operation, ...]


def ops_of_input(
  leaves: Collection[tf.Tensor], slicing: Collection[tf.Operation]
) -> tuple[tf.Operation, ...]:
  """Returns the ops that are anew for each batch, before a model is built.

  Args:
    leaves: Features and labels, whole.
    slicing: The ops that cut them.

  Raises:
    ValueError: If nothing of them comes from an iterator, or an op would give
      another result before the step than in it.
  """
  run = traversal.ops_run_with(*leaves, *slicing)
  graph = tf.compat.v1.get_default_graph()
  before = [op for op in graph.get_operations() if op in run]
  of_input = {op for op in before if op.type in op_types.ITERATOR_READS}
  if not of_input:
    raise ValueError(
      "prefetch_inputs=True takes elements of tf.data before the step that "
      "needs them, but features and labels are not from tf.data; return a "
      f"tf.data.Dataset from input_fn, or {_OFF}"
    )

  def visit(op: tf.Operation) -> bool:
    if op in of_input or of_input.isdisjoint(traversal.sources(op)):
      return False
    of_input.add(op)
    return True

  traversal.repeat_until_stable(visit, before)
  _check_any_time(of_input, slicing)
  return tuple(op for op in before if op in of_input)


def _check_any_time(
  of_input: Collection[tf.Operation], slicing: Collection[tf.Operation]
) -> None:
  """Raises if it matters when the ops of the input run.

  Args:
    of_input: The ops.
    slicing: Those that cut the batch; they are not fed.
  """
  cuts = set(slicing)
  run = traversal.ops_run_with(*of_input)
  makers = {
    reader
    for op in run
    if op.type in op_types.ITERATORS
    for reader in traversal.consumers(op)
    if reader.type == "MakeIterator"
  }
  changing = {
    op
    for op in traversal.ops_run_with(*makers)
    if op.type in op_types.VARIABLES or op.type.startswith("Mutable")
  }
  changing.update(
    op
    for op in run
    if (op.type in op_types.PLACEHOLDERS and op not in cuts)
    or (op_registry.definition_of(op).is_stateful and op.type not in _ANY_TIME)
  )
  if changing:
    op = min(changing, key=lambda op: op.name)
    raise ValueError(
      "prefetch_inputs=True runs input_fn's ops before the step that needs "
      f"them, and {op.name} ({op.type}) may give another result then; move it "
      f"into tf.data's functions, without variables, or {_OFF}"
    )


def find(of_input: Sequence[tf.Operation]) -> Boundary:
  """Returns the tensors and waits across the boundary in the default graph.

  Args:
    of_input: The result of `ops_of_input`.
  """
  inside = frozenset(of_input)
  getters = tuple(op for op in of_input if op.type in op_types.ITERATOR_READS)
  host = getters[0].device or "/device:CPU:0"
  reads: dict[str, dict[str, list[tuple[tf.Operation, int]]]] = {}
  tensors: dict[str, tf.Tensor] = {}
  waits: list[tf.Operation] = []
  awaited: set[tf.Operation] = set()
  for op in tf.compat.v1.get_default_graph().get_operations():
    if op in inside:
      continue
    for index, tensor in enumerate(op.inputs):
      if tensor.op in inside:
        tensors[tensor.name] = tensor
        readers = reads.setdefault(_place(op, tensor, host), {})
        readers.setdefault(tensor.name, []).append((op, index))
    before = inside.intersection(op.control_inputs)
    if before:
      waits.append(op)
      awaited |= before
  return Boundary(
    getters,
    host,
    MappingProxyType(
      {
        device: tuple((tensors[name], tuple(x)) for name, x in there.items())
        for device, there in reads.items()
      }
    ),
    tuple(waits),
    tuple(op for op in of_input if op in awaited),
  )


def _place(op: tf.Operation, tensor: tf.Tensor, host: str) -> str:
  """Returns where a tensor is to wait for an op that reads it.

  That is the device of the op; or that of the input, if the op has none yet, or
  the tensor can be in the memory of a host only.
  """
  place = devices.full_device(op.device) or host
  if devices.device_type(place) != "CPU" and tensor.dtype in _ON_HOST:
    return host
  return place
