"""One task of a training cluster: a tf.estimator program as users write it.

It knows nothing of compat: cluster_test.py runs it by `python -m compat`, in
one process per task, each with its TF_CONFIG. Every step prints a line.
"""

import argparse
import os
import time

import numpy as np
import tensorflow as tf


class _Report(tf.estimator.SessionRunHook):
  """Prints the global step; steps last a while, until told to hurry."""

  def __init__(self, seconds_per_step, hurry_file):
    self._seconds_per_step = seconds_per_step
    self._hurry_file = hurry_file

  def begin(self):
    self._step = tf.compat.v1.train.get_global_step()

  def after_create_session(self, session, coord):
    print("session", flush=True)

  def before_run(self, run_context):
    return tf.estimator.SessionRunArgs(self._step)

  def after_run(self, run_context, run_values):
    print("step", run_values.results, flush=True)
    if not os.path.exists(self._hurry_file):
      time.sleep(self._seconds_per_step)


def _input_fn():
  x = np.random.RandomState(5).uniform(-1, 1, (64, 1)).astype(np.float32)
  dataset = tf.data.Dataset.from_tensor_slices(({"x": x}, 3 * x - 1))
  return dataset.repeat().batch(16)


def _model_fn(features, labels, mode):
  predictions = tf.compat.v1.layers.dense(features["x"], 1)
  loss = tf.compat.v1.losses.mean_squared_error(labels, predictions)
  optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
  train_op = optimizer.minimize(
    loss, tf.compat.v1.train.get_or_create_global_step()
  )
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--model_dir")
  parser.add_argument("--max_steps", type=int)
  parser.add_argument("--seconds_per_step", type=float)
  parser.add_argument("--hurry_file")
  parser.add_argument("--multi_worker_mirrored", action="store_true")
  flags = parser.parse_args()
  strategy = None
  if flags.multi_worker_mirrored:
    # TensorFlow asks for this with Estimator, on 2.15 as well.
    tf.compat.v1.disable_eager_execution()
    strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy()
  model = tf.estimator.Estimator(
    _model_fn,
    config=tf.estimator.RunConfig(
      model_dir=flags.model_dir,
      tf_random_seed=3,
      save_checkpoints_steps=100,
      train_distribute=strategy,
      experimental_max_worker_delay_secs=0,
    ),
  )
  tf.estimator.train_and_evaluate(
    model,
    tf.estimator.TrainSpec(
      _input_fn,
      max_steps=flags.max_steps,
      hooks=[_Report(flags.seconds_per_step, flags.hurry_file)],
    ),
    tf.estimator.EvalSpec(
      _input_fn, steps=4, start_delay_secs=0, throttle_secs=1
    ),
  )
  print("finished", flush=True)


if __name__ == "__main__":
  main()
