"""Programs of a user's, which commands of tests are given."""

import os
import pathlib
from unittest import mock

# A module with a model_fn, its data, and what is wrong with others.
MODULE = """
import numpy as np
import tensorflow as tf
from absl import flags

v1 = tf.compat.v1
flags.DEFINE_string("mesh", "mine", "A flag that commands have too.")
number = 3


def input_fn(params):
  x = np.random.RandomState(3).rand(32, 4).astype(np.float32)
  data = tf.data.Dataset.from_tensor_slices(({"x": x}, x[:, :1]))
  return data.repeat().batch(params["batch_size"])


def model_fn(features, labels, mode, params):
  assert flags.FLAGS.mesh == "mine"
  units = params.get("units", 8)
  net = v1.layers.dense(features["x"], units, tf.tanh, name="first")
  net = tf.nn.dropout(net, params.get("rate", 0.0))
  net = v1.layers.dense(net, 1, name="second")
  loss = tf.reduce_mean((net - labels) ** 2)
  step = v1.train.get_global_step()
  train_op = v1.train.AdamOptimizer(0.01, epsilon=1e-4).minimize(loss, step)
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def no_spec(features):
  v1.layers.dense(features["x"], 1)
  return 5


def no_input(params):
  return 1 / 0


def no_feature(params):
  return input_fn(params).map(lambda x, y: ({"z": x["x"]}, y))


def broken_data(params):
  def records():
    yield [0.0] * 4, [0.0]
    raise OSError("the camera is off")

  kinds = (tf.float32, tf.float32)
  data = tf.data.Dataset.from_generator(records, kinds, ((4,), (1,)))
  return data.batch(1).map(lambda x, y: ({"x": x}, y))
"""
# What it reads is gone when its training ends, and it handles all errors.
SCRIPT = """
import argparse
import os
import tempfile

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def model_fn(features, labels, mode, params):
  net = v1.layers.dense(features["x"], params["units"], tf.tanh, name="first")
  net = v1.layers.dense(net, 1, name="second")
  loss = tf.reduce_mean((net - labels) ** 2)
  step = v1.train.get_global_step()
  train_op = v1.train.AdamOptimizer(0.01, epsilon=1e-4).minimize(loss, step)
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def main(units):
  config = tf.estimator.RunConfig(tf_random_seed=7)
  with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "x.npy")
    np.save(path, np.random.RandomState(3).rand(32, 4).astype(np.float32))

    def input_fn():
      x = np.load(path)
      data = tf.data.Dataset.from_tensor_slices(({"x": x}, x[:, :1]))
      return data.repeat().batch(8)

    params = {"units": units}
    try:
      tf.estimator.train_and_evaluate(
        tf.estimator.Estimator(model_fn, config=config, params=params),
        tf.estimator.TrainSpec(input_fn, max_steps=10),
        tf.estimator.EvalSpec(input_fn),
      )
    except Exception:
      pass


if __name__ == "__main__":
  parser = argparse.ArgumentParser()
  parser.add_argument("--units", type=int)
  main(parser.parse_args().units)
"""


def working_directory(test):
  """Makes an empty folder the one that commands are started in; returns it."""
  folder = pathlib.Path(test.create_tempdir().full_path)
  test.enter_context(
    mock.patch.dict(os.environ, BUILD_WORKING_DIRECTORY=str(folder))
  )
  return folder
