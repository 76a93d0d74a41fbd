"""A split backward pass gives the bits of a whole one, and waits for no more.

That its numbers are the plain run's, pairs_test says for all models.
"""

import collections

import estimator_mp
from estimator_mp.config.schedules.schedule import Phase
from estimator_mp.graph import traversal
from estimator_mp.planning import sharding_plan
from tests import tiers
from tests.estimator_mp import parts, programs
from tests.estimator_mp.models import catalogue, registry

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_STEPS = 8 if tiers.FAST else 20
_BATCH = catalogue.MODELS["cnn"].batch


def _trained(mode, logits, labels):
  loss = parts.mean_loss(labels, logits)
  return parts.spec(mode, loss, v1.train.MomentumOptimizer(0.1, 0.9))


def _shared_layer(features, labels, mode):
  """One layer twice on each stage."""
  net = parts.layer(features["x"], "first", 8)
  with v1.variable_scope("", reuse=v1.AUTO_REUSE):
    for _ in range(4):
      net = parts.layer(net, "shared", 8)
  return _trained(mode, parts.layer(net, "last", 1, None), labels)


def _one_for_two(features, labels, mode):
  """Two variables whose gradients are one tensor."""
  net = parts.layer(parts.layer(features["x"], "first", 8), "second", 8)
  logits = parts.layer(net, "third", 1, None)
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
    model = catalogue.MODELS[name]
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


class WeightsTest(parameterized.TestCase):
  def test_reference_variables(self):
    v1.disable_resource_variables()
    self.addCleanup(v1.enable_resource_variables)
    model = catalogue.MODELS["skip_connections"]
    programs.assert_as_plain(self, model, _config("stage:3"))

  @parameterized.named_parameters(
    ("shared_layer", _shared_layer), ("one_bias_for_two", _one_for_two)
  )
  def test_are_used_several_times(self, model_fn):
    model = registry.Model(model_fn)
    programs.assert_as_plain(self, model, _config("stage:2"))


class GraphTest(absltest.TestCase):
  def _program(self, name):
    model = catalogue.MODELS[name]
    return programs.Program(
      model.model_fn, _config("stage:2"), next(_batches()), model.params
    )

  def test_gradients_of_activations_wait_for_none_of_weights(self):
    """TensorFlow's optimizers gate those of one op, so that each waits."""
    program = self._program("mlp_sgd")
    cells = sharding_plan.get_plan(program.graph).pipeline.cells[0]
    products = collections.Counter()
    for name, cell in cells.items():
      op = program.graph.get_operation_by_name(name)
      if op.type == "MatMul" and cell.phase is not Phase.FORWARD:
        products[cell.phase, op.get_attr("transpose_a")] += 1
    # Four layers, and the gradient of the features is nobody's.
    self.assertEqual(
      products, {(Phase.WEIGHT, True): 16, (Phase.BACKWARD, False): 12}
    )

  def test_an_update_waits_for_its_own_gradient_alone(self):
    program = self._program("mlp_adam")
    updates = [
      op
      for op in program.graph.get_operations()
      if op.type.startswith("ResourceApply")
    ]
    self.assertLen(updates, 8)
    gradients = {op: op.inputs[-1].op for op in updates}
    for op in updates:
      before = traversal.ops_run_with(op)
      awaited = [x for x, gradient in gradients.items() if gradient in before]
      self.assertEqual(awaited, [op])


if __name__ == "__main__":
  absltest.main()
