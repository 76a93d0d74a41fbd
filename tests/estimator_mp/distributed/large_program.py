"""A model that is large for one process: what a limit of memory is tried on.

  python -m tests.estimator_mp.distributed.large_program DIR MESH LAYERS UNITS

It trains as TF_CONFIG says, and prints the loss of each step. MESH is "plain"
for the plain Estimator. LAYERS is how many there are, UNITS the size of each.
"""

import sys

import estimator_mp
from tests.estimator_mp import runs

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
STEPS = 3
_BATCH = 16


def _model_fn(features, labels, mode, params):
  """Layers whose memory is weights, each with its gradient and two slots."""
  net = features
  for index in range(params["layers"]):
    # The same in each run, as far as TensorFlow draws the same.
    initializer = v1.random_normal_initializer(0.0, 0.03, seed=index)
    net = v1.layers.dense(
      net,
      params["units"],
      tf.tanh,
      kernel_initializer=initializer,
      name=f"layer{index}",
    )
  loss = tf.reduce_mean((net - labels) ** 2)
  if mode != tf.estimator.ModeKeys.TRAIN:
    return tf.estimator.EstimatorSpec(mode, loss=loss)
  step = v1.train.get_or_create_global_step()
  # With less, steps would be where rounding is all of a gradient.
  train_op = v1.train.AdamOptimizer(0.02, epsilon=1e-2).minimize(loss, step)
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _input_fn(params):
  random = np.random.RandomState(3)
  x = random.randn(_BATCH, params["units"]).astype(np.float32)
  y = random.randn(_BATCH, params["units"]).astype(np.float32)
  return tf.data.Dataset.from_tensors((x, y)).repeat()


def main(argv):
  """Trains, and prints the losses."""
  model_dir, mesh, layers, units = argv[1:]
  params = {"layers": int(layers), "units": int(units)}
  if mesh == "plain":
    model_fn, config = _model_fn, tf.estimator.RunConfig(model_dir)
  else:
    sharding = estimator_mp.ShardingConfig(mesh)
    model_fn = estimator_mp.shard_model_fn(_model_fn, sharding)
    config = estimator_mp.run_config(sharding, model_dir)
  recorder = runs.LossRecorder()
  estimator_mp.train_and_evaluate(
    tf.estimator.Estimator(model_fn, None, config, params),
    tf.estimator.TrainSpec(_input_fn, max_steps=STEPS, hooks=[recorder]),
    tf.estimator.EvalSpec(_input_fn, steps=1),
  )
  print("losses", *recorder.losses)


if __name__ == "__main__":
  main(sys.argv)
