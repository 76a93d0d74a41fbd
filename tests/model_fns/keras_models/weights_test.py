"""Weights go from a Keras model into an Estimator, and back."""

import os

import model_fns
from tests import tiers
from tests.model_fns.keras_models import fits, zoo

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

keras = tf.keras


class WeightsTest(parameterized.TestCase):
  def _path(self):
    return self.create_tempdir().full_path

  def _assert_predict_the_same(self, case, model, estimator):
    def inputs():
      return case.dataset().map(lambda x, y: x)

    found = [next(iter(row.values())) for row in estimator.predict(inputs)]
    np.testing.assert_allclose(
      found, model.predict(case.inputs, verbose=0), atol=1e-6
    )

  @parameterized.named_parameters(
    tiers.sample([(name, name) for name in ("dense", "lstm", "subclassed")])
  )
  def test_from_an_estimator_into_a_model(self, name):
    case = zoo.MODELS[name]
    made = fits.estimator(model_fns.keras(case.compiled()), None, self._path())
    fits.train(made, case.dataset, 3)
    for load in (
      lambda model: model_fns.load_keras_weights(model, made.model_dir),
      lambda model: model.load_weights(made.latest_checkpoint()),
    ):
      model = case.compiled()
      load(model)
      self._assert_predict_the_same(case, model, made)

  def test_variables_that_a_graph_names_differently(self):
    """A layer that is called twice takes the name of the next one's scope."""
    case = zoo.MODELS["several"]
    model = case.compiled()
    made = fits.estimator(model_fns.keras(model), None, self._path())
    fits.train(made, case.dataset, 3)
    self.assertIn("dense_1_1/kernel", made.get_variable_names())
    model_fns.load_keras_weights(model, made.latest_checkpoint())
    np.testing.assert_array_equal(
      model.get_layer("dense_1").get_weights()[0],
      made.get_variable_value("dense_1_1/kernel"),
    )

  def test_from_an_estimator_on_a_mesh_into_a_model(self):
    case = zoo.MODELS["dense"]
    mesh = "stage:2,model:2"
    made = fits.estimator(
      model_fns.keras(case.compiled(), mesh), mesh, self._path()
    )
    fits.train(made, case.dataset, 3)
    model = case.compiled()
    model.load_weights(made.latest_checkpoint())
    self._assert_predict_the_same(case, model, made)

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("checkpoint", "weights"),
        ("h5", "weights.h5"),
        ("keras", "weights.weights.h5"),
      ]
    )
  )
  def test_from_save_weights_into_an_estimator(self, name):
    case = zoo.MODELS["dense"]
    model = case.compiled()
    model.fit(case.dataset(), verbose=0)
    path = os.path.join(self._path(), name)
    model.save_weights(path)
    loaded = case.compiled()
    loaded.load_weights(path)
    made = fits.estimator(model_fns.keras(loaded), None, self._path())
    self._assert_predict_the_same(case, model, made)
    # Training starts there, too.
    losses = fits.train(made, case.dataset, 1)
    self.assertAlmostEqual(
      losses[0],
      model.evaluate(case.dataset().take(1), verbose=0)[0],
      places=5,
    )

  @tiers.slow
  def test_the_model_that_was_given_is_still_an_eager_one(self):
    case = zoo.MODELS["convolutions"]
    model = case.compiled()
    made = fits.estimator(model_fns.keras(model), None, self._path())
    fits.train(made, case.dataset, 1)
    made.evaluate(case.dataset)
    model.fit(case.dataset(), verbose=0)
    copied = keras.models.clone_model(model)
    copied.set_weights(model.get_weights())
    np.testing.assert_allclose(
      copied.predict(case.inputs, verbose=0),
      model.predict(case.inputs, verbose=0),
      atol=1e-6,
    )


class ErrorsTest(absltest.TestCase):
  def test_no_checkpoint(self):
    with self.assertRaisesRegex(ValueError, "train the Estimator first, or gi"):
      model_fns.load_keras_weights(zoo.dense(), self.create_tempdir().full_path)

  def test_no_weights(self):
    path = os.path.join(self.create_tempdir().full_path, "none")
    tf.train.Checkpoint(x=tf.Variable(1.0)).write(path)
    model = keras.Sequential([keras.layers.Dense(1)], name="new")
    with self.assertRaisesRegex(ValueError, "'new' has no weights yet; call"):
      model_fns.load_keras_weights(model, path)

  def test_another_model(self):
    path = os.path.join(self.create_tempdir().full_path, "other")
    tf.train.Checkpoint(x=tf.Variable(1.0)).write(path)
    with self.assertRaisesRegex(ValueError, "no variable 'dense.*kernel'"):
      model_fns.load_keras_weights(zoo.dense(), path)


if __name__ == "__main__":
  absltest.main()
