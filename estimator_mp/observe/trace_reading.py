"""Reading a trace: a StepTrace from the RunMetadata of a traced step."""

import collections
from collections.abc import (
  Collection,
  Container,
  Iterable,
  Iterator,
  Mapping,
  Sequence,
)
from typing import Any, TypeAlias

from estimator_mp import mesh as mesh_lib
from estimator_mp.config import placement
from estimator_mp.config.schedules import schedule as schedule_lib
from estimator_mp.graph import op_types, traversal
from estimator_mp.observe import executed_graph, step_trace
from estimator_mp.planning import sharding_plan

import tensorflow as tf

# The replica of an op of a pipeline, and its cell.
_Place: TypeAlias = tuple[int, schedule_lib.Cell]
# A run of a node: when it ended, and the bytes and address of its outputs.
_Run = tuple[float, Mapping[int, tuple[int, int]]]


def read_trace(
  metadata: tf.compat.v1.RunMetadata,
  global_step: int,
  mesh: mesh_lib.Mesh,
  graph: tf.Graph,
) -> step_trace.StepTrace:
  """Returns the trace of an executed step.

  The times of ops on a GPU are those in which the host launched them. An op
  that the graph does not have was made by the session's optimizer, and belongs
  to the cell of its inputs.

  Args:
    metadata: The RunMetadata of the step, which ran with
      `RunOptions(trace_level=FULL_TRACE, output_partition_graphs=True)`.
    global_step: The step.
    mesh: The devices; those of the graph's pipeline, if it has one.
    graph: The graph that the session ran.

  Returns:
    The trace.

  Raises:
    ValueError: If nothing was recorded on the devices.
  """
  devices = mesh.devices_by_stage
  plan = sharding_plan.pipeline_of(graph)
  known_ops = {op.name for op in graph.get_operations()}
  cells = _cells(metadata, plan, known_ops) if plan is not None else {}
  kernels = sorted(
    _kernels(metadata, devices, cells, plan), key=lambda k: (k.start, k.end)
  )
  if not kernels:
    raise ValueError(
      f"step {global_step} has no trace of {', '.join(devices)}; run it with "
      "RunOptions(trace_level=FULL_TRACE, output_partition_graphs=True)"
    )
  sent_bytes: collections.Counter[tuple[str, str]] = collections.Counter()
  for sent in sent_tensors(metadata, devices):
    sent_bytes[sent.source, sent.destination] += sent.num_bytes
  return step_trace.StepTrace(
    global_step,
    devices,
    tuple(kernels),
    plan.schedule if plan is not None else None,
    sent_bytes,
    tuple(peak_live_bytes(metadata, devices)),
    mesh.axis_size("model"),
  )


def _kernels(
  metadata: tf.compat.v1.RunMetadata,
  devices: Sequence[str],
  cells: Mapping[str, _Place],
  plan: sharding_plan.PipelinePlan | None,
) -> Iterator[step_trace.Kernel]:
  """Yields the kernels of the devices; the step begins at 0."""
  all_stats = [
    (devices.index(device), node)
    for device, node in executed_graph.node_stats(metadata)
    if device in devices
  ]
  begin = min((node.all_start_nanos for _, node in all_stats), default=0)
  for device, node in all_stats:
    # Only a label such as "a = Add(b)" has it.
    op_type = node.timeline_label.partition(" = ")[2].partition("(")[0]
    if op_type in op_types.NO_WORK:
      continue
    replica, cell = cells.get(node.node_name, (0, None))
    if cell is not None and plan is not None:
      stage = plan.schedule.device_of(cell.stage)
      of_stage = plan.mesh.model_devices(data=replica, stage=stage)
      if devices[device] not in of_stage:
        cell = None
    start = node.all_start_nanos - begin
    yield step_trace.Kernel(
      node.node_name,
      op_type,
      device,
      (start + node.op_start_rel_nanos) / 1000,
      (start + node.op_end_rel_nanos) / 1000,
      cell,
    )


def _cells(
  metadata: tf.compat.v1.RunMetadata,
  plan: sharding_plan.PipelinePlan,
  known_ops: Container[str],
) -> dict[str, _Place]:
  """Returns the replica and cell of each executed op that has one.

  Ops of functions that were inlined begin with the name of the op that called
  the function. Other ops that the graph does not have were made by the
  session's optimizer. If a cell reads from them, they belong to the last cell
  that they read from, or else to the first that reads from them.
  """
  graph = executed_graph.ExecutedGraph(metadata.partition_graphs)
  planned = {
    name: (replica, cell)
    for replica, of_replica in enumerate(plan.cells)
    for name, cell in of_replica.items()
  }
  cells = dict(planned)
  unknown = set()
  for name in graph.nodes:
    if name not in known_ops and name not in cells:
      caller = _caller(name, planned)
      if caller:
        cells[name] = planned[caller]
      else:
        unknown.add(name)
  readers = _cells_that_read(graph, cells, unknown)
  done: dict[str, _Place | None] = {}

  def cell_of(name: str) -> _Place | None:
    if name not in readers:
      return cells.get(name)
    if name not in done:
      done[name] = None  # A loop leads back to it.
      sources = [cell_of(source) for source, _ in graph.inputs_of(name)]
      last = max(filter(None, sources), key=_progress, default=None)
      done[name] = last or min(readers[name], key=_progress)
    return done[name]

  for name in readers:
    cell = cell_of(name)
    if cell is not None:
      cells[name] = cell
  return cells


def _caller(name: str, ops: Container[str]) -> str:
  """Returns the longest scope of a name that is one of some ops, or ""."""
  scope = name.rpartition("/")[0]
  while scope and scope not in ops:
    scope = scope.rpartition("/")[0]
  return scope


def _cells_that_read(
  graph: executed_graph.ExecutedGraph,
  cells: Mapping[str, _Place],
  unknown: Container[str],
) -> dict[str, set[_Place]]:
  """Returns the cells that read from unknown ops, if only through others."""

  def before(reader: tuple[str, _Place]) -> list[tuple[str, _Place]]:
    name, cell = reader
    sources = [source for source, _ in graph.inputs_of(name)]
    return [(source, cell) for source in sources if source in unknown]

  readers: dict[str, set[_Place]] = {}
  known = [(name, cells[name]) for name in graph.nodes if name in cells]
  for name, cell in traversal.walk(known, before):
    if name in unknown:
      readers.setdefault(name, set()).add(cell)
  return readers


def _progress(place: _Place) -> tuple[int, int]:
  """Returns a number that grows on a micro-batch's way through the stages."""
  _, cell = place
  if cell.phase is schedule_lib.Phase.FORWARD:
    return (0, cell.stage)
  return (int(cell.phase), -cell.stage)


def sent_tensors(
  metadata: tf.compat.v1.RunMetadata, devices: Collection[str]
) -> list[placement.Transfer]:
  """Returns the tensors that devices sent each other in a step.

  The signals of control dependencies, which have no bytes, are left out.

  Args:
    metadata: The RunMetadata of a traced step, with step_stats and
      partition_graphs.
    devices: Canonical names of the devices.

  Returns:
    One transfer per tensor and receiving device; names are those of the
    executed graph. A tensor that a loop sends again counts all of its bytes.
  """
  num_bytes: collections.Counter[tuple[str, str, int]] = collections.Counter()
  for device, node in executed_graph.node_stats(metadata):
    for output in node.output:
      size = _tensor_bytes(output.tensor_description)
      num_bytes[device, node.node_name, output.slot] += size
  return [
    placement.Transfer(
      f"{sent.op}:{sent.output}",
      sent.source,
      sent.destination,
      num_bytes[sent.source, sent.op, sent.output],
    )
    for sent in executed_graph.measured_transfers(metadata.partition_graphs)
    if {sent.source, sent.destination} <= {*devices} and not sent.is_signal
  ]


def _tensor_bytes(description: Any) -> int:
  """Returns the bytes of a tensor that a TensorDescription describes.

  Those of its memory, if they do not follow from shape and dtype.
  """
  elements = tf.TensorShape(description.shape).num_elements()
  size = tf.dtypes.as_dtype(description.dtype).size
  if not size or elements is None:
    return int(description.allocation_description.requested_bytes)
  return int(elements * size)


def peak_live_bytes(
  metadata: tf.compat.v1.RunMetadata, devices: Sequence[str]
) -> list[int]:
  """Returns the most bytes that were alive at once on each of some devices.

  A tensor is alive from the end of the op that made it until the end of the
  last op that reads it. Ops that hand a buffer on, as Reshape and most
  element-wise ops do, have the same address as output and input, so that the
  buffer counts once. A tensor that was received counts on both devices, from
  when it was made.

  Left out are variables and constants, which live longer than a step, and
  memory that is no output: scratch memory of kernels, and the contents of
  TensorLists.

  Args:
    metadata: The RunMetadata of a traced step, with step_stats and
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
    runs_here = runs.get((device, name), [])
    if node.op not in op_types.RECEIVES:
      for read in graph.inputs_of(name):
        readers.setdefault(read, []).append(runs_here)
    if node.op in op_types.LASTING:
      for _, outputs in runs_here:
        lasting |= {address for _, address in outputs.values()}
  buffers: dict[object, list[tuple[float, float, int]]] = {}
  for (name, output), reading in readers.items():
    source, source_output, source_device = name, output, device
    if graph.nodes[name].op in op_types.RECEIVES:
      ((source, source_output),) = graph.inputs_of(name)
      source_device = graph.device_of[source]
    elif graph.nodes[name].op in op_types.LASTING:
      continue
    writes = runs.get((source_device, source), [])
    for index, (start, outputs) in enumerate(writes):
      size, address = outputs.get(source_output, (0, 0))
      if size and address not in lasting:
        end = _last_read(start, reading, len(writes) == 1)
        key = address or (name, output, index)
        buffers.setdefault(key, []).append((start, end, size))
  return step_trace.peak(
    [use for uses in buffers.values() for use in _merged(uses)]
  )


def _runs(
  metadata: tf.compat.v1.RunMetadata,
) -> dict[tuple[str, str], list[_Run]]:
  """Returns all runs of each node, by device and name, in order."""
  runs_of: dict[tuple[str, str], list[_Run]] = {}
  for device, node in executed_graph.node_stats(metadata):
    outputs = {}
    for output in node.output:
      description = output.tensor_description
      if description.dtype != tf.resource.as_datatype_enum:
        outputs[output.slot] = _buffer(description)
    end = (node.all_start_nanos + node.op_end_rel_nanos) / 1000
    runs_of.setdefault((device, node.node_name), []).append((end, outputs))
  for of_node in runs_of.values():
    of_node.sort(key=lambda run: run[0])
  return runs_of


def _buffer(description: Any) -> tuple[int, int]:
  """Returns the bytes and address of a tensor.

  A part of another tensor, such as a slice of a batch, is said to have the
  bytes of the whole, at an address of its own; it counts by its own bytes.
  """
  memory = description.allocation_description
  return min(memory.requested_bytes, _tensor_bytes(description)), memory.ptr


def _last_read(
  start: float, readers: Iterable[list[_Run]], made_once: bool
) -> float:
  """Returns when the last reader ended.

  A tensor that a loop makes again is read by the next run of each reader.
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
  merged: list[tuple[float, float, int]] = []
  for start, end, size in sorted(uses):
    if merged and start < merged[-1][1]:
      first, last, most = merged[-1]
      merged[-1] = (first, max(last, end), max(most, size))
    else:
      merged.append((start, end, size))
  return merged
