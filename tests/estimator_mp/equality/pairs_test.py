"""Models beside meshes, schedules and options, two at a time.

What one option does is tested elsewhere. Here any two values that go together
are those of some case (see tests/pairwise.py), and each step of a case is the
plain model's: loss, gradients, variables.
"""

import functools

import estimator_mp
from estimator_mp.plan import sharding_plan
from tests import pairwise, tiers
from tests.estimator_mp import programs, shapes, zoo

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
# As many slices as a case has fit into the smallest one. Every other case has
# a graph that knows the size.
_OPEN, _STATIC = (24, 25, 17), (24, 24, 24)

_VIRTUAL = ("interleaved", "zbv")
_REPLICAS = {
  "auto": {},
  "ring": {"aggregation": "ring"},
  "tree": {"aggregation": "tree", "bucket_bytes": 0},
  "collective": {"aggregation": "collective"},
  "shared": {"variables": "shared"},
  "sharded": {"optimizer_state": "sharded"},
}


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


# A model_fn, its params, and a batch of examples.
_MODELS = {
  **{
    name: (model.model_fn, model.params, (zoo.FEATURES, zoo.LABELS))
    for name, model in zoo.PURE_MODELS.items()
    # Slots follow their variables, whatever the optimizer.
    if name not in ("mlp_sgd", "mlp_momentum", "mlp_adagrad", "mlp_ftrl")
  },
  "averages": (_averages, None, shapes.BATCH),
  **{
    made.__name__: (made, None, shapes.BATCH)
    for made in (
      shapes.clipped,
      shapes.conds,
      shapes.counters,
      shapes.gan,
      shapes.gradient_penalty,
      shapes.loops,
      shapes.regularized_sum,
      shapes.skip_connections,
      shapes.tied_weights,
      shapes.two_lookups,
    )
  },
  "weighted_examples": (shapes.weighted_examples, None, shapes.WEIGHTED),
}
# They have fewer layers than two devices have virtual stages.
_SHALLOW = (
  *("clipped", "conds", "counters", "gan", "gradient_penalty"),
  *("keras_functional", "regularized_sum", "weighted_examples"),
)
# They ask for gradients twice, which cells as functions refuse.
_TWO_REQUESTS = ("canned", "gan", "gradient_penalty", "two_optimizers")
_FACTORS = {
  "model": (*_MODELS,),
  "mesh": (
    "stage:2",
    "data:2",
    "model:2",
    "data:2,stage:2",
    "stage:2,model:2",
    "data:2,model:2",
  ),
  "schedule": ("1f1b", "gpipe", "interleaved", "zb1p", "zb2p", "zbv", "auto"),
  "micro_batches": (3, 4, 1),
  "rounds": (1, 2),
  "recompute": ("never", "except_last", "always"),
  "weight_gradients": ("auto", "each", "batched"),
  "cells": ("ops", "functions"),
  "replicas": (*_REPLICAS,),
}


@functools.cache
def _config(
  model,
  mesh,
  schedule,
  micro_batches,
  rounds,
  recompute,
  weight_gradients,
  cells,
  replicas,
):
  """Returns a configuration, or None if there is none of these values."""
  try:
    return estimator_mp.ShardingConfig(
      mesh,
      schedule=schedule,
      num_micro_batches=micro_batches,
      gradient_accumulation_steps=rounds,
      num_virtual_stages=2 if schedule in _VIRTUAL else 1,
      recompute=recompute,
      weight_gradients=weight_gradients,
      cells=cells,
      # DNNLinearCombinedClassifier adds the losses of examples up.
      **_REPLICAS[replicas],
    )
  except ValueError:
    return None


def _go_together(model, **options):
  """Whether there is such a case, and all of its options count."""
  if model in _SHALLOW and options["schedule"] in _VIRTUAL:
    return False
  if model in _TWO_REQUESTS and options["cells"] == "functions":
    return False
  return _is_there(**options)


@functools.cache
def _is_there(**options):
  """Whether there is such a configuration, for any model."""
  is_cut = options["micro_batches"] > 1 or options["rounds"] > 1
  without_effect = []
  if "stage" not in options["mesh"] or not is_cut:
    without_effect += ["schedule", "recompute", "weight_gradients", "cells"]
  if "data" not in options["mesh"]:
    without_effect.append("replicas")
  if options["recompute"] == "except_last" and options["cells"] == "functions":
    return False
  if any(options[name] != _FACTORS[name][0] for name in without_effect):
    return False
  return _config(next(iter(_MODELS)), **options) is not None


@functools.cache
def _plain(model):
  """Returns the variables a run starts from, terms of gradients, and steps."""
  model_fn, params, batch = _MODELS[model]
  program = programs.Program(
    model_fn, None, programs.examples(batch, 0, 24), params
  )
  start = program.variables()
  terms = []
  for i in range(4):
    one = program.step(programs.examples(batch, i, i + 1))
    terms.append(one.gradients)
    program.load(start)
  steps = []
  for sizes in (_OPEN, _STATIC):
    program.load(start)
    steps.append([program.step(x) for x in _batches(batch, sizes)])
  return start, terms, steps


def _batches(batch, sizes):
  for i, size in enumerate(sizes):
    yield programs.examples(batch, 5 * i, 5 * i + size)


# The fast tier has each model once, and each value of the other factors.
_ALL = pairwise.pairs(_FACTORS, _go_together)
_FEW = pairwise.of_each("model", _ALL)
_CASES = [*enumerate(_FEW if tiers.FAST else _ALL)]


class PairsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (pairwise.name(case), case, number % 2 == 1) for number, case in _CASES
  )
  def test_steps_are_the_plain_models(self, case, is_static):
    model_fn, params, batch = _MODELS[case["model"]]
    sharded = programs.Program(
      model_fn,
      _config(**case),
      programs.examples(batch, 0, 24),
      params,
      is_static,
    )
    start, terms, steps = _plain(case["model"])
    sharded.load(start)
    # A key's bias has no gradient but rounding, which Adam brings to full size.
    noise = {x for x in start if "/key/bias" in x}
    sizes = _STATIC if is_static else _OPEN
    for i, (examples, expected) in enumerate(
      zip(_batches(batch, sizes), steps[is_static], strict=True)
    ):
      step = sharded.step(examples)
      self.assertAlmostEqual(step.loss / expected.loss, 1.0, places=5)
      if i == 0:
        programs.assert_same_gradients(
          self, step.gradients, expected.gradients, terms, 1e-5
        )
    programs.assert_same_variables(
      self,
      step.variables,
      expected.variables,
      1e-4 if case["model"] == "transformer" else 1e-5,
      noise,
    )
    if sharding_plan.get_plan(sharded.graph).mirrors:
      programs.assert_equal_mirrors(self, sharded)

  def test_the_fast_tier_has_all_values(self):
    for factor, values in _FACTORS.items():
      found = {case[factor] for case in _FEW}
      self.assertCountEqual(found, values)


if __name__ == "__main__":
  absltest.main()
