"""Whatever writes a variable, and whoever runs it: replicas stay equal."""

import itertools
import os
import random
from typing import Any
from unittest import mock

import estimator_mp
from compat.private import graph_edits
from estimator_mp.lower import mirroring
from estimator_mp.observe import executed_graph
from tests import tiers
from tests.compat.private import only_tests
from tests.estimator_mp import parts, programs, runs
from tests.estimator_mp.models import data

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_BATCH = programs.examples(data.BATCH, 0, 24)
_SHARDED = {"optimizer_state": "sharded"}
_CONFIGS: Any = (
  ("replicated", "data:2", 1, {}),
  ("stages", "data:2,stage:2", 2, {}),
  ("sharded", "data:3,stage:2", 1, _SHARDED),
)


def _config(mesh, num_micro_batches=1, fields=None):
  return estimator_mp.ShardingConfig(
    mesh, num_micro_batches=num_micro_batches, **fields or {}
  )


def _loss(features, labels):
  """A loss of weights, a table, and a temperature that is not trained."""
  temperature = parts.state("temperature", [], v1.ones_initializer())
  table = parts.weight("table", [50, 4])
  words = tf.reduce_mean(tf.nn.embedding_lookup(table, features["ids"]), axis=1)
  net = tf.concat([features["x"], words], axis=1)
  net = tf.tanh(tf.matmul(net, parts.weight("first", [14, 8])))
  logits = tf.matmul(net, parts.weight("last", [8, 1])) * temperature
  return parts.mean_loss(labels, logits)


def _tempered(features, labels, mode):
  loss = _loss(features, labels)
  return parts.spec(mode, loss, v1.train.MomentumOptimizer(0.1, 0.9))


def _named(name):
  return next(v for v in v1.global_variables() if v.op.name == name)


class _Writes(tf.estimator.SessionRunHook):
  """A hook that makes writes of all kinds, for a test to run."""

  def __init__(self, folder):
    self._prefix = os.path.join(folder, "part")
    self.runs = {}
    self.saver = None

  def begin(self):
    temperature, table, first, last = map(
      _named, ("temperature", "table", "first", "last")
    )
    rows, values = tf.constant([3, 7, 9]), tf.ones([3, 4])
    many = tf.random.uniform([600, 600], seed=1)
    slow = temperature.assign(tf.reduce_mean(many @ many @ many))
    at_once = tf.constant(0.7)  # A constant made below would wait, too.
    with tf.control_dependencies([slow]):
      last_of_two = temperature.assign(at_once)
    ops = {
      "one_after_the_other": last_of_two,
      "assign": temperature.assign(temperature * 0.5),
      "assign_add": v1.assign_add(temperature, 1.5),
      "clip": last.assign(tf.clip_by_value(last, -0.1, 0.1)),
      "scatter": v1.scatter_update(table, rows, values),
      "slice": first[2:4].assign(tf.ones([2, 8])),
      "reset": v1.variables_initializer([_named("first/Momentum")]),
      "descent": v1.train.GradientDescentOptimizer(0.5).apply_gradients(
        [(tf.ones([8, 1]), last)]
      ),
      "two": v1.assign(temperature, _after(last.assign(2.0 * last), 0.9)),
    }
    for name, op in ops.items():
      self.runs[name] = lambda session, op=op: session.run(op)
    part = v1.train.Saver([first, temperature])

    def load(session):
      value = np.linspace(-1.0, 1.0, 8).astype(np.float32)
      last.load(value[:, np.newaxis], session)

    def restore(session):
      part.restore(session, self._prefix)

    self.runs |= {
      "save": lambda session: part.save(session, self._prefix),
      "load": load,
      "restore": restore,
    }


def _after(op, value):
  with tf.control_dependencies([op]):
    return tf.constant(value)


class _WritesInFunctions(tf.estimator.SessionRunHook):
  """A hook that makes writes that cannot be made twice."""

  def __init__(self):
    self.runs = {}

  def begin(self):
    temperature, first = map(_named, ("temperature", "first"))
    now = v1.placeholder_with_default(True, [])
    halve = tf.cond(
      now, lambda: temperature.assign(0.5 * temperature) + 0.0, lambda: 0.0
    )

    @tf.function
    def scale(factor):
      with tf.control_dependencies([first.assign(factor * first)]):
        return tf.identity(factor)

    optimizer = v1.train.MomentumOptimizer(0.1, 0.9, name="Other")
    for name, op in {
      "cond": halve,
      "function": scale(tf.constant(2.0)),
      "momentum": optimizer.apply_gradients([(tf.ones([14, 8]), first)]),
    }.items():
      self.runs[name] = lambda session, op=op: session.run(op)


class WritesTest(parameterized.TestCase):
  """Steps, and between them writes that no step runs."""

  def _check(self, config, make_hook):
    hooks = make_hook(), make_hook()
    plain, program = (
      programs.Program(_tempered, c, _BATCH, hooks=[hook])
      for c, hook in zip((None, config), hooks, strict=True)
    )
    program.load(plain.variables())
    last = 0.0
    for name in hooks[0].runs:
      with self.subTest(name):
        for one, hook in zip((plain, program), hooks, strict=True):
          with one.graph.as_default():
            hook.runs[name](one.session)
        step = programs.assert_same_steps(
          self, plain, program, [_BATCH], loads=False
        )
        programs.assert_equal_mirrors(self, program)
        self.assertGreater(abs(step.loss - last), 1e-3)
      last = step.loss

  @parameterized.named_parameters(tiers.sample(_CONFIGS))
  def test_writes(self, mesh, num_micro_batches, fields):
    self._check_writes(_config(mesh, num_micro_batches, fields))

  def _check_writes(self, config):
    folder = self.create_tempdir().full_path
    self._check(config, lambda: _Writes(folder))

  @parameterized.named_parameters(tiers.sample(_CONFIGS[1:]))
  def test_reference_variables(self, mesh, num_micro_batches, fields):
    v1.disable_resource_variables()
    self.addCleanup(v1.enable_resource_variables)
    self._check_writes(_config(mesh, num_micro_batches, fields))

  @parameterized.named_parameters(tiers.sample(_CONFIGS[1:]))
  def test_functions(self, mesh, num_micro_batches, fields):
    self._check(_config(mesh, num_micro_batches, fields), _WritesInFunctions)

  @parameterized.named_parameters(_CONFIGS[2])
  def test_v1_conds(self, mesh, num_micro_batches, fields):
    v1.disable_control_flow_v2()
    self.addCleanup(v1.enable_control_flow_v2)
    self._check(_config(mesh, num_micro_batches, fields), _WritesInFunctions)


class CostTest(absltest.TestCase):
  @tiers.slow
  def test_a_step_sends_nothing_for_writes_of_hooks(self):
    folder = self.create_tempdir().full_path
    found = []
    for hooks in ([], [_Writes(folder)]):
      program = programs.Program(
        _tempered, _config("data:2,stage:2"), _BATCH, hooks=hooks
      )
      program.step(_BATCH)
      partitions = program.trace(_BATCH).partition_graphs
      found.append(len(executed_graph.measured_transfers(partitions)))
    self.assertEqual(*found)

  def test_a_graph_is_imported_into_as_often_whatever_variables_there_are(self):
    """Each import takes longer the larger the graph is."""

    def count(num_layers):
      def model_fn(features, labels, mode):
        net = features["x"]
        for i in range(num_layers):
          net = parts.layer(net, f"layer_{i}", 4)
        loss = parts.mean_loss(labels, parts.layer(net, "last", 1))
        return parts.spec(mode, loss, v1.train.AdamOptimizer(0.1))

      with mock.patch.object(
        graph_edits, "import_ops", wraps=graph_edits.import_ops
      ) as imports:
        programs.Program(model_fn, _config("data:2"), _BATCH)
      return imports.call_count

    self.assertEqual(count(1), count(5))


class ErrorsTest(absltest.TestCase):
  def test_v1_loops(self):
    v1.disable_control_flow_v2()
    self.addCleanup(v1.enable_control_flow_v2)

    class Loops(tf.estimator.SessionRunHook):
      def begin(self):
        variable = _named("temperature")
        tf.while_loop(
          lambda i: i < 3.0, lambda i: i + variable.assign_add(1.0), [0.0]
        )

    with self.assertRaisesRegex(
      ValueError, "^while/AssignAddVariableOp writes temperature in a loop"
    ):
      programs.Program(_tempered, _config("data:2"), _BATCH, hooks=[Loops()])

  def test_graph_is_not_finalized(self):
    with tf.Graph().as_default():
      v1.train.create_global_step()
      sharded = estimator_mp.shard_model_fn(_tempered, _config("data:2"))
      features, labels = tf.nest.map_structure(tf.constant, _BATCH)
      spec = sharded(
        features,
        labels,
        mode=tf.estimator.ModeKeys.TRAIN,
        config=estimator_mp.run_config(_config("data:2")),
      )
      hook = spec.training_hooks[0]
      with self.assertRaisesRegex(
        RuntimeError, r"not finalized, .*\.finalize\(\) before"
      ):
        hook.after_create_session(v1.Session(), None)

  def test_op_is_made_after_all(self):
    program = programs.Program(_tempered, _config("data:2"), _BATCH)
    (hook,) = (
      hook
      for hook in program.spec.training_hooks
      if isinstance(hook, mirroring.MirrorHook)
    )
    context = v1.train.SessionRunContext(None, program.session)
    hook.before_run(context)
    only_tests.unfinalize(program.graph)
    with program.graph.as_default():
      tf.constant(1.0, name="harmless")
      hook.before_run(context)
      _named("temperature").assign(2.0, name="late")
      with self.assertRaisesRegex(
        RuntimeError,
        "^late writes temperature, .* after the graph was finalized",
      ):
        hook.before_run(context)


class _Anneals(tf.estimator.SessionRunHook):
  """Makes an op, and runs it before each step."""

  def begin(self):
    self._op = _named("temperature").assign(_named("temperature") * 0.7)

  def before_run(self, run_context):
    run_context.session.run(self._op)


class _FollowsTheLoss(tf.estimator.SessionRunHook):
  """Makes an op that runs within each step."""

  def begin(self):
    loss = v1.get_collection(v1.GraphKeys.LOSSES)[-1]
    self._op = _named("temperature").assign(0.5 + loss)

  def before_run(self, run_context):
    return tf.estimator.SessionRunArgs(self._op)


class _Loads(tf.estimator.SessionRunHook):
  """Makes no op at all."""

  def after_run(self, run_context, run_values):
    value = run_context.session.run(_named("last"))
    _named("last").load(value / np.abs(value).max(), run_context.session)


class _Restores(tf.estimator.SessionRunHook):
  """Restores a part of a checkpoint, after each step as well."""

  def __init__(self, folder):
    self._path = tf.train.latest_checkpoint(folder)

  def begin(self):
    self._saver = v1.train.Saver([_named("first")])

  def after_create_session(self, session, coord):
    self._saver.restore(session, self._path)

  def after_run(self, run_context, run_values):
    self._saver.restore(run_context.session, self._path)


def _starts_warm(features, labels, mode):
  def init(scaffold, session):
    del scaffold
    _named("temperature").load(2.0, session)

  spec = _tempered(features, labels, mode)
  return spec._replace(scaffold=v1.train.Scaffold(init_fn=init))


class EstimatorTest(parameterized.TestCase):
  @parameterized.named_parameters(tiers.sample(_CONFIGS))
  def test_hooks(self, mesh, num_micro_batches, fields):
    """Hooks of an Estimator write, which starts from a checkpoint's weights."""
    folder = self.create_tempdir().full_path
    start = os.path.join(folder, "start")
    config = _config(mesh, num_micro_batches, fields)

    def train(name, model_fn, config, hooks, warm_start_from=None):
      model_dir = os.path.join(folder, name)
      run_config = {
        "model_dir": model_dir,
        "tf_random_seed": 11,
        "checkpoint_save_graph_def": False,
      }
      estimator = tf.estimator.Estimator(
        model_fn,
        config=estimator_mp.run_config(config, **run_config)
        if config
        else tf.estimator.RunConfig(**run_config),
        warm_start_from=warm_start_from,
      )
      recorder = runs.LossRecorder()
      estimator.train(
        lambda: tf.data.Dataset.from_tensors(_BATCH).repeat(),
        steps=4,
        hooks=[*hooks, recorder],
      )
      return recorder.losses, runs.variables_of(model_dir)

    def hooks():
      return [_Anneals(), _FollowsTheLoss(), _Loads(), _Restores(start)]

    random.seed(11)  # Layers of a plain run draw their seeds from here.
    train("start", _tempered, None, [])
    expected, variables = train("plain", _starts_warm, None, hooks(), start)
    losses, found = train(
      "run",
      estimator_mp.shard_model_fn(_starts_warm, config),
      config,
      hooks(),
      start,
    )
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    programs.assert_same_variables(self, found, variables, 1e-5)


def _two_train_ops(features, labels, mode):
  """Each step counts, and what the model computes depends on the count."""
  step = tf.cast(v1.train.get_global_step(), tf.float32)
  loss = _loss(features, labels) / (1.0 + step)
  optimizer = v1.train.MomentumOptimizer(0.1, 0.9)
  first, last = (
    optimizer.minimize(loss, v1.train.get_global_step(), [_named(name)])
    for name in ("first", "last")
  )
  for op in (first, last):
    v1.add_to_collection("alone", op)
  return parts.spec(mode, loss, first)


class TrainOpsTest(parameterized.TestCase):
  @parameterized.named_parameters(tiers.sample(_CONFIGS))
  def test_train_ops_run_alone(self, mesh, num_micro_batches, fields):
    """As hooks of GANs run them, and part of a step's as well."""
    config = _config(mesh, num_micro_batches, fields)
    both = programs.plain_and_sharded(_two_train_ops, config, _BATCH)
    for _ in range(3):
      for one in both:
        for op in one.graph.get_collection("alone"):
          one.run(op, _BATCH)
      programs.assert_same_steps(self, *both, [_BATCH], loads=False)
    programs.assert_equal_mirrors(self, both[1])


def _averaged(features, labels, mode):
  """Averages of all weights, as the docs of TensorFlow make them."""
  loss = _loss(features, labels)
  optimizer = v1.train.AdamOptimizer(0.05)
  update = optimizer.minimize(loss, v1.train.get_global_step())
  average = tf.train.ExponentialMovingAverage(
    0.9, v1.train.get_global_step(), zero_debias=False
  )
  with tf.control_dependencies([update]):
    train_op = average.apply(v1.trainable_variables())
  return parts.spec(mode, loss, train_op)


class AveragesTest(parameterized.TestCase):
  """An average starts as its variable, by an `If` that only reads."""

  @parameterized.named_parameters(tiers.sample(_CONFIGS))
  def test_average_starts_alone(self, mesh, num_micro_batches, fields):
    """Replicas 0.6.0 copied the variable then, which had no value yet."""
    program = programs.Program(
      _averaged, _config(mesh, num_micro_batches, fields), _BATCH
    )
    with program.graph.as_default():
      average = _named("last/ExponentialMovingAverage")
    with v1.Session(
      graph=program.graph, config=program.session_config
    ) as session:
      session.run(average.initializer)

  def test_updates_stay_where_they_were(self):
    """What only reads a variable keeps no replica from updating it."""
    program = programs.Program(_averaged, _config("data:2"), _BATCH)
    types = [op.type for op in program.graph.get_operations()]
    self.assertEqual(types.count("ResourceApplyAdam"), 2 * 2)
    program = programs.Program(
      _averaged, _config("data:2", 1, _SHARDED), _BATCH
    )
    devices = set()
    for name in ("table", "first"):
      ops = [
        program.graph.get_operation_by_name(name + slot)
        for slot in ("", "/Adam", "/Adam_1", "/ExponentialMovingAverage")
      ]
      (device,) = {op.device for op in ops}
      devices.add(device)
    self.assertLen(devices, 2)


def _trained(features, labels, add=None):
  """Returns the train op of a model, and the loss."""
  loss = _loss(features, labels)
  if add is not None:
    loss += add
  weights = [v for v in v1.trainable_variables() if v.op.name != "target"]
  optimizer = v1.train.AdamOptimizer(0.05)
  return optimizer.minimize(loss, v1.train.get_global_step(), weights), loss


def _net_and_target(features):
  net, target = (parts.weight(name, [10, 8]) for name in ("net", "target"))
  x = features["x"]
  difference = tf.matmul(x, net) - tf.stop_gradient(tf.matmul(x, target))
  return net, target, tf.reduce_mean(tf.square(difference))


def _target_follows(features, labels, mode):
  """The train op is itself the write of a variable."""
  net, target, distance = _net_and_target(features)
  update, loss = _trained(features, labels, distance)
  with tf.control_dependencies([update]):
    train_op = target.assign(0.9 * target + 0.1 * net)
  return parts.spec(mode, loss, train_op)


def _target_is_set(features, labels, mode):
  """A function, made after all, reads one variable and writes another."""
  net, target, distance = _net_and_target(features)
  update, loss = _trained(features, labels, distance)
  step = v1.train.get_global_step()
  with tf.control_dependencies([update]):
    train_op = tf.cond(
      tf.equal(step % 2, 0), lambda: tf.group(target.assign(net)), tf.no_op
    )
  return parts.spec(mode, loss, train_op)


def _weights_decay(features, labels, mode):
  """Each weight gets a function of its own."""
  update, loss = _trained(features, labels)
  step = v1.train.get_global_step()
  with tf.control_dependencies([update]):
    decays = [
      tf.cond(
        tf.equal(step % 2, 0),
        lambda v=v: tf.group(v.assign(0.9 * v)),
        tf.no_op,
      )
      for v in v1.trainable_variables()
    ]
  train_op = tf.group(decays)
  return parts.spec(mode, loss, train_op)


def _averaged_before(features, labels, mode):
  """Averages that are made before gradients are asked for."""
  loss = _loss(features, labels)
  average = tf.train.ExponentialMovingAverage(0.9)
  with tf.control_dependencies([average.apply(v1.trainable_variables())]):
    optimizer = v1.train.AdamOptimizer(0.05)
    train_op = optimizer.minimize(loss, v1.train.get_global_step())
  return parts.spec(mode, loss, train_op)


def _weights_are_cut(features, labels, mode):
  """What weights alone make has a gradient: it is colocated with it."""
  net = features["x"]
  for name in ("cut_0", "cut_1", "cut_2"):
    weights = parts.weight(name, [8, net.shape[-1]])
    halves = tf.split(weights, 2)
    nets = [tf.matmul(net, half, transpose_b=True) for half in halves]
    net = tf.tanh(tf.concat(nets, 1))
  train_op, loss = _trained(features, labels, tf.reduce_mean(net**2))
  return parts.spec(mode, loss, train_op)


def _noisy(features, labels, mode):
  """A generator moves, and Python is called, once a step for all replicas."""
  loss, first = _loss(features, labels), _named("first")
  generator = tf.random.Generator.from_seed(3)
  loss += tf.reduce_mean(generator.normal(first.shape) * first)
  optimizer = v1.train.MomentumOptimizer(0.1, 0.9)
  ((gradient, _),) = optimizer.compute_gradients(loss, [first])
  calls = itertools.count(1)

  def shift(value):
    return value + np.float32(0.01 * next(calls))

  shifted = tf.numpy_function(shift, [gradient], tf.float32)
  shifted.set_shape(first.shape)
  step = v1.train.get_global_step()
  train_op = optimizer.apply_gradients([(shifted, first)], step)
  return parts.spec(mode, loss, train_op)


class UpdatesBesideTheOptimizerTest(parameterized.TestCase):
  """Owners of what a function needs may differ; and each write has to run."""

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("target_follows_sharded", _target_follows, "data:2", _SHARDED),
        ("noisy", _noisy, "data:2", {}),
        ("target_is_set", _target_is_set, "data:2", {}),
        ("target_is_set_sharded", _target_is_set, "data:3", _SHARDED),
        ("weights_decay_in_v1", _weights_decay, "data:3", _SHARDED, True),
        ("averaged_before_sharded", _averaged_before, "data:3", _SHARDED),
        ("weights_are_cut_sharded", _weights_are_cut, "data:3", _SHARDED),
      ]
    )
  )
  def test_equal(self, model_fn, mesh, fields, is_v1=False):
    if is_v1:
      v1.disable_control_flow_v2()
      self.addCleanup(v1.enable_control_flow_v2)
    config = _config(mesh, 1, fields)
    both = programs.plain_and_sharded(model_fn, config, _BATCH)
    for _ in range(4):
      programs.assert_same_steps(self, *both, [_BATCH])
      programs.assert_equal_mirrors(self, both[1])


if __name__ == "__main__":
  absltest.main()
