"""Simulated steps of models: memory as measured, and both ways to read work.

A graph that is sharded and the plain graph, cut on paper, give the same step.
"""

import dataclasses
from unittest import mock

import estimator_mp
from estimator_mp.graph import shapes
from estimator_mp.machines import machine as machine_lib
from estimator_mp.machines.machine import Device, Link, Machine
from estimator_mp.observe import trace_reading
from estimator_mp.pipeline import auto_schedule
from estimator_mp.search import auto_mesh
from estimator_mp.simulator import lowered_step
from estimator_mp.simulator import step as step_lib
from estimator_mp.simulator.step import Step

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_MACHINE = Machine(
  "test",
  Device("GPU", {"float32": 1e11}, 16e9, 5e10, 1e-6),
  (Link("host", 64, 1e10, 1e-6),),
)
_BATCH = shapes.NOMINAL_BATCH


def _mlp(features, labels, mode):
  net = features["x"]
  for _ in range(4):
    net = v1.layers.dense(net, 256, tf.nn.relu)
  loss = v1.losses.mean_squared_error(labels, v1.layers.dense(net, 1))
  step = v1.train.get_global_step()
  train_op = v1.train.AdamOptimizer(0.01).minimize(loss, step)
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _cnn(features, labels, mode):
  net = tf.reshape(features["x"], [-1, 16, 16, 1])
  for filters in (16, 32, 32):
    net = v1.layers.conv2d(net, filters, 3, padding="same")
    net = tf.nn.relu(net)
  net = tf.reduce_mean(net, [1, 2])
  loss = v1.losses.mean_squared_error(labels, v1.layers.dense(net, 1))
  step = v1.train.get_global_step()
  train_op = v1.train.MomentumOptimizer(0.01, 0.9).minimize(loss, step)
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _batch():
  x = np.random.RandomState(1).randn(_BATCH, 256).astype(np.float32)
  data = tf.data.Dataset.from_tensors(({"x": x}, x[:, :1])).repeat()
  return v1.data.make_one_shot_iterator(data).get_next()


def _arguments(is_open):
  size = None if is_open else _BATCH
  x = v1.placeholder(tf.float32, [size, 256])
  y = v1.placeholder(tf.float32, [size, 1])
  return {"features": {"x": x}, "labels": y, "mode": "train"}


def _run(model_fn, config, trace=False, machine=_MACHINE):
  """Returns the simulated step, and the most bytes alive if it is traced."""
  run_config = estimator_mp.run_config(config)
  with tf.Graph().as_default() as graph:
    v1.set_random_seed(1)
    v1.train.create_global_step()
    features, labels = _batch()
    spec = estimator_mp.shard_model_fn(model_fn, config)(
      features=features, labels=labels, mode="train", config=run_config
    )
    simulated = lowered_step.simulate(graph, config, machine)
    if not trace:
      return simulated, None
    options = v1.RunOptions(
      trace_level=v1.RunOptions.FULL_TRACE, output_partition_graphs=True
    )
    metadata = v1.RunMetadata()
    creator = v1.train.ChiefSessionCreator(
      spec.scaffold or v1.train.Scaffold(), config=run_config.session_config
    )
    with v1.train.MonitoredSession(creator) as session:
      session.run(spec.train_op)
      session.run(spec.train_op, options=options, run_metadata=metadata)
    devices = config.create_mesh().devices
    return simulated, trace_reading.peak_live_bytes(metadata, devices)


class ModelsTest(parameterized.TestCase):
  @parameterized.parameters(("stage:1", 1), ("stage:2", 4), ("data:2", 1))
  def test_memory_is_as_measured(self, mesh, count):
    config = estimator_mp.ShardingConfig(mesh, num_micro_batches=count)
    simulated, measured = _run(_cnn, config, trace=True)
    found = max(x.live_bytes for x in simulated.devices)
    self.assertBetween(found / max(measured), 0.8, 1.2)

  @parameterized.parameters(
    (_mlp, {"stage": 2}, 4),
    (_cnn, {"stage": 2}, 4),
    (_cnn, {"data": 2}, 1),
    (_mlp, {"model": 2}, 1),
    (_mlp, {"data": 2, "stage": 2}, 2),
  )
  def test_plain_and_sharded_graphs_give_the_same_step(
    self, model_fn, axes, count
  ):
    mesh = ",".join(f"{x}:{size}" for x, size in axes.items())
    config = estimator_mp.ShardingConfig(mesh, num_micro_batches=count)
    lowered, _ = _run(model_fn, config)
    plain = estimator_mp.ShardingConfig()
    model = auto_mesh.Model(
      lambda x: model_fn(**x), _arguments, plain, _MACHINE
    )
    fraction = 1 / (axes.get("data", 1) * count)
    stages = axes.get("stage", 1)
    work = model.work(stages, fraction, axes.get("model", 1))
    step = Step(work, config.create_schedule(), _MACHINE, axes)
    on_paper = step_lib.simulate(step)
    self.assertBetween(on_paper.seconds / lowered.seconds, 0.75, 1.25)

  @parameterized.parameters("lowered", "plain")
  def test_what_is_not_split_is_work_of_one_device(self, graph):
    """Where devices share the cores of a host, as virtual ones do."""
    axes = {"model": 2}
    config = estimator_mp.ShardingConfig("model:2")
    device = dataclasses.replace(_MACHINE.device, cores=2)
    machine = dataclasses.replace(_MACHINE, device=device)
    alone, _ = _run(_mlp, estimator_mp.ShardingConfig(), machine=machine)
    if graph == "lowered":
      split, _ = _run(_mlp, config, machine=machine)
    else:
      plain = estimator_mp.ShardingConfig()
      model = auto_mesh.Model(lambda x: _mlp(**x), _arguments, plain, machine)
      work = model.work(1, 1.0, 2)
      schedule = config.create_schedule()
      split = step_lib.simulate(Step(work, schedule, machine, axes))
    # Sums of parts, and ops of halves, come on top.
    self.assertBetween(split.seconds / alone.seconds, 1.0, 1.5)
    self.assertLess(split.bound_seconds, split.seconds)

  @parameterized.named_parameters(("estimated", None), ("measured", 8.0))
  def test_an_automatic_schedule_is_for_the_machine(self, seconds):
    """It reads the work of stages that a search of meshes does."""
    costs = None
    if seconds is not None:
      costs = estimator_mp.toolbox.MeasuredCosts({"dense/MatMul": seconds})
    plain = estimator_mp.ShardingConfig(measured_costs=costs)
    machine = machine_lib.load("a100")
    model = auto_mesh.Model(lambda x: _mlp(**x), _arguments, plain, machine)
    work = model.work(2, 1 / 4, 1)
    config = dataclasses.replace(
      plain,
      mesh="stage:2",
      num_micro_batches=4,
      schedule="auto",
      machine="a100",
    )
    with mock.patch.object(
      auto_schedule, "fastest", side_effect=auto_schedule.fastest
    ) as fastest:
      _run(_mlp, config)
    (_, found), _ = fastest.call_args
    # An open batch has some more ops, which count what is in it.
    for name in ("forward", "backward", "weight"):
      for x, stage in zip(getattr(found, name), work, strict=True):
        self.assertBetween(x / getattr(stage, name), 0.8, 1.25)
    expected = machine.link(0, 1).seconds(_BATCH / 4 * 256 * 4)
    self.assertSequenceAlmostEqual(found.sends, [expected])
    if seconds is not None:
      self.assertBetween(found.forward[0], seconds / 4, seconds)

  def test_measured_costs_count_for_what_is_made_of_an_op(self):
    config = estimator_mp.ShardingConfig("stage:2", num_micro_batches=4)
    plain, _ = _run(_mlp, config)
    with tf.Graph().as_default() as graph:
      v1.train.create_global_step()
      features, labels = _batch()
      _mlp(features, labels, "train")
      names = [op.name for op in graph.get_operations()]
    seconds = dict.fromkeys(names, 0.0)
    seconds["dense/MatMul"] = 1.0
    costs = estimator_mp.toolbox.MeasuredCosts(seconds)
    slow, _ = _run(_mlp, dataclasses.replace(config, measured_costs=costs))
    self.assertLess(plain.seconds, 0.1)
    self.assertBetween(slow.seconds, 0.9, 3.0)


if __name__ == "__main__":
  absltest.main()
