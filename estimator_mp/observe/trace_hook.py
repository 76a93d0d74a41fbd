"""TraceHook: traces some steps of a session, and draws them."""

import json
import os
from collections.abc import Callable, Iterable

from estimator_mp import mesh as mesh_lib
from estimator_mp.observe import (
  chrome_trace,
  drawing,
  gantt,
  step_trace,
  trace_reading,
  traced_steps,
)
from estimator_mp.planning import sharding_plan

import tensorflow as tf


class TraceHook(traced_steps.TracedSteps):
  """Writes traces of some steps.

  Of global step 20 it writes `step_20.png` and `step_20.svg`, a picture with a
  row per device; `step_20.json`, for chrome://tracing; and a line to the log. A
  traced step is slower than others, and the first step of a session is no
  example of them.

  Attributes:
    traces: The traces so far.
  """

  def __init__(
    self,
    steps: Iterable[int],
    directory: str,
    mesh: mesh_lib.Mesh | None = None,
    write: Callable[[str], None] = tf.compat.v1.logging.info,
  ):
    """Makes a hook.

    Args:
      steps: Global steps, from 1 on: step n is the one that makes global_step
        n.
      directory: Where to write; made when it is needed.
      mesh: The devices to trace; by default those of the graph's pipeline.
      write: Takes the lines.

    Raises:
      ValueError: If a step is below 1, the directory is a file, or matplotlib
        is not installed.
    """
    super().__init__(steps, self._draw)
    if self._steps:
      drawing.check_available()
    if self._steps and os.path.isfile(directory):
      raise ValueError(
        f"directory={directory!r} is a file, and TraceHook writes into a "
        "folder; give it another one, or move the file away"
      )
    self._directory = directory
    self._mesh = mesh
    self._write = write
    self.traces: list[step_trace.StepTrace] = []

  def begin(self) -> None:
    """Finds the graph, its global step and its devices.

    Raises:
      ValueError: If there is no pipeline, and no mesh was given.
    """
    super().begin()
    self._graph = tf.compat.v1.get_default_graph()
    plan = sharding_plan.pipeline_of(self._graph)
    if plan is not None:
      self._mesh = plan.mesh
    if self._mesh is None:
      raise ValueError(
        "TraceHook found no pipeline in the graph, so it does not know the "
        "devices; give it their mesh: TraceHook(steps, directory, mesh)"
      )

  def _draw(self, step: int, metadata: tf.compat.v1.RunMetadata) -> None:
    assert self._mesh is not None
    trace = trace_reading.read_trace(metadata, step, self._mesh, self._graph)
    self.traces.append(trace)
    self._write(trace.summary())
    for path in write_trace(trace, self._directory):
      self._write(f"  {path}")


def write_trace(trace: step_trace.StepTrace, directory: str) -> list[str]:
  """Writes a trace as a PNG, an SVG and Chrome's JSON.

  Args:
    trace: The trace.
    directory: Where to; made if it does not exist.

  Returns:
    The paths: step_N.png, step_N.svg and step_N.json.
  """
  os.makedirs(directory, exist_ok=True)
  name = f"step_{trace.global_step}"
  paths = gantt.write_pictures(trace, directory, name)
  paths.append(os.path.join(directory, f"{name}.json"))
  with open(paths[-1], "w", encoding="utf-8") as file:
    json.dump(chrome_trace.to_dict(trace), file)
  return paths
