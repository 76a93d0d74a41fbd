"""Live memory: how many bytes of tensors a step held at once on each device.

A tensor is alive from the end of the op that made it until the end of the last
op that reads it. Ops that hand a buffer on, as Reshape and most element-wise
ops do, have the same address as output and input, so that the buffer counts
once. A tensor that was received counts on both devices, from when it was made.

Left out are variables and constants, which live longer than a step, and what no
output shows: the scratch memory inside of kernels, and the contents of
TensorLists.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from estimator_mp.graph import op_types
from estimator_mp.observe import executed_graph, step_trace

import tensorflow as tf

# A run of a node: when it ended, and the bytes and address of its outputs.
_Run = tuple[float, Mapping[int, tuple[int, int]]]


def peak_live_bytes(
  metadata: tf.compat.v1.RunMetadata, devices: Sequence[str]
) -> list[int]:
  """Returns the most bytes that were alive at once on each of some devices.

  Args:
    metadata: What a traced step returned, with step_stats and
      partition_graphs.
    devices: Canonical names of devices.
  """
  graph = executed_graph.ExecutedGraph(metadata.partition_graphs)
  runs = _runs(metadata)
  return [_peak(graph, runs, device) for device in devices]


def _peak(
  graph: executed_graph.ExecutedGraph,
  runs: Mapping[tuple[str, str], list[_Run]],
  device: str,
) -> int:
  """Returns the most bytes alive at once on a device."""
  here = [name for name in graph.nodes if graph.device_of[name] == device]
  readers: dict[tuple[str, int], list[list[_Run]]] = {}
  lasting = set()
  for name in here:
    node = graph.nodes[name]
    own_runs = runs.get((device, name), [])
    if node.op not in op_types.RECEIVES:
      for read in graph.inputs_of(name):
        readers.setdefault(read, []).append(own_runs)
    if node.op in op_types.LASTING:
      for _, outputs in own_runs:
        lasting |= {address for _, address in outputs.values()}
  buffers: dict[object, list[tuple[float, float, int]]] = {}
  for (name, output), reading in readers.items():
    source, source_output, source_device = name, output, device
    if graph.nodes[name].op in op_types.RECEIVES:
      ((source, source_output),) = graph.inputs_of(name)
      source_device = graph.device_of[source]
    elif graph.nodes[name].op in op_types.LASTING:
      continue
    made = runs.get((source_device, source), [])
    for index, (start, outputs) in enumerate(made):
      size, address = outputs.get(source_output, (0, 0))
      if size and address not in lasting:
        end = _last_read(start, reading, len(made) == 1)
        key = address or (name, output, index)
        buffers.setdefault(key, []).append((start, end, size))
  return step_trace.peak(
    [held for uses in buffers.values() for held in _merged(uses)]
  )


def _runs(
  metadata: tf.compat.v1.RunMetadata,
) -> dict[tuple[str, str], list[_Run]]:
  """Returns all runs of each node, by device and name, in order."""
  found: dict[tuple[str, str], list[_Run]] = {}
  for device, node in executed_graph.node_stats(metadata):
    outputs = {}
    for output in node.output:
      description = output.tensor_description
      if description.dtype != tf.resource.as_datatype_enum:
        outputs[output.slot] = _buffer(description)
    end = (node.all_start_nanos + node.op_end_rel_nanos) / 1000
    found.setdefault((device, node.node_name), []).append((end, outputs))
  for runs in found.values():
    runs.sort(key=lambda run: run[0])
  return found


def _buffer(description: Any) -> tuple[int, int]:
  """Returns the bytes and address of a tensor.

  A part of another tensor, such as a slice of a batch, is said to have the
  bytes of the whole, at an address of its own; it counts by its own bytes.
  """
  memory = description.allocation_description
  num_bytes = memory.requested_bytes
  dtype = tf.dtypes.as_dtype(description.dtype)
  if dtype.size > 0 and not description.shape.unknown_rank:
    elements = math.prod(dim.size for dim in description.shape.dim)
    num_bytes = min(num_bytes, elements * dtype.size)
  return num_bytes, memory.ptr


def _last_read(
  start: float, readers: Iterable[list[_Run]], made_once: bool
) -> float:
  """Returns when the last reader ended.

  What is made several times, in a loop, is read by the next run of each reader.
  """
  end = start
  for runs in readers:
    later = [ended for ended, _ in runs if ended >= start]
    if later:
      end = max(end, later[-1] if made_once else later[0])
  return end


def _merged(
  uses: list[tuple[float, float, int]],
) -> list[tuple[float, float, int]]:
  """Makes uses of one address at the same time one."""
  found: list[tuple[float, float, int]] = []
  for start, end, size in sorted(uses):
    if found and start < found[-1][1]:
      first, last, most = found[-1]
      found[-1] = (first, max(last, end), max(most, size))
    else:
      found.append((start, end, size))
  return found
