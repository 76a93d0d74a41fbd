"""The classifier of bert-tensorflow, on a tiny BERT."""

from tests.compat.packages import harness

import numpy as np
import tensorflow as tf
from bert import modeling, run_classifier

_LENGTH = 8
_WORDS = 30


def classifier(directory):
  """run_classifier's model_fn in a TPUEstimator, with AdamW."""
  config = modeling.BertConfig(
    vocab_size=_WORDS,
    hidden_size=16,
    num_hidden_layers=3,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=_LENGTH,
  )
  model_fn = run_classifier.model_fn_builder(
    config,
    num_labels=2,
    init_checkpoint=None,
    learning_rate=1e-3,
    # The package reads the global step while it writes it: a learning rate that
    # hardly decays is the same before and after.
    num_train_steps=10**9,
    num_warmup_steps=0,
    use_tpu=False,
    use_one_hot_embeddings=False,
  )
  estimator = tf.contrib.tpu.TPUEstimator(
    model_fn,
    use_tpu=False,
    train_batch_size=16,
    eval_batch_size=16,
    predict_batch_size=16,
    config=tf.contrib.tpu.RunConfig(
      model_dir=directory,
      tf_random_seed=1,
      session_config=harness.session_config(),
    ),
  )
  once = run_classifier.input_fn_builder(_features(), _LENGTH, False, True)
  return harness.Model(
    estimator, lambda params: once(params).repeat(), once, ("probabilities",)
  )


def _features():
  random = np.random.RandomState(5)
  features = []
  for _ in range(64):
    ids = random.randint(0, _WORDS, _LENGTH).tolist()
    length = random.randint(3, _LENGTH)
    mask = [1] * length + [0] * (_LENGTH - length)
    segments = [int(place > 2) for place in range(_LENGTH)]
    features.append(
      run_classifier.InputFeatures(ids, mask, segments, int(ids[0] > 14))
    )
  return features
