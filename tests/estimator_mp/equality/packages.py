"""Packages from PyPI, unedited, as models to be sharded.

They are no dependencies of this repository: pip puts them into a folder,
without theirs.
"""

import dataclasses
from collections.abc import Callable
from typing import Any
from unittest import mock

import compat
from tests.compat.packages import installed

compat.install(contrib=True)
installed.add_to_path()
import numpy as np  # noqa: E402
import requests  # noqa: E402
import tensorflow as tf  # noqa: E402

# deepctr asks the network for newer versions of itself when it is imported.
with mock.patch.object(requests, "get", side_effect=OSError("no network")):
  from deepctr.estimator import DeepFMEstimator, xDeepFMEstimator
from bert import modeling, optimization, run_classifier  # noqa: E402

v1 = tf.compat.v1
_EXAMPLES = 640
_LENGTH, _WORDS = 8, 90
_ITEMS = 200


@dataclasses.dataclass(frozen=True)
class Package:
  """A model of a package, and what it trains on.

  Attributes:
    model_fn: Its model_fn.
    batch: Features and labels of all examples.
    params: Its params.
    tables: An expression for the names of its tables of embeddings.
    shifts: The end of the names of variables that the loss does not depend on,
      as what is added to all scores of a softmax: their gradients are zero but
      for rounding.
  """

  model_fn: Callable[..., tf.estimator.EstimatorSpec]
  batch: tuple[Any, Any]
  params: dict[str, Any] | None
  tables: str
  shifts: str | None = None


def small_bert(
  num_train_steps: int, num_warmup_steps: int, **sizes: Any
) -> Any:
  """Returns the model_fn of a small BERT's classifier, with its AdamW.

  Args:
    num_train_steps: When the learning rate is 0.
    num_warmup_steps: How long it grows from 0 to 1e-3.
    **sizes: Of `modeling.BertConfig`.
  """
  return run_classifier.model_fn_builder(
    modeling.BertConfig(max_position_embeddings=_LENGTH, **sizes),
    num_labels=2,
    init_checkpoint=None,
    learning_rate=1e-3,
    num_train_steps=num_train_steps,
    num_warmup_steps=num_warmup_steps,
    use_tpu=False,
    use_one_hot_embeddings=False,
  )


def bert() -> Package:
  """Returns the classifier without dropout, whose masks are a device's own.

  The package reads the global step while it writes it: a learning rate that
  hardly decays is the same before and after. One in seven labels is wrong, so
  that losses stay above their rounding errors.
  """
  made = small_bert(
    num_train_steps=10**9,
    num_warmup_steps=0,
    vocab_size=_WORDS,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=128,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
  )

  def model_fn(features, labels, mode, params):
    # This dropout has no rate in the configuration.
    kept = mock.patch.object(v1.nn, "dropout", lambda net, keep_prob: net)
    with kept:
      return made(features, labels, mode, params).as_estimator_spec()

  random = np.random.RandomState(5)
  ids = random.randint(_WORDS, size=[_EXAMPLES, _LENGTH]).astype(np.int32)
  lengths = random.randint(3, _LENGTH + 1, [_EXAMPLES, 1])
  is_wrong = random.uniform(size=_EXAMPLES) < 1 / 7
  labels = ((ids[:, 0] > _WORDS // 2) ^ is_wrong).astype(np.int32)
  features = {
    "input_ids": ids,
    "input_mask": (np.arange(_LENGTH) < lengths).astype(np.int32),
    "segment_ids": random.randint(2, size=ids.shape).astype(np.int32),
    "label_ids": labels,
  }
  return Package(
    model_fn,
    (features, labels),
    {},
    tables="word_embeddings$",
    shifts="/key/bias",
  )


def bert_with_momentum() -> Package:
  """Returns the classifier with momentum in the place of its AdamW."""

  def create_optimizer(loss, *unused):
    del unused
    variables = v1.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 1.0)
    return v1.train.MomentumOptimizer(0.05, 0.9).apply_gradients(
      zip(gradients, variables, strict=True), v1.train.get_global_step()
    )

  package = bert()

  def model_fn(features, labels, mode, params):
    with mock.patch.object(optimization, "create_optimizer", create_optimizer):
      return package.model_fn(features, labels, mode, params)

  return dataclasses.replace(package, model_fn=model_fn)


def click_model_fn(
  kind: Callable[..., tf.estimator.Estimator],
  num_items: int,
  width: int,
  hidden_units: tuple[int, ...],
) -> Any:
  """Returns the model_fn of an Estimator of deepctr, for items and prices.

  Args:
    kind: The Estimator.
    num_items: The rows of the table of items.
    width: Its columns.
    hidden_units: The widths of the dense layers.
  """
  column = tf.feature_column
  items = column.categorical_column_with_identity("item", num_items)
  prices = column.numeric_column("price")
  return kind(
    [items, prices],
    [column.embedding_column(items, width), prices],
    dnn_hidden_units=hidden_units,
  ).model_fn


def _click(kind: Callable[..., tf.estimator.Estimator]) -> Package:
  random = np.random.RandomState(3)
  item = random.randint(_ITEMS, size=_EXAMPLES)
  price = random.uniform(size=_EXAMPLES).astype(np.float32)
  labels = ((item % 3 == 0) | (price > 0.8)).astype(np.float32)
  return Package(
    click_model_fn(kind, _ITEMS, width=8, hidden_units=(16, 8)),
    ({"item": item, "price": price}, labels),
    None,
    tables="embedding_weights$",
  )


def deepfm() -> Package:
  """Returns factorization machines beside a deep network."""
  return _click(DeepFMEstimator)


def xdeepfm() -> Package:
  """Returns the same with compressed interactions.

  At the sixth step rounding decides for one example which slope the rectifier
  of a unit has, plain and sharded: losses are then 3.6e-5 apart.
  """
  return _click(xDeepFMEstimator)
