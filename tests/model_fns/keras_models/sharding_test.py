"""A Keras model on several devices is the plain one for 20 steps."""

import estimator_mp
import model_fns
from tests import tiers
from tests.model_fns.keras_models import fits, zoo

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_STEPS, _FIT_STEPS = (2, 2) if tiers.FAST else (20, 6)
_CASES = {
  "several": (
    {"mesh": "stage:2"},
    {"mesh": "model:2"},
    {"mesh": "data:2"},
    {"mesh": "stage:2,model:2", "num_micro_batches": 4},
    {"mesh": "stage:2", "placement": [("embed|dense/", 0), (".", 1)]},
  ),
  "nested": ({"mesh": "stage:2", "num_micro_batches": 4},),
  "tagger": (
    {"mesh": "data:2"},
    {"mesh": "stage:2", "num_micro_batches": 4},
  ),
  "lstm": ({"mesh": "stage:2,model:2", "num_micro_batches": 4},),
  "subclassed": ({"mesh": "stage:2,model:2", "num_micro_batches": 4},),
  # Its batch norm normalises what a slice has: see docs/differences.md.
  "convolutions": ({"mesh": "stage:2"}, {"mesh": "model:2"}),
}
_ALL = [
  (f"{name}_{i}", name, fields)
  for name, listed in _CASES.items()
  for i, fields in enumerate(listed)
]


class EqualityTest(parameterized.TestCase):
  @parameterized.named_parameters(tiers.sample(_ALL))
  def test_twenty_steps(self, name, fields):
    """Losses, gradients and variables, from the same weights."""
    case = zoo.MODELS[name]
    compared = estimator_mp.compare(
      model_fns.keras(case.compiled()),
      lambda: case.dataset().repeat(),
      estimator_mp.ShardingConfig(**fields),
      _STEPS,
    )
    self.assertTrue(compared.ok, compared.text())
    self.assertLen(compared.steps, _STEPS)

  @tiers.slow
  def test_class_and_sample_weights_in_micro_batches(self):
    case = zoo.MODELS["lstm"]
    weights = {"class_weight": {0: 0.2, 1: 1.0, 2: 3.0}}

    def input_fn():
      return case.weighted_dataset().map(
        lambda x, y, w: ({"x": x, "weight": w}, y)
      )

    compared = estimator_mp.compare(
      model_fns.keras(case.compiled(), sample_weight="weight", **weights),
      input_fn,
      estimator_mp.ShardingConfig("data:2", num_micro_batches=2),
    )
    self.assertTrue(compared.ok, compared.text())


class TrafficTest(absltest.TestCase):
  def test_each_stage_updates_its_variables(self):
    """A Keras optimizer passes all gradients through one op."""
    case = zoo.MODELS["nested"]
    plan = estimator_mp.plan(
      model_fns.keras(case.compiled()),
      lambda: case.dataset().repeat(),
      estimator_mp.ShardingConfig("stage:2"),
    )
    sent = {x.tensor: x.num_bytes for x in plan.placement.transfers}
    updates = {x: size for x, size in sent.items() if x.startswith("train/")}
    # The optimizer's count of steps, and its learning rate.
    self.assertLessEqual(sum(updates.values()), 16, updates)
    weights = [x for x in sent if x.endswith(("MatMul_1:0", "BiasAddGrad:0"))]
    self.assertEmpty(weights)


class EstimatorTest(parameterized.TestCase):
  def test_one_line(self):
    """A mesh's text is enough; metrics and predictions are the plain ones."""
    case = zoo.MODELS["several"]
    model = case.compiled()
    folder = self.create_tempdir().full_path
    plain = fits.estimator(model_fns.keras(model), model_dir=folder)
    fits.train(plain, case.dataset, steps=2)
    mesh = "stage:2,model:2"
    sharded = fits.estimator(
      model_fns.keras(model, mesh), mesh, model_dir=folder
    )
    metrics = sharded.evaluate(case.dataset)
    for name, value in plain.evaluate(case.dataset).items():
      np.testing.assert_allclose(metrics[name], value, rtol=1e-6)

    def inputs():
      return case.dataset().map(lambda x, y: x)

    found, expected = [*sharded.predict(inputs)], [*plain.predict(inputs)]
    self.assertLen(found, zoo.EXAMPLES)
    for mine, other in zip(found, expected, strict=True):
      for name in ("number", "kind"):
        np.testing.assert_allclose(mine[name], other[name], atol=1e-6)

  def test_an_exported_model_needs_no_mesh(self):
    case = zoo.MODELS["subclassed"]
    model = case.compiled()
    made = fits.estimator(
      model_fns.keras(model, "stage:2"),
      "stage:2",
      model_dir=self.create_tempdir().full_path,
    )
    fits.train(made, case.dataset, steps=2)
    path = made.export_saved_model(
      self.create_tempdir().full_path,
      _receiver,
    )
    served = tf.saved_model.load(path.decode()).signatures["serving_default"]
    (found,) = served(tf.constant(zoo.ROWS)).values()
    model_fns.load_keras_weights(model, made.model_dir)
    np.testing.assert_allclose(
      found, model.predict(zoo.ROWS, verbose=0), atol=1e-6
    )


def _receiver():
  rows = tf.compat.v1.placeholder(tf.float32, [None, 8], "x")
  return tf.estimator.export.TensorServingInputReceiver(rows, rows)


class ModelToEstimatorTest(parameterized.TestCase):
  """`tf.keras.estimator.model_to_estimator`'s Estimator, sharded as a whole."""

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("stages", {"mesh": "stage:2", "num_micro_batches": 2}),
        ("model_axis", {"mesh": "model:2"}),
        ("replicas", {"mesh": "data:2"}),
      ]
    )
  )
  def test_is_the_plain_one(self, fields):
    def make():
      model = zoo.Model(
        lambda: zoo.dense(tf.keras.optimizers.legacy.Adam(0.01)),
        zoo.ROWS,
        zoo.NUMBERS,
      ).compiled()
      return tf.keras.estimator.model_to_estimator(
        model, model_dir=self.create_tempdir().full_path
      )

    def input_fn():
      return fits.data({"input_1": zoo.ROWS}, zoo.NUMBERS)

    config = estimator_mp.ShardingConfig(**fields)
    plain, sharded = make(), estimator_mp.shard_estimator(make(), config)
    losses = fits.train(sharded, input_fn, _FIT_STEPS)
    expected = fits.train(plain, input_fn, _FIT_STEPS)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    for name in plain.get_variable_names():
      if name != "_CHECKPOINTABLE_OBJECT_GRAPH":
        np.testing.assert_allclose(
          sharded.get_variable_value(name),
          plain.get_variable_value(name),
          rtol=1e-4,
          atol=1e-6,
        )


if __name__ == "__main__":
  absltest.main()
