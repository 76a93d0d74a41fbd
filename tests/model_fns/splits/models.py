"""Models, data and runs that the tests of both factories share.

The plain run of a model is made once in a process.
"""

import dataclasses
import functools
import os
import random
import shutil
import tempfile
from collections.abc import Callable

import estimator_mp
from tests.estimator_mp import runs

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
  recorder = runs.LossRecorder()
  estimator.train(repeated(input_fn), steps=steps, hooks=[recorder])
  metrics = estimator.evaluate(input_fn)
  key = "logits" if "accuracy" in metrics else "predictions"
  predictions = [p[key] for p in estimator.predict(input_fn)]
  variables = runs.variables_of(model_dir)
  return Run(recorder.losses, variables, metrics, np.stack(predictions))


def _estimator(model_fn, mesh, model_dir):
  if mesh is None:
    random.seed(11)  # Layers of a plain run draw their seeds from here.
    return runs.make_estimator(model_fn, None, None, model_dir)
  config = estimator_mp.ShardingConfig(str(mesh), mesh.devices)
  return runs.make_estimator(model_fn, config, None, model_dir)


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


def without_statistics(units):
  """Keras layers; statistics of slices are not those of the batch."""
  return [layer for layer in keras_layers(units) if layer.name != "norm"]


def _loss_of_pairs(labels, logits):
  """Compares each example with all others, which no slice of a batch can."""
  own = tf.nn.sparse_softmax_cross_entropy_with_logits(
    labels=tf.squeeze(labels, 1), logits=logits
  )
  score = logits[:, 0]
  margin = tf.nn.relu(1.0 - score[:, tf.newaxis] + score[tf.newaxis, :])
  return tf.expand_dims(own + tf.reduce_mean(margin, axis=1), axis=1)


def _full_batches_input_fn():
  """Images in batches of 36, which the graph knows."""
  data = tf.data.Dataset.from_tensor_slices(({"x": IMAGES}, LABELS))
  return data.batch(36, drop_remainder=True)


@dataclasses.dataclass(frozen=True, eq=False)
class Model:
  """A model of layers.

  Attributes:
    layers: Its layers.
    head: Its head.
    optimizer: Makes its optimizer.
    feature_key: The feature that the first layer reads; None for all.
    input_fn: What it trains on; the last batch may be short.
  """

  layers: list[Callable[..., tf.Tensor]]
  head: tf.estimator.Head
  optimizer: Callable[[], tf.compat.v1.train.Optimizer]
  feature_key: str | None
  input_fn: Callable[[], tf.data.Dataset]

  def split(self, factory, mesh, parts=None, **fields):
    """Returns what a factory makes of it, or of other parts of the same."""
    return factory(
      parts or self.layers,
      self.head,
      mesh,
      self.optimizer,
      feature_key=self.feature_key,
      **fields,
    )

  @functools.cached_property
  def plain(self):
    """The folder of a checkpoint, and the plain run from there."""
    model_fn = plain_model_fn(
      self.layers, self.head, self.optimizer, self.feature_key
    )
    folder = tempfile.mkdtemp(dir=absltest.get_default_test_tmpdir())
    start = os.path.join(folder, "start")
    start_checkpoint(model_fn, self.input_fn, start)
    return start, go_on(model_fn, None, self.input_fn, start, f"{folder}/plain")


_CLASSES = tf.estimator.MultiClassHead(NUM_CLASSES)
_NUMBERS = tf.estimator.RegressionHead(label_dimension=2)
ADAM = functools.partial(tf.compat.v1.train.AdamOptimizer, 0.01)
ADAGRAD = functools.partial(tf.compat.v1.train.AdagradOptimizer, 0.1)
_MOMENTUM = functools.partial(tf.compat.v1.train.MomentumOptimizer, 0.05, 0.9)
# 96 examples in batches of 36: the last batch is short.
WEIGHTED = Model(
  function_layers(),
  tf.estimator.MultiClassHead(NUM_CLASSES, weight_column="weight"),
  ADAM,
  None,
  classification_input_fn(36),
)
KERAS = Model(
  keras_layers(), _CLASSES, _MOMENTUM, "x", classification_input_fn()
)
REGRESSION = Model(
  keras_layers(2), _NUMBERS, _MOMENTUM, "x", regression_input_fn()
)
WITHOUT_STATISTICS = Model(
  without_statistics(2), _NUMBERS, _MOMENTUM, "x", regression_input_fn(32)
)
# The loss is a sum over examples.
SUM = Model(
  without_statistics(2),
  tf.estimator.RegressionHead(label_dimension=2, loss_reduction="sum"),
  functools.partial(tf.compat.v1.train.MomentumOptimizer, 0.0005, 0.9),
  "x",
  regression_input_fn(36),
)
PAIRS = Model(
  without_statistics(NUM_CLASSES),
  tf.estimator.MultiClassHead(NUM_CLASSES, loss_fn=_loss_of_pairs),
  ADAGRAD,
  "x",
  _full_batches_input_fn,
)


def assert_as_plain(test, model, model_fn, mesh):
  """Asserts that a sharded model gives what the plain one gives."""
  start, plain = model.plain
  folder = os.path.join(test.create_tempdir().full_path, "run")
  run = go_on(model_fn, mesh, model.input_fn, start, folder)
  assert_same(test, run, plain)


def products(observed):
  """Returns how many products of matrices each device ran."""
  return [
    sum(n for t, n in x.op_types.items() if t.endswith("MatMul"))
    for _, x in sorted(observed.items())
  ]
