"""Weights that several stages use: their gradients add up as in a plain run."""

import dataclasses

import estimator_mp
from estimator_mp.config.schedules.schedule import Cell, Phase
from estimator_mp.graph import traversal
from estimator_mp.planning import sharding_plan
from tests import tiers
from tests.estimator_mp import parts, programs
from tests.estimator_mp.models import catalogue

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
BATCH = programs.examples(catalogue.MODELS["loops"].batch, 0, 24)


def _spec(mode, logits, labels):
  return _trained(mode, parts.mean_loss(labels, logits))


def _trained(mode, loss):
  return parts.spec(mode, loss, v1.train.MomentumOptimizer(0.1, 0.9))


def towers(features, labels, mode, params):
  """Siamese towers, one on each stage, and a layer for all of them."""
  first, second = parts.weight("first", [10, 8]), parts.weight("second", [8, 8])
  nets = []
  for stage in params["stages"]:
    with tf.name_scope(f"on_{stage}"):
      net = tf.tanh(tf.matmul(features["x"] * (1.0 + len(nets)), first))
      nets.append(tf.tanh(tf.matmul(net, second)))
  with tf.name_scope("on_last"):
    net = tf.concat(nets, axis=1)
    logits = parts.layer(net, "last", 1, None)
  return _spec(mode, logits, labels)


def repeated(features, labels, mode, params):
  """One layer several times in a row, as in ALBERT."""
  with tf.name_scope("on_0"):
    net = parts.layer(features["x"], "first", 8)
  shared, bias = parts.weight("shared", [8, 8]), parts.weight("bias", [8])
  for stage in params["stages"]:
    with tf.name_scope(f"on_{stage}"):
      net = tf.tanh(tf.nn.bias_add(tf.matmul(net, shared), bias))
  with tf.name_scope("on_last"):
    logits = parts.layer(net, "last", 1, None)
  return _spec(mode, logits, labels)


def activations(features, labels, mode, params):
  """What the first stage computes is read on all of them."""
  with tf.name_scope("on_0"):
    net = common = parts.layer(features["x"], "first", 8)
  for i, stage in enumerate(params["stages"]):
    with tf.name_scope(f"on_{stage}"):
      net = parts.layer(net * common + common, f"w{i}", 8)
  with tf.name_scope("on_last"):
    logits = parts.layer(net, "last", 1, None)
  return _spec(mode, logits, labels)


def scored(features, labels, mode, params):
  """A table that is looked up, and that scores on each stage."""
  del labels
  ids = features["ids"]
  table = parts.weight("shared", [50, 8])
  with tf.name_scope("on_0"):
    net = tf.reduce_mean(tf.nn.embedding_lookup(table, ids), axis=1)
  for i, stage in enumerate(params["stages"]):
    with tf.name_scope(f"on_{stage}"):
      scores = tf.nn.softmax(tf.matmul(net, table, transpose_b=True))
      net = net + parts.layer(scores, f"w{i}", 8)
  with tf.name_scope("on_last"):
    scores = tf.matmul(net, table, transpose_b=True)
    loss = tf.reduce_mean(parts.class_losses(ids[:, 0], scores))
  return _trained(mode, loss)


def tied(features, labels, mode, params):
  """Token by token, with one table for what goes in and what comes out."""
  del labels
  ids = features["ids"]
  with tf.name_scope("on_last"):
    table = parts.weight("shared", [50, 8])
  net = tf.nn.embedding_lookup(table, ids)
  for i, stage in enumerate(params["stages"]):
    with tf.name_scope(f"on_{stage}"):
      net += tf.tanh(tf.tensordot(net, parts.weight(f"w{i}", [8, 8]), 1))
  with tf.name_scope("on_last"):
    scores = tf.tensordot(net, tf.transpose(table), 1)
    loss = tf.reduce_mean(parts.class_losses(ids, scores))
  return _trained(mode, loss)


def deep_towers(features, labels, mode, params):
  """Towers of layers of their own, which all begin and end with shared ones."""
  first, last = (
    parts.weight("shared/first", [10, 8]),
    parts.weight("shared/last", [8, 8]),
  )
  nets = []
  for i in range(params["stages"]):
    net = tf.tanh(tf.matmul(features["x"] * (1.0 + i), first))
    for k in range(3):
      net = parts.layer(net, f"tower_{i}/{k}", 8)
    nets.append(tf.tanh(tf.matmul(net, last)))
  net = tf.concat(nets, axis=1)
  return _spec(mode, parts.layer(net, "end", 1, None), labels)


def _config(stages, variables_on=0):
  size = max(stages) + 1
  rules = [(rf"on_{k}(_\d+)?/", k) for k in range(size)]
  rules += [("on_last/|^last", size - 1), (".", variables_on)]
  return estimator_mp.ShardingConfig(f"stage:{size}", placement=rules)


def _names(graph):
  """Returns the names and types of the model's own ops."""
  return [
    (op.name, op.type)
    for op in graph.get_operations()
    # `tf.group` makes a NoOp for each device, and a sharded Saver a file.
    if not op.name.startswith(("estimator_mp/", "save/")) and op.type != "NoOp"
  ]


class SharedWeightsTest(parameterized.TestCase):
  def assert_same_steps(self, model_fn, stages, config=None):
    """Asserts that names and steps are the plain model's, bit for bit."""
    params = {"stages": stages}
    plain, sharded = (
      programs.Program(model_fn, of, BATCH, params)
      for of in (None, config or _config(stages))
    )
    self.assertEqual(_names(sharded.graph), _names(plain.graph))
    sharded.load(plain.variables())
    for _ in range(4):
      step, expected = sharded.step(BATCH), plain.step(BATCH)
      for name, gradient in expected.gradients.items():
        np.testing.assert_array_equal(step.gradients[name], gradient, name)
      for name, value in expected.variables.items():
        np.testing.assert_array_equal(step.variables[name], value, name)

  @parameterized.parameters(
    tiers.sample(
      [
        (repeated, (0, 1, 1, 2, 2, 3, 3, 3, 3, 3, 3)),
        (towers, (0, 1, 2)),
        (towers, (0, 2, 1, 0, 2, 1, 2)),
        (activations, (0, 1, 2, 3)),
        (scored, (0, 2, 1, 0, 2, 1, 2)),
      ]
    )
  )
  def test_steps_are_the_plain_models_bit_for_bit(self, model_fn, stages):
    self.assert_same_steps(model_fn, stages)

  @parameterized.parameters(tiers.sample([repeated, towers, scored]))
  def test_so_they_are_where_the_variables_are_on_another_stage(self, model_fn):
    self.assert_same_steps(model_fn, (0, 1, 2), _config((0, 1, 2), 1))

  def test_references(self):
    v1.disable_resource_variables()
    self.addCleanup(v1.enable_resource_variables)
    self.assert_same_steps(repeated, (0, 1, 2, 3))

  def test_siamese_towers_of_many_layers_cut_automatically(self):
    self.assert_same_steps(
      deep_towers, 3, estimator_mp.ShardingConfig("stage:3")
    )

  def test_with_micro_batches_each_device_sends_one_sum(self):
    stages = (0, 1, 1, 2, 2, 2)
    config = dataclasses.replace(_config(stages), num_micro_batches=3)
    plain, sharded = (
      programs.Program(repeated, chosen, BATCH, {"stages": stages})
      for chosen in (None, config)
    )
    totals = [
      devices
      for op in traversal.ops_run_with(sharded.spec.train_op)
      if op.type == "AddN"
      and len(devices := [x.op.device[-1] for x in op.inputs]) > 1
      and len({*devices}) > 1
    ]
    self.assertNotEmpty(totals)
    for devices in totals:
      self.assertCountEqual(devices, "012")
    programs.assert_same_steps(self, plain, sharded, [BATCH], 2e-6)


class TiedTest(parameterized.TestCase):
  """A table on the last stage whose rows the first one reads.

  Its gradient there waits for the first stage's backward pass. Once that
  made all backward passes those of the last stage: nothing was computed again
  on the first one, and no micro-batch began before the one before had ended.
  """

  def _program(self, schedule="1f1b", virtual=1, **options):
    stages = tuple(range(2 * virtual))
    last = stages[-1]
    config = estimator_mp.ShardingConfig(
      "stage:2",
      placement=[
        *((rf"on_{k}(_\d+)?/", k) for k in stages),
        ("on_last|^shared|embedding_lookup", last),
        (r"^w(\d+)$", 0),
      ],
      num_micro_batches=4,
      schedule=schedule,
      num_virtual_stages=virtual,
      **options,
    )
    return programs.Program(tied, config, BATCH, {"stages": stages})

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("1f1b_recompute", "1f1b", 1, "always"),
        ("zbv", "zbv", 2),
        ("auto", "auto"),
      ]
    )
  )
  def test_gradients_are_the_plain_models(
    self, schedule, virtual=1, recompute="never"
  ):
    sharded = self._program(schedule, virtual, recompute=recompute)
    plain = programs.Program(
      tied, None, BATCH, {"stages": tuple(range(2 * virtual))}
    )
    programs.assert_same_steps(self, plain, sharded, [BATCH], 2e-6)

  def test_the_first_stage_computes_again(self):
    graph = self._program(recompute="always").graph
    recomputed = sharding_plan.get_plan(graph).pipeline.recomputed
    self.assertEqual({*recomputed.values()}, {0, 1})

  def test_a_micro_batch_need_not_wait_for_the_end_of_the_one_before(self):
    graph = self._program().graph
    cells = sharding_plan.get_plan(graph).pipeline.cells[0]
    second = [
      graph.get_operation_by_name(name)
      for name, cell in cells.items()
      if cell == Cell(1, 1, Phase.FORWARD)
    ]
    before = traversal.ops_run_with(*second)
    backward = {
      cells[op.name].stage
      for op in before
      if op.name in cells and cells[op.name].phase != Phase.FORWARD
    }
    self.assertEqual(backward, {1})


if __name__ == "__main__":
  absltest.main()
