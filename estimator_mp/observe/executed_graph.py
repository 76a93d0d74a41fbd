"""The graph that a session executed, put together from its partitions.

TensorFlow cuts a graph into one partition per device, and puts a pair of a send
and a receive op into each edge that it cuts. Its optimizer works before that,
so an op may have another name than in the graph that was built.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from estimator_mp import devices as devices_lib
from estimator_mp.graph import op_types

import tensorflow as tf

_LOGGED_TRANSFER = "RecvTensor"


class ExecutedGraph:
  """The nodes of all partitions, connected over sends and receives.

  Attributes:
    nodes: The nodes by name, but for those that send.
    device_of: Their canonical devices.
  """

  def __init__(self, partition_graphs: Iterable[tf.compat.v1.GraphDef]):
    """Reads the partitions.

    Args:
      partition_graphs: `RunMetadata.partition_graphs` of a step.
    """
    self.nodes: dict[str, tf.compat.v1.NodeDef] = {}
    self.device_of: dict[str, str] = {}
    self._sent: dict[bytes, tuple[str, int]] = {}
    for partition in partition_graphs:
      for node in partition.node:
        if node.op in op_types.SENDS:
          name = node.attr["tensor_name"].s
          self._sent[name] = _split_output(node.input[0])
        else:
          self.nodes[node.name] = node
          device = devices_lib.canonical_device(node.device)
          self.device_of[node.name] = device

  def inputs_of(self, name: str) -> list[tuple[str, int]]:
    """Returns the nodes, and the numbers of their outputs, that a node reads.

    For a node that receives it is the sender's input.

    Args:
      name: The node.
    """
    node = self.nodes[name]
    if node.op in op_types.RECEIVES:
      source = self._sent.get(node.attr["tensor_name"].s)
      return [source] if source is not None else []
    return [_split_output(x) for x in node.input if not x.startswith("^")]


def node_stats(
  metadata: tf.compat.v1.RunMetadata,
) -> Iterator[tuple[str, Any]]:
  """Yields a canonical device name and a NodeExecStats for each run of an op.

  Left out are entries of a GPU's own tracer (streams, copies), without a task.
  So are entries for tensors that tasks of a cluster received from each other:
  these have no op, and no dtype.

  Args:
    metadata: The RunMetadata of a traced step.
  """
  for stats in metadata.step_stats.dev_stats:
    if stats.device.startswith("/job:"):
      device = devices_lib.canonical_device(stats.device)
      for node in stats.node_stats:
        if node.node_name != _LOGGED_TRANSFER:
          yield device, node


@dataclasses.dataclass(frozen=True)
class MeasuredTransfer:
  """The measured traffic from one device to another in a step.

  Attributes:
    op: The name of the op that made it, in the graph that was executed.
    output: Which of the op's outputs it is.
    source: The device that sent it.
    destination: The device that received it.
    is_signal: Whether it is no tensor of the model: a control dependency
      between devices travels as an empty tensor.
  """

  op: str
  output: int
  source: str
  destination: str
  is_signal: bool


def measured_transfers(
  partition_graphs: Iterable[tf.compat.v1.GraphDef],
) -> list[MeasuredTransfer]:
  """Returns the transfers between devices in an executed step.

  Args:
    partition_graphs: `RunMetadata.partition_graphs` of a step.
  """
  transfers = []
  for partition in partition_graphs:
    nodes = {node.name: node for node in partition.node}
    for node in partition.node:
      if node.op not in op_types.SENDS or node.attr["client_terminated"].b:
        continue
      source, destination = (
        devices_lib.canonical_device(node.attr[name].s.decode())
        for name in ("send_device", "recv_device")
      )
      if source != destination:
        name, output = _split_output(node.input[0])
        is_signal = _is_empty_constant(nodes[name])
        op = name.rpartition("/ctrl/")[0] if is_signal else name
        transfers.append(
          MeasuredTransfer(op, output, source, destination, is_signal)
        )
  return transfers


def _is_empty_constant(node: tf.compat.v1.NodeDef) -> bool:
  """Whether a node is the tensor that TensorFlow sends for a control edge."""
  if node.op != "Const" or "/ctrl/" not in node.name:
    return False
  shape = tf.TensorShape(node.attr["value"].tensor.tensor_shape)
  return bool(shape.num_elements() == 0)


def _split_output(name: str) -> tuple[str, int]:
  """Returns the node and the number of an output: "split:1", "add"."""
  node, _, output = name.partition(":")
  return node, int(output or 0)
