"""A step's trace for chrome://tracing and https://ui.perfetto.dev.

The format is the Trace Event Format: a process per device, with the cells on a
thread per stage, and the kernels below.
"""

from collections.abc import Iterator
from typing import Any

from estimator_mp.observe import step_trace


def to_dict(trace: step_trace.StepTrace) -> dict[str, Any]:
  """Returns the value of the JSON file.

  Args:
    trace: The trace.
  """
  threads = trace.schedule.num_stages if trace.schedule is not None else 0
  events = [_cell_event(span) for span in trace.spans]
  for index, device in enumerate(trace.devices):
    if trace.num_replicas > 1:
      device = f"replica {trace.replica_of(index)}: {device}"
    events.append(_name("process_name", index, 0, device))
    events += [
      _name("thread_name", index, stage, f"stage {stage}")
      for stage in trace.stages_of(index)
    ]
    events += _kernel_events(trace, index, threads)
  return {
    "displayTimeUnit": "ms",
    "otherData": {"summary": trace.summary()},
    "traceEvents": events,
  }


def _name(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
  return {
    "ph": "M",
    "name": kind,
    "pid": process,
    "tid": thread,
    "args": {"name": name},
  }


def _event(
  name: str, category: str, where: tuple[int, int], span: Any, **args: Any
) -> dict[str, Any]:
  """Returns the event of a span on a device and a thread of it."""
  return {
    "ph": "X",
    "name": name,
    "cat": category,
    "pid": where[0],
    "tid": where[1],
    "ts": span.start,
    "dur": span.end - span.start,
    "args": args,
  }


def _cell_event(span: step_trace.CellSpan) -> dict[str, Any]:
  phase, cell = span.cell.phase.name.lower(), span.cell
  return _event(
    f"{phase} {cell.micro_batch}",
    phase,
    (span.device, cell.stage),
    span,
    stage=cell.stage,
    micro_batch=cell.micro_batch,
    busy_us=span.busy,
  )


def _kernel_events(
  trace: step_trace.StepTrace, device: int, first_thread: int
) -> Iterator[dict[str, Any]]:
  """Yields the kernels of a device, simultaneous ones on several threads."""
  kernels = [kernel for kernel in trace.kernels if kernel.device == device]
  lanes = step_trace.lanes([(kernel.start, kernel.end) for kernel in kernels])
  for lane in sorted(set(lanes)):
    yield _name("thread_name", device, first_thread + lane, f"kernels {lane}")
  for kernel, lane in zip(kernels, lanes, strict=True):
    cell = {} if kernel.cell is None else {"cell": str(kernel.cell)}
    where = (device, first_thread + lane)
    yield _event(kernel.op_type, "kernel", where, kernel, op=kernel.op, **cell)
