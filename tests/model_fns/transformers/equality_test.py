"""Transformers on any mesh are those on one device."""

import functools

import estimator_mp
import model_fns
from tests import tiers
from tests.estimator_mp import programs
from tests.estimator_mp.models import registry
from tests.model_fns.transformers import texts

import tensorflow as tf
from absl.testing import absltest, parameterized


def _calm_adam():
  """Adam that does not bring to full size what is 0 but for rounding."""
  return tf.compat.v1.train.AdamOptimizer(0.001, epsilon=1e-4)


_SIZES = (16,) * (2 if tiers.FAST else 20)
_DECODER = functools.partial(model_fns.transformer, **texts.SIZES)
# A factory, and the batch that its model reads.
_MODELS = {
  "decoder": (_DECODER, ({"tokens": texts.TOKENS}, texts.NEXT)),
  "rotary_with_weights": (
    functools.partial(_DECODER, positions="rotary"),
    ({"tokens": texts.TOKENS, "weights": texts.WEIGHTS}, texts.NEXT),
  ),
  "encoder": (
    functools.partial(
      _DECODER, kind="encoder", num_classes=3, optimizer=_calm_adam
    ),
    ({"tokens": texts.TOKENS, "length": texts.LENGTHS}, texts.CLASSES),
  ),
}
_CASES = [
  ("encoder_data", "encoder", "data:2", {}),
  ("decoder_stages", "decoder", "stage:2", {"num_micro_batches": 4}),
  ("decoder_model", "decoder", "model:2", {}),
  ("decoder_data", "rotary_with_weights", "data:2", {"num_micro_batches": 2}),
  (
    "decoder_both",
    "decoder",
    "stage:2,model:2",
    {"num_micro_batches": 4, "recompute": "always"},
  ),
  ("encoder_both", "encoder", "stage:2,model:2", {"num_micro_batches": 4}),
]


@functools.cache
def _model(name):
  make, batch = _MODELS[name]
  return registry.Model.of_batch(make(), *batch)


class EqualityTest(parameterized.TestCase):
  @tiers.slow
  @parameterized.named_parameters(tiers.sample(_CASES))
  def test_twenty_steps(self, model, mesh, fields):
    config = estimator_mp.ShardingConfig(mesh, **fields)
    programs.assert_as_plain(
      self, _model(model), config, _SIZES, 1e-4, starts_alike=True
    )

  @tiers.slow
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("decoder_both", "decoder", "stage:2,model:2"),
        ("encoder_model", "encoder", "data:2,model:2"),
      ]
    )
  )
  def test_evaluation_and_predictions(self, model, mesh):
    """The last batch of three is short."""
    make, batch = _MODELS[model]
    config = estimator_mp.ShardingConfig(mesh)
    texts.assert_same_serving(self, make, config, batch)


if __name__ == "__main__":
  absltest.main()
