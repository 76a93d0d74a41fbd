"""Traces of replicas: a row for each device, and cells of clones."""

import collections
import os
import pathlib

import estimator_mp
from estimator_mp.config.schedules import orders
from estimator_mp.config.schedules import schedule as schedule_lib
from estimator_mp.observe import chrome_trace, gantt, step_trace
from estimator_mp.pipeline import simulation
from estimator_mp.plan import sharding_plan
from tests import tiers

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_FORWARD = schedule_lib.Phase.FORWARD
_WIDTH = 20


def _devices(count):
  return tuple(f"/device:CPU:{k}" for k in range(count))


def _simulated(made, num_replicas, late=0):
  """Returns a step in which each replica went as simulated, the last late."""
  timeline = simulation.simulate(made, 100, 200)
  kernels = []
  for replica in range(num_replicas):
    delay = late if replica == num_replicas - 1 else 0
    for cell, start in timeline.starts.items():
      device = replica * made.num_devices + made.device_of(cell.stage)
      end = timeline.ends[cell]
      kernels.append(
        step_trace.Kernel(
          "op", "MatMul", device, start + delay, end + delay, cell
        )
      )
  devices = _devices(num_replicas * made.num_devices)
  sent = {
    (devices[0], devices[1]): 1000,
    (devices[-1], devices[1]): 200,
    (devices[1], devices[-1]): 30,
  }
  live = tuple(1000 * (k + 1) for k in range(len(devices)))
  return step_trace.StepTrace(20, devices, tuple(kernels), made, sent, live)


class StepTraceTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("gpipe", ("gpipe", 3, 5), 2),
    ("1f1b", ("1f1b", 2, 4), 3),
    ("interleaved", ("interleaved", 2, 4, 2), 2),
    ("one_stage", ("1f1b", 1, 2), 4),
  )
  def test_replicas_as_simulated(self, arguments, num_replicas):
    made = orders.make_schedule(*arguments)
    trace = _simulated(made, num_replicas)
    self.assertEqual(trace.num_replicas, num_replicas)
    self.assertLen(trace.spans, num_replicas * len([*made.cells()]))
    self.assertEqual(
      trace.live_micro_batches(),
      schedule_lib.live_micro_batches(made) * num_replicas,
    )
    self.assertAlmostEqual(
      trace.bubble, 1 - simulation.speed_up_bound(made) / made.num_devices
    )
    self.assertAlmostEqual(
      trace.speed_up, num_replicas * simulation.speed_up_bound(made)
    )
    for device in range(len(trace.devices)):
      self.assertEqual(trace.replica_of(device), device // made.num_devices)

  def test_a_late_replica_is_idle_before(self):
    made = orders.make_schedule("1f1b", 1, 2)
    trace = _simulated(made, 2, late=600)
    # Both work 600 of 1200.
    self.assertEqual(trace.makespan, 1200)
    self.assertEqual([trace.bubble_of(d) for d in range(2)], [0.5, 0.5])
    self.assertAlmostEqual(trace.bubble, 0.5)

  def test_line(self):
    trace = _simulated(orders.make_schedule("1f1b", 2, 4), 2)
    self.assertEqual(
      trace.summary(),
      "step 20: bubble 20% (bound 20%), 1.00 kB between stages, "
      "230 B between replicas, peak live 1.00/2.00/3.00/4.00 kB",
    )

  def test_pictures_name_replicas(self):
    trace = _simulated(orders.make_schedule("1f1b", 2, 4), 2)
    folder = self.create_tempdir().full_path
    gantt.write_pictures(trace, folder, "step")
    svg = pathlib.Path(folder, "step.svg").read_text()
    for text in (
      "1f1b: 2 replicas, each with 4 micro-batches through 2 stages on 2 "
      "devices",
      "replica 0",
      "replica 1",
      "CPU:3",
      "20% idle",
    ):
      self.assertIn(f"<!-- {text} -->", svg)
    self.assertEqual(svg.count("<!-- stage 1 -->"), 2)
    self.assertIn("speed-up 3.20 (bound 3.20)", svg)

  def test_chrome_trace(self):
    trace = _simulated(orders.make_schedule("1f1b", 2, 1), 2)
    events = chrome_trace.to_dict(trace)["traceEvents"]
    names = {
      event["pid"]: event["args"]["name"]
      for event in events
      if event["name"] == "process_name"
    }
    self.assertEqual(names[1], "replica 0: /device:CPU:1")
    self.assertEqual(names[2], "replica 1: /device:CPU:2")
    stages = [
      (event["pid"], event["args"]["name"])
      for event in events
      if event["name"] == "thread_name" and "stage" in event["args"]["name"]
    ]
    expected = [(d, f"stage {d % 2}") for d in range(4)]
    self.assertEqual(stages, expected)


def _on_a_model_axis(made, num_replicas, devices_per_stage):
  """Returns a step in which the devices of a stage did the same."""
  timeline = simulation.simulate(made, 100, 200)
  places = range(num_replicas * made.num_devices)
  kernels = [
    step_trace.Kernel(
      "op", "MatMul", place * devices_per_stage + part, start, end, cell
    )
    for place in places
    for cell, start in timeline.starts.items()
    if made.device_of(cell.stage) == place % made.num_devices
    for end in [timeline.ends[cell]]
    for part in range(devices_per_stage)
  ]
  devices = _devices(len(places) * devices_per_stage)
  sent = {
    (devices[0], devices[1]): 1000,
    (devices[1], devices[2]): 200,
    (devices[-1], devices[0]): 30,
  }
  live = (1000,) * len(devices)
  return step_trace.StepTrace(
    20, devices, tuple(kernels), made, sent, live, devices_per_stage
  )


class ModelAxisTest(parameterized.TestCase):
  """Traces of stages that have several devices."""

  @parameterized.named_parameters(
    ("one_replica", ("1f1b", 2, 4), 1),
    ("two_replicas", ("gpipe", 2, 4), 2),
    ("interleaved", ("interleaved", 2, 4, 2), 2),
  )
  def test_devices_of_a_stage_do_its_cells(self, arguments, num_replicas):
    made = orders.make_schedule(*arguments)
    trace = _on_a_model_axis(made, num_replicas, 2)
    self.assertEqual(trace.num_replicas, num_replicas)
    self.assertEqual(
      [trace.replica_of(d) for d in range(len(trace.devices))],
      [d // 4 for d in range(4 * num_replicas)],
    )
    for device in range(len(trace.devices)):
      first = device // 2 % 2
      self.assertEqual(
        trace.stages_of(device), [*range(first, made.num_stages, 2)]
      )
      self.assertEqual(
        gantt.lay_out(trace, device).stages, tuple(trace.stages_of(device))
      )
    self.assertAlmostEqual(
      trace.bubble, 1 - simulation.speed_up_bound(made) / made.num_devices
    )
    self.assertAlmostEqual(
      trace.speed_up, 2 * num_replicas * simulation.speed_up_bound(made)
    )

  def test_line(self):
    made = orders.make_schedule("1f1b", 2, 4)
    self.assertEqual(
      _on_a_model_axis(made, 1, 2).summary(),
      "step 20: bubble 20% (bound 20%), 230 B between stages, 1.00 kB within "
      "stages, peak live 1.00/1.00/1.00/1.00 kB",
    )
    self.assertIn(
      "200 B between stages, 1.00 kB within stages, 30 B between replicas",
      _on_a_model_axis(made, 2, 2).summary(),
    )

  def test_pictures_name_parts(self):
    trace = _on_a_model_axis(orders.make_schedule("1f1b", 2, 4), 1, 2)
    folder = self.create_tempdir().full_path
    gantt.write_pictures(trace, folder, "step")
    svg = pathlib.Path(folder, "step.svg").read_text()
    for text in (
      "1f1b: 4 micro-batches through 2 stages on 4 devices",
      "CPU:0, part 0",
      "CPU:3, part 1",
    ):
      self.assertIn(f"<!-- {text} -->", svg)
    self.assertEqual(svg.count("<!-- stage 1 -->"), 2)
    self.assertIn("speed-up 3.20 (bound 3.20)", svg)

  def test_chrome_trace_has_stages_on_all_their_devices(self):
    trace = _on_a_model_axis(orders.make_schedule("1f1b", 2, 1), 1, 2)
    stages = [
      (event["pid"], event["args"]["name"])
      for event in chrome_trace.to_dict(trace)["traceEvents"]
      if event["name"] == "thread_name" and "stage" in event["args"]["name"]
    ]
    self.assertEqual(stages, [(d, f"stage {d // 2}") for d in range(4)])


def _model_fn(features, labels, mode):
  net = features["x"]
  for stage in range(2):
    with estimator_mp.stage(stage):
      net = v1.layers.dense(net, _WIDTH, tf.nn.relu)
  with estimator_mp.stage(1):
    loss = tf.reduce_mean((v1.layers.dense(net, 1) - labels) ** 2)
  train_op = v1.train.AdamOptimizer(0.01).minimize(
    loss, v1.train.get_global_step()
  )
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _input_fn():
  values = np.random.default_rng(1).random((48, _WIDTH), np.float32)
  data = tf.data.Dataset.from_tensor_slices(({"x": values}, values[:, :1]))
  return data.repeat().batch(24, drop_remainder=True)


class _PlanHook(tf.estimator.SessionRunHook):
  """Keeps the plan of the graph, which dies with the session."""

  def begin(self):
    self.plan = sharding_plan.get_plan(v1.get_default_graph()).pipeline


class TraceHookTest(parameterized.TestCase):
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("data_first", "data:2,stage:2", {}),
        ("data_last", "stage:2,data:2", {"variables": "shared"}),
        (
          "gpipe",
          "data:3,stage:2",
          {"schedule": "gpipe", "recompute": "always"},
        ),
        ("no_order", "data:2,stage:2", {"schedule": "none"}),
      ]
    )
  )
  def test_cells_of_all_replicas(self, mesh, fields):
    config = estimator_mp.ShardingConfig(mesh, num_micro_batches=4, **fields)
    folder = self.create_tempdir().full_path
    estimator = tf.estimator.Estimator(
      estimator_mp.shard_model_fn(_model_fn, config),
      config=estimator_mp.run_config(config, folder, tf_random_seed=1),
    )
    hook = estimator_mp.TraceHook([2], os.path.join(folder, "trace"))
    plan = _PlanHook()
    estimator.train(_input_fn, steps=2, hooks=[plan, hook])
    (trace,) = hook.traces
    made = config.create_schedule()
    devices = config.create_mesh()
    num_replicas = devices.axis_size("data")
    self.assertEqual(
      trace.devices,
      tuple(
        devices.device(data=r, stage=k)
        for r in range(num_replicas)
        for k in range(2)
      ),
    )
    ran = collections.defaultdict(set)
    for span in trace.spans:
      self.assertEqual(span.device % 2, span.cell.stage)
      ran[trace.replica_of(span.device)].add(span.cell)
    for replica in range(num_replicas):
      self.assertEqual(ran[replica], {*made.cells()})
    # Replicas do the same, on other devices.
    kinds = [
      collections.Counter(
        (k.op_type, k.cell)
        for k in trace.kernels
        if k.cell and "MatMul" in k.op_type and trace.replica_of(k.device) == r
      )
      for r in range(num_replicas)
    ]
    for found in kinds[1:]:
      self.assertEqual(found, kinds[0])
    self.assertGreater(trace.sent_between_replicas, 0)
    self.assertGreater(min(trace.peak_live_bytes), 0)
    for device in range(len(trace.devices)):
      self.assertBetween(trace.bubble_of(device), 0, 1)
    self.assertEqual(
      [*map(len, plan.plan.cells)],
      [len(plan.plan.cells[0])] * num_replicas,
    )

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("model_last", "stage:2,model:2", 4),
        ("model_first", "model:2,data:2,stage:2", 2),
        ("no_pipeline", "model:2,stage:2", 1),
      ]
    )
  )
  def test_cells_of_all_devices_of_a_stage(self, spec, num_micro_batches):
    config = estimator_mp.ShardingConfig(
      spec,
      num_micro_batches=num_micro_batches,
      split=[("^dense(_1)?/kernel", 1), (".*", None)],
    )
    folder = self.create_tempdir().full_path
    estimator = tf.estimator.Estimator(
      estimator_mp.shard_model_fn(_model_fn, config),
      config=estimator_mp.run_config(config, folder, tf_random_seed=1),
    )
    mesh = config.create_mesh()
    trace_dir = os.path.join(folder, "trace")
    hook = estimator_mp.TraceHook([2], trace_dir, mesh)
    estimator.train(_input_fn, steps=2, hooks=[hook])
    (trace,) = hook.traces
    self.assertEqual(trace.devices, mesh.devices_by_stage)
    self.assertEqual(trace.devices_per_stage, 2)
    self.assertGreater(trace.sent_within_stages, 0)
    self.assertGreater(min(trace.peak_live_bytes), 0)
    self.assertRegex(
      trace.summary(), r", [1-9][\d.]* k?B between stages, .* within stages, "
    )
    products = collections.Counter(
      k.device for k in trace.kernels if "MatMul" in k.op_type
    )
    self.assertCountEqual(products, range(len(trace.devices)))
    if num_micro_batches == 1:
      self.assertEmpty(trace.spans)
      return
    made = config.create_schedule()
    for device in range(len(trace.devices)):
      cells = {x.cell for x in trace.spans if x.device == device}
      (stage,) = trace.stages_of(device)
      self.assertEqual(cells, {c for c in made.cells() if c.stage == stage})


if __name__ == "__main__":
  absltest.main()
