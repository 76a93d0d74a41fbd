"""The graph that a session executed, put together from its partitions."""

from collections.abc import Iterable

from estimator_mp import devices as devices_lib
from estimator_mp.graph import op_types

import tensorflow as tf


class ExecutedGraph:
  """The nodes of all partitions, whose sends and receives are seen through.

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

    Of a node that receives: what was sent to it.

    Args:
      name: The node.
    """
    node = self.nodes[name]
    if node.op in op_types.RECEIVES:
      source = self._sent.get(node.attr["tensor_name"].s)
      return [source] if source is not None else []
    return [_split_output(x) for x in node.input if not x.startswith("^")]


def _split_output(name: str) -> tuple[str, int]:
  """Returns the node and the number of an output: "split:1", "add"."""
  node, _, output = name.partition(":")
  return node, int(output or 0)
