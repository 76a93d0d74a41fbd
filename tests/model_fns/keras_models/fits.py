"""Runs of `Model.fit` and of Estimators on the same batches."""

import estimator_mp

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
STEPS = 10
BATCH = 8


class Losses(tf.estimator.SessionRunHook):
  """Collects the loss of each step of an Estimator."""

  def __init__(self):
    self.found = []

  def before_run(self, run_context):
    losses = run_context.session.graph.get_collection(v1.GraphKeys.LOSSES)
    return tf.estimator.SessionRunArgs(losses[-1])

  def after_run(self, run_context, run_values):
    self.found.append(float(run_values.results))


class _BatchLosses(tf.keras.callbacks.Callback):
  """Collects the loss of each batch of `fit`, which tells only their mean."""

  def __init__(self):
    super().__init__()
    self.found = []

  def on_train_batch_begin(self, batch, logs=None):
    self.model.reset_metrics()

  def on_train_batch_end(self, batch, logs=None):
    self.found.append(logs["loss"])


def data(inputs, labels, weights=None):
  """The examples in batches, as `fit` takes them."""
  parts = (inputs, labels) if weights is None else (inputs, labels, weights)
  return tf.data.Dataset.from_tensor_slices(parts).batch(BATCH)


def fit(model, dataset, class_weight=None, steps=STEPS):
  """Returns the losses of the steps of `fit`."""
  losses = _BatchLosses()
  model.fit(
    dataset.repeat(),
    steps_per_epoch=steps,
    shuffle=False,
    verbose=0,
    callbacks=[losses],
    class_weight=class_weight,
  )
  return losses.found


def estimator(model_fn, config=None, model_dir=None, **run_config):
  """Returns an Estimator on the devices of a configuration."""
  run_config = {
    "tf_random_seed": 5,
    "model_dir": model_dir,
    "checkpoint_save_graph_def": False,  # Text of it takes long.
  } | run_config
  if isinstance(config, str):
    config = estimator_mp.ShardingConfig(config)
  made = (
    tf.estimator.RunConfig(**run_config)
    if config is None
    else estimator_mp.run_config(config, **run_config)
  )
  return tf.estimator.Estimator(model_fn, config=made)


def train(made, input_fn, steps=STEPS):
  """Returns the losses of an Estimator's steps."""
  losses = Losses()
  made.train(lambda: input_fn().repeat(), steps=steps, hooks=[losses])
  return losses.found


def rows(seed, *shape):
  """Random numbers."""
  return np.random.RandomState(seed).randn(*shape).astype(np.float32)
