"""Keras policies of half precision: trained as by `fit`, and sharded."""

import estimator_mp
import model_fns
from tests import tiers
from tests.estimator_mp import programs
from tests.model_fns.keras_models import fits, zoo

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

keras = tf.keras
_SCALING = keras.mixed_precision.LossScaleOptimizer
_ULP = {"mixed_float16": 4.9e-4, "mixed_bfloat16": 3.9e-3}
# One row that is not finite: its step changes nothing but the scale.
_ROWS = zoo.ROWS.copy()
_ROWS[12, 3] = np.inf


def _dynamic(inner):
  return _SCALING(inner(0.05), initial_scale=256.0, dynamic_growth_steps=3)


_OPTIMIZERS = {
  "compiled": lambda: keras.optimizers.SGD(0.05),
  "dynamic": lambda: _dynamic(keras.optimizers.SGD),
  "legacy": lambda: _dynamic(keras.optimizers.legacy.SGD),
  "fixed": lambda: _SCALING(keras.optimizers.SGD(0.05), False, 256.0),
}
_MESHES = {
  "stages": {"mesh": "stage:2", "num_micro_batches": 4},
  "replicas": {"mesh": "data:2"},
  "zero": {"mesh": "data:2", "optimizer_state": "sharded"},
  "model_axis": {"mesh": "model:2"},
}


def _network(optimizer):
  rows = keras.Input([8])
  net = keras.layers.Dense(16, "tanh", name="a")(rows)
  net = keras.layers.Dense(16, "tanh", name="b")(net)
  model = keras.Model(
    rows, keras.layers.Dense(1, "linear", dtype="float32")(net)
  )
  model.compile(optimizer(), "mse")
  return model


class MixedPrecisionTest(parameterized.TestCase):
  def _case(self, policy, optimizer, rows):
    self.addCleanup(
      keras.mixed_precision.set_global_policy,
      keras.mixed_precision.global_policy(),
    )
    keras.mixed_precision.set_global_policy(policy)
    return zoo.Model(
      lambda: _network(_OPTIMIZERS[optimizer]), rows, zoo.NUMBERS
    )

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("bfloat16", "mixed_bfloat16", "compiled", zoo.ROWS),
        ("float16", "mixed_float16", "compiled", zoo.ROWS),
        ("dynamic", "mixed_float16", "dynamic", _ROWS),
        ("legacy", "mixed_float16", "legacy", _ROWS),
        ("fixed", "mixed_float16", "fixed", zoo.ROWS),
      ]
    )
  )
  def test_ten_steps_are_those_of_fit(self, policy, optimizer, rows):
    case = self._case(policy, optimizer, rows)
    model = case.compiled()
    made = fits.estimator(
      model_fns.keras(model), model_dir=self.create_tempdir().full_path
    )
    losses = fits.train(made, case.dataset, 8)
    expected = fits.fit(model, case.dataset(), steps=8)
    np.testing.assert_allclose(losses, expected, rtol=_ULP[policy])
    self.assertTrue(np.all(np.isfinite(losses[2:])))
    if getattr(model.optimizer, "dynamic", False):
      scale, _ = _scale(made.get_variable_names(), made.get_variable_value)
      self.assertEqual(scale, float(model.optimizer.loss_scale))

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("bfloat16", "mixed_bfloat16", "compiled", zoo.ROWS, "stages zero"),
        ("model", "mixed_bfloat16", "compiled", zoo.ROWS, "model_axis"),
        ("dynamic", "mixed_float16", "dynamic", _ROWS, "stages replicas zero"),
        ("legacy", "mixed_float16", "legacy", _ROWS, "stages zero"),
        ("fixed", "mixed_float16", "fixed", zoo.ROWS, "replicas"),
      ]
    )
  )
  def test_sharded_as_plain(self, policy, optimizer, rows, meshes):
    """As near as another order of the examples; terms of a bias cancel out."""
    case = self._case(policy, optimizer, rows)
    model_fn = model_fns.keras(case.compiled())
    batches = [
      (rows[i : i + 16], zoo.NUMBERS[i : i + 16]) for i in range(0, 48, 8)
    ]
    plain = programs.Program(model_fn, None, batches[0])
    before = plain.variables()
    for mesh in meshes.split():
      with self.subTest(mesh):
        config = estimator_mp.ShardingConfig(**_MESHES[mesh])
        program = programs.Program(model_fn, config, batches[0])
        plain.load(before)
        program.load(before)
        for batch in batches:
          step, expected = program.step(batch), plain.step(batch)
          ulp = _ULP[policy]
          np.testing.assert_allclose(step.loss, expected.loss, rtol=2 * ulp)
        programs.assert_same_variables(
          self, step.variables, expected.variables, 16 * ulp
        )
        self.assertEqual(
          _scale(step.variables, step.variables.get),
          _scale(expected.variables, expected.variables.get),
        )


def _scale(names, value):
  """Returns the loss scale and the count of finite steps; None without one."""
  found = (
    [value(n) for n in names if n.endswith(end)]
    for end in ("current_loss_scale", "good_steps")
  )
  return tuple(x[0] if x else None for x in found)


if __name__ == "__main__":
  absltest.main()
