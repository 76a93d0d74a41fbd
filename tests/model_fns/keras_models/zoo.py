"""Keras models of all kinds, small, with the batches that they learn from.

Each entry of `MODELS` makes and compiles a model, eagerly or in a graph.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from tests.model_fns.keras_models import fits

import numpy as np
import tensorflow as tf

keras = tf.keras
layers = tf.keras.layers
EXAMPLES = 64
_RNG = np.random.RandomState(4)
IMAGES = fits.rows(0, EXAMPLES, 8, 8, 3)
ROWS = fits.rows(1, EXAMPLES, 8)
MORE_ROWS = fits.rows(2, EXAMPLES, 6)
CLASSES = _RNG.randint(3, size=[EXAMPLES]).astype(np.int32)
NUMBERS = fits.rows(3, EXAMPLES, 1)
# Sentences of 0 to 6 words; the rest is padding.
LENGTHS = _RNG.randint(1, 7, size=[EXAMPLES])
WORDS = np.where(
  np.arange(6) < LENGTHS[:, None], _RNG.randint(1, 20, [EXAMPLES, 6]), 0
).astype(np.int32)
TAGS = _RNG.randint(4, size=[EXAMPLES, 6]).astype(np.int32)
WEIGHTS = _RNG.uniform(0.2, 2.0, size=[EXAMPLES]).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class Model:
  """A model and its batches.

  Attributes:
    make: Makes and compiles it.
    inputs: What it is called with.
    labels: Its targets.
    normalizes: Whether it has batch normalisation, whose statistics are those
      of a micro-batch.
  """

  make: Callable[[], Any]
  inputs: Any
  labels: Any
  normalizes: bool = False

  def compiled(self):
    """Returns a new model with the names and weights of the one before."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(6)
    return self.make()

  def dataset(self):
    """Returns all examples in batches."""
    return fits.data(self.inputs, self.labels)

  def weighted_dataset(self):
    """Returns all examples with their weights, in batches."""
    return fits.data(self.inputs, self.labels, WEIGHTS)


def dense(optimizer=None):
  """A Sequential model with whatever optimizer the test asks for."""
  model = keras.Sequential(
    [
      keras.Input([8]),
      layers.Dense(16, "relu"),
      layers.Dense(8, "tanh"),
      layers.Dense(1),
    ]
  )
  model.compile(optimizer or keras.optimizers.SGD(0.1), "mse", ["mae"])
  return model


def unbuilt():
  """A Sequential model that does not know its input."""
  model = keras.Sequential([layers.Dense(8, "relu"), layers.Dense(1)])
  model.compile("sgd", "mse")
  model.build([None, 8])
  return model


def convolutions():
  """Convolutions with batch normalisation; classes."""
  model = keras.Sequential(
    [
      keras.Input([8, 8, 3]),
      layers.Conv2D(8, 3, padding="same", use_bias=False),
      layers.BatchNormalization(momentum=0.8),
      layers.ReLU(),
      layers.MaxPooling2D(),
      layers.DepthwiseConv2D(3, padding="same"),
      layers.GlobalAveragePooling2D(),
      layers.Dropout(0.0),
      layers.Dense(3, "softmax"),
    ]
  )
  model.compile(
    keras.optimizers.Adam(0.01),
    "sparse_categorical_crossentropy",
    ["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2, name="top2")],
  )
  return model


def several():
  """Two inputs, one of ids; a shared layer; two outputs; losses by name."""
  rows = keras.Input([8], name="rows")
  words = keras.Input([6], dtype="int32", name="words")
  shared = layers.Dense(8, "tanh", kernel_regularizer="l2")
  mean = layers.GlobalAveragePooling1D()(layers.Embedding(20, 8)(words))
  net = layers.concatenate([shared(rows), shared(mean)])
  net = layers.Dense(8, "relu", activity_regularizer="l2")(net)
  model = keras.Model(
    [rows, words],
    [layers.Dense(1, name="number")(net), layers.Dense(3, name="kind")(net)],
  )
  model.compile(
    keras.optimizers.Adagrad(0.1),
    {
      "number": "mae",
      "kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    },
    metrics={"number": ["mse"], "kind": "accuracy"},
    weighted_metrics={"number": "mse"},
    loss_weights={"number": 0.5, "kind": 2.0},
  )
  return model


def nested():
  """A frozen model within a model, ops, a loss of its own, outputs by name."""
  inner_input = keras.Input([8])
  inner = keras.Model(inner_input, layers.Dense(8, "tanh")(inner_input))
  inner.trainable = False
  rows = keras.Input([8], name="rows")
  net = tf.nn.relu(inner(rows, training=False) * 2.0 + rows)
  net = layers.Dense(4)(layers.Lambda(lambda tensor: tensor - 0.5)(net))
  outputs = {"one": layers.Dense(1)(net), "other": layers.Dense(1)(net)}
  model = keras.Model(rows, outputs)
  model.add_loss(0.1 * tf.reduce_mean(tf.square(net)))
  model.compile("rmsprop", {"one": "mse", "other": _cubes})
  return model


def _cubes(targets, outputs):
  """A loss that somebody wrote."""
  return tf.reduce_mean(tf.abs(targets - outputs) ** 3, axis=-1)


def lstm():
  """A masked LSTM over words; a class."""
  model = keras.Sequential(
    [
      keras.Input([6], dtype="int32"),
      layers.Embedding(20, 8, mask_zero=True),
      layers.LSTM(8),
      layers.Dense(3),
    ]
  )
  model.compile(
    keras.optimizers.Adam(0.05),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    ["accuracy"],
  )
  return model


def tagger():
  """A tag for each word; what is masked has no loss."""
  return _tagger(layers.Bidirectional(layers.GRU(4, return_sequences=True)))


def word_tagger():
  """A tag for each word by the word alone: no recurrence, which takes long."""
  return _tagger(layers.Dense(8, "tanh"))


def _tagger(layer):
  words = keras.Input([6], dtype="int32", name="words")
  net = layer(layers.Embedding(20, 8, mask_zero=True)(words))
  model = keras.Model(words, layers.Dense(4)(net))
  model.compile(
    keras.optimizers.SGD(0.5, momentum=0.9),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    ["accuracy"],
    weighted_metrics=["ce"],
  )
  return model


@keras.utils.register_keras_serializable("tests")
class Subclassed(tf.keras.Model):
  """A residual network in Python, with a config."""

  def __init__(self, units, **kwargs):
    super().__init__(**kwargs)
    self.units = units
    self.first = layers.Dense(units, "relu")
    self.blocks = [layers.Dense(units, "tanh") for _ in range(2)]
    self.normalize = layers.LayerNormalization()
    self.last = layers.Dense(1, kernel_regularizer="l2")

  def call(self, inputs, training=None):
    # As eager programs do: a comparison of values, and a branch on them.
    known = tf.cast(inputs[:, :1] == inputs[:, :1] * 1.0, tf.float32)
    net = self.first(inputs * known)
    if tf.reduce_max(inputs) == 0.0:
      net = net + 1.0
    for block in self.blocks:
      net = net + block(net)
    if training:
      self.add_loss(0.01 * tf.reduce_mean(tf.square(net)))
    return self.last(self.normalize(net))

  def get_config(self):
    return {"units": self.units, "name": self.name}


def subclassed():
  """A model of the user's own class, with weights."""
  model = Subclassed(8)
  model(ROWS[:1])
  model.compile(keras.optimizers.Adam(0.01), "mse", ["mae"])
  return model


_TWO = {"rows": ROWS, "words": WORDS}
MODELS = {
  "dense": Model(dense, ROWS, NUMBERS),
  "unbuilt": Model(unbuilt, ROWS, NUMBERS),
  "convolutions": Model(convolutions, IMAGES, CLASSES, normalizes=True),
  "several": Model(several, _TWO, {"number": NUMBERS, "kind": CLASSES}),
  "nested": Model(nested, ROWS, {"one": NUMBERS, "other": NUMBERS}),
  "lstm": Model(lstm, WORDS, CLASSES),
  "tagger": Model(tagger, WORDS, TAGS),
  "word_tagger": Model(word_tagger, WORDS, TAGS),
  "subclassed": Model(subclassed, ROWS, NUMBERS),
}
