"""Traces of replicas: a row for each device, and cells of clones."""

import collections
import os
import pathlib

import estimator_mp
from estimator_mp.config.schedules import orders
from estimator_mp.config.schedules import schedule as schedule_lib
from estimator_mp.observe import chrome_trace, gantt
from estimator_mp.pipeline import simulation
from estimator_mp.planning import sharding_plan
from tests import tiers
from tests.estimator_mp.observe import simulated

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_WIDTH = 20


class StepTraceTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("gpipe", ("gpipe", 3, 5), 2, 1),
    ("1f1b", ("1f1b", 2, 4), 3, 1),
    ("interleaved", ("interleaved", 2, 4, 2), 2, 1),
    ("one_stage", ("1f1b", 1, 2), 4, 1),
    ("zb1p", ("zb1p", 3, 6), 1, 1),
    ("zb2p", ("zb2p", 3, 6), 1, 1),
    ("zbv", ("zbv", 3, 6, 2), 1, 1),
    ("model_axis", ("1f1b", 2, 4), 1, 2),
    ("model_axis_of_replicas", ("gpipe", 2, 4), 2, 2),
    ("model_axis_interleaved", ("interleaved", 2, 4, 2), 2, 2),
  )
  def test_as_simulated(self, arguments, num_replicas, devices_per_stage):
    made = orders.make_schedule(*arguments)
    trace = simulated.trace(made, num_replicas, devices_per_stage)
    self.assertEqual(trace.num_replicas, num_replicas)
    pipelines = num_replicas * devices_per_stage
    self.assertLen(trace.spans, pipelines * len([*made.cells()]))
    live = schedule_lib.live_micro_batches(made)
    self.assertAlmostEqual(trace.bubble, trace.bubble_bound)
    if not made.splits_backward:
      bound = simulation.speed_up_bound(made)
      self.assertAlmostEqual(trace.bubble, 1 - bound / made.num_devices)
    for device in range(len(trace.devices)):
      replica, place = divmod(device // devices_per_stage, made.num_devices)
      self.assertEqual(trace.replica_of(device), replica)
      self.assertEqual(trace.live_micro_batches()[device], live[place])
      self.assertEqual(
        trace.stages_of(device),
        [k for k in range(made.num_stages) if made.device_of(k) == place],
      )
      self.assertEqual([*gantt.lay_out(trace, device)], trace.stages_of(device))

  def test_a_late_replica_is_idle_before(self):
    made = orders.make_schedule("1f1b", 1, 2)
    trace = simulated.trace(made, 2, late=600)
    # Both work 600 of 1200.
    self.assertEqual(trace.makespan, 1200)
    self.assertEqual([trace.bubble_of(d) for d in range(2)], [0.5, 0.5])
    self.assertAlmostEqual(trace.bubble, 0.5)

  @parameterized.named_parameters(
    (
      "replicas",
      (2, 1),
      "1.00 kB between stages, 230 B between replicas, peak live "
      "1.00/2.00/3.00/4.00 kB",
    ),
    (
      "model_axis",
      (1, 2),
      "230 B between stages, 1.00 kB within stages, peak live "
      "1.00/2.00/3.00/4.00 kB",
    ),
    (
      "both",
      (2, 2),
      "200 B between stages, 1.00 kB within stages, 30 B between replicas, "
      "peak live 1.00/2.00/3.00/4.00/5.00/6.00/7.00/8.00 kB",
    ),
  )
  def test_line(self, sizes, expected):
    trace = simulated.trace(orders.make_schedule("1f1b", 2, 4), *sizes)
    self.assertEqual(
      trace.summary(), f"step 20: bubble 20% (bound 20%), {expected}"
    )

  @parameterized.named_parameters(
    (
      "replicas",
      (2, 1),
      "1f1b: 2 replicas, each with 4 micro-batches through 2 stages on 2 "
      "devices",
      "replica 0",
      "replica 1",
      "CPU:3",
      "20% idle",
    ),
    (
      "parts",
      (1, 2),
      "1f1b: 4 micro-batches through 2 stages on 4 devices",
      "CPU:0, part 0",
      "CPU:3, part 1",
    ),
  )
  def test_pictures_name(self, sizes, *texts):
    trace = simulated.trace(orders.make_schedule("1f1b", 2, 4), *sizes)
    folder = self.create_tempdir().full_path
    gantt.write_pictures(trace, folder, "step")
    svg = pathlib.Path(folder, "step.svg").read_text()
    for text in texts:
      self.assertIn(f"<!-- {text} -->", svg)
    self.assertEqual(svg.count("<!-- stage 1 -->"), 2)
    self.assertRegex(svg, r"ms   \|   bubble 20% \(bound 20%\)   \| ")
    self.assertNotIn("speed-up", svg)

  @parameterized.named_parameters(
    ("replicas", (2, 1), [0, 1, 0, 1]), ("model_axis", (1, 2), [0, 0, 1, 1])
  )
  def test_chrome_trace(self, sizes, stages):
    trace = simulated.trace(orders.make_schedule("1f1b", 2, 1), *sizes)
    names = collections.defaultdict(list)
    for event in chrome_trace.to_dict(trace)["traceEvents"]:
      if event["ph"] == "M" and "kernels" not in event["args"]["name"]:
        names[event["name"]].append((event["pid"], event["args"]["name"]))
    self.assertEqual(
      names["thread_name"], [(d, f"stage {k}") for d, k in enumerate(stages)]
    )
    replicas = ["replica 0: ", "replica 1: "] if sizes == (2, 1) else ["", ""]
    self.assertEqual(
      names["process_name"],
      [(d, f"{replicas[d // 2]}/device:CPU:{d}") for d in range(4)],
    )


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
  def _traced(self, config, mesh=None):
    """Returns the trace of a second step, and the plan of the graph."""
    folder = self.create_tempdir().full_path
    estimator = tf.estimator.Estimator(
      estimator_mp.shard_model_fn(_model_fn, config),
      config=estimator_mp.run_config(
        config, folder, tf_random_seed=1, checkpoint_save_graph_def=False
      ),
    )
    hook = estimator_mp.TraceHook([2], os.path.join(folder, "trace"), mesh)
    plan = _PlanHook()
    estimator.train(_input_fn, steps=2, hooks=[plan, hook])
    (trace,) = hook.traces
    return trace, plan.plan

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
    trace, plan = self._traced(config)
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
      [*map(len, plan.cells)], [len(plan.cells[0])] * num_replicas
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
    mesh = config.create_mesh()
    trace, _ = self._traced(config, mesh)
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
