"""Weights' gradients of several micro-batches in one product.

That the numbers are the plain run's, pairs_test says for all models.
"""

import collections

import estimator_mp
from estimator_mp.config.schedules.schedule import Phase
from estimator_mp.graph import traversal
from estimator_mp.plan import sharding_plan
from tests.estimator_mp import parts, programs, zoo

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1
_BATCH = programs.examples((zoo.FEATURES, zoo.LABELS), 0, 24)


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
    shape = [net.shape[1], units]
    net = _clipped_dense(net, v1.get_variable(f"weights_{number}", shape))
    if units > 1:
      net = tf.tanh(net)
  labels = tf.cast(tf.reshape(labels, [-1, 1]), tf.float32)
  loss = parts.mean_loss(labels, net)
  return parts.spec(mode, loss, v1.train.MomentumOptimizer(0.1, 0.9))


class GraphTest(absltest.TestCase):
  def _program(self, mode="auto", **options):
    return programs.Program(
      zoo.mlp,
      _config("stage:2", mode, **{"num_micro_batches": 8} | options),
      _BATCH,
      zoo.MODELS["mlp_sgd"].params,
      is_static=True,
    )

  def test_what_is_kept_is_no_more_than_the_gradient(self):
    """Three examples in each of eight micro-batches."""
    self.assertEqual(
      _products(self._program()),
      # 160 numbers for 78; 256 for 96; 128 for 72; 8 for 27.
      {(10, 16): 4, (16, 16): 4, (16, 8): 8, (8, 1): 8},
    )

  def test_each(self):
    self.assertEqual({*_products(self._program("each")).values()}, {8})

  def test_batched(self):
    self.assertEqual({*_products(self._program("batched")).values()}, {1})

  def test_no_group_is_of_two_rounds(self):
    program = self._program(
      "batched", num_micro_batches=4, gradient_accumulation_steps=2
    )
    self.assertEqual({*_products(program).values()}, {2})

  def test_what_is_computed_again_is_not_kept(self):
    products = _products(self._program(recompute="always"))
    self.assertEqual({*products.values()}, {8})

  def test_what_a_product_alone_reads_waits_as_well(self):
    """In zero-bubble schedules that is of the weights' pass, as the product."""
    config = _config("stage:2", schedule="zb1p")
    plain, batched = (
      programs.Program(_layers_that_clip, config, _BATCH)
      for config in (None, config)
    )
    batches = [
      programs.examples((zoo.FEATURES, zoo.LABELS), first, first + 24)
      for first in range(0, 15, 3)
    ]
    programs.assert_same_steps(self, plain, batched, batches, 2e-6)
    cells = sharding_plan.get_plan(batched.graph).pipeline.cells[0]
    phases = [cell.phase for op, cell in cells.items() if "for_weights" in op]
    self.assertNotEmpty(phases)
    self.assertEqual({*phases}, {Phase.WEIGHT})

  def test_so_do_programs_with_reference_variables(self):
    """In slices they have resources, which are read before an update."""
    v1.disable_resource_variables()
    self.addCleanup(v1.enable_resource_variables)
    self.assertEqual({*_products(self._program("batched")).values()}, {1})


class ConfigTest(absltest.TestCase):
  def test_all_that_is_multiplied_is_kept_or_computed_again(self):
    with self.assertRaisesWithLiteralMatch(
      ValueError,
      "weight_gradients='batched' keeps what recompute='always' computes "
      'again; use weight_gradients="auto", or recompute="never"',
    ):
      _config("stage:2", recompute="always")


if __name__ == "__main__":
  absltest.main()
