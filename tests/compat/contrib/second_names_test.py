"""tf.contrib.keras and tf.contrib.lite are tf.keras and tf.lite."""

import compat

compat.install(v1=True, v1_packages=["tests.compat.contrib"])

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from absl.testing import absltest, parameterized  # noqa: E402


class SecondNamesTest(parameterized.TestCase):
  def test_names_are_those_of_the_program(self):
    from tensorflow.contrib import keras, lite
    from tensorflow.contrib.keras import layers
    from tensorflow.contrib.lite.python.lite import TocoConverter

    self.assertIs(keras.layers.LSTM, tf.keras.layers.LSTM)
    self.assertIs(layers.LSTM, tf.keras.layers.LSTM)
    self.assertIs(tf.contrib.keras.models.Model, tf.keras.models.Model)
    self.assertIs(lite.TFLiteConverter, tf.lite.TFLiteConverter)
    self.assertIs(tf.contrib.lite.Interpreter, tf.lite.Interpreter)
    self.assertIs(TocoConverter, tf.lite.TocoConverter)

  def test_files_of_older_releases(self):
    import tensorflow.contrib.keras.python.keras.backend as backend
    import tensorflow.contrib.lite as tflite
    from tensorflow.contrib.keras.api.keras.layers import Dense
    from tensorflow.contrib.keras.python import keras
    from tensorflow.contrib.lite.python import interpreter, lite_constants

    self.assertIs(backend.mean, tf.keras.backend.mean)
    self.assertIs(keras.models.Model, tf.keras.models.Model)
    self.assertIs(Dense, tf.keras.layers.Dense)
    self.assertIs(interpreter.Interpreter, tf.lite.Interpreter)
    self.assertEqual(lite_constants.FLOAT, tf.float32)
    self.assertEqual(tflite.constants.QUANTIZED_UINT8, tf.uint8)

  @parameterized.named_parameters(
    (
      "attribute",
      "tensorflow.contrib.keras",
      "nonesuch",
      "had no tf.keras.non",
    ),
    ("module", "tensorflow.contrib.keras.nonesuch", "x", "Use tf.keras"),
    ("file", "tensorflow.contrib.lite.toco", "x", "Use tf.lite"),
    (
      "gone",
      "tensorflow.contrib.lite.experimental",
      "nn",
      "tf.keras.layers.LS",
    ),
  )
  def test_what_is_absent_says_what_to_use(self, module, name, message):
    with self.assertRaisesRegex((AttributeError, ImportError), message):
      exec(f"import {module} as found; found.{name}", globals().copy())

  def test_a_model_is_converted_and_runs(self):
    with tf.Graph().as_default(), tf.Session() as session:
      x = tf.placeholder(tf.float32, [1, 3], name="x")
      y = tf.identity(2 * x + 1, name="y")
      converter = tf.contrib.lite.TFLiteConverter.from_session(
        session, [x], [y]
      )
      model = converter.convert()
    interpreter = tf.contrib.lite.Interpreter(model_content=model)
    interpreter.allocate_tensors()
    place = interpreter.get_input_details()[0]["index"]
    interpreter.set_tensor(place, np.float32([[1.0, 2.0, 3.0]]))
    interpreter.invoke()
    place = interpreter.get_output_details()[0]["index"]
    found = interpreter.get_tensor(place)
    self.assertEqual(found.tolist(), [[3.0, 5.0, 7.0]])


if __name__ == "__main__":
  absltest.main()
