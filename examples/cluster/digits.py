"""Digits: a program whose model spans the tasks of a cluster.

    python examples/cluster/digits.py --model_dir=/tmp/digits --mesh=stage:3

trains on three virtual devices of this machine. Started once for each task of a
cluster, with the same flags, it trains on the devices of all of them. Who they
are, TF_CONFIG says: estimator-mp launch and Kubernetes' training operator set
it, and under Slurm the program does so itself. docs/cluster.md has the rest.
"""

import os

import estimator_mp
from estimator_mp import toolbox

import sklearn.datasets
import tensorflow as tf
from absl import app, flags

_MODEL_DIR = flags.DEFINE_string(
  "model_dir",
  None,
  "Directory for checkpoints, shared by all tasks.",
  required=True,
)
_STEPS = flags.DEFINE_integer("max_steps", 1000, "Steps to train.", 1)
_TRUSTED = flags.DEFINE_bool(
  "trusted_network",
  False,
  "Confirms that only machines of the cluster can reach the ports of this "
  "machine: TensorFlow's server has no authentication.",
)
_PORT = flags.DEFINE_integer(
  "port_base", 8888, "Under Slurm: the port of a node's first task.", 1, 65535
)
estimator_mp.define_sharding_flags(mesh="stage:3", num_micro_batches=4)


def join_slurm() -> None:
  """Sets TF_CONFIG, if srun has started this process."""
  if "SLURM_PROCID" not in os.environ or "TF_CONFIG" in os.environ:
    return
  # Without GPUs: otherwise the resolver counts one for each task.
  resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
    port_base=_PORT.value,
    gpus_per_node=int(os.environ["SLURM_STEP_NUM_TASKS"]),
    gpus_per_task=1,
    auto_set_gpu=False,
  )
  toolbox.join_cluster(resolver)


def input_fn() -> tf.data.Dataset:
  """Returns batches of 64 images in a new order each time, without an end."""
  images, labels = sklearn.datasets.load_digits(return_X_y=True)
  examples = {"image": (images / 16).astype("float32")}, labels
  data = tf.data.Dataset.from_tensor_slices(examples)
  return data.shuffle(len(labels), seed=1).repeat().batch(64)


def model_fn(
  features: dict[str, tf.Tensor], labels: tf.Tensor, mode: str
) -> tf.estimator.EstimatorSpec:
  """Three layers, as for one device.

  Args:
    features: The images, float32 [batch, 64].
    labels: The digits, int64 [batch].
    mode: What is done with the model.
  """
  net = features["image"]
  for _ in range(2):
    net = tf.compat.v1.layers.dense(net, 256, tf.nn.relu)
  logits = tf.compat.v1.layers.dense(net, 10)
  loss = tf.compat.v1.losses.sparse_softmax_cross_entropy(labels, logits)
  found = tf.argmax(logits, axis=-1)
  return tf.estimator.EstimatorSpec(
    mode,
    loss=loss,
    train_op=tf.compat.v1.train.AdamOptimizer(0.001).minimize(
      loss, tf.compat.v1.train.get_global_step()
    ),
    eval_metric_ops={"accuracy": tf.compat.v1.metrics.accuracy(labels, found)},
  )


def main(argv: list[str]) -> None:
  """Runs what this task of the cluster has to do.

  Args:
    argv: The command, alone.
  """
  del argv
  tf.get_logger().propagate = False  # absl would print all of it again.
  join_slurm()
  config = estimator_mp.ShardingConfig.from_flags()
  run_config = estimator_mp.run_config(
    config,
    _MODEL_DIR.value,
    save_input_position=True,
    save_checkpoints_steps=100,
    tf_random_seed=1,
  )
  estimator = tf.estimator.Estimator(
    estimator_mp.shard_model_fn(model_fn, config), config=run_config
  )
  estimator_mp.train_and_evaluate(
    estimator,
    tf.estimator.TrainSpec(input_fn, max_steps=_STEPS.value),
    tf.estimator.EvalSpec(
      input_fn, steps=10, start_delay_secs=0, throttle_secs=5
    ),
    trusted_network=_TRUSTED.value,
  )


if __name__ == "__main__":
  app.run(main)
