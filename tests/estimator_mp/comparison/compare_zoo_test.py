"""`compare` on the programs of the other tests: plain, and in four slices."""

import inspect

import estimator_mp
from tests import tiers
from tests.estimator_mp import batch_models, shapes, zoo

import tensorflow as tf
from absl.testing import absltest, parameterized

_CONFIG = estimator_mp.ShardingConfig("data:2,stage:2", num_micro_batches=2)
# Adam brings gradients that are nearly zero, and their rounding, to full size.
_TOLERANCES = {"deepfm": 1e-4}
_SHAPES = [
  function
  for _, function in inspect.getmembers(shapes, inspect.isfunction)
  if list(inspect.signature(function).parameters)[:3]
  == ["features", "labels", "mode"]
]


class CompareTest(parameterized.TestCase):
  def _check(self, model_fn, batch, tolerance=1e-5, **fields):
    def input_fn():
      return tf.data.Dataset.from_tensor_slices(batch).repeat().batch(24)

    compared = estimator_mp.compare(
      model_fn, input_fn, _CONFIG, 2, tolerance=tolerance, **fields
    )
    self.assertTrue(compared.ok, compared.text())
    self.assertLen(compared.steps, 2)

  @parameterized.named_parameters(
    (name, name)
    for name in tiers.sample(
      (
        "mlp_keras_adam",
        "cnn",
        "lstm",
        "deepfm",
        "keras_functional",
        "two_optimizers",
        "canned",
      )
    )
  )
  def test_zoo(self, name):
    model = zoo.PURE_MODELS[name]
    self._check(
      model.model_fn,
      (zoo.FEATURES, zoo.LABELS),
      _TOLERANCES.get(name, 1e-5),
      params=model.params,
      restart_each_step=name in _TOLERANCES,
    )

  @parameterized.named_parameters(
    tiers.sample([(f.__name__, f) for f in _SHAPES])
  )
  def test_shapes(self, model_fn):
    self._check(model_fn, shapes.WEIGHTED)

  @parameterized.named_parameters(
    tiers.sample(
      [
        (f.__name__, f)
        for f in (
          batch_models.maml,
          batch_models.adversarial,
          *batch_models.LOSSES,
          *batch_models.UPDATES,
        )
      ]
    )
  )
  def test_merges(self, model_fn):
    self._check(model_fn, batch_models.BATCH)


if __name__ == "__main__":
  absltest.main()
