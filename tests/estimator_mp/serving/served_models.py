"""Model_fns that predict in the ways that a chain of stages has to keep.

Each is an entry of `MODELS`: a model_fn, the rules that place it, and what its
caller gives.
"""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
_MODES = tf.estimator.ModeKeys
_rng = np.random.RandomState(5)
EXAMPLES = 7
X = _rng.randn(EXAMPLES, 6).astype(np.float32)
IDS = _rng.randint(9, size=[EXAMPLES, 4]).astype(np.int64)
WORDS = np.array([b"ulm", b"rom", b"oslo", b"bern"])[
  _rng.randint(4, size=[EXAMPLES])
].astype(object)
FEATURES: Mapping[str, Any] = {"x": X, "ids": IDS, "word": WORDS}
LABELS = _rng.randint(2, size=[EXAMPLES, 1]).astype(np.float32)


def input_fn():
  features = {"x": X, "ids": IDS, "word": WORDS.astype(bytes)}
  return tf.data.Dataset.from_tensor_slices((features, LABELS)).batch(4)


def receiver_fn(*names: str) -> Callable[[], Any]:
  """Returns a receiver of raw features."""

  def receive():
    tensors = {
      name: v1.placeholder(
        tf.as_dtype(FEATURES[name].dtype)
        if FEATURES[name].dtype != object
        else tf.string,
        [None, *FEATURES[name].shape[1:]],
        name=name,
      )
      for name in names
    }
    return tf.estimator.export.ServingInputReceiver(tensors, tensors)

  return receive


def _spec(mode, output, labels, predictions=None, **fields):
  """What each of the model_fns ends with."""
  if mode == _MODES.PREDICT:
    predictions = {"output": output, **(predictions or {})}
    return tf.estimator.EstimatorSpec(mode, predictions, **fields)
  output = tf.reshape(tf.cast(output, tf.float32), [tf.shape(output)[0], -1])
  loss = tf.reduce_mean((output - labels) ** 2)
  step = v1.train.get_global_step()
  train_op = v1.train.AdagradOptimizer(0.1).minimize(loss, step)
  fields.pop("export_outputs", None)
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _dense(net, units, name, activation=tf.tanh):
  return v1.layers.dense(net, units, activation, name=name)


def mlp(features, labels, mode):
  net = _dense(features["x"], 5, "a")
  net = _dense(net, 4, "b")
  return _spec(mode, _dense(net, 1, "c"), labels)


def deep(features, labels, mode):
  net = features["x"]
  for name in "abcde":
    net = _dense(net, 4, name)
  return _spec(mode, _dense(net, 1, "f"), labels)


def skip(features, labels, mode):
  """What stage 0 makes, and a feature, go to stage 2 directly."""
  first = _dense(features["x"], 5, "a")
  net = _dense(first, 5, "b")
  with tf.name_scope("c/"):
    ids = tf.cast(features["ids"], tf.float32)
    net = tf.concat([net + first, ids], 1)
  return _spec(mode, _dense(net, 1, "c"), labels)


def tied(features, labels, mode):
  """Embeddings that the first and the last stage read."""
  table = v1.get_variable("a/table", [9, 5])
  net = tf.reduce_mean(tf.nn.embedding_lookup(table, features["ids"]), 1)
  net = _dense(net, 5, "b")
  net = _dense(net, 5, "c")
  logits = tf.matmul(net, table, transpose_b=True)
  return _spec(mode, logits, labels)


def tables(features, labels, mode, params):
  """A vocabulary of a file, and names of classes on the last stage."""
  path = os.path.join(params["folder"], "words.txt")
  words = tf.lookup.StaticHashTable(
    tf.lookup.TextFileInitializer(
      path, tf.string, 0, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
    ),
    default_value=3,
  )
  ids = words.lookup(features["word"])
  net = tf.nn.embedding_lookup(v1.get_variable("a/table", [4, 5]), ids)
  net = _dense(net, 5, "b")
  logits = _dense(net, 3, "c", None)
  names = tf.lookup.StaticHashTable(
    tf.lookup.TextFileInitializer(
      os.path.join(params["folder"], "names.txt"),
      tf.int64,
      tf.lookup.TextFileIndex.LINE_NUMBER,
      tf.string,
      tf.lookup.TextFileIndex.WHOLE_LINE,
    ),
    default_value="none",
  )
  chosen = names.lookup(tf.argmax(logits, 1))
  return _spec(mode, logits, labels, {"name": chosen})


def write_vocabularies(folder: str) -> None:
  for name, lines in (
    ("words.txt", ["ulm", "rom", "oslo"]),
    ("names.txt", ["no", "maybe", "yes"]),
  ):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
      file.write("\n".join(lines) + "\n")


def heads(features, labels, mode):
  """Several export outputs, of several stages."""
  net = _dense(features["x"], 5, "a")
  early, read = tf.reduce_sum(net, 1), net
  net = _dense(net, 5, "b")
  output = _dense(net, 1, "c", None)
  export = tf.estimator.export
  outputs = {
    # What a later stage reads, too, is given back.
    "serving_default": export.PredictOutput({"output": output, "read": read}),
    "early": export.PredictOutput({"sum": early, "x": features["x"]}),
  }
  return _spec(mode, output, labels, export_outputs=outputs)


def outputs(features, labels, mode):
  """Outputs that no request changes, and one that it brought."""
  net = _dense(features["x"], 5, "a")
  output = _dense(_dense(net, 5, "b"), 1, "c")
  with v1.variable_scope("a", reuse=True):
    kernel = v1.get_variable("kernel", [6, 5])
  more = {
    "version": tf.constant("v1"),
    "norm": tf.norm(kernel),
    "given": features["x"],
    "again": tf.identity(features["ids"]),
    "size": tf.shape(output)[0],
  }
  return _spec(mode, output, labels, more)


def loops(features, labels, mode):
  """A loop, and a branch, in the middle stage."""
  net = _dense(features["x"], 5, "a")
  with v1.variable_scope("b"):
    kernel = v1.get_variable("kernel", [5, 5])
  with tf.name_scope("b/"):
    _, net = tf.while_loop(
      lambda i, _: i < 3,
      lambda i, net: (i + 1, tf.tanh(tf.matmul(net, kernel))),
      [tf.constant(0), net],
    )
    net = tf.cond(
      tf.reduce_sum(net) > 0, lambda: tf.matmul(net, kernel), lambda: net
    )
  return _spec(mode, _dense(net, 1, "c"), labels)


def waits(features, labels, mode):
  """The last stage waits for a check that the first one makes."""
  net = _dense(features["x"], 5, "a")
  with tf.name_scope("a/"):
    check = v1.debugging.assert_less(tf.abs(net), 2.0)
  net = _dense(net, 5, "b")
  net = _dense(net, 5, "c")
  with tf.control_dependencies([check]):
    net = tf.identity(net, name="c/checked")
  return _spec(mode, net, labels)


def draws(features, labels, mode):
  """A number that is drawn once is the same wherever it is read."""
  net = _dense(features["x"], 5, "a")
  with tf.name_scope("a/"):
    drawn = tf.random.uniform([], seed=3)
    difference = net + drawn
  net = _dense(net, 5, "b")
  output = _dense(net, 5, "c") * 0 + (difference - net * 0 - drawn)
  return _spec(mode, output, labels)


def references(features, labels, mode):
  """Variables as TensorFlow 1 makes them, and one in partitions."""
  v1.get_variable_scope().set_use_resource(False)
  net = _dense(features["x"], 6, "a")
  with v1.variable_scope(
    "b", partitioner=v1.fixed_size_partitioner(2), use_resource=False
  ):
    kernel = v1.get_variable("kernel", [6, 5])
  net = tf.tanh(tf.matmul(net, tf.convert_to_tensor(kernel)))
  return _spec(mode, _dense(net, 1, "c"), labels)


def averages(features, labels, mode):
  """A Saver that restores moving averages into the variables."""
  net = _dense(features["x"], 5, "a")
  net = _dense(net, 5, "b")
  output = _dense(net, 1, "c")
  average = tf.train.ExponentialMovingAverage(0.5)
  if mode == _MODES.PREDICT:
    saver = v1.train.Saver(average.variables_to_restore())
    return _spec(mode, output, labels, scaffold=v1.train.Scaffold(saver=saver))
  spec = _spec(mode, output, labels)
  with tf.control_dependencies([spec.train_op]):
    train_op = average.apply(v1.trainable_variables())
  return spec._replace(train_op=train_op)


def local(features, labels, mode):
  """A local variable, whose first value is that of a variable."""
  net = _dense(features["x"], 5, "a")
  net = _dense(net, 5, "b")
  scale = v1.get_variable(
    "c/scale",
    initializer=tf.constant([1.0, 2.0, 3.0, 4.0, 5.0]),
    collections=[v1.GraphKeys.LOCAL_VARIABLES],
    trainable=False,
  )
  return _spec(mode, _dense(net * scale, 1, "c"), labels)


def keras(features, labels, mode):
  """Layers of tf_keras, with a recurrent one and normalisation."""
  layers = tf.keras.layers
  net = layers.Embedding(9, 5, name="a")(features["ids"])
  net = layers.LSTM(5, name="b")(net)
  training = mode == _MODES.TRAIN
  net = layers.BatchNormalization(name="b2")(net, training=training)
  return _spec(mode, layers.Dense(1, name="c")(net), labels)


def ragged(features, labels, mode):
  """A sparse tensor that goes from one stage to another, in three parts."""
  net = _dense(features["x"], 5, "a")
  with tf.name_scope("a/"):
    sparse = tf.sparse.from_dense(tf.nn.relu(net))
  net = _dense(net, 5, "b")
  with v1.variable_scope("c"):
    kernel = v1.get_variable("kernel", [5, 2])
  return _spec(mode, tf.sparse.sparse_dense_matmul(sparse, kernel), labels)


@dataclasses.dataclass(frozen=True)
class Model:
  """A model_fn, and how it is placed and called.

  Attributes:
    model_fn: The model_fn.
    inputs: The names of the features that its caller gives.
    placement: Rules.
    stages: What has variables on which stage, for those that say so.
  """

  model_fn: Callable[..., Any]
  inputs: Sequence[str] = ("x",)
  placement: Sequence[tuple[str, int]] = (("^a/", 0), ("^b", 1), ("^c/", 2))
  config: Mapping[str, Any] = dataclasses.field(default_factory=dict)


_BACKWARDS = (("^a/", 2), ("^b/", 1), ("^c/", 0))
_TO_AND_FRO = (("^a/", 0), ("^b/", 1), ("^c/", 0))
MODELS: Mapping[str, Model] = {
  "mlp": Model(mlp),
  "backwards": Model(mlp, placement=_BACKWARDS),
  "to_and_fro": Model(mlp, placement=_TO_AND_FRO, config={"mesh": "stage:2"}),
  "skip": Model(skip, ("x", "ids")),
  "skip_to_and_fro": Model(
    skip, ("x", "ids"), _TO_AND_FRO, {"mesh": "stage:2"}
  ),
  "tied": Model(tied, ("ids",)),
  "tables": Model(tables, ("word",)),
  "heads": Model(heads),
  "outputs": Model(outputs, ("x", "ids")),
  "loops": Model(loops),
  "waits": Model(waits),
  "draws": Model(draws),
  "references": Model(references),
  "averages": Model(averages),
  "local": Model(local),
  "keras": Model(keras, ("ids",)),
  "ragged": Model(ragged),
}


@contextlib.contextmanager
def v1_control_flow():
  """Loops and branches as TensorFlow 1 makes them."""
  v1.disable_control_flow_v2()
  try:
    yield
  finally:
    v1.enable_control_flow_v2()
