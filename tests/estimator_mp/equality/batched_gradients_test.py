"""Weights' gradients of several micro-batches in one product.

That the numbers are the plain run's, pairs_test says for all models.
"""

import collections

import estimator_mp
from estimator_mp.config.schedules.schedule import Phase
from estimator_mp.graph import traversal
from estimator_mp.planning import sharding_plan
from tests import tiers
from tests.estimator_mp import parts, programs
from tests.estimator_mp.models import catalogue, registry

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_BATCH = programs.examples(catalogue.MODELS["mlp_sgd"].batch, 0, 24)


def _config(mesh, mode="batched", **options):
  return estimator_mp.ShardingConfig(
    mesh,
    **{"num_micro_batches": 4, "weight_gradients": mode} | options,
  )


def _products(program):
  """Returns the products that a step runs, by the shape of what they make."""
  found = collections.Counter()
  for op in traversal.ops_run_with(program.spec.train_op):
    if op.type == "MatMul" and op.get_attr("transpose_a"):
      found[tuple(op.outputs[0].shape)] += 1
  return found


@tf.custom_gradient
def _clipped_dense(x, weights):
  """A layer that clips what reaches its weights, and nothing else."""

  def backward(gradient):
    of_weights = tf.clip_by_value(gradient, -1e-3, 1e-3, name="for_weights")
    return (
      tf.matmul(gradient, weights, transpose_b=True),
      tf.matmul(x, of_weights, transpose_a=True),
    )

  return tf.matmul(x, weights), backward


def _layers_that_clip(features, labels, mode):
  net = features["x"]
  for number, units in enumerate((8, 8, 8, 1)):
    kernel = parts.weight(f"weights_{number}", [net.shape[1], units])
    net = _clipped_dense(net if number == 0 else tf.tanh(net), kernel)
  loss = parts.mean_loss(labels, net)
  return parts.spec(mode, loss, v1.train.MomentumOptimizer(0.1, 0.9))


_LAYERS_THAT_CLIP = registry.Model(_layers_that_clip)


class GraphTest(parameterized.TestCase):
  def _check(self, expected, mode="batched", **options):
    """Asserts how many products make the gradients of the four kernels."""
    model = catalogue.MODELS["mlp_sgd"]
    config = _config("stage:2", mode, **{"num_micro_batches": 8} | options)
    program = programs.Program(
      model.model_fn, config, _BATCH, model.params, is_static=True
    )
    shapes = (10, 16), (16, 16), (16, 8), (8, 1)
    self.assertEqual(
      _products(program), dict(zip(shapes, expected, strict=True))
    )

  @parameterized.named_parameters(
    # No more is kept than the gradient is: of three examples in each of eight
    # micro-batches, 160 numbers for 78; 256 for 96; 128 for 72; 8 for 27.
    ("auto", [4, 4, 8, 8], "auto"),
    ("of_two_rounds", [2, 2, 2, 2], "batched", 4, 2),
    *tiers.sample(
      [
        ("what_is_computed_again", [8, 8, 8, 8], "auto", 8, 1, "always"),
        ("each", [8, 8, 8, 8], "each"),
        ("batched", [1, 1, 1, 1], "batched"),
      ]
    ),
  )
  def test_products(
    self, expected, mode, micro_batches=8, rounds=1, recompute="never"
  ):
    self._check(
      expected,
      mode,
      num_micro_batches=micro_batches,
      gradient_accumulation_steps=rounds,
      recompute=recompute,
    )

  def test_products_of_programs_with_reference_variables(self):
    """In slices they have resources, which are read before an update."""
    v1.disable_resource_variables()
    self.addCleanup(v1.enable_resource_variables)
    self._check([1, 1, 1, 1])

  def test_what_a_product_alone_reads_waits_as_well(self):
    """In zero-bubble schedules that is of the weights' pass, as the product."""
    program = programs.assert_as_plain(
      self, _LAYERS_THAT_CLIP, _config("stage:2", schedule="zb1p")
    )
    cells = sharding_plan.get_plan(program.graph).pipeline.cells[0]
    phases = {cell.phase for op, cell in cells.items() if "for_weights" in op}
    self.assertEqual(phases, {Phase.WEIGHT})


class ConfigTest(absltest.TestCase):
  def test_all_that_is_multiplied_is_kept_or_computed_again(self):
    with self.assertRaisesRegex(
      ValueError, "^weight_gradients='batched' keeps what recompute='always' c"
    ):
      _config("stage:2", recompute="always")


if __name__ == "__main__":
  absltest.main()
