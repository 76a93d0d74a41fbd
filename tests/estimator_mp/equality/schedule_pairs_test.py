"""Split backward passes beside all other options, two at a time.

What one option does is tested elsewhere. Here any two values that go together
are those of some model, and each step is the plain model's. What gates a change
has each value, and each model that is unlike the others.
"""

import itertools

import estimator_mp
from tests.estimator_mp import batch_models, programs, shapes, versions, zoo

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_STEPS = 3
_SIZES = (24, 25, 7)

_OPTIONS = {
  "schedule": ("zb1p", "zb2p", "zbv", "auto"),
  "mesh": ("stage:2", "data:2,stage:2", "stage:2,model:2"),
  "recompute": ("never", "except_last", "always"),
  "weight_gradients": ("auto", "each", "batched"),
  "cells": ("ops", "functions"),
}
_CASES = {
  "canned": ("zb1p", "stage:2", "never", "batched", "ops"),
  "tied_weights": ("zb1p", "data:2,stage:2", "always", "auto", "functions"),
  "lstm": ("zb1p", "stage:2,model:2", "except_last", "each", "ops"),
  "deepfm": ("zb2p", "stage:2", "always", "each", "functions"),
  "keras_functional": ("zb2p", "data:2,stage:2", "never", "batched", "ops"),
  "two_optimizers": ("zb2p", "stage:2,model:2", "except_last", "auto", "ops"),
  "transformer": ("zbv", "stage:2", "never", "auto", "ops"),
  "mlp_adam": ("zbv", "data:2,stage:2", "except_last", "each", "ops"),
  "mlp_ftrl": ("zbv", "stage:2,model:2", "never", "each", "ops"),
  "mlp_keras_adam": ("zbv", "stage:2,model:2", "never", "batched", "functions"),
  "mlp_sgd": ("zbv", "stage:2,model:2", "always", "each", "functions"),
  "cnn": ("auto", "stage:2", "except_last", "auto", "ops"),
  "mlp_adagrad": ("auto", "data:2,stage:2", "always", "each", "ops"),
  "mlp_momentum": ("auto", "stage:2,model:2", "never", "batched", "functions"),
  "averages": ("zb2p", "data:2,stage:2", "always", "auto", "functions"),
  "two_lookups": ("zb2p", "stage:2", "never", "auto", "functions"),
  "conds": ("auto", "data:2,stage:2", "never", "each", "ops"),
  "loops": ("zb2p", "stage:2", "always", "auto", "ops"),
  "regularized_sum": ("auto", "stage:2", "always", "auto", "functions"),
  "counters": ("zb1p", "stage:2", "never", "auto", "functions"),
}
# DNNLinearCombinedClassifier adds the losses of examples up.
_SUMS = ("canned",)


def _averages(features, labels, mode):
  """Moving averages of variables and of the loss; UPDATE_OPS; clipping."""
  net = features["x"]
  for _ in range(3):
    net = v1.layers.dense(net, 12, tf.tanh)
  logits = v1.layers.dense(net, 1)
  loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))
  step = v1.train.get_global_step()
  of_loss = v1.train.ExponentialMovingAverage(0.8, name="of_loss")
  v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, of_loss.apply([loss]))
  optimizer = v1.train.RMSPropOptimizer(0.01)
  gradients, variables = zip(*optimizer.compute_gradients(loss), strict=True)
  gradients, _ = tf.clip_by_global_norm(gradients, 0.5)
  update = optimizer.apply_gradients(
    zip(gradients, variables, strict=True), step
  )
  averages = v1.train.ExponentialMovingAverage(0.9, step)
  with tf.control_dependencies(
    [update, *v1.get_collection(v1.GraphKeys.UPDATE_OPS)]
  ):
    train_op = averages.apply(variables)
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _model(name):
  """Returns a model_fn, its params, and a batch of examples."""
  if name in zoo.PURE_MODELS:
    model = zoo.PURE_MODELS[name]
    return model.model_fn, model.params, (zoo.FEATURES, zoo.LABELS)
  if name == "averages":
    return _averages, None, shapes.BATCH
  if name == "counters":
    return batch_models.counters, None, batch_models.BATCH
  return getattr(shapes, name), None, shapes.BATCH


def _config(name):
  options = dict(zip(_OPTIONS, _CASES[name], strict=True))
  if options["schedule"] == "zbv":
    options["num_virtual_stages"] = 2
  if name in _SUMS:
    options["loss_reduction"] = "sum"
  return estimator_mp.ShardingConfig(num_micro_batches=3, **options)


class SchedulePairsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (name, name)
    for name in versions.covering(
      _CASES,
      "canned",
      "tied_weights",
      "lstm",
      "deepfm",
      "two_optimizers",
      "transformer",
      "mlp_keras_adam",
      "cnn",
      "mlp_adagrad",
      "averages",
      "two_lookups",
      "conds",
      "loops",
      "regularized_sum",
      "counters",
      oldest=["tied_weights", "loops", "averages"],
    )
  )
  def test_steps_are_the_plain_models(self, name):
    model_fn, params, batch = _model(name)
    example = programs.examples(batch, 0, 24)
    plain, sharded = (
      programs.Program(model_fn, config, example, params)
      for config in (None, _config(name))
    )
    before = plain.variables()
    terms = []
    for i in range(4):
      one = plain.step(programs.examples(batch, i, i + 1))
      terms.append(one.gradients)
      plain.load(before)
    sharded.load(before)
    for i, size in zip(range(_STEPS), _SIZES, strict=True):
      examples = programs.examples(batch, 5 * i, 5 * i + size)
      step, expected = sharded.step(examples), plain.step(examples)
      self.assertAlmostEqual(step.loss / expected.loss, 1.0, places=5)
      if i == 0:
        programs.assert_same_gradients(
          self, step.gradients, expected.gradients, terms, 1e-5
        )
    # A key's bias has no gradient but rounding, which Adam brings to full size.
    noise = {x for x in expected.variables if "/key/bias" in x}
    programs.assert_same_variables(
      self,
      step.variables,
      expected.variables,
      1e-4 if name == "transformer" else 1e-5,
      noise,
    )

  def test_all_models_of_the_zoo_are_here(self):
    self.assertContainsSubset(zoo.PURE_MODELS, _CASES)

  def test_any_two_values_that_go_together_are_in_a_case(self):
    possible = {
      pair
      for case in itertools.product(*_OPTIONS.values())
      if _go_together(*case)
      for pair in _pairs(case)
    }
    found = {pair for case in _CASES.values() for pair in _pairs(case)}
    self.assertEqual(found, possible)


def _go_together(schedule, mesh, recompute, weight_gradients, cells):
  """Whether there is such a configuration, and all of its options count."""
  del schedule, mesh
  if weight_gradients == "batched" and recompute != "never":
    return False
  return cells == "ops" or recompute != "except_last"


def _pairs(case):
  return itertools.combinations(enumerate(case), 2)


if __name__ == "__main__":
  absltest.main()
