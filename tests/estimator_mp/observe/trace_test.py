"""Traces: what a step really did, against a graph whose times are known."""

import itertools
import json
import os
from typing import Any

import estimator_mp
from estimator_mp import amounts
from estimator_mp.config import placement
from estimator_mp.config.schedules import orders
from estimator_mp.config.schedules import schedule as schedule_lib
from estimator_mp.observe import (
  chrome_trace,
  executed_graph,
  step_trace,
  trace_hook,
  trace_reading,
)
from estimator_mp.pipeline import simulation
from estimator_mp.planning import sharding_plan
from tests.estimator_mp.observe import simulated

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_FORWARD = schedule_lib.Phase.FORWARD
_BACKWARD = schedule_lib.Phase.BACKWARD
_ROWS, _COLUMNS = 32, 250
_TENSOR_BYTES = _ROWS * _COLUMNS * 4
# When a session began the steps whose times a test sets, and how long each op
# then waits until its kernel starts.
_EPOCH_NANOS, _WAIT_MICROS = 10**18, 7


def _kernel(device, start, end, cell=None):
  return step_trace.Kernel("op", "MatMul", device, start, end, cell)


def _trace(kernels, schedule=None, sent=None, live=(0, 0)):
  devices = ("/device:CPU:0", "/device:CPU:1")
  return step_trace.StepTrace(
    20, devices, tuple(kernels), schedule, sent or {}, live
  )


class StepTraceTest(parameterized.TestCase):
  def test_spans_and_busy_time(self):
    first = schedule_lib.Cell(0, 0, _FORWARD)
    second = schedule_lib.Cell(1, 0, _FORWARD)
    trace = _trace(
      [
        _kernel(0, 10, 30, first),
        _kernel(0, 20, 40, first),
        _kernel(0, 50, 60, first),
        _kernel(1, 60, 110, second),
        _kernel(1, 0, 500),
      ]
    )
    self.assertEqual(
      trace.spans,
      (
        step_trace.CellSpan(first, 0, 10, 60, ((10, 40), (50, 60))),
        step_trace.CellSpan(second, 1, 60, 110, ((60, 110),)),
      ),
    )
    self.assertEqual([span.busy for span in trace.spans], [40, 50])
    self.assertEqual(trace.busy_intervals(0), [(10, 40), (50, 60)])
    self.assertEqual(trace.makespan, 100)
    self.assertAlmostEqual(trace.bubble, 0.55)

  def test_without_pipeline_all_kernels_count(self):
    trace = _trace([_kernel(0, 0, 60), _kernel(1, 50, 100)])
    self.assertEqual(trace.makespan, 100)
    self.assertAlmostEqual(trace.bubble, 1 - 110 / 200)
    self.assertEqual(trace.live_micro_batches(), (0, 0))

  def test_the_bound_is_that_of_phases_as_long_as_those_that_ran(self):
    schedule = orders.make_schedule("zb1p", 2, 8)
    empty = _trace([_kernel(0, 0, 1)], schedule)
    self.assertAlmostEqual(empty.bubble_bound, 1 / 25)
    trace = simulated.trace(schedule, weight=3)
    self.assertAlmostEqual(
      trace.bubble_bound, simulation.simulate(schedule, 1, 2, 3).bubble
    )
    self.assertAlmostEqual(trace.bubble, trace.bubble_bound)

  def test_a_forward_without_backward_stays_live(self):
    kernels = [
      _kernel(0, 10 * m, 10 * m + 5, schedule_lib.Cell(0, m, _FORWARD))
      for m in range(3)
    ]
    self.assertEqual(_trace(kernels).live_micro_batches(), (3, 0))

  @parameterized.named_parameters(
    (
      "pipeline",
      orders.make_schedule("1f1b", 2, 2),
      "step 20: bubble 55% (bound 33%), 1.23 MB between stages, "
      "peak live 4.50/0.30 MB",
    ),
    (
      "none",
      None,
      "step 20: bubble 55% (no pipeline), 1.23 MB between stages, "
      "peak live 4.50/0.30 MB",
    ),
  )
  def test_line(self, schedule, expected):
    cell = None if schedule is None else schedule_lib.Cell(0, 0, _FORWARD)
    trace = _trace(
      [_kernel(0, 0, 90, cell), _kernel(0, 99, 100, cell)],
      schedule,
      {("a", "b"): 1_000_000, ("b", "a"): 230_000},
      (4_500_000, 300_000),
    )
    self.assertEqual(trace.summary(), expected.replace("55%", "54%"))

  def test_amounts_together(self):
    self.assertEqual(amounts.in_one_unit([1500, 20], "B"), "1.50/0.02 kB")
    self.assertEqual(amounts.in_one_unit([15, 20], "B"), "15/20 B")
    self.assertEqual(amounts.in_one_unit([0], "B"), "0 B")

  def test_peak_of_what_ends_when_another_starts(self):
    self.assertEqual(step_trace.peak([(0, 2, 5), (2, 3, 4), (1, 2, 1)]), 6)
    self.assertEqual(step_trace.peak([]), 0)

  def test_lanes(self):
    self.assertEqual(
      step_trace.lanes([(5, 9), (0, 5), (1, 3), (3, 6)]), [0, 0, 1, 1]
    )

  def test_chrome_trace(self):
    cell = schedule_lib.Cell(1, 0, _BACKWARD)
    schedule = orders.make_schedule("gpipe", 2, 1)
    trace = _trace(
      [_kernel(1, 1, 4, cell), _kernel(1, 2, 5)], schedule=schedule
    )
    facts = chrome_trace.to_dict(trace)
    whole: list[dict[str, Any]] = [
      event for event in facts["traceEvents"] if event["ph"] == "X"
    ]
    self.assertEqual(
      [(e["name"], e["pid"], e["tid"], e["ts"], e["dur"]) for e in whole],
      [
        ("backward 0", 1, 1, 1, 3),
        ("MatMul", 1, 2, 1, 3),
        ("MatMul", 1, 3, 2, 3),
      ],
    )
    names = {
      (event["pid"], event["tid"], event["args"]["name"])
      for event in facts["traceEvents"]
      if event["name"] == "thread_name"
    }
    self.assertEqual(
      names,
      {(0, 0, "stage 0"), (1, 1, "stage 1")}
      | {(1, 2, "kernels 0"), (1, 3, "kernels 1")},
    )


def _record_plan(graph, mesh, schedule, cells):
  """Records a plan as shard_model_fn does."""
  pipeline = sharding_plan.PipelinePlan(mesh, schedule, (cells,))
  plan = sharding_plan.ShardingPlan(placement.Placement(()), pipeline)
  sharding_plan.record_plan(graph, plan)


def _stateful(x):
  """Returns x, from an op that Grappler keeps though nobody fetches x."""
  passed = tf.compat.v1.py_func(lambda array: array, [x], tf.float32)
  passed.set_shape(x.shape)
  return passed


def _record_pipeline(name, num_stages, num_micro_batches, virtual=1):
  """Builds cells in the order of a schedule, and records them."""
  schedule = orders.make_schedule(name, num_stages, num_micro_batches, virtual)
  mesh = estimator_mp.Mesh.create(
    f"stage:{num_stages}", [f"/cpu:{k}" for k in range(num_stages)]
  )
  x = tf.compat.v1.placeholder(tf.float32, [None, _COLUMNS], name="x")
  outputs: dict[schedule_lib.Cell, tf.Tensor] = {}
  cells: dict[str, schedule_lib.Cell] = {}
  latest: dict[int, tf.Tensor] = {}
  graph = tf.compat.v1.get_default_graph()
  for cell, _ in schedule.running_order:
    device = schedule.device_of(cell.stage)
    inputs = [outputs[needed] for needed in schedule.inputs_of(cell)]
    before = len(graph.get_operations())
    with mesh.stage(device):
      waits = [latest[device].op] if device in latest else []
      with tf.control_dependencies(waits):
        value = tf.add_n(inputs) if inputs else tf.identity(x)
        value = _stateful(value)
        outputs[cell] = latest[device] = tf.exp(value * 1e-3)
    for op in graph.get_operations()[before:]:
      cells[op.name] = cell
  # As shard_model_fn records it, with devices that several stages share.
  mesh = mesh.with_virtual_stages(schedule.devices_of_stages)
  _record_plan(graph, mesh, schedule, cells)
  return tf.group(
    *(latest[k].op for k in range(num_stages)),
    tf.compat.v1.assign_add(tf.compat.v1.train.get_global_step(), 1).op,
  )


def _session_config(num_devices):
  config = estimator_mp.ShardingConfig(
    mesh=f"stage:{num_devices}",
    devices=tuple(f"/cpu:{k}" for k in range(num_devices)),
  )
  return estimator_mp.run_config(config).session_config


def _batch():
  values = np.random.default_rng(1).random((_ROWS, _COLUMNS), np.float32)
  return {"x:0": values}


def _run(train_op, hook, num_devices, steps):
  """Runs steps with a hook."""
  with tf.compat.v1.train.SingularMonitoredSession(
    [hook], config=_session_config(num_devices)
  ) as session:
    for _ in range(steps):
      session.run(train_op, _batch())


def _metadata_of_step(train_op, num_devices):
  """Returns what a session returns of a step that it traces."""
  metadata = tf.compat.v1.RunMetadata()
  run_options = tf.compat.v1.RunOptions
  options = run_options(
    trace_level=run_options.FULL_TRACE, output_partition_graphs=True
  )
  with tf.compat.v1.Session(config=_session_config(num_devices)) as session:
    session.run(tf.compat.v1.global_variables_initializer())
    session.run(train_op, _batch(), options, metadata)
  return metadata


def _set_times(metadata, times):
  """Gives what ran the times of a test.

  Args:
    metadata: What a traced step returned.
    times: From an op's name and its device to when it started and ended, in
      microseconds.
  """
  addresses = itertools.count(1)
  for device, node in executed_graph.node_stats(metadata):
    start, end = times(node.node_name, device)
    node.all_start_nanos = _EPOCH_NANOS + 1000 * int(start)
    node.op_start_rel_nanos = 1000 * _WAIT_MICROS
    node.op_end_rel_nanos = 1000 * (_WAIT_MICROS + int(end - start))
    # What had one address at different times may be alive at once now.
    for output in node.output:
      memory = output.tensor_description.allocation_description
      memory.ptr = next(addresses)


def _trace_as_simulated(*arguments):
  """Returns the trace of a step that a session ran, with simulated times.

  Args:
    *arguments: Of `_record_pipeline`.

  Returns:
    The trace, and the timeline that it has its times from.
  """
  with tf.Graph().as_default() as graph:
    tf.compat.v1.train.create_global_step()
    train_op = _record_pipeline(*arguments)
    metadata = _metadata_of_step(train_op, arguments[1])
    plan = sharding_plan.get_plan(graph).pipeline
  timeline = simulation.simulate(plan.schedule, 100, 200, 100)
  (cells,) = plan.cells

  def times(op, device):
    del device
    cell = cells.get(op)
    return (timeline.starts[cell], timeline.ends[cell]) if cell else (0, 0)

  _set_times(metadata, times)
  found = trace_reading.read_trace(metadata, 1, plan.mesh, graph)
  return found, timeline


class TraceHookTest(parameterized.TestCase):
  def test_pipeline(self):
    directory = self.create_tempdir().full_path
    lines = []
    with tf.Graph().as_default() as graph:
      tf.compat.v1.train.create_global_step()
      train_op = _record_pipeline("zbv", 2, 3, 2)
      hook = trace_hook.TraceHook([2], directory, write=lines.append)
      _run(train_op, hook, 2, steps=3)
      schedule = sharding_plan.get_plan(graph).pipeline.schedule
    (trace,) = hook.traces
    self.assertEqual(trace.global_step, 2)
    self.assertCountEqual([span.cell for span in trace.spans], schedule.cells())
    for span in trace.spans:
      self.assertEqual(span.device, schedule.device_of(span.cell.stage))
    for device, row in enumerate(schedule.rows):
      ran = [span.cell for span in trace.spans if span.device == device]
      self.assertEqual(tuple(ran), row)
    # Each boundary between devices is crossed once forward and once backward.
    boundaries = sum(
      one != other
      for one, other in itertools.pairwise(schedule.devices_of_stages)
    )
    crossings = 2 * boundaries * schedule.num_micro_batches
    self.assertEqual(trace.total_sent_bytes, crossings * _TENSOR_BYTES)
    self.assertEqual(lines[0], trace.summary())
    for ending in ("png", "svg", "json"):
      path = os.path.join(directory, f"step_2.{ending}")
      self.assertIn(f"  {path}", lines)
      self.assertGreater(os.path.getsize(path), 1000)
    with open(os.path.join(directory, "step_2.json"), encoding="utf-8") as file:
      events = json.load(file)["traceEvents"]
    self.assertLen(
      [e for e in events if e.get("cat") in ("forward", "backward", "weight")],
      len([*schedule.cells()]),
    )

  @parameterized.named_parameters(
    ("gpipe", ("gpipe", 2, 3)),
    ("1f1b", ("1f1b", 3, 4)),
    ("interleaved", ("interleaved", 2, 4, 2)),
    ("zb1p", ("zb1p", 2, 4)),
    ("zbv", ("zbv", 2, 3, 2)),
  )
  def test_times(self, arguments):
    """What a session says of a step whose cells ran as simulated."""
    trace, timeline = _trace_as_simulated(*arguments)
    self.assertEqual(
      {span.cell: (span.start, span.end) for span in trace.spans},
      {
        cell: (start + _WAIT_MICROS, timeline.ends[cell] + _WAIT_MICROS)
        for cell, start in timeline.starts.items()
      },
    )
    for span in trace.spans:
      self.assertEqual(span.busy, span.end - span.start)
    self.assertEqual(
      trace.live_micro_batches(),
      schedule_lib.live_micro_batches(trace.schedule),
    )
    self.assertAlmostEqual(trace.bubble, timeline.bubble)
    self.assertAlmostEqual(trace.bubble_bound, timeline.bubble)

  @parameterized.named_parameters(
    # All outputs of forwards; the first device has received a gradient, too.
    ("gpipe", "gpipe", (5, 5), (6, 5)),
    # Outputs of forwards, and the next input; for the first device that is the
    # batch, and it has received a gradient, too.
    ("1f1b", "1f1b", (2, 1), (4, 2)),
  )
  def test_peak_live_bytes_follow_the_schedule(self, name, live, tensors):
    """A device holds a forward's output for each live micro-batch."""
    trace, _ = _trace_as_simulated(name, 2, 5)
    self.assertEqual(trace.live_micro_batches(), live)
    self.assertEqual(
      trace.peak_live_bytes, tuple(n * _TENSOR_BYTES for n in tensors)
    )

  def test_no_pipeline(self):
    directory = self.create_tempdir().full_path
    mesh = estimator_mp.Mesh.create("stage:2", ["/cpu:0", "/cpu:1"])
    with tf.Graph().as_default():
      step = tf.compat.v1.train.create_global_step()
      x = tf.compat.v1.placeholder(tf.float32, [None, _COLUMNS], name="x")
      value: tf.Tensor = x
      for stage in range(2):
        with mesh.stage(stage):
          value = _stateful(value)
      train_op = tf.group(value, tf.compat.v1.assign_add(step, 1))
      hook = trace_hook.TraceHook([1, 2], directory, mesh)
      _run(train_op, hook, 2, steps=4)
    self.assertEqual([trace.global_step for trace in hook.traces], [1, 2])
    self.assertEqual(hook.traces[1].total_sent_bytes, _TENSOR_BYTES)
    self.assertContainsSubset(
      ["step_1.png", "step_2.json"], os.listdir(directory)
    )

  def test_ops_of_the_optimizer_belong_to_cells(self):
    """Grappler renames and adds ops: they count for the cell they work for."""
    with tf.Graph().as_default() as graph:
      step = tf.compat.v1.train.create_global_step()
      mesh = estimator_mp.Mesh.create("stage:1", ["/cpu:0"])
      x = tf.compat.v1.placeholder(tf.float32, [None, _COLUMNS], name="x")
      before = len(graph.get_operations())
      with mesh.stage(0):
        product = tf.exp(x)
        total = product * product + tf.sin(x) + tf.cos(x)
        looped = tf.while_loop(
          lambda i, _: i < 3, lambda i, y: (i + 1, tf.tanh(y)), [0, total]
        )[1]
      cell = schedule_lib.Cell(0, 0, _FORWARD)
      schedule = orders.make_schedule("gpipe", 1, 1)
      cells = {op.name: cell for op in graph.get_operations()[before:]}
      _record_plan(graph, mesh, schedule, cells)
      train_op = tf.group(looped, tf.compat.v1.assign_add(step, 1))
      hook = trace_hook.TraceHook([1], self.create_tempdir().full_path)
      _run(train_op, hook, 1, steps=1)
    kernels = hook.traces[0].kernels
    of_cell = [kernel.op_type for kernel in kernels if kernel.cell == cell]
    others = [kernel.op_type for kernel in kernels if kernel.cell is None]
    self.assertEqual(of_cell.count("Tanh"), 3)
    self.assertContainsSubset(["Sin", "Cos"], of_cell)
    made = [k for k in kernels if k.op.startswith("ArithmeticOptimizer/")]
    self.assertEqual([kernel.cell for kernel in made], [cell])
    self.assertContainsSubset(["AssignAddVariableOp"], others)
    self.assertNotIn("Tanh", others)

  def test_an_untraced_step_is_refused(self):
    with self.assertRaisesRegex(
      ValueError, "step 3 has no trace of /device:CPU:0"
    ):
      mesh = estimator_mp.Mesh.create("stage:1", ["/cpu:0"])
      trace_reading.read_trace(tf.compat.v1.RunMetadata(), 3, mesh, tf.Graph())

  def test_no_mesh(self):
    with tf.Graph().as_default():
      step = tf.compat.v1.train.create_global_step()
      hook = trace_hook.TraceHook([1], "unused")
      with (
        self.assertRaisesRegex(
          ValueError, "TraceHook found no pipeline .* give it their mesh"
        ),
        tf.compat.v1.train.SingularMonitoredSession([hook]) as session,
      ):
        session.run(step)

  def test_step_0(self):
    with self.assertRaisesRegex(ValueError, "trace step 0 is too small"):
      trace_hook.TraceHook([0], "unused")


if __name__ == "__main__":
  absltest.main()
