"""A tiny log of clicks, and models of it, plain and on a mesh."""

import functools

import estimator_mp  # noqa: F401
import model_fns

import numpy as np
import tensorflow as tf

EXAMPLES = 60
NUM_DENSE = 5
TABLES = {"item": 23, "words": 7, "tags": 11}
# The last quarter has no tag: nor do the examples of a replica, then.
_WITH_TAGS = 45
_rng = np.random.RandomState(3)
_TAGS = np.where(
  np.arange(EXAMPLES)[:, np.newaxis] < _WITH_TAGS,
  _rng.randint(-3, 30, size=[EXAMPLES, 4]),
  -1,
)
FEATURES = {
  "dense": _rng.randn(EXAMPLES, NUM_DENSE).astype(np.float32),
  "item": _rng.randint(1000, size=[EXAMPLES]),
  "words": np.array([b"a", b"b", b"c", b""])[
    _rng.randint(4, size=[EXAMPLES, 3])
  ],
  "tags": _TAGS,
}
LABELS = _rng.randint(2, size=[EXAMPLES, 1]).astype(np.float32)
CROSSES = {("item", "words"): 17, ("tags", "words", "item"): 19}
MODELS = {
  "dlrm": functools.partial(
    model_fns.dlrm,
    TABLES,
    NUM_DENSE,
    embedding_size=4,
    bottom_units=(8,),
    top_units=(8, 6),
  ),
  "deepfm": functools.partial(
    model_fns.deepfm, TABLES, NUM_DENSE, embedding_size=4, hidden_units=(8, 6)
  ),
  "wide_deep": functools.partial(
    model_fns.wide_deep,
    TABLES,
    NUM_DENSE,
    crosses=CROSSES,
    embedding_size=4,
    hidden_units=(8, 6),
  ),
}


def sparse_input_fn():
  """Batches of 25, the last one short, with tags as a SparseTensor."""
  data = tf.data.Dataset.from_tensor_slices((FEATURES, LABELS)).batch(25)

  def with_sparse_tags(features, labels):
    tags = features["tags"]
    where = tf.where(tags >= 0)
    sparse = tf.SparseTensor(
      where, tf.gather_nd(tags, where), tf.shape(tags, out_type=tf.int64)
    )
    return {**features, "tags": sparse}, labels

  return data.map(with_sparse_tags)


def serving_input_receiver_fn():
  """Receives features as they are in the log."""
  receivers = {
    name: tf.compat.v1.placeholder(
      values.dtype if values.dtype.kind != "S" else tf.string,
      [None, *values.shape[1:]],
      name,
    )
    for name, values in FEATURES.items()
  }
  return tf.estimator.export.ServingInputReceiver(receivers, receivers)
