"""The model axis: a finished graph becomes one of shards of its variables.

What is in the graph of model_fn is split over the devices of the model axis by
the same propagation, and made by the same instantiation, as for slices of the
batch. Here the roots are handles of variables:

    MatMul(x, Shard(1))         -> Shard(1)      a layer that is split by columns
    MatMul(Shard(1), Shard(0))  -> Partial(SUM)  and one by rows after it

as in Megatron-LM (Shoeybi et al., 2019, arXiv:1909.08053), updates of the shards
and of their slots among them. What comes out is a finished graph again, of which
slices of the batch know nothing but the devices.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence

from estimator_mp.analysis.symbolic_shapes import SymbolicShapes
from estimator_mp.graph import (
  batch_inputs,
  frames,
  op_types,
  traversal,
  variables,
)
from estimator_mp.graph.frames import Frames
from estimator_mp.graph.ledger import Ledger
from estimator_mp.lower.instantiation import Fetch, Instantiation
from estimator_mp.lower.splitting import operands, shards
from estimator_mp.model_axis import decisions
from estimator_mp.model_axis.rules.table import TABLE
from estimator_mp.propagate.layouts import Partition, Shard
from estimator_mp.propagate.propagation import Propagation, is_without_state

import tensorflow as tf

Splits = Mapping[tf.Operation, decisions.Shard]


@dataclasses.dataclass(frozen=True)
class SplitGraph:
  """What has become of a graph.

  Attributes:
    fetches: What stands for what a step runs.
    made_for: The ops that were made, with the plain ones for which they are,
      and the number of the part.
    handles: The variables of the shards, with that of which each is one, and
      its number.
  """

  fetches: Sequence[Fetch]
  made_for: Mapping[tf.Operation, tuple[tf.Operation, int]]
  handles: Mapping[tf.Operation, tuple[tf.Operation, int]]


def with_slots(
  splits: Splits, ops: Sequence[tf.Operation]
) -> dict[tf.Operation, decisions.Shard]:
  """Returns splits of variables, and of the slots that are updated with them.

  Args:
    splits: How variables are split, by their ops.
    ops: Those of a step.
  """
  found = dict(splits)
  is_new = True
  while is_new:
    is_new = False
    for op in ops:
      handles = [x for x in op.inputs if x.dtype == tf.resource]
      used = [variables.variable_of(x) for x in handles]
      known = [found[x] for x in used if x in found]
      if not known or op_types.is_call(op):
        continue
      shape = tf.TensorShape(used[0].get_attr("shape"))
      for other in used:
        if other not in found and other.type == "VarHandleOp":
          if tf.TensorShape(other.get_attr("shape")) == shape:
            found[other] = known[0]
            is_new = True
  return found


def split(
  inputs: Sequence[batch_inputs.Input],
  fetches: Sequence[Fetch],
  splits: Splits,
  count: int,
  devices_of: Callable[[tf.Operation], Sequence[str]],
  given: Collection[tf.Operation] = (),
) -> SplitGraph:
  """Splits variables of a finished graph, and what is computed of them.

  Args:
    inputs: Features and labels that have examples.
    fetches: What a step runs.
    splits: How variables are split, by their ops.
    count: How many devices share them.
    devices_of: Returns the devices of an op's parts; "" if it has none.
    given: Further ops to be partitioned, that no step runs.
  """
  graph = fetches[0].graph
  every = graph.get_operations()
  live = traversal.ops_run_with(*fetches)
  splits = with_slots(splits, [op for op in every if op in live])
  starts = [
    op
    for op in variables.initial_writes()
    if any(variables.variable_of(x) in splits for x in op.inputs[:1])
  ]
  reads = [
    reader
    for variable in splits
    for reader in variable.outputs[0].consumers()
    if reader.type == "ReadVariableOp"
  ]
  live = traversal.ops_run_with(*fetches, *starts, *reads, *given)
  of_frames = Frames(every)
  ops = frames.in_order([op for op in every if op in live], of_frames)
  shapes = SymbolicShapes(inputs, of_frames)
  shapes.add(ops)
  fetched = {x.name for x in fetches if isinstance(x, tf.Tensor)}
  layouts = _propagate(ops, splits, shapes, of_frames, fetched)
  while whole := _read_whole(ops, layouts, splits):
    splits = {x: how for x, how in splits.items() if x not in whole}
    layouts = _propagate(ops, splits, shapes, of_frames, fetched)
  tensors = operands.Operands(TABLE, devices_of, Ledger(graph))
  writes: dict[tf.Operation, Sequence[tf.Operation]] = {}
  of_shards = shards.Shards(tensors, writes)
  handles = {
    variable: of_shards.make(variable, how) for variable, how in splits.items()
  }
  dense = (
    x for x in inputs if not isinstance(x.value, batch_inputs.COMPOSITES)
  )
  made = Instantiation(
    graph,
    shapes,
    layouts,
    (),
    [[i] for i in range(count)],
    next(((x.value, x.axis) for x in dense), None),
    lambda op, part: devices_of(op)[part],
    of_frames,
    scope="part",
  )
  for variable, of_one in handles.items():
    made.stand_for(variable, [x.name for x in of_one])
  made.add([op for op in ops if op not in splits])
  made.redirect(
    [
      op
      for op in every
      if not any(
        x.dtype == tf.resource and variables.variable_of(x) in splits
        for x in op.inputs
      )
    ]
  )
  starts = [op for op in starts if op in layouts.parts]
  found = made.apply(fetches, starts)
  for op in starts:
    writes[op] = [x for x in made.copies(op) if x is not None]
  of_shards.replace_in_collections()
  return SplitGraph(
    found,
    made.made(),
    {
      handle: (variable, number)
      for variable, of_one in handles.items()
      for number, handle in enumerate(of_one)
    },
  )


def _may_be_in_parts(op: tf.Operation, splits: Splits) -> bool:
  """Whether parts may execute an op, if its rule says so."""
  if is_without_state(op):
    return True
  handles = [x for x in op.inputs if x.dtype == tf.resource]
  used = [variables.variable_of(x) for x in handles]
  return bool(used) and all(x in splits for x in used)


def _propagate(
  ops: Sequence[tf.Operation],
  splits: Splits,
  shapes: SymbolicShapes,
  of_frames: Frames,
  fetched: Collection[str],
) -> Propagation:
  """Returns the layouts of tensors over the devices of the model axis."""
  roots = {
    variable.outputs[0].name: Shard(
      how.axis, Partition(sum(how.sizes), tuple(how.sizes))
    )
    for variable, how in splits.items()
  }
  found = Propagation(
    shapes,
    roots,
    frozenset(op for op in ops if _may_be_in_parts(op, splits)),
    fetched=fetched,
    frames=of_frames,
  )
  found.run(ops)
  return found


def _read_whole(
  ops: Sequence[tf.Operation], layouts: Propagation, splits: Splits
) -> set[tf.Operation]:
  """Returns variables that an op works on of which there are no parts.

  Those that are updated together with one of them are among them.
  """
  found: set[tf.Operation] = set()
  together: list[set[tf.Operation]] = []
  for op in ops:
    used = {
      index: variable
      for index, x in enumerate(op.inputs)
      if x.dtype == tf.resource
      and (variable := variables.variable_of(x)) in splits
    }
    how = layouts.parts.get(op)
    for index, variable in used.items():
      own = layouts.layout(op.inputs[index])
      if how is None or how.reads[index] != own or not isinstance(own, Shard):
        found.add(variable)
    if len(used) > 1:
      together.append({*used.values()})
  is_new = bool(found)
  while is_new:
    new = {x for group in together if group & found for x in group}
    is_new = not new <= found
    found |= new
  return found
