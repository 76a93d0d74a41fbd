"""Transformers on any mesh are those on one device."""

import functools

import estimator_mp
import model_fns
from tests import tiers
from tests.estimator_mp import programs
from tests.model_fns.transformers import texts

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized


def _calm_adam():
  """Adam that does not bring to full size what is 0 but for rounding."""
  return tf.compat.v1.train.AdamOptimizer(0.001, epsilon=1e-4)


_STEPS = 2
_DECODER = functools.partial(model_fns.transformer, **texts.SIZES)
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
def _plain(model):
  """Returns the variables at first, and twenty steps on one device."""
  make, batch = _MODELS[model]
  program = programs.Program(make(), None, batch)
  return program.variables(), [program.step(x) for x in _batches(batch)]


def _batches(batch):
  return [programs.examples(batch, i % 4, i % 4 + 16) for i in range(_STEPS)]


class EqualityTest(parameterized.TestCase):
  @parameterized.named_parameters(tiers.sample(_CASES))
  def test_twenty_steps(self, model, mesh, fields):
    make, batch = _MODELS[model]
    config = estimator_mp.ShardingConfig(mesh, **fields)
    sharded = programs.Program(make(), config, batch)
    start, plain = _plain(model)
    programs.assert_same_variables(self, sharded.variables(), start, rtol=0)
    steps = [sharded.step(x) for x in _batches(batch)]
    programs.assert_same_gradients(
      self, steps[0].gradients, plain[0].gradients, (), rtol=1e-5
    )
    np.testing.assert_allclose(
      [step.loss for step in steps], [step.loss for step in plain], rtol=1e-5
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
    checkpoint = texts.checkpoint_of(self, make(), batch)
    plain, sharded = (
      texts.estimator_of(make(config=c), c).evaluate(
        texts.batches_of(batch), checkpoint_path=checkpoint
      )
      for c in (None, config)
    )
    self.assertCountEqual(sharded, plain)
    for name, value in plain.items():
      np.testing.assert_allclose(sharded[name], value, rtol=1e-6, err_msg=name)
    plain, sharded = (
      texts.predictions_of(make(config=c), c, checkpoint, batch[0])
      for c in (None, config)
    )
    self.assertCountEqual(sharded, plain)
    for name, value in plain.items():
      np.testing.assert_allclose(
        sharded[name], value, rtol=1e-6, atol=1e-6, err_msg=name
      )


if __name__ == "__main__":
  absltest.main()
