"""compat.install() makes tf.estimator work, however it is imported."""

import re
import sys
from unittest import mock

import compat
from tests import tiers
from tests.compat import processes

from absl.testing import absltest, parameterized

compat.install()

import tensorflow as tf  # noqa: E402

_SAME_OBJECTS = """
import sys
# Installing costs little: the implementation is imported when it is used.
assert "tensorflow_estimator" not in sys.modules
import tensorflow as tf
import tensorflow.compat.v1 as tf1
import tensorflow.estimator as imported
import tensorflow.compat.v1.estimator as imported1
from tensorflow import estimator
from tensorflow.compat.v1 import estimator as estimator1
from tensorflow.estimator import Estimator
from tensorflow.compat.v1.estimator import Estimator as Estimator1
import tensorflow_estimator
from tensorflow_estimator.python.estimator import estimator as module

assert (tf.estimator.Estimator is imported.Estimator is estimator.Estimator
        is Estimator is tf.compat.v2.estimator.Estimator is module.EstimatorV2)
assert (tf1.estimator.Estimator is imported1.Estimator is Estimator1
        is estimator1.Estimator is tf.compat.v1.estimator.Estimator
        is module.Estimator)
assert Estimator is not Estimator1
from tensorflow.python.estimator import estimator_lib, run_config
from tensorflow.python.estimator.canned import dnn, head
from tensorflow.python.estimator.estimator import Estimator as OldEstimator
from tensorflow.python.estimator.export import export, export_output
from tensorflow.python.estimator.inputs import numpy_io
from tensorflow.python.estimator.inputs.pandas_io import pandas_input_fn
from tensorflow.python.estimator.keras import model_to_estimator
import tensorflow.python.estimator.model_fn as model_fn_lib
assert OldEstimator is Estimator1
assert model_fn_lib.EstimatorSpec is tf.estimator.EstimatorSpec
assert run_config.RunConfig is tf.estimator.RunConfig
assert dnn.DNNClassifier is tf1.estimator.DNNClassifier
assert numpy_io.numpy_input_fn is tf1.estimator.inputs.numpy_input_fn
assert pandas_input_fn is tf1.estimator.inputs.pandas_input_fn
assert estimator_lib.TrainSpec is tf.estimator.TrainSpec
print("the same")
"""


class InstallTest(parameterized.TestCase):
  def test_import_compat_left_tensorflow_alone(self):
    program = "import sys, compat; sys.exit('tensorflow' in sys.modules)"
    self.assertEqual(processes.run("-c", program).returncode, 0)

  def test_again_costs_nothing(self):
    calls = []
    sys.setprofile(lambda frame, event, argument: calls.append(event))
    try:
      compat.install()
    finally:
      sys.setprofile(None)
    self.assertLess(len(calls), 200)

  def test_tf_keras_is_keras_2(self):
    self.assertTrue(tf.keras.layers.Layer.__module__.startswith("tf_keras"))


_LEGACY_PROGRAM = """
import compat; compat.install()
import tensorflow as tf
v1 = tf.compat.v1

def model_fn(features, labels, mode):
  loss = v1.losses.mean_squared_error(labels, v1.layers.dense(features, 1))
  optimizer = v1.train.GradientDescentOptimizer(0.1)
  train_op = optimizer.minimize(loss, v1.train.get_global_step())
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

def input_fn():
  return tf.data.Dataset.from_tensors(([[1.0]], [[2.0]]))

tf.estimator.Estimator(model_fn).train(input_fn)
v1.logging.warning("of the program")
"""


class KerasAdviceTest(absltest.TestCase):
  @tiers.slow
  def test_is_withheld_and_nothing_else(self):
    result = processes.run(
      "-c",
      _LEGACY_PROGRAM,
      env=processes.environment(TF_CPP_MIN_LOG_LEVEL=None),
    )
    self.assertEqual(result.returncode, 0, result.stderr)
    said = re.findall(r"^WARNING:tensorflow:(.*)", result.stderr, re.M)
    self.assertEqual(said, [mock.ANY, "of the program"])
    self.assertStartsWith(said[0], "Using temporary folder")  # Estimator's.
    # Some C++ code of TensorFlow logs before it looks at the level.
    self.assertNotIn("cpu_feature_guard", result.stderr)


# Each needs a process. From threads, or after TensorFlow, is harder than alone.
_ORDERS = tiers.sample(
  [
    ("compat_first", "import compat; compat.install()", None),
    ("tensorflow_first", "import tensorflow, compat; compat.install()", "1"),
    (
      "from_threads",
      "import compat, threading\n"
      "ts = [threading.Thread(target=compat.install) for _ in range(8)]\n"
      "[t.start() for t in ts]; [t.join() for t in ts]",
      None,
    ),
    ("when_imported", "import compat; compat.install_when_imported()", None),
    (
      "when_imported_and_at_once",
      "import compat; compat.install_when_imported(); compat.install()",
      None,
    ),
    (
      "when_imported_before",
      "import tensorflow, compat; compat.install_when_imported()",
      "1",
    ),
    (
      "when_imported_from_threads",
      "import compat, threading; compat.install_when_imported()\n"
      "def load():\n  import tensorflow\n"
      "kinds = (compat.install, load) * 4\n"
      "ts = [threading.Thread(target=kind) for kind in kinds]\n"
      "[t.start() for t in ts]; [t.join() for t in ts]",
      None,
    ),
  ]
)


class ImportOrderTest(parameterized.TestCase):
  @parameterized.named_parameters(_ORDERS)
  def test_every_import_form_gives_the_same_objects(self, install, keras):
    result = processes.run(
      "-c",
      f"{install}\n{_SAME_OBJECTS}",
      env=processes.environment(TF_USE_LEGACY_KERAS=keras),
    )
    self.assertEqual(result.stdout.strip(), "the same", result.stderr)

  @tiers.slow
  def test_what_is_wrong_is_said_when_tensorflow_is_imported(self):
    result = processes.run(
      "-c",
      "import compat, sys; compat.install_when_imported()\n"
      "assert 'tensorflow' not in sys.modules\n"
      "try:\n  import tensorflow\n"
      "except compat.CompatError as error:\n  print(error)\n"
      "else:\n  print(tensorflow.__version__)",
      env=processes.environment(TF_USE_LEGACY_KERAS="0"),
    )
    expected = (
      tf.__version__
      if tf.__version__.startswith("2.15")
      else "TF_USE_LEGACY_KERAS='0' chooses Keras 3"
    )
    self.assertIn(expected, result.stdout, result.stderr)


if __name__ == "__main__":
  absltest.main()
