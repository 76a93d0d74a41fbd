"""Names of tf.contrib.training."""

from compat.contrib import packages
from compat.contrib.training import buckets, hparams, placement

import tensorflow as tf

_OF_SLIM = {
  "add_gradients_summaries": "tf_slim.training.training",
  "clip_gradient_norms": "tf_slim.training.training",
  "clip_gradient_norms_fn": "tf_slim.training.training",
  "create_train_op": "tf_slim.training.training",
  "multiply_gradients": "tf_slim.training.training",
  "train": "tf_slim.training.training",
  "SummaryAtEndHook": "tf_slim.training.evaluation",
  "StopAfterNEvalsHook": "tf_slim.training.evaluation",
  "evaluate_once": "tf_slim.training.evaluation",
  "evaluate_repeatedly": "tf_slim.training.evaluation",
  "get_or_create_eval_step": "tf_slim.training.evaluation",
  "wait_for_new_checkpoint": "tf_slim.training.evaluation",
}

__getattr__ = packages.getter(
  __name__, {name: f"{module}:{name}" for name, module in _OF_SLIM.items()}
)

HParams = hparams.HParams
GreedyLoadBalancingStrategy = placement.GreedyLoadBalancingStrategy
RandomStrategy = placement.RandomStrategy
bucket = buckets.bucket
bucket_by_sequence_length = buckets.bucket_by_sequence_length
byte_size_load_fn = placement.byte_size_load_fn
checkpoints_iterator = tf.train.checkpoints_iterator
get_or_create_global_step = tf.compat.v1.train.get_or_create_global_step
parse_values = hparams.parse_values

__all__ = sorted(
  {
    "GreedyLoadBalancingStrategy",
    "HParams",
    "RandomStrategy",
    "bucket",
    "bucket_by_sequence_length",
    "byte_size_load_fn",
    "checkpoints_iterator",
    "get_or_create_global_step",
    "parse_values",
    *_OF_SLIM,
  }
)


def __dir__() -> list[str]:
  return __all__
