"""A Keras model in an Estimator learns what it learns by `Model.fit`."""

import dataclasses

import model_fns
from tests import tiers
from tests.model_fns.keras_models import fits, zoo

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

keras = tf.keras
# What is not here is within 1e-6: means over a mask are divided once, and
# gradients of some sums are added in another order.
_EXACT = ("dense", "unbuilt", "convolutions", "several", "lstm", "subclassed")


class FitTest(parameterized.TestCase):
  @parameterized.named_parameters(
    tiers.sample([(name, name) for name in zoo.MODELS])
  )
  def test_ten_steps_are_those_of_fit(self, name):
    case = zoo.MODELS[name]
    model = case.compiled()
    made = fits.estimator(
      model_fns.keras(model), model_dir=self.create_tempdir().full_path
    )
    losses = fits.train(made, case.dataset)
    metrics = made.evaluate(case.dataset)
    # The model that was given is as it was, and is trained now.
    expected = fits.fit(model, case.dataset())
    rtol = 0 if name in _EXACT else 1e-6
    np.testing.assert_allclose(losses, expected, rtol=rtol)
    found = model.evaluate(case.dataset(), verbose=0, return_dict=True)
    for metric, value in found.items():
      # Keras calls outputs in a dict by their layers.
      metric = _BY_LAYERS.get(metric, metric)
      np.testing.assert_allclose(metrics[metric], value, rtol=1e-5)
    weights = model.get_weights()
    model_fns.load_keras_weights(model, made.model_dir)
    for mine, other in zip(model.get_weights(), weights, strict=True):
      np.testing.assert_allclose(mine, other, rtol=rtol, atol=1e-6)

  def test_predictions_are_those_of_predict(self):
    case = zoo.MODELS["several"]
    model = case.compiled()
    made = fits.estimator(
      model_fns.keras(model), model_dir=self.create_tempdir().full_path
    )
    # Without a checkpoint, the weights are those that the model was given with.
    found = [*made.predict(lambda: case.dataset().map(lambda x, y: x))]
    number, kind = model.predict(case.inputs, verbose=0)
    np.testing.assert_allclose(
      np.stack([row["number"] for row in found]), number, atol=1e-6
    )
    np.testing.assert_allclose(
      np.stack([row["kind"] for row in found]), kind, atol=1e-6
    )


_BY_LAYERS = {"dense_2_loss": "one_loss", "dense_3_loss": "other_loss"}


class WeightsOfExamplesTest(parameterized.TestCase):
  def _check(self, case, make_dataset, class_weight=None, **arguments):
    """Compares training with examples that count differently."""
    model = case.compiled()

    def input_fn():
      def named(inputs, labels, weights=None):
        if not isinstance(inputs, dict):
          inputs = {"x": inputs}
        if weights is None:
          return inputs, labels
        return {**inputs, "weight": weights}, labels

      return make_dataset().map(named)

    made = fits.estimator(
      model_fns.keras(model, class_weight=class_weight, **arguments),
      model_dir=self.create_tempdir().full_path,
    )
    losses = fits.train(made, input_fn)
    metrics = made.evaluate(input_fn)
    dataset = make_dataset()
    expected = fits.fit(model, dataset, class_weight)
    np.testing.assert_allclose(losses, expected, rtol=1e-6)
    for name, value in model.evaluate(
      dataset, verbose=0, return_dict=True
    ).items():
      np.testing.assert_allclose(metrics[name], value, rtol=1e-5)

  @tiers.slow
  def test_sample_weights(self):
    case = zoo.MODELS["several"]
    self._check(case, case.weighted_dataset, sample_weight="weight")

  @tiers.slow
  @parameterized.named_parameters(
    tiers.sample([("word_tagger", "word_tagger"), ("tagger", "tagger")])
  )
  def test_sample_weights_of_steps_that_are_masked(self, name):
    case = zoo.MODELS[name]
    case = dataclasses.replace(case, inputs={"words": case.inputs})
    self._check(
      case,
      lambda: fits.data(case.inputs, case.labels, zoo.WEIGHTS[:, None]),
      sample_weight="weight",
    )

  @tiers.slow
  def test_class_weights_times_sample_weights(self):
    case = zoo.MODELS["convolutions"]
    self._check(
      case,
      # Keras cannot multiply them in batches of unknown size.
      lambda: case.weighted_dataset().unbatch().batch(8, drop_remainder=True),
      {0: 0.5, 1: 2.0, 2: 3.0},
      sample_weight="weight",
    )

  @tiers.slow
  @parameterized.named_parameters(
    tiers.sample([("convolutions", "convolutions"), ("lstm", "lstm")])
  )
  def test_class_weights(self, name):
    case = zoo.MODELS[name]
    self._check(case, case.dataset, {0: 0.5, 1: 2.0, 2: 3.0})

  def test_the_features_of_model_to_estimator(self):
    case = zoo.MODELS["dense"]
    model = case.compiled()

    def input_fn():
      return case.weighted_dataset().map(
        lambda x, y, w: ({"features": x, "sample_weights": w}, y)
      )

    made = fits.estimator(
      model_fns.keras(model), model_dir=self.create_tempdir().full_path
    )
    losses = fits.train(made, input_fn)
    self.assertEqual(losses, fits.fit(model, case.weighted_dataset()))


class FunctionsTest(parameterized.TestCase):
  """A function that makes the model is called in the Estimator's graph."""

  @tiers.slow
  @parameterized.named_parameters(
    (name, name)
    for name in tiers.sample(("convolutions", "several", "subclassed"))
  )
  def test_ten_steps_are_those_of_fit(self, name):
    case = zoo.MODELS[name]
    model = case.compiled()
    path = self.create_tempdir().full_path
    # The weights that a function's model starts from are those of a checkpoint.
    given = fits.estimator(model_fns.keras(model), model_dir=path)
    start = fits.train(given, case.dataset, steps=1)
    made = {
      "convolutions": zoo.convolutions,
      "several": zoo.several,
      "subclassed": _unbuilt_subclassed,
    }[name]
    going_on = fits.estimator(model_fns.keras(made), model_dir=path)
    losses = fits.train(going_on, case.dataset, steps=fits.STEPS - 1)
    # Batches begin anew, as the model does.
    again = case.compiled()
    model_fns.load_keras_weights(again, path)
    metrics = going_on.evaluate(case.dataset)
    found = again.evaluate(case.dataset(), verbose=0, return_dict=True)
    for metric, value in found.items():
      np.testing.assert_allclose(metrics[metric], value, rtol=1e-5)
    self.assertLen([*start, *losses], fits.STEPS)
    self.assertLess(losses[-1], start[0])


def _unbuilt_subclassed():
  model = zoo.Subclassed(8)
  model.compile(keras.optimizers.Adam(0.01), "mse", ["mae"])
  return model


if __name__ == "__main__":
  absltest.main()
