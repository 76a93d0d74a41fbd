"""The SavedModel of a stage: its ops, its variables, its signatures."""

import collections
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from estimator_mp import devices
from estimator_mp.graph import op_types, traversal
from estimator_mp.graph.calls import functions
from estimator_mp.serving import stage_states
from estimator_mp.serving.steps import Step
from estimator_mp.serving.whole_model import WholeModel

import tensorflow as tf
from tensorflow.core.framework import variable_pb2
from tensorflow.core.protobuf import saved_model_pb2

v1 = tf.compat.v1
_OURS = "estimator_mp/serving"
_METHOD = "tensorflow/serving/predict"
_COLOCATED = b"loc:@"
_MAIN = "saved_model_main_op"
_COLLECTIONS = ("variables", "trainable_variables")


class StageModel:
  """Makes the SavedModel of one stage."""

  def __init__(
    self,
    whole: WholeModel,
    steps: Sequence[Step],
    repeated: Iterable[tf.Operation],
  ):
    """Decides which ops it has.

    Args:
      whole: The whole model.
      steps: All steps of the stage, of all signatures.
      repeated: The ops that each stage has that reads them.
    """
    self._whole = whole
    self._steps = steps
    repeated = set(repeated)
    computed = {op for step in steps for op in step.ops}
    fetched = {self._op(name) for step in steps for name in step.sent}

    def sources(op: tf.Operation) -> list[tf.Operation]:
      return [x for x in traversal.sources(op) if x in repeated]

    ops = set(traversal.walk([*computed, *fetched], sources))
    self._states = stage_states.find(whole, ops)
    ops |= self._states.ops
    self._variables = self._variables_of({op.name for op in ops})
    for variable in itertools.chain(*self._variables.values()):
      read = whole.graph.get_tensor_by_name(variable.snapshot_name).op
      ops.update(traversal.walk([read], traversal.sources))
    self._names = {op.name for op in ops}
    remade = {node.name for node in self._states.nodes}
    self._nodes = [
      node
      for node in whole.meta_graph.graph_def.node
      if node.name in self._names and node.name not in remade
    ]
    self._names |= remade
    self._received = {
      name: self._received_node(name)
      for step in steps
      for name in step.received
      if name.startswith("^") or self._op(name).name not in self._names
    }
    self._meta_graph = v1.MetaGraphDef()

  @property
  def variables(self) -> tuple[str, ...]:
    """The names of its variables in the checkpoint."""
    return self._states.names

  def add_signature(
    self, name: str, step: Step, keys: Mapping[str, str]
  ) -> None:
    """Adds the signature of a step.

    Args:
      name: Its name.
      step: The step.
      keys: The caller's names for the tensors that it gives, by tensor.
    """
    signature = self._meta_graph.signature_def[name]
    signature.method_name = _METHOD
    for tensor in step.received:
      info = signature.inputs[keys.get(tensor, tensor)]
      node = self._received.get(tensor)
      self._fill(info, tensor, f"{node.name}:0" if node else tensor)
    for tensor in step.sent:
      is_signal = tensor.startswith("^")
      here = f"{_signal(tensor)}:0" if is_signal else tensor
      self._fill(signature.outputs[tensor], tensor, here)

  def _fill(self, info: Any, tensor: str, name: str) -> None:
    """Enters the type of a tensor, and its name here, in a signature."""
    spec = self._whole.spec(tensor)
    info.name = name
    info.dtype = tf.as_dtype(spec.dtype).as_datatype_enum
    info.tensor_shape.CopyFrom(tf.TensorShape(spec.shape).as_proto())

  def write(self, folder: str) -> int:
    """Writes the SavedModel.

    Args:
      folder: A new folder.

    Returns:
      How many devices it needs.

    Raises:
      ValueError: If an op of it runs Python.
    """
    tf.io.gfile.makedirs(folder)
    source, meta_graph = self._whole.meta_graph, self._meta_graph
    meta_graph.meta_info_def.CopyFrom(source.meta_info_def)
    graph_def = meta_graph.graph_def
    graph_def.versions.CopyFrom(source.graph_def.versions)
    graph_def.node.extend(self._received.values())
    graph_def.node.extend(self._node_here(node) for node in self._nodes)
    graph_def.node.extend(self._states.nodes)
    graph_def.node.extend(self._signals())
    num_devices = _renumber_devices(graph_def.node)
    _copy_functions(source.graph_def.library, graph_def)
    _check_no_python(graph_def)
    self._add_collections()
    if self._states.entries:
      self._write_variables(folder)
    self._copy_assets(folder)
    saved_model = saved_model_pb2.SavedModel(saved_model_schema_version=1)
    saved_model.meta_graphs.append(meta_graph)
    path = os.path.join(folder, "saved_model.pb")
    with tf.io.gfile.GFile(path, "wb") as file:
      file.write(saved_model.SerializeToString(deterministic=True))
    return num_devices

  def _op(self, name: str) -> tf.Operation:
    """Returns the op of a tensor, or the one that is waited for."""
    graph = self._whole.graph
    if name.startswith("^"):
      return graph.get_operation_by_name(name[1:])
    return graph.get_tensor_by_name(name).op

  def _received_node(self, name: str) -> Any:
    """Returns the node of a placeholder for a tensor sent to the stage."""
    op = self._op(name)
    if op.type == "Placeholder":
      nodes = self._whole.meta_graph.graph_def.node
      return next(node for node in nodes if node.name == op.name)
    with tf.Graph().as_default():
      if name.startswith("^"):
        return v1.placeholder(tf.bool, [], _waited(name)).op.node_def
      tensor = self._whole.graph.get_tensor_by_name(name)
      here = f"{_OURS}/received/{op.name}/{tensor.value_index}"
      dtype = tensor.dtype.base_dtype
      return v1.placeholder(dtype, tensor.shape, here).op.node_def

  def _node_here(self, node: Any) -> Any:
    """Returns a node of the whole graph as it is in the stage's."""
    here = v1.NodeDef()
    here.CopyFrom(node)
    here.input[:] = [self._input_here(node.name, name) for name in node.input]
    if "_class" in here.attr:
      groups = here.attr["_class"].list.s
      present = [
        x for x in groups if x.removeprefix(_COLOCATED).decode() in self._names
      ]
      groups[:] = present
      if not present:
        del here.attr["_class"]
    return here

  def _input_here(self, reader: str, name: str) -> str:
    """Returns an input of a node as it is in the stage's graph."""
    if name.startswith("^"):
      op = self._whole.graph.get_operation_by_name(reader)
      waits = any(
        op in step.ops for step in self._steps if name in step.received
      )
      return f"^{_waited(name)}" if waits else name
    tensor = name if ":" in name else f"{name}:0"
    if tensor in self._received:
      return str(self._received[tensor].name)
    return self._states.inputs.get(tensor, name)

  def _signals(self) -> list[Any]:
    """Returns nodes that say that an op has run."""
    nodes = []
    names = {
      name for step in self._steps for name in step.sent if name[0] == "^"
    }
    for name in sorted(names):
      with tf.Graph().as_default():
        node = tf.constant(True, name=_signal(name)).op.node_def
      node.input.append(name)
      nodes.append(node)
    return nodes

  def _variables_of(self, names: set[str]) -> dict[str, list[Any]]:
    """Returns the protos of those variables that have these names, as listed.

    They are by collection.
    """
    collections = self._whole.meta_graph.collection_def
    by_key = {}
    for key in _COLLECTIONS:
      listed = collections[key].bytes_list.value
      protos = map(variable_pb2.VariableDef.FromString, listed)
      by_key[key] = [x for x in protos if _name(x.variable_name) in names]
    return by_key

  def _add_collections(self) -> None:
    """Lists the variables, and the op that initializes other states."""
    restored = {
      _name(node.input[0]): node.name
      for node in self._nodes
      if node.op in op_types.ASSIGNS
    }
    for key, variables in self._variables.items():
      for variable in variables:
        initializer = restored.get(_name(variable.variable_name))
        if initializer:
          # The first value in training is no part of the stage.
          variable.initializer_name = initializer
          variable.ClearField("initial_value_name")
          added = self._meta_graph.collection_def[key].bytes_list.value
          added.append(variable.SerializeToString(deterministic=True))
    if self._states.has_init:
      names = self._meta_graph.collection_def[_MAIN].node_list.value
      names.append(self._whole.init_op)

  def _write_variables(self, folder: str) -> None:
    """Writes the checkpoint, and says how it is restored."""
    self._meta_graph.saver_def.CopyFrom(self._whole.meta_graph.saver_def)
    self._meta_graph.saver_def.sharded = False
    target = os.path.join(folder, "variables")
    tf.io.gfile.makedirs(target)
    stage_states.copy_checkpoint(
      self._whole.variables_prefix,
      os.path.join(target, "variables"),
      self._states.entries,
    )

  def _copy_assets(self, folder: str) -> None:
    """Copies the files that tables of the stage are read from."""
    for asset in self._whole.assets:
      if _name(asset.tensor_info.name) in self._names:
        self._meta_graph.asset_file_def.append(asset)
        source, target = (
          os.path.join(x, "assets") for x in (self._whole.folder, folder)
        )
        tf.io.gfile.makedirs(target)
        tf.io.gfile.copy(
          os.path.join(source, asset.filename),
          os.path.join(target, asset.filename),
          overwrite=True,
        )


def _name(tensor: str) -> str:
  """Returns the name of the op of a tensor."""
  return tensor.partition(":")[0]


def _signal(name: str) -> str:
  """Returns the name of the node that says that an op has run."""
  return f"{_OURS}/done/{name[1:]}"


def _waited(name: str) -> str:
  """Returns the name of the placeholder for such a node's signal."""
  return f"{_OURS}/waited/{name[1:]}"


def _renumber_devices(nodes: Iterable[Any]) -> int:
  """Numbers the devices of a stage from 0; returns how many there are.

  Args:
    nodes: The nodes of its graph. They have devices only if it keeps its split
      over a `model` axis.
  """
  nodes = list(nodes)
  full = {name: devices.full_device(name) for name in {x.device for x in nodes}}
  named = [name for name in {*full.values()} if name is not None]
  counts = collections.Counter[str]()
  here: dict[str | None, str] = {}
  for name in sorted(named, key=lambda x: int(x.rpartition(":")[2])):
    kind = devices.device_type(name)
    here[name] = f"/device:{kind}:{counts[kind]}"
    counts[kind] += 1
  for node in nodes:
    node.device = here.get(full[node.device], "")
  return max(counts.values(), default=1)


def _copy_functions(library: Any, graph_def: Any) -> None:
  """Copies the functions that a graph runs."""
  by_name = {x.signature.name: x for x in library.function}
  gradients = {x.function_name: x for x in library.gradient}

  def called(nodes: Iterable[Any]) -> list[str]:
    names = [x.name for node in nodes for x in functions.functions_of(node)]
    return [x for x in [*names, *(node.op for node in nodes)] if x in by_name]

  start = called(graph_def.node)
  for name in sorted(
    traversal.walk(start, lambda name: called(by_name[name].node_def))
  ):
    graph_def.library.function.append(by_name[name])
    if name in gradients:
      graph_def.library.gradient.append(gradients[name])


def _check_no_python(graph_def: Any) -> None:
  """Raises if an op of a graph, or of one of its functions, runs Python.

  Raises:
    ValueError: With the op.
  """
  bodies = [x.node_def for x in graph_def.library.function]
  for nodes in [graph_def.node, *bodies]:
    for node in nodes:
      if node.op in op_types.CALLS_PYTHON:
        raise ValueError(
          f"{node.name} ({node.op}) runs a Python function, which no other "
          "process has; use TensorFlow's ops in PREDICT instead"
        )
