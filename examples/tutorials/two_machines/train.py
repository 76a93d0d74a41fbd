"""Digits: a program that trains on one machine, or on several."""

import estimator_mp

import sklearn.datasets
import tensorflow as tf
from absl import app, flags

v1 = tf.compat.v1

_STEPS = flags.DEFINE_integer("max_steps", 200, "Steps to train.")
_TRUSTED = flags.DEFINE_bool(
  "trusted_network", False, "Only machines of the cluster reach this one."
)


def input_fn() -> tf.data.Dataset:
  """Returns batches of 64 images, without an end."""
  images, labels = sklearn.datasets.load_digits(return_X_y=True)
  examples = {"image": (images / 16).astype("float32")}, labels
  data = tf.data.Dataset.from_tensor_slices(examples)
  return data.shuffle(len(labels), seed=1).repeat().batch(64)


def model_fn(
  features: dict[str, tf.Tensor], labels: tf.Tensor, mode: str
) -> tf.estimator.EstimatorSpec:
  """Four dense layers, as for one device."""
  net = features["image"]
  for _ in range(3):
    net = v1.layers.dense(net, 1024, tf.nn.relu)
  logits = v1.layers.dense(net, 10)
  loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
  step = v1.train.get_global_step()
  train_op = v1.train.AdamOptimizer(0.001).minimize(loss, step)
  accuracy = v1.metrics.accuracy(labels, tf.argmax(logits, axis=-1))
  return tf.estimator.EstimatorSpec(
    mode,
    loss=loss,
    train_op=train_op,
    eval_metric_ops={"accuracy": accuracy},
  )


def main(argv: list[str]) -> None:
  """Trains and evaluates: as the task of a cluster, if TF_CONFIG names one."""
  del argv
  config = estimator_mp.ShardingConfig("stage:2", num_micro_batches=4)
  run_config = estimator_mp.run_config(
    config, "runs/digits", save_input_position=True, tf_random_seed=1
  )
  estimator = tf.estimator.Estimator(
    estimator_mp.shard_model_fn(model_fn, config), config=run_config
  )
  ended = estimator_mp.train_and_evaluate(
    estimator,
    tf.estimator.TrainSpec(input_fn, max_steps=_STEPS.value),
    tf.estimator.EvalSpec(input_fn, steps=10, start_delay_secs=0),
    trusted_network=_TRUSTED.value,
  )
  if ended is not None:  # The chief's.
    result, _ = ended
    print("step %d" % result["global_step"])
    print("accuracy %.2f" % result["accuracy"])


if __name__ == "__main__":
  app.run(main)
