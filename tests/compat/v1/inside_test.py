"""What a TensorFlow 1 program imports from below tensorflow.python."""

import importlib

import compat

compat.install(v1=True, v1_packages=["tests.compat.v1"])

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import tensorflow.python.keras.layers as deep_layers  # noqa: E402
from absl.testing import absltest, parameterized  # noqa: E402
from tensorflow.python import keras, pywrap_tensorflow  # noqa: E402
from tensorflow.python.keras import backend, initializers  # noqa: E402
from tensorflow.python.keras.engine.base_layer import Layer  # noqa: E402
from tensorflow.python.keras.layers import Dense  # noqa: E402
from tensorflow.python.keras.layers.recurrent import LSTM  # noqa: E402
from tensorflow.python.keras.utils import tf_utils  # noqa: E402
from tensorflow.python.layers import base, convolutional, core  # noqa: E402
from tensorflow.python.ops import array_ops, rnn_cell_impl  # noqa: E402

_KERAS_MODULES = (
  "activations applications.resnet backend callbacks constraints "
  "datasets.mnist engine.base_layer engine.base_layer_utils "
  "engine.data_adapter engine.input_layer engine.input_spec engine.network "
  "engine.node engine.saving engine.sequential engine.training "
  "engine.training_utils initializers layers layers.advanced_activations "
  "layers.convolutional layers.convolutional_recurrent layers.core "
  "layers.cudnn_recurrent layers.dense_attention layers.embeddings "
  "layers.local layers.merge layers.noise layers.normalization "
  "layers.pooling layers.recurrent layers.serialization layers.wrappers "
  "losses metrics models optimizer_v2 optimizer_v2.adam "
  "optimizer_v2.learning_rate_schedule optimizer_v2.optimizer_v2 optimizers "
  "preprocessing.image preprocessing.sequence preprocessing.text "
  "regularizers saving.hdf5_format saving.save saving.saving_utils "
  "utils.conv_utils utils.data_utils utils.generic_utils utils.layer_utils "
  "utils.losses_utils utils.metrics_utils utils.np_utils utils.tf_utils "
  "utils.vis_utils"
)


class InsideTest(parameterized.TestCase):
  def test_there_is_one_keras(self):
    self.assertIs(Dense, tf.keras.layers.Dense)
    self.assertIs(keras.layers.Dense, Dense)
    self.assertIs(deep_layers.Dense, Dense)
    self.assertIs(tf.python.keras.layers.Dense, Dense)
    self.assertIs(LSTM, tf.keras.layers.LSTM)
    self.assertTrue(issubclass(Dense, Layer))
    self.assertIs(backend.mean, tf.keras.backend.mean)
    self.assertIs(initializers.Constant, tf.keras.initializers.Constant)
    self.assertTrue(callable(tf_utils.is_symbolic_tensor))

  @parameterized.parameters(
    ("layers.core", "Flatten"),
    ("layers.merge", "Concatenate"),
    ("layers.normalization", "BatchNormalization"),
    ("engine.network", "Functional"),
    ("engine.input_spec", "InputSpec"),
    ("engine.training", "Model"),
    ("optimizer_v2.adam", "Adam"),
    ("utils.generic_utils", "serialize_keras_object"),
  )
  def test_files_of_keras(self, module, name):
    module = importlib.import_module(f"tensorflow_v1.python.keras.{module}")
    self.assertTrue(callable(getattr(module, name)))

  def test_modules_of_keras(self):
    for name in _KERAS_MODULES.split():
      with self.subTest(name):
        importlib.import_module(f"tensorflow_v1.python.keras.{name}")

  def test_what_keras_has_no_more(self):
    with self.assertRaisesRegex(
      AttributeError, "python.keras.layers of Tensor"
    ):
      _ = deep_layers.Missing

  def test_the_others_are_as_they_are(self):
    self.assertIs(tf.python.ops.array_ops, array_ops)
    self.assertIs(tf.core.framework.graph_pb2.GraphDef, tf.GraphDef)

  def test_there_is_one_class_of_cells_and_one_of_layers(self):
    self.assertIs(rnn_cell_impl.RNNCell, tf.nn.rnn_cell.RNNCell)
    self.assertIs(rnn_cell_impl.LSTMStateTuple, tf.nn.rnn_cell.LSTMStateTuple)
    self.assertTrue(
      issubclass(tf.nn.rnn_cell.GRUCell, rnn_cell_impl.LayerRNNCell)
    )
    self.assertIs(base.Layer, tf.layers.Layer)
    self.assertIs(core.Dense, tf.layers.Dense)
    self.assertIs(core.dense, tf.layers.dense)
    self.assertIs(convolutional.Conv2D, tf.layers.Conv2D)
    normalization = importlib.import_module(
      "tensorflow_v1.python.layers.normalization"
    )
    self.assertIs(
      normalization.BatchNormalization, tf.layers.BatchNormalization
    )

  def test_a_module_that_is_nowhere(self):
    with self.assertRaisesRegex(ImportError, "python.keras.missing"):
      importlib.import_module("tensorflow_v1.python.keras.missing")
    with self.assertRaises(ImportError):
      importlib.import_module("tensorflow_v1.python.ops.missing")

  def test_reader_of_checkpoints(self):
    path = self.create_tempdir().full_path + "/model"
    with tf.Graph().as_default(), tf.Session() as session:
      tf.get_variable("v", initializer=np.float32([1, 2]))
      session.run(tf.global_variables_initializer())
      tf.train.Saver().save(session, path)
    for module in (pywrap_tensorflow, tf.pywrap_tensorflow, tf.train):
      reader = module.NewCheckpointReader(path)
      np.testing.assert_array_equal(reader.get_tensor("v"), [1, 2])
      self.assertEqual(reader.get_variable_to_shape_map(), {"v": [2]})

  def test_all_names_of_a_module(self):
    """deepctr 0.9.4 imports * from rnn_cell."""
    found = {"__name__": "tests.compat.v1.program"}
    exec("from tensorflow.python.ops.rnn_cell import *", found)
    self.assertIs(found["RNNCell"], tf.nn.rnn_cell.RNNCell)


if __name__ == "__main__":
  absltest.main()
