"""Workers with parameter servers: the plain model's training."""

import functools
import json
import os
import pathlib
import tempfile

import estimator_mp
from estimator_mp.session import distribution
from tests import tiers
from tests.estimator_mp import runs
from tests.estimator_mp.distributed import between_graph_program as program
from tests.estimator_mp.distributed import clusters
from tests.estimator_mp.models import data, networks

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1

_PROGRAM = "tests.estimator_mp.distributed.between_graph_program"
_RTOL = 1e-5
_STAGES = {"mesh": "stage:2", "num_micro_batches": 3}
_SHARED = {"mesh": "data:2", "variables": "shared"}


def _many_kinds(features, labels, mode):
  """Partitioned variables, rows, a loop, averages, a local variable."""
  with v1.variable_scope("parted", partitioner=v1.fixed_size_partitioner(2)):
    kernel = v1.get_variable("kernel", [10, 8])
  with tf.device("/cpu:0"):
    table = v1.get_variable("table", [30, 8])
  rows = tf.nn.embedding_lookup(table, features["item"][:, 0])
  cell = v1.get_variable("cell", [8, 8])
  _, state = v1.while_loop(
    lambda i, _: i < 3,
    lambda i, x: (i + 1, tf.tanh(tf.matmul(x, cell))),
    [0, tf.matmul(features["x"], kernel) + rows],
  )
  logits = networks.net(state)

  def train(loss):
    optimizer = v1.train.MomentumOptimizer(0.1, 0.9)
    pairs = optimizer.compute_gradients(loss)
    gradients, variables = zip(*pairs, strict=True)
    clipped, _ = tf.clip_by_global_norm(gradients, 0.5)
    _, count = v1.metrics.mean(logits)
    update = optimizer.apply_gradients(
      zip(clipped, variables, strict=True), v1.train.get_global_step()
    )
    average = v1.train.ExponentialMovingAverage(0.9)
    with tf.control_dependencies([update, count]):
      return average.apply(v1.trainable_variables())

  return networks.spec(mode, logits, labels, train)


def _of_references(features, labels, mode):
  """Variables of TensorFlow 1, and a mark for the last stage."""
  table = v1.get_variable("table", [30, 4], use_resource=False)
  rows = tf.nn.embedding_lookup(table, features["item"][:, 0])
  net = v1.layers.dense(tf.concat([features["x"], rows], 1), 8, tf.tanh)
  mesh = estimator_mp.get_mesh()
  if mesh is None:
    logits = v1.layers.dense(net, 1)
  else:
    with mesh.stage(mesh.axis_size("stage") - 1):
      logits = v1.layers.dense(net, 1)
  optimizer = v1.train.AdamOptimizer(0.01)
  return networks.spec(mode, logits, labels, networks.minimize(optimizer))


def _synchronous(features, labels, mode, config=None):
  """Rows, too, for which a SyncReplicasOptimizer has another accumulator."""
  table = v1.get_variable("table", [30, 4])
  rows = tf.nn.embedding_lookup(table, features["item"][:, 0])
  inputs = {"x": tf.concat([features["x"], rows], 1)}
  return program.model_fn(inputs, labels, mode, config)


_MODEL_FNS = {
  "many_kinds": _many_kinds,
  "of_references": _of_references,
  "synchronous": _synchronous,
}


def _build(settings, run_config=None, model_fn=_synchronous):
  """Builds a worker's graph, as an Estimator would, and returns its ops."""
  config = estimator_mp.ShardingConfig(**settings)
  made = estimator_mp.run_config(config, **(run_config or {}))
  with tf.Graph().as_default() as graph, distribution.cluster_run():
    v1.train.create_global_step()
    features, labels = v1.data.make_one_shot_iterator(
      data.input_fn()
    ).get_next()
    estimator_mp.shard_model_fn(model_fn, config)(
      features, labels, "train", config=made
    )
  return {op.name: op for op in graph.get_operations()}


@functools.cache
def _plain(name):
  """Returns where a model begins, and its plain run."""
  folder = tempfile.mkdtemp(dir=absltest.get_default_test_tmpdir())
  start = os.path.join(folder, "start")
  os.makedirs(start)
  runs.train(_MODEL_FNS[name], None, None, start, 1)
  plain_dir = os.path.join(folder, "plain")
  return start, runs.go_on(_MODEL_FNS[name], None, None, start, plain_dir)


class TrainingTest(parameterized.TestCase):
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("one_stage", "many_kinds", {"mesh": "stage:1"}),
        ("two_stages", "many_kinds", {"mesh": "stage:2"}),
        ("micro_batches", "many_kinds", _STAGES),
        ("replicas", "many_kinds", _SHARED),
        ("references", "of_references", _STAGES),
        ("synchronous", "synchronous", _STAGES),
      ]
    )
  )
  def test_one_worker_trains_as_the_plain_model(self, name, settings):
    start, plain = _plain(name)
    model_fn = _MODEL_FNS[name]
    with clusters.in_process(2, chief=1, ps=2):
      config = estimator_mp.ShardingConfig(**settings)
      model_dir = os.path.join(self.create_tempdir().full_path, "sharded")
      with distribution.cluster_run():
        run = runs.go_on(
          estimator_mp.shard_model_fn(model_fn, config),
          config,
          None,
          start,
          model_dir,
        )
      runs.assert_same_training(self, run, plain, _RTOL)
      runs.assert_same_serving(self, run, plain, _RTOL)
      held = {x: c.variables for x, c in run.devices.items() if c.variables}
      servers = {f"/job:ps/task:{i}/device:CPU:0" for i in range(2)}
      self.assertContainsSubset(servers, held)
      # A worker keeps nothing but what counts for itself.
      own = [x for device in held.keys() - servers for x in held[device]]
      for variable in own:
        self.assertRegex(variable, "^(mean(_1)?/|sync_rep_local_step)")
      self.assertContainsSubset(config.create_mesh().devices, run.devices)

  @tiers.slow
  def test_two_workers_train_as_one_on_whole_batches(self):
    """Real processes, also of the evaluator, with SyncReplicasOptimizer."""
    model_dir = self.create_tempdir().full_path
    cluster = clusters.make_cluster(chief=1, worker=1, ps=1)
    tasks = [*cluster, "evaluator"]
    with clusters.Processes(cluster) as processes:
      for job in tasks:
        processes.start(job, 0, _PROGRAM, model_dir, json.dumps(_STAGES))
      for job in tasks:
        code = processes.wait(job)
        self.assertEqual(code, 0, processes.output(job))
    plain_dir = self.create_tempdir().full_path
    losses = runs.train(
      program.model_fn, None, None, plain_dir, program.STEPS, program.input_fn
    )
    halves = [
      json.loads(pathlib.Path(model_dir, f"losses-{job}.json").read_text())
      for job in ("chief", "worker")
    ]
    np.testing.assert_allclose(np.mean(halves, 0), losses, rtol=_RTOL)
    variables = runs.variables_of(model_dir)
    for name, value in runs.variables_of(plain_dir).items():
      np.testing.assert_allclose(
        variables[name], value, rtol=_RTOL, atol=1e-6, err_msg=name
      )
    self.assertNotEmpty(os.listdir(os.path.join(model_dir, "eval")))


class GraphTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.cluster = clusters.make_cluster(chief=1, worker=2, ps=2)

  def _build(self, index, *arguments, **named):
    with clusters.task(self.cluster, "worker", index):
      return _build(*arguments, **named)

  def test_workers_name_the_same_variables_on_the_same_servers(self):
    found = [
      {
        name: op.device
        for name, op in self._build(index, _STAGES).items()
        if op.type == "VarHandleOp" and op.device.startswith("/job:ps")
      }
      for index in range(2)
    ]
    self.assertLen(set(found[0].values()), 2)
    self.assertEqual(*found)

  def test_a_device_fn_says_which_server_has_a_variable(self):
    setter = v1.train.replica_device_setter(
      cluster=self.cluster,
      worker_device="/job:worker/task:0",
      ps_strategy=lambda op: int("kernel" in op.name),
    )
    run_config = {"device_fn": lambda op: setter(op)}
    ops = self._build(0, _STAGES, run_config)
    for name, op in ops.items():
      if op.type == "VarHandleOp" and op.device.startswith("/job:ps"):
        server = int("kernel" in name)
        self.assertEqual(op.device, f"/job:ps/task:{server}/device:CPU:0", name)

  def test_a_device_of_model_fn_counts_first(self):
    def model_fn(features, labels, mode):
      with tf.device("/job:ps/task:1"):
        tables = [v1.get_variable(f"table_{i}", [30, 4]) for i in range(3)]
      rows = [tf.nn.embedding_lookup(x, features["item"][:, 0]) for x in tables]
      logits = networks.net(tf.concat([features["x"], *rows], 1))
      train = networks.minimize(v1.train.AdamOptimizer(0.01))
      return networks.spec(mode, logits, labels, train)

    ops = self._build(0, _STAGES, model_fn=model_fn)
    for i in range(3):
      for name in (f"table_{i}", f"table_{i}/Adam"):
        self.assertEqual(ops[name].device, "/job:ps/task:1/device:CPU:0")

  def test_devices_without_a_task_are_the_workers_own(self):
    settings = {"mesh": "stage:2", "devices": ("cpu:1", "cpu:3")}
    ops = self._build(1, settings)
    found = {op.device for op in ops.values() if op.type == "MatMul"}
    own = {f"/job:worker/task:1/device:CPU:{i}" for i in (1, 3)}
    self.assertContainsSubset(found, own)

  @parameterized.parameters(
    ({"mesh": "data:2"}, {}, "mirrors would not be updated"),
    ({"mesh": "model:2"}, {}, "use stages, or leave ps out"),
    (
      {"mesh": "stage:2", "optimizer_state": "sharded"},
      {},
      "hold the slots of all",
    ),
    (_SHARED | {"split": [["table", "mod"]]}, {}, "they hold whole tables"),
    (
      {"mesh": "stage:1", "devices": ("/job:worker/task:1/cpu:0",)},
      {},
      "each worker has a mesh of its own, here of /job:worker/task:0",
    ),
    ({}, {"save_input_position": True}, "worker has an input of its own"),
  )
  def test_refuses_what_other_workers_would_not_see(
    self, settings, run_config, message
  ):
    with self.assertRaisesRegex(ValueError, message):
      self._build(0, settings, run_config)

  def test_refuses_a_master(self):
    cluster = clusters.make_cluster(master=1, ps=1)
    with clusters.task(cluster, "ps"):
      config = estimator_mp.ShardingConfig()
      estimator = runs.make_estimator(
        estimator_mp.shard_model_fn(_many_kinds, config),
        config,
        None,
        self.create_tempdir().full_path,
      )
      train_spec = tf.estimator.TrainSpec(data.input_fn)
      eval_spec = tf.estimator.EvalSpec(data.input_fn)
      with self.assertRaisesRegex(ValueError, "call it chief, and add a task"):
        estimator_mp.train_and_evaluate(estimator, train_spec, eval_spec)

  def test_the_chief_alone_saves_the_placement(self):
    for job, is_saved in (("worker", False), ("chief", True)):
      folder = self.create_tempdir().full_path
      with clusters.task(self.cluster, job):
        _build(_STAGES, {"model_dir": folder})
      path = pathlib.Path(folder, "placement.json")
      self.assertEqual(path.exists(), is_saved, job)


if __name__ == "__main__":
  absltest.main()
