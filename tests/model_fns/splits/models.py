"""Models, data and runs that the tests of both factories share."""

import dataclasses
import os
import random
import shutil
import tempfile

import estimator_mp

import numpy as np
import tensorflow as tf
from absl.testing import absltest

NUM_CLASSES = 5
NUM_FEATURES = 12
BATCH = 24

_rng = np.random.RandomState(7)
IMAGES = _rng.randn(96, NUM_FEATURES).astype(np.float32)
LABELS = _rng.randint(NUM_CLASSES, size=[96, 1]).astype(np.int32)
TARGETS = (IMAGES[:, :2] ** 2 + _rng.randn(96, 2) * 0.1).astype(np.float32)
WORDS = _rng.randint(40, size=[96, 6]).astype(np.int64)
WEIGHTS = _rng.uniform(0.0, 2.0, size=[96, 1]).astype(np.float32)


def classification_input_fn(batch_size=BATCH):
  """Returns an input_fn of images, words and weights with classes."""
  features = {"x": IMAGES, "words": WORDS, "weight": WEIGHTS}
  return _input_fn(features, LABELS, batch_size)


def regression_input_fn(batch_size=BATCH):
  """Returns an input_fn of images with two numbers each."""
  return _input_fn({"x": IMAGES}, TARGETS, batch_size)


def _input_fn(features, labels, batch_size):
  def input_fn():
    data = tf.data.Dataset.from_tensor_slices((features, labels))
    return data.batch(batch_size)

  return input_fn


def repeated(input_fn):
  """Returns an input_fn that never ends."""
  return lambda: input_fn().repeat()


def serving_input_receiver_fn():
  """Takes a batch of raw images and words."""
  receivers = {
    "x": tf.compat.v1.placeholder(tf.float32, [None, NUM_FEATURES], "x"),
    "words": tf.compat.v1.placeholder(tf.int64, [None, 6], "words"),
  }
  return tf.estimator.export.ServingInputReceiver(receivers, receivers)


def _embed_and_flatten(features):
  """Embeds the words and puts them beside the image."""
  table = tf.compat.v1.get_variable(
    "embedding",
    [40, 3],
    initializer=tf.compat.v1.random_normal_initializer(seed=1),
  )
  words = tf.nn.embedding_lookup(table, features["words"])
  return tf.concat([features["x"], tf.reshape(words, [-1, 18])], axis=1)


def _dense(name, units, activation=None, regularizer=None):
  def layer(inputs):
    kernel = tf.compat.v1.get_variable(
      f"{name}/kernel",
      [inputs.shape[1], units],
      initializer=tf.compat.v1.glorot_uniform_initializer(seed=2),
      regularizer=regularizer,
    )
    bias = tf.compat.v1.get_variable(
      f"{name}/bias", [units], initializer=tf.compat.v1.zeros_initializer()
    )
    outputs = tf.matmul(inputs, kernel) + bias
    return outputs if activation is None else activation(outputs)

  layer.__name__ = name
  return layer


def _regularizer(kernel):
  return 0.05 * tf.nn.l2_loss(kernel)


def function_layers(units=NUM_CLASSES):
  """Four layers as functions: an embedding, two hidden ones, the logits."""
  return [
    _embed_and_flatten,
    _dense("hidden1", 16, tf.nn.relu, _regularizer),
    _dense("hidden2", 8, tf.math.tanh),
    _dense("logits", units),
  ]


def keras_layers(units=NUM_CLASSES):
  """Four tf_keras layers, one with statistics and one with a regularizer."""
  keras = tf.keras

  def glorot(seed):
    return keras.initializers.GlorotUniform(seed=seed)

  return [
    keras.layers.Dense(
      16,
      activation="relu",
      kernel_initializer=glorot(1),
      kernel_regularizer=keras.regularizers.L2(0.01),
      name="hidden1",
    ),
    keras.layers.BatchNormalization(momentum=0.7, name="norm"),
    keras.layers.Dense(8, kernel_initializer=glorot(2), name="hidden2"),
    keras.layers.Dense(units, kernel_initializer=glorot(3), name="logits"),
  ]


def plain_model_fn(layers, head, make_optimizer, feature_key):
  """A model_fn as people write it without this project: no device anywhere."""

  def model_fn(features, labels, mode):
    training = mode == tf.estimator.ModeKeys.TRAIN
    outputs = features if feature_key is None else features[feature_key]
    made = []
    for layer in layers:
      if isinstance(layer, tf.Module):
        layer = type(layer).from_config(layer.get_config())
        made.append(layer)
      if isinstance(layer, tf.keras.layers.BatchNormalization):
        outputs = layer(outputs, training=training)
      else:
        outputs = layer(outputs)
    losses = [loss for layer in made for loss in layer.losses]
    losses += tf.compat.v1.losses.get_regularization_losses()

    def train_op_fn(loss):
      updates = [update for layer in made for update in layer.updates]
      # The head's name scope would change the name of Adam's beta1_power.
      with tf.control_dependencies(updates), tf.compat.v1.name_scope(None):
        return make_optimizer().minimize(
          loss, tf.compat.v1.train.get_global_step()
        )

    return head.create_estimator_spec(
      features=features,
      mode=mode,
      logits=outputs,
      labels=labels,
      train_op_fn=train_op_fn,
      regularization_losses=losses or None,
    )

  return model_fn


@dataclasses.dataclass(frozen=True)
class Run:
  """What a run of an Estimator gave.

  Attributes:
    losses: The loss of each training step.
    variables: Every variable of the last checkpoint, slots too.
    metrics: What evaluation returned.
    predictions: The logits or numbers that it predicts for all examples.
  """

  losses: list[float]
  variables: dict[str, np.ndarray]
  metrics: dict[str, float]
  predictions: np.ndarray


class _LossRecorder(tf.estimator.SessionRunHook):
  def __init__(self):
    self.losses = []

  def before_run(self, run_context):
    (loss,) = run_context.session.graph.get_collection(
      tf.compat.v1.GraphKeys.LOSSES
    )[-1:]
    return tf.estimator.SessionRunArgs(loss)

  def after_run(self, run_context, run_values):
    self.losses.append(float(run_values.results))


def start_checkpoint(model_fn, input_fn, model_dir):
  """Trains three steps, for runs that go on from the same checkpoint."""
  _estimator(model_fn, None, model_dir).train(repeated(input_fn), max_steps=3)


def go_on(model_fn, mesh, input_fn, start_dir, model_dir, steps=5):
  """Trains on from a checkpoint, evaluates and predicts.

  Args:
    model_fn: The model_fn.
    mesh: The mesh of a sharded model_fn; None for a plain one.
    input_fn: The data; the last batch may be short.
    start_dir: The folder of the checkpoint to start from; it is copied.
    model_dir: The folder of this run.
    steps: How many steps to train.

  Returns:
    A `Run`.
  """
  shutil.copytree(start_dir, model_dir)
  estimator = _estimator(model_fn, mesh, model_dir)
  recorder = _LossRecorder()
  estimator.train(repeated(input_fn), steps=steps, hooks=[recorder])
  metrics = estimator.evaluate(input_fn)
  key = "logits" if "accuracy" in metrics else "predictions"
  predictions = [p[key] for p in estimator.predict(input_fn)]
  checkpoint = tf.train.load_checkpoint(model_dir)
  variables = {
    name: checkpoint.get_tensor(name)
    for name in checkpoint.get_variable_to_shape_map()
  }
  return Run(recorder.losses, variables, metrics, np.stack(predictions))


def plain_run(model_fn, input_fn):
  """Returns the folder of a checkpoint, and the plain run from there."""
  folder = tempfile.mkdtemp(dir=absltest.get_default_test_tmpdir())
  start = os.path.join(folder, "start")
  start_checkpoint(model_fn, input_fn, start)
  return start, go_on(model_fn, None, input_fn, start, f"{folder}/plain")


def _estimator(model_fn, mesh, model_dir):
  run_config = {
    "tf_random_seed": 11,
    "model_dir": model_dir,
    "checkpoint_save_graph_def": False,  # Text of it takes long.
  }
  if mesh is None:
    random.seed(11)  # Layers of a plain run draw their seeds from here.
    config = tf.estimator.RunConfig(**run_config)
  else:
    sharding = estimator_mp.ShardingConfig(str(mesh), mesh.devices)
    config = estimator_mp.run_config(sharding, **run_config)
  return tf.estimator.Estimator(model_fn, config=config)


def assert_same(test, run, plain, rtol=1e-5, atol=1e-6):
  """Asserts that a sharded run gave what the plain one gave."""
  np.testing.assert_allclose(run.losses, plain.losses, rtol=rtol)
  test.assertCountEqual(run.variables, plain.variables)
  for name, value in plain.variables.items():
    test.assertEqual(run.variables[name].shape, value.shape, name)
    np.testing.assert_allclose(
      run.variables[name], value, rtol=rtol, atol=atol, err_msg=name
    )
  test.assertCountEqual(run.metrics, plain.metrics)
  for name, value in plain.metrics.items():
    np.testing.assert_allclose(
      run.metrics[name], value, rtol=rtol, err_msg=name
    )
  np.testing.assert_allclose(
    run.predictions, plain.predictions, rtol=rtol, atol=atol
  )
