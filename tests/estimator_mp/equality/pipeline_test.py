"""Models of many shapes in micro-batches equal those of the full batch."""

import estimator_mp
from tests import tiers
from tests.estimator_mp import shapes

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


class ModelsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("skip_connections", shapes.skip_connections, "stage:4"),
        ("tied_weights", shapes.tied_weights),
        ("two_lookups", shapes.two_lookups),
        ("conds", shapes.conds),
        ("loops", shapes.loops),
        ("gan", shapes.gan, "stage:2"),
        ("gradient_penalty", shapes.gradient_penalty, "stage:2"),
        (
          "weighted_examples",
          shapes.weighted_examples,
          "stage:2",
          shapes.WEIGHTED,
        ),
        ("regularized", shapes.regularized, "stage:2"),
        (
          "regularized_sum",
          shapes.regularized_sum,
          "stage:2",
        ),
        ("clipped", shapes.clipped, "stage:2"),
      ]
    )
  )
  def test_equals_the_full_batch(
    self, model_fn, mesh="stage:3", batch=shapes.BATCH
  ):
    self._check(model_fn, batch, mesh)

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("conds", shapes.conds, "stage:2"),
        ("loops", shapes.loops, "stage:3"),
      ]
    )
  )
  def test_v1_control_flow(self, model_fn, mesh):
    v1.disable_control_flow_v2()
    self.addCleanup(v1.enable_control_flow_v2)
    self._check(model_fn, shapes.BATCH, mesh)

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("skip_connections", shapes.skip_connections),
        ("two_lookups", shapes.two_lookups),
      ]
    )
  )
  def test_reference_variables(self, model_fn):
    v1.disable_resource_variables()
    self.addCleanup(v1.enable_resource_variables)
    self._check(model_fn, shapes.BATCH, "stage:3")

  def _check(self, model_fn, batch, mesh, **fields):
    config = estimator_mp.ShardingConfig(mesh, num_micro_batches=4, **fields)
    shapes.assert_equals_the_full_batch(self, model_fn, batch, config)


if __name__ == "__main__":
  absltest.main()
