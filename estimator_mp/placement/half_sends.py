"""Half-precision sends: the activations that stages send in half precision.

A stage reads an activation of another one by two casts, one on either side, and
so the gradient comes back. Each micro-batch, replica and shard has casts of its
own, as it has copies of the layers. Megatron-LM's `pipeline_dtype` is the same
choice for models that are written for it.

Sent unchanged: tensors that depend on no variable (features, labels, masks) or
on no example (variables, penalties on weights), scalars, other dtypes, and
tensors that are read or made inside of a v1 cond or loop.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from estimator_mp.graph import control_flow, op_types
from estimator_mp.placement.transfers import Reader

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class HalfSend:
  """An activation that is cast before it is sent.

  Attributes:
    tensor: The activation.
    source: Its stage.
    destination: The stage that reads it.
    readers: The inputs of ops that read it there.
  """

  tensor: tf.Tensor
  source: int
  destination: int
  readers: tuple[Reader, ...]


def find_half_sends(
  ops: Sequence[tf.Operation],
  stages: Mapping[tf.Operation, int],
  devices: Sequence[str],
  inputs: Iterable[tf.Tensor],
) -> list[HalfSend]:
  """Returns the activations that stages are to send in half precision.

  Args:
    ops: The ops of a step, in the order in which they were made.
    stages: The stages of ops.
    devices: The device of each stage.
    inputs: Features and labels.
  """
  conditional = control_flow.ops_in_branches(ops) | control_flow.ops_in_loops(
    ops
  )
  activations = _activations(ops, inputs)
  readers: dict[tuple[str, int], list[Reader]] = {}
  tensors: dict[str, tf.Tensor] = {}
  for op in ops:
    if op not in stages or op in conditional:
      continue
    for index, tensor in enumerate(op.inputs):
      source = tensor.op
      if source not in activations or source in conditional:
        continue
      if tensor.dtype != tf.float32 or tensor.shape.rank == 0:
        continue
      if source in stages and devices[stages[source]] != devices[stages[op]]:
        key = (tensor.name, stages[op])
        tensors[tensor.name] = tensor
        readers.setdefault(key, []).append(Reader(op, index))
  return [
    HalfSend(tensors[name], stages[tensors[name].op], stage, tuple(of_stage))
    for (name, stage), of_stage in readers.items()
  ]


def _activations(
  ops: Sequence[tf.Operation], inputs: Iterable[tf.Tensor]
) -> set[tf.Operation]:
  """Returns the ops that compute something of both inputs and variables."""
  of_inputs: set[tf.Operation] = {tensor.op for tensor in inputs}
  of_variables: set[tf.Operation] = set()
  for op in ops:
    before = {tensor.op for tensor in op.inputs}
    if not of_inputs.isdisjoint(before):
      of_inputs.add(op)
    if op_types.is_variable(op) or not of_variables.isdisjoint(before):
      of_variables.add(op)
  return of_inputs & of_variables
