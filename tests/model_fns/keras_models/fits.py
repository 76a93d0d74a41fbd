"""Runs of `Model.fit` and of Estimators on the same batches."""

import estimator_mp
from tests.estimator_mp import runs

import numpy as np
import tensorflow as tf

STEPS = 10
BATCH = 8


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


def estimator(model_fn, config=None, model_dir=None):
  """Returns an Estimator on the devices of a configuration."""
  if isinstance(config, str):
    config = estimator_mp.ShardingConfig(config)
  return runs.make_estimator(
    model_fn,
    config,
    None,
    model_dir,
    tf_random_seed=5,
    # Optimized as the functions of Keras are: they are compared bit for bit.
    session_config=None,
  )


def train(made, input_fn, steps=STEPS):
  """Returns the losses of an Estimator's steps."""
  recorder = runs.LossRecorder()
  made.train(lambda: input_fn().repeat(), steps=steps, hooks=[recorder])
  return recorder.losses


def rows(seed, *shape):
  """Random numbers."""
  return np.random.RandomState(seed).randn(*shape).astype(np.float32)
