"""tf-keras serves a TensorFlow that does not look for it; what does without it.

docs/tf_keras.md has the results.
"""

import textwrap

import compat
from tests import tiers
from tests.compat import processes

from absl.testing import absltest, parameterized

compat.install()

from compat import versions  # noqa: E402

import tensorflow as tf  # noqa: E402

_HAS_KERAS_2 = versions.has_own_estimator(tf.__version__)

# Without tf-keras, and without compat's check for it.
_WITHOUT = """
import sys
sys.modules["tf_keras"] = None
from compat.private import missing_names
import tensorflow as tf
missing_names.supply()
from tensorflow_estimator.python.estimator.api._v1 import estimator as api
from tensorflow.python.keras.layers.legacy_rnn import rnn_cell_impl as cells
from tensorflow.python.keras.legacy_tf_layers import core

v1 = tf.compat.v1

def model_fn(features, labels, mode):
  w = v1.get_variable("w", [3, 1])
  loss = tf.reduce_mean((features @ w - labels) ** 2)
  step = v1.train.get_global_step()
  train_op = v1.train.AdamOptimizer(0.1).minimize(loss, step)
  return api.EstimatorSpec(mode, loss=loss, train_op=train_op)

def input_fn():
  return tf.data.Dataset.from_tensors((tf.ones([2, 3]), tf.ones([2, 1])))

estimator = api.Estimator(model_fn)
estimator.train(input_fn)
print(estimator.get_variable_names())

with tf.Graph().as_default():
  core.dense(tf.zeros([2, 3]), 2)
  v1.nn.dynamic_rnn(cells.LSTMCell(4), tf.zeros([2, 3, 5]), dtype=tf.float32)
  print([x.op.name for x in v1.global_variables()])

column = tf.feature_column.numeric_column("x")
for refused in (
  lambda: v1.layers.dense,
  lambda: v1.nn.rnn_cell.LSTMCell,
  lambda: api.DNNRegressor([2], [column]).train(
    lambda: tf.data.Dataset.from_tensors(({"x": [1.0]}, [[1.0]]))
  ),
):
  try:
    refused()
  except AttributeError as error:
    print(error)
"""


@absltest.skipIf(_HAS_KERAS_2, "TensorFlow 2.15 comes with Keras 2")
class MountedKerasTest(parameterized.TestCase):
  @parameterized.parameters(*tiers.sample([("core_layers",), ("nn_cells",)]))
  def test_golden_cases_are_equal(self, area):
    done = processes.run(
      *("-m", "tests.compat.mounted_keras", "tests.compat.v1.golden_test"),
      env=processes.environment(GOLDEN_AREA=area, XML_OUTPUT_FILE=None),
    )
    self.assertRegex(done.stderr, r"(?m)^Ran [1-9]\d* tests?")
    self.assertEqual(done.returncode, 0, done.stderr)

  @tiers.slow
  def test_what_does_without_it(self):
    done = processes.run("-c", textwrap.dedent(_WITHOUT))
    self.assertEqual(done.returncode, 0, done.stderr)
    trained, made, *errors = done.stdout.splitlines()
    self.assertIn("'w'", trained)
    names = ["dense/kernel", "dense/bias"]
    names += ["rnn/lstm_cell/kernel", "rnn/lstm_cell/bias"]
    self.assertEqual(made, str(names))
    for error, name in zip(
      errors, ("`dense` ", "`LSTMCell` ", "'DenseFeatures'"), strict=True
    ):
      self.assertIn(name, error)


if __name__ == "__main__":
  absltest.main()
