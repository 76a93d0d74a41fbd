"""The states of a stage: the ops that restore, save and initialize them.

The whole model's Saver restores all variables. A stage's restores those that
the stage has, from a checkpoint that has no others. The same ops assign them,
but the ops that read the checkpoint are made anew, with their names alone.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from estimator_mp.graph import op_types, traversal, variables
from estimator_mp.serving.whole_model import WholeModel

import tensorflow as tf

v1 = tf.compat.v1
# An entry of a checkpoint: the name of a variable, and the part of it; "" for
# all.
_Key = tuple[str, str]


@dataclasses.dataclass(frozen=True)
class StageStates:
  """The ops of a stage's states.

  Attributes:
    ops: The ops to copy from the whole graph.
    nodes: Nodes made anew, instead of ops of the same name.
    inputs: Tensors that are to be read instead of others, by their names.
    entries: The entries of the stage's checkpoint, with the dtypes.
    has_init: Whether the stage has anything to initialize.
  """

  ops: frozenset[tf.Operation]
  nodes: tuple[Any, ...]
  inputs: Mapping[str, str]
  entries: Mapping[_Key, tf.DType]
  has_init: bool

  @property
  def names(self) -> tuple[str, ...]:
    """The names of the variables in the checkpoint."""
    return tuple(sorted({name for name, _ in self.entries}))


def find(whole: WholeModel, ops: Iterable[tf.Operation]) -> StageStates:
  """Returns the ops that a stage needs for its states.

  Args:
    whole: The whole model.
    ops: The ops that the stage computes with.

  Raises:
    ValueError: If a variable or a table would be without a value.
  """
  ops = list(ops)
  graph = whole.graph
  saver = whole.meta_graph.saver_def
  restore, init = (
    traversal.walk([graph.get_operation_by_name(name)], traversal.sources)
    if name
    else iter(())
    for name in (saver.restore_op_name, whole.init_op)
  )
  restores, inits = list(_writes(restore)), list(_writes(init))
  states = {op for op in ops if _is_state(op)}
  while True:
    restoring, initializing = (
      sorted(
        (op for op, written in writes if states.intersection(written)),
        key=lambda op: str(op.name),
      )
      for writes in (restores, inits)
    )
    needed = set(traversal.walk(restoring + initializing, _sources_of_writes))
    more = {op for op in needed if _is_state(op)} - states
    if not more:
      break
    states |= more
  _check_written(ops, states, restores + inits)
  nodes: list[Any] = []
  entries: dict[_Key, tf.DType] = {}
  inputs: dict[str, str] = {}
  for op in sorted(needed, key=lambda op: op.name):
    if op.type == "RestoreV2":
      nodes += _partial_restore(op, needed, entries, inputs)
  if initializing:
    assert whole.init_op is not None
    nodes.append(_group(whole.init_op, initializing))
  if restoring:
    nodes.append(_group(saver.restore_op_name, restoring))
    saved = _saved(whole, {name for name, _ in entries})
    needed |= set(traversal.walk([x.op for x in saved.values()], _no_restores))
    file = graph.get_tensor_by_name(saver.filename_tensor_name)
    needed |= set(traversal.walk([file.op], traversal.sources))
    nodes += _save(saver, saved)
  remade = {node.name for node in nodes}
  return StageStates(
    frozenset(op for op in needed if op.name not in remade),
    tuple(nodes),
    inputs,
    entries,
    bool(initializing),
  )


def _is_state(op: tf.Operation) -> bool:
  """Whether an op makes a variable or a table."""
  scope = op_types.STATE_SCOPES.get(op.type)
  return scope is op_types.StateScope.SHARED


def _check_written(
  ops: Sequence[tf.Operation],
  states: set[tf.Operation],
  writes: Sequence[tuple[tf.Operation, list[tf.Operation]]],
) -> None:
  """Raises if a state that ops read never gets a value.

  Raises:
    ValueError: With the state.
  """
  written = {state for _, written_states in writes for state in written_states}
  for op in ops:
    for state in map(variables.variable_of, op.inputs):
      if state in states and state not in written:
        raise ValueError(
          f"{state.name} ({state.type}) has no value in the SavedModel: "
          "neither the Saver nor local_init_op gives it one; let the "
          "Scaffold's Saver save it"
        )


def _writes(
  ops: Iterator[tf.Operation],
) -> Iterator[tuple[tf.Operation, list[tf.Operation]]]:
  """Yields those ops that write states, with these."""
  for op in ops:
    states = variables.written_variables(op)
    if states:
      yield op, states


def _sources_of_writes(op: tf.Operation) -> list[tf.Operation]:
  """Returns the sources of an op; of one that reads a checkpoint, the file.

  The names of the entries that it reads are made anew.
  """
  if op.type == "RestoreV2":
    return [op.inputs[0].op, *op.control_inputs]
  return traversal.sources(op)


def _no_restores(op: tf.Operation) -> list[tf.Operation]:
  return [] if op.type in op_types.RESTORES else traversal.sources(op)


def _partial_restore(
  op: tf.Operation,
  readers: set[tf.Operation],
  entries: dict[_Key, tf.DType],
  inputs: dict[str, str],
) -> list[Any]:
  """Returns nodes that restore those of an op's outputs that have readers."""
  names, slices = (_texts(tensor) for tensor in op.inputs[1:3])
  read = [
    index
    for index, tensor in enumerate(op.outputs)
    if readers.intersection(tensor.consumers())
  ]
  for new, old in enumerate(read):
    inputs[op.outputs[old].name] = f"{op.name}:{new}"
    entries[names[old], slices[old]] = op.outputs[old].dtype
  keys = [(names[index], slices[index]) for index in read]
  dtypes = [op.outputs[index].dtype for index in read]
  consts = _key_consts(op.name, keys)
  node = v1.NodeDef(name=op.name, op=op.type)
  node.input[:] = [_short(op.inputs[0].name), *(x.name for x in consts)]
  node.attr["dtypes"].list.type[:] = [x.as_datatype_enum for x in dtypes]
  return [*consts, node]


def _saved(whole: WholeModel, names: set[str]) -> dict[_Key, tf.Tensor]:
  """Returns the tensors that the whole Saver saves of some variables."""
  start = whole.meta_graph.saver_def.save_tensor_name
  op = whole.graph.get_tensor_by_name(start).op
  tensors: dict[_Key, tf.Tensor] = {}
  for save in traversal.walk([op], traversal.sources):
    if save.type == "SaveV2":
      keys = zip(*(_texts(x) for x in save.inputs[1:3]), strict=True)
      for key, tensor in zip(keys, save.inputs[3:], strict=True):
        if key[0] in names:
          tensors[key] = tensor
  return tensors


def _save(saver: Any, saved: Mapping[_Key, tf.Tensor]) -> list[Any]:
  """Returns nodes that save some variables."""
  name = saver.save_tensor_name.partition(":")[0]
  file = _short(saver.filename_tensor_name)
  consts = _key_consts(f"{name}/of_stage", [*saved])
  save = v1.NodeDef(name=f"{name}/of_stage", op="SaveV2")
  values = [_short(tensor.name) for tensor in saved.values()]
  save.input[:] = [file, *(x.name for x in consts), *values]
  dtypes = [x.dtype.base_dtype.as_datatype_enum for x in saved.values()]
  save.attr["dtypes"].list.type[:] = dtypes
  end = v1.NodeDef(name=name, op="Identity")
  end.input[:] = [file, f"^{save.name}"]
  end.attr["T"].type = tf.string.as_datatype_enum
  return [*consts, save, end]


def _key_consts(name: str, keys: Sequence[_Key]) -> list[Any]:
  """Returns nodes with the names in a checkpoint, and with their parts."""
  with tf.Graph().as_default():
    return [
      tf.constant(
        [key[index] for key in keys], tf.string, [len(keys)], f"{name}/{part}"
      ).op.node_def
      for index, part in enumerate(("tensor_names", "shape_and_slices"))
    ]


def _texts(tensor: tf.Tensor) -> list[str]:
  """Returns the texts that a constant holds."""
  values = tf.make_ndarray(tensor.op.get_attr("value"))
  return [x.decode() for x in values.flatten()]


def _group(name: str, ops: Sequence[tf.Operation]) -> Any:
  """Returns the node of an op that waits for others."""
  node = v1.NodeDef(name=name, op="NoOp")
  node.input[:] = [f"^{op.name}" for op in ops]
  return node


def _short(tensor: str) -> str:
  """Returns the name of a tensor as nodes have it."""
  return tensor.removesuffix(":0")


def copy_checkpoint(
  source: str, target: str, entries: Mapping[_Key, tf.DType]
) -> None:
  """Copies some variables of a checkpoint into a new one.

  Args:
    source: The path of the checkpoint, without the suffixes of its files.
    target: That of the new one.
    entries: The entries to copy, with the dtypes.
  """
  whole = {name for name, part in entries if not part}
  keys = [key for key in entries if not key[1] or key[0] not in whole]
  names, parts = zip(*keys, strict=True)
  with tf.Graph().as_default(), tf.device("/cpu:0"):
    values = tf.raw_ops.RestoreV2(
      prefix=source,
      tensor_names=names,
      shape_and_slices=parts,
      dtypes=[entries[key] for key in keys],
    )
    save = tf.raw_ops.SaveV2(
      prefix=target, tensor_names=names, shape_and_slices=parts, tensors=values
    )
    with v1.Session() as session:
      session.run(save)
