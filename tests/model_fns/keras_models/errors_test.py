"""What cannot be trained as `fit` does is an error that says what to do."""

import model_fns
from model_fns.keras_models import features, outputs
from tests.model_fns.keras_models import zoo

import tensorflow as tf
from absl.testing import absltest, parameterized

keras = tf.keras
layers = keras.layers
v1 = tf.compat.v1
TRAIN = tf.estimator.ModeKeys.TRAIN


class _Unknown(tf.keras.Model):
  """A model without a config."""

  def __init__(self, units=2):
    super().__init__(name="unknown")
    self.layer = layers.Dense(units)

  def call(self, inputs):
    return self.layer(inputs)


class _OwnStep(tf.keras.Model):
  """A functional model that trains in its own way."""

  def train_step(self, data):
    return super().train_step(data)


class _Metric(tf.keras.metrics.Metric):
  """A metric whose config does not tell its argument."""

  def __init__(self, level, name="level"):
    super().__init__(name=name)
    self.level = level
    self.total = self.add_weight("total", initializer="zeros")

  def update_state(self, y_true, y_pred, sample_weight=None):
    return self.total.assign_add(self.level)

  def result(self):
    return self.total + 0.0


def _compiled(model, **arguments):
  model.compile("sgd", **{"loss": "mse", **arguments})
  return model


def _one_layer():
  inputs = keras.Input([4], name="x")
  return inputs, layers.Dense(1, name="y")(inputs)


class ModelsTest(parameterized.TestCase):
  def test_what_is_no_model(self):
    with self.assertRaisesRegex(TypeError, "model is 3; pass a compiled"):
      model_fns.keras(3)
    with self.assertRaisesRegex(TypeError, "pass a compiled tf.keras.Model"):
      model_fns.keras(_Unknown)

  def test_not_compiled(self):
    with self.assertRaisesRegex(ValueError, "is not compiled; call mod"):
      model_fns.keras(keras.Model(*_one_layer()))

  def test_a_class_without_a_config(self):
    with self.assertRaisesRegex(
      ValueError, "'unknown' is a subclass.*give _Unknown a get_config, or pass"
    ):
      model_fns.keras(_compiled(_Unknown(3)))

  def test_training_of_its_own(self):
    with self.assertRaisesRegex(ValueError, "train_step of its own.*sh"):
      model_fns.keras(_compiled(_OwnStep(*_one_layer())))

  def test_a_metric_without_a_config(self):
    model = _compiled(keras.Model(*_one_layer()), metrics=[_Metric(3.0)])
    with self.assertRaisesRegex(ValueError, "'level' takes level.*add get"):
      model_fns.keras(model)

  def test_class_weights_with_a_gap(self):
    with self.assertRaisesRegex(ValueError, "for each class from 0"):
      model_fns.keras(zoo.dense(), class_weight={0: 1.0, 2: 1.0})

  def test_a_model_that_was_made_in_a_graph(self):
    model = zoo.dense()
    with (
      tf.Graph().as_default(),
      self.assertRaisesRegex(ValueError, "given inside of a graph"),
    ):
      model_fns.keras(model)

  def test_a_config_that_does_not_tell_all(self):
    class Partly(_Unknown):
      def get_config(self):
        return {}

    model = Partly(3)
    model(zoo.ROWS[:1])
    with self.assertRaisesRegex(ValueError, "let get_config tell all"):
      _build(model_fns.keras(_compiled(model)), zoo.ROWS, zoo.NUMBERS)

  def test_a_function_that_returns_something_else(self):
    with self.assertRaisesRegex(TypeError, "the function returned None"):
      _build(model_fns.keras(lambda: None), zoo.ROWS, zoo.NUMBERS)

  def test_moving_averages_of_a_shared_layer(self):
    """Two updates of one variable have no order in a graph."""
    left, right = keras.Input([4]), keras.Input([4])
    normalize = layers.BatchNormalization(name="norm")
    net = layers.concatenate([normalize(left), normalize(right)])
    model = _compiled(keras.Model([left, right], layers.Dense(1)(net)))
    rows = zoo.ROWS[:, :4]
    with self.assertRaisesRegex(ValueError, "norm/moving_mean is updated"):
      _build(model_fns.keras(model), [rows, rows], zoo.NUMBERS)


class LossesTest(parameterized.TestCase):
  @parameterized.parameters(
    ("the model has no loss; compile it with a loss", {"loss": None}),
    (
      "has the reduction NONE",
      {"loss": keras.losses.MeanSquaredError(keras.losses.Reduction.NONE)},
    ),
    ("loss names w, but the model's outputs", {"loss": {"w": "mse"}}),
  )
  def test_losses(self, text, compiled):
    self._check(text, compiled=compiled)

  @parameterized.parameters(
    (
      "the model's input 'x' is not among the features",
      {"a": zoo.ROWS, "b": zoo.ROWS},
    ),
    ("2 tensors, but the model has 1 inputs", [zoo.ROWS, zoo.ROWS]),
    (r"feature has the shape \(64, 8, 8, 3\)", zoo.IMAGES),
  )
  def test_inputs(self, text, rows):
    self._check(text, rows)

  @parameterized.parameters(
    ("labels has 1 entries, but the model has 2 outputs", [zoo.NUMBERS]),
    (
      "class_weight is for a model with one output",
      [zoo.NUMBERS, zoo.NUMBERS],
      {0: 1.0},
    ),
  )
  def test_labels_of_two_outputs(self, text, labels, class_weight=None):
    self._check(text, labels=labels, outputs=2, class_weight=class_weight)

  def test_sample_weights_without_names(self):
    self._check("names a feature, but the features are", sample_weight="w")

  def _check(
    self,
    text,
    rows=zoo.ROWS[:, :4],
    labels=zoo.NUMBERS,
    outputs=1,
    compiled=None,
    **given,
  ):
    inputs, output = _one_layer()
    wanted = [output, layers.Dense(1, name="z")(inputs)][:outputs]
    model = keras.Model(inputs, wanted if outputs > 1 else output)
    model = _compiled(model, **(compiled or {}))
    with self.assertRaisesRegex(ValueError, text):
      _build(model_fns.keras(model, **given), rows, labels)


class FormsTest(absltest.TestCase):
  def test_sample_weights_of_some_outputs(self):
    rows = tf.constant(1.0)
    found = features.split_sample_weights(
      {"x": rows, "w": rows}, {"one": "w", "other": None}
    )
    self.assertEqual(list(found[0]), ["x"])
    self.assertIsNone(found[1]["other"])
    with self.assertRaisesRegex(ValueError, "names v, but the features are"):
      features.split_sample_weights({"x": rows, "w": rows}, ["w", "v"])

  def test_outputs_within_outputs(self):
    with self.assertRaisesRegex(ValueError, "outputs within outputs"):
      outputs.name_outputs([tf.constant(1), [tf.constant(2)]], None)


def _build(model_fn, rows, labels):
  """Builds the training graph."""
  with tf.Graph().as_default():
    v1.train.create_global_step()
    constants = tf.nest.map_structure(tf.constant, (rows, labels))
    model_fn(*constants, TRAIN)


if __name__ == "__main__":
  absltest.main()
