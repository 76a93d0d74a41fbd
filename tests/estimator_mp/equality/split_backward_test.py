"""A split backward pass gives the bits of a whole one, and waits for no more.

That its numbers are the plain run's, pairs_test says for all models.
"""

import itertools

import estimator_mp
from estimator_mp.config.schedules.schedule import Phase
from estimator_mp.graph import traversal
from estimator_mp.plan import sharding_plan
from tests import tiers
from tests.estimator_mp import parts, programs, shapes, zoo

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_STEPS = 8
_BATCH = (zoo.FEATURES, zoo.LABELS)


def _trained(mode, logits, labels):
  loss = parts.mean_loss(labels, logits)
  return parts.spec(mode, loss, v1.train.MomentumOptimizer(0.1, 0.9))


def _shared_layer(features, labels, mode):
  """One layer twice on each stage."""
  net = tf.tanh(tf.matmul(features["x"], parts.weight("first", [10, 8])))
  for _ in range(4):
    net = tf.tanh(tf.matmul(net, _weight_again("shared", [8, 8])))
  return _trained(mode, tf.matmul(net, parts.weight("last", [8, 1])), labels)


def _weight_again(name, shape):
  with v1.variable_scope("", reuse=v1.AUTO_REUSE):
    return parts.weight(name, shape)


def _one_for_two(features, labels, mode):
  """Two variables whose gradients are one tensor."""
  net = tf.tanh(tf.matmul(features["x"], parts.weight("first", [10, 8])))
  net = tf.tanh(net @ parts.weight("second", [8, 8]))
  logits = net @ parts.weight("third", [8, 1])
  logits += parts.weight("bias", [1]) + parts.weight("other", [1])
  return _trained(mode, logits, labels)


def _config(mesh, **options):
  return estimator_mp.ShardingConfig(
    mesh, **{"num_micro_batches": 4, "schedule": "zb1p"} | options
  )


def _batches():
  """Yields a batch for each step."""
  for step in range(_STEPS):
    yield programs.examples(_BATCH, 3 * (step % 12), 3 * (step % 12) + 24)


def _phases(program):
  """Returns the phases of each stage of replica 0."""
  cells = sharding_plan.get_plan(program.graph).pipeline.cells[0]
  phases = {}
  for cell in cells.values():
    phases.setdefault(cell.stage, set()).add(cell.phase)
  return phases


class WholePassTest(parameterized.TestCase):
  @tiers.slow
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("cnn", "cnn", "data:2,stage:2"),
        ("cnn_zb2p", "cnn", "stage:3", "zb2p", "always"),
        ("transformer_model_axis", "transformer", "stage:2,model:2"),
        ("transformer_auto", "transformer", "stage:3", "auto"),
      ]
    )
  )
  def test_steps_are_those_of_a_whole_backward_pass(
    self, name, mesh, split="zb1p", recompute="never"
  ):
    """Bit for bit, with dropout and batch normalisation."""
    model = zoo.MODELS[name]
    split, whole = (
      programs.Program(
        model.model_fn,
        _config(mesh, schedule=schedule, recompute=recompute),
        next(_batches()),
        model.params,
      )
      for schedule in (split, "1f1b")
    )
    split.load(whole.variables())
    for batch in _batches():
      step, expected = split.step(batch), whole.step(batch)
      self.assertEqual(step.loss, expected.loss)
    for variable, value in expected.variables.items():
      np.testing.assert_array_equal(step.variables[variable], value, variable)


class ShapesTest(parameterized.TestCase):
  def test_reference_variables(self):
    v1.disable_resource_variables()
    self.addCleanup(v1.enable_resource_variables)
    self._check(shapes.skip_connections, "stage:3")

  @parameterized.named_parameters(
    ("shared_layer", _shared_layer), ("one_bias_for_two", _one_for_two)
  )
  def test_weights_that_are_used_several_times(self, model_fn):
    self._check(model_fn, "stage:2")

  def _check(self, model_fn, mesh):
    shapes.assert_equals_the_full_batch(
      self, model_fn, shapes.BATCH, _config(mesh)
    )


class GraphTest(absltest.TestCase):
  def _program(self, model_fn, params=None):
    return programs.Program(
      model_fn, _config("stage:2"), next(_batches()), params
    )

  def test_gradients_of_activations_wait_for_none_of_weights(self):
    """TensorFlow's optimizers gate those of one op, so that each waits."""
    program = self._program(zoo.mlp, zoo.MODELS["mlp_sgd"].params)
    cells = sharding_plan.get_plan(program.graph).pipeline.cells[0]
    products = {}
    for name, cell in cells.items():
      op = program.graph.get_operation_by_name(name)
      if op.type == "MatMul" and cell.phase is not Phase.FORWARD:
        key = (cell.phase, op.get_attr("transpose_a"))
        products[key] = products.get(key, 0) + 1
    # Four layers, and the gradient of the features is nobody's.
    self.assertEqual(
      products, {(Phase.WEIGHT, True): 16, (Phase.BACKWARD, False): 12}
    )

  def test_each_cell_of_weights_follows_its_row(self):
    program = self._program(zoo.mlp, zoo.MODELS["mlp_sgd"].params)
    pipeline = sharding_plan.get_plan(program.graph).pipeline
    cells = pipeline.cells[0]
    of_cell = {}
    for name, cell in cells.items():
      of_cell.setdefault(cell, []).append(
        program.graph.get_operation_by_name(name)
      )
    for row in pipeline.schedule.rows:
      for before, cell in itertools.pairwise(row):
        if Phase.WEIGHT in (before.phase, cell.phase):
          ends = traversal.ops_run_with(*of_cell[cell])
          self.assertContainsSubset(of_cell[before], ends)

  def _totals_before_updates(self, model_fn, params=None):
    """Returns the variables whose gradients each variable's update awaits."""
    program = self._program(model_fn, params)
    totals = {  # What a bridge hands to who fetches it, others read directly.
      name: gradient.op.inputs[0].op
      for name, gradient in program.gradients.items()
    }
    found = {}
    for op in program.graph.get_operations():
      if op.type.startswith("ResourceApply"):
        before = traversal.ops_run_with(op)
        found[op.inputs[0].op.name] = {
          name for name, total in totals.items() if total in before
        }
    return found

  def test_an_update_waits_for_its_own_gradient_alone(self):
    found = self._totals_before_updates(zoo.mlp, zoo.MODELS["mlp_adam"].params)
    self.assertLen(found, 8)
    for variable, awaited in found.items():
      self.assertEqual(awaited, {variable})


if __name__ == "__main__":
  absltest.main()
