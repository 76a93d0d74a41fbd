"""The commands on an unedited program of TensorFlow 1, with --v1."""

import os
import pathlib
import subprocess
import sys

from absl.testing import absltest, parameterized

_REPOSITORY = str(pathlib.Path(__file__).resolve().parents[3])

_PROGRAM = """
import numpy as np
import tensorflow as tf
from tensorflow.contrib import layers

import sizes

flags = tf.app.flags
flags.DEFINE_integer("batch_size", 16, "examples of a step")
FLAGS = flags.FLAGS


def model_fn(features, labels, mode, params):
  assert tf.VERSION.startswith("1.")
  training = mode == tf.estimator.ModeKeys.TRAIN
  table = tf.get_variable("table", [100, 8])
  net = tf.nn.embedding_lookup(table, features["ids"])
  net = tf.reshape(net, [-1, features["ids"].shape[1].value * 8])
  for units in sizes.UNITS:
    net = layers.fully_connected(
      net,
      units,
      normalizer_fn=layers.batch_norm,
      normalizer_params={"is_training": training},
      scope="dense_%d" % units,
    )
  logits = layers.fully_connected(net, 1, activation_fn=None, scope="logits")
  loss = tf.losses.sigmoid_cross_entropy(labels, logits)
  updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
  with tf.control_dependencies(updates):
    train_op = tf.train.AdamOptimizer(0.01).minimize(
      loss, tf.train.get_global_step()
    )
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn():
  random = np.random.RandomState(0)
  ids = random.randint(0, 100, [256, 5])
  labels = random.randint(0, 2, [256, 1]).astype("float32")
  data = tf.data.Dataset.from_tensor_slices(({"ids": ids}, labels))
  data = data.repeat().batch(FLAGS.batch_size)
  return data.make_one_shot_iterator().get_next()
"""


class V1ProgramTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    pathlib.Path(self.folder, "old_ctr.py").write_text(_PROGRAM)
    pathlib.Path(self.folder, "sizes.py").write_text(
      "import tensorflow as tf\nUNITS = [32, 16]\nassert tf.placeholder\n"
    )

  def run_command(self, name, *arguments):
    paths = [_REPOSITORY, *filter(None, sys.path)]
    environment = {
      **os.environ,
      "PYTHONPATH": os.pathsep.join(paths),
      "BUILD_WORKING_DIRECTORY": self.folder,
    }
    return subprocess.run(
      [sys.executable, "-m", f"estimator_mp.{name}", *arguments],
      capture_output=True,
      check=False,
      env=environment,
      text=True,
      timeout=300,
    )

  def test_compare(self):
    done = self.run_command(
      "compare",
      "--v1",
      "--model_fn=old_ctr:model_fn",
      "--input_fn=old_ctr:input_fn",
      "--mesh=stage:3",
    )
    self.assertRegex(done.stdout, r"equal: .* to 0\.0e\+00 ", done.stderr)
    self.assertEqual(done.returncode, 0)

  def test_inspect(self):
    done = self.run_command(
      "inspect",
      "--v1",
      "--model_fn=old_ctr:model_fn",
      "--features=ids:int64[?,5]",
      "--labels=float32[?,1]",
    )
    self.assertRegex(done.stdout, r"0 +/device:CPU:0  table", done.stderr)
    self.assertEqual(done.returncode, 0)

  @parameterized.named_parameters(
    ("packages", ["--v1_packages=bert"], "--v1_packages is for programs"),
    ("no_program", ["--v1"], "--v1 is given without --model_fn"),
  )
  def test_wrong_flags(self, flags, message):
    done = self.run_command("inspect", *flags)
    self.assertIn(message, done.stderr)
    self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
  absltest.main()
