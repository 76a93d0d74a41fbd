"""Four Estimator programs, one of each kind that users write.

Each is a `Model`: it makes an Estimator and says how to feed, serve and read
it. They are trained, exported and reloaded by model_kinds_test.py, and have
written the files that golden_test.py reads.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

SIZE = 256
BATCH_SIZE = 32
COLOURS = ("red", "green", "blue")


def examples() -> tuple[dict[str, np.ndarray], np.ndarray]:
  """Returns features and labels: "warm" points are red, or right of x=0.3."""
  random = np.random.RandomState(11)
  x = random.uniform(-1, 1, (SIZE, 2)).astype(np.float32)
  colour = random.choice(COLOURS, SIZE).reshape(SIZE, 1)
  labels = (colour == "red") | (x[:, :1] > 0.3)
  return {"x": x, "colour": colour}, labels.astype(np.int32)


def input_fn(params: Any = None) -> tf.data.Dataset:
  """Returns all examples once, in batches."""
  del params  # TPUEstimator passes its batch size here.
  batches = tf.data.Dataset.from_tensor_slices(examples())
  return batches.batch(BATCH_SIZE, drop_remainder=True)


def x_input_fn(params: Any = None) -> tf.data.Dataset:
  """Returns the examples with the feature "x" only."""
  return input_fn(params).map(lambda f, labels: ({"x": f["x"]}, labels))


def raw_serving_input_receiver_fn() -> Any:
  """Serves float vectors fed as "x"."""
  x = tf.compat.v1.placeholder(tf.float32, [None, 2], name="x")
  return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})


def _run_config(model_dir: str, config_class: Any = None) -> Any:
  config_class = config_class or tf.estimator.RunConfig
  return config_class(
    model_dir=model_dir,
    tf_random_seed=5,
    session_config=tf.compat.v1.ConfigProto(allow_soft_placement=False),
  )


def columns() -> list[Any]:
  """Returns feature columns of the five usual kinds."""
  x = tf.feature_column.numeric_column("x", shape=(2,))
  colour = tf.feature_column.categorical_column_with_vocabulary_list(
    "colour", COLOURS
  )
  buckets = tf.feature_column.bucketized_column(
    tf.feature_column.numeric_column("x", shape=(2,)), [-0.5, 0.0, 0.5]
  )
  crossed = tf.feature_column.crossed_column([colour, buckets], 16)
  return [
    x,
    buckets,
    tf.feature_column.indicator_column(colour),
    tf.feature_column.embedding_column(colour, 3),
    tf.feature_column.embedding_column(crossed, 2),
  ]


def canned(model_dir: str) -> Any:
  """Returns a DNNClassifier on feature columns."""
  return tf.estimator.DNNClassifier(
    [8, 4],
    columns(),
    batch_norm=True,
    optimizer=lambda: tf.keras.optimizers.legacy.Adam(0.02),
    config=_run_config(model_dir),
  )


def custom_model_fn(features: Any, labels: Any, mode: str) -> Any:
  """A model_fn in the style of TensorFlow 1, with batch normalisation."""
  layers = tf.compat.v1.layers
  training = mode == tf.estimator.ModeKeys.TRAIN
  hidden = layers.dense(features["x"], 8, activation=tf.nn.relu)
  hidden = layers.batch_normalization(hidden, momentum=0.8, training=training)
  logits = layers.dense(hidden, 1)
  predictions = {"probability": tf.sigmoid(logits)}
  if mode == tf.estimator.ModeKeys.PREDICT:
    return tf.estimator.EstimatorSpec(
      mode,
      predictions=predictions,
      export_outputs={
        "serving_default": tf.estimator.export.PredictOutput(predictions)
      },
    )
  loss = tf.compat.v1.losses.sigmoid_cross_entropy(labels, logits)
  tf.compat.v1.summary.scalar("mean_probability", tf.reduce_mean(logits))
  optimizer = tf.compat.v1.train.AdamOptimizer(0.02)
  updates = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS)
  with tf.control_dependencies(updates):
    train_op = optimizer.minimize(
      loss, tf.compat.v1.train.get_or_create_global_step()
    )
  return tf.estimator.EstimatorSpec(
    mode,
    loss=loss,
    train_op=train_op,
    training_hooks=[tf.estimator.StepCounterHook(every_n_steps=5)],
    eval_metric_ops={
      "accuracy": tf.compat.v1.metrics.accuracy(
        labels, tf.cast(logits > 0, tf.int32)
      )
    },
  )


def custom(model_dir: str) -> Any:
  """Returns an Estimator of custom_model_fn."""
  return tf.estimator.Estimator(custom_model_fn, config=_run_config(model_dir))


def keras(model_dir: str) -> Any:
  """Returns an Estimator made of a Keras model."""
  inputs = tf.keras.Input((2,), name="x")
  hidden = tf.keras.layers.Dense(8, activation="relu")(inputs)
  outputs = tf.keras.layers.Dense(1, activation="sigmoid", name="p")(hidden)
  model = tf.keras.Model(inputs, outputs)
  model.compile(
    tf.keras.optimizers.legacy.Adam(0.02), "binary_crossentropy", ["accuracy"]
  )
  return tf.keras.estimator.model_to_estimator(
    model, config=_run_config(model_dir)
  )


def _tpu_model_fn(
  features: Any, labels: Any, mode: str, params: dict[str, Any]
) -> Any:
  tpu = tf.compat.v1.estimator.tpu
  del params  # Holds batch_size, and use_tpu=False.
  hidden = tf.compat.v1.layers.dense(features["x"], 8, activation=tf.tanh)
  logits = tf.compat.v1.layers.dense(hidden, 1)
  predictions = {"probability": tf.sigmoid(logits)}
  if mode == tf.estimator.ModeKeys.PREDICT:
    return tpu.TPUEstimatorSpec(
      mode,
      predictions=predictions,
      export_outputs={
        "serving_default": tf.estimator.export.PredictOutput(predictions)
      },
    )
  loss = tf.compat.v1.losses.sigmoid_cross_entropy(labels, logits)
  if mode == tf.estimator.ModeKeys.EVAL:

    def metric_fn(labels: Any, logits: Any) -> dict[str, Any]:
      right = tf.compat.v1.metrics.accuracy(
        labels, tf.cast(logits > 0, tf.int32)
      )
      return {"accuracy": right}

    return tpu.TPUEstimatorSpec(
      mode, loss=loss, eval_metrics=(metric_fn, [labels, logits])
    )
  train_op = tf.compat.v1.train.AdamOptimizer(0.02).minimize(
    loss, tf.compat.v1.train.get_global_step()
  )

  def scaffold_fn() -> Any:
    return tf.compat.v1.train.Scaffold()

  return tpu.TPUEstimatorSpec(
    mode, loss=loss, train_op=train_op, scaffold_fn=scaffold_fn
  )


def tpu(model_dir: str) -> Any:
  """Returns a TPUEstimator that runs on the CPU, as BERT's programs do."""
  return tf.compat.v1.estimator.tpu.TPUEstimator(
    _tpu_model_fn,
    use_tpu=False,
    train_batch_size=BATCH_SIZE,
    eval_batch_size=BATCH_SIZE,
    predict_batch_size=BATCH_SIZE,
    export_to_tpu=False,
    config=_run_config(model_dir, tf.compat.v1.estimator.tpu.RunConfig),
  )


@dataclasses.dataclass(frozen=True)
class Model:
  """How to use one of the Estimators.

  Attributes:
    make: called with a model_dir, returns the Estimator.
    input_fn: its input for training, evaluation and prediction.
    prediction: the key of the probability of label 1 in its predictions.
    serving_input_receiver_fn: what a server feeds to it.
    signature: the exported signature that gives the prediction.
  """

  make: Callable[[str], Any]
  input_fn: Callable[..., tf.data.Dataset]
  prediction: str
  serving_input_receiver_fn: Callable[[], Any]
  signature: str = "serving_default"

  def predict(self, estimator: Any) -> np.ndarray:
    """Returns the probabilities of all examples, a float vector [SIZE]."""
    rows = estimator.predict(self.input_fn)
    return np.stack([row[self.prediction][-1] for row in rows])

  def predict_saved_model(self, directory: str) -> np.ndarray:
    """Returns the probabilities that an exported model gives, [SIZE]."""
    loaded = tf.saved_model.load(directory)
    serve = loaded.signatures[self.signature]
    features, _ = examples()
    if self.signature == "predict":
      outputs = serve(examples=tf.constant(_serialized(features)))
    else:
      outputs = serve(x=tf.constant(features["x"]))
    return outputs[self.prediction].numpy()[:, -1]


def _serialized(features: dict[str, np.ndarray]) -> list[bytes]:
  def one(index: int) -> bytes:
    x = tf.train.FloatList(value=features["x"][index])
    colour = tf.train.BytesList(value=[features["colour"][index, 0].encode()])
    feature = {
      "x": tf.train.Feature(float_list=x),
      "colour": tf.train.Feature(bytes_list=colour),
    }
    example = tf.train.Example(features=tf.train.Features(feature=feature))
    return bytes(example.SerializeToString())

  return [one(index) for index in range(len(features["x"]))]


def _parsing_serving_input_receiver_fn() -> Any:
  spec = tf.feature_column.make_parse_example_spec(columns())
  build = tf.estimator.export.build_parsing_serving_input_receiver_fn
  return build(spec)()


MODELS = {
  "canned": Model(
    canned,
    input_fn,
    "probabilities",
    _parsing_serving_input_receiver_fn,
    "predict",
  ),
  "custom": Model(
    custom, x_input_fn, "probability", raw_serving_input_receiver_fn
  ),
  "keras": Model(keras, x_input_fn, "p", raw_serving_input_receiver_fn),
  "tpu": Model(tpu, x_input_fn, "probability", raw_serving_input_receiver_fn),
}
