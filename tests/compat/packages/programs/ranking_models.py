"""Models of tensorflow-ranking: groups of documents, and losses over lists."""

from tests.compat.packages import harness

import numpy as np
import tensorflow as tf
import tensorflow_ranking as tfr

_DOCUMENTS = 6
_UNRATED = -1.0


def pairs(directory):
  """Scores of two documents at a time, and an NDCG that has gradients."""
  return _model(directory, 2, tfr.losses.RankingLossKey.APPROX_NDCG_LOSS)


def single_documents(directory):
  """Scores of each document by itself, and weights of lists."""
  return _model(
    directory,
    1,
    tfr.losses.RankingLossKey.PAIRWISE_LOGISTIC_LOSS,
    weights_feature_name="weight",
    lambda_weight=tfr.losses.create_ndcg_lambda_weight(),
  )


def _transform(features, mode, params):
  del params
  columns = {
    "words": tf.feature_column.embedding_column(
      tf.feature_column.categorical_column_with_hash_bucket("words", 20), 4
    ),
    "score": tf.feature_column.numeric_column("score", 3),
  }
  return tfr.feature.encode_listwise_features(
    features,
    context_feature_columns={
      "query": tf.feature_column.numeric_column("query", 2)
    },
    example_feature_columns=columns,
    mode=mode,
    scope="transform",
  )


def _score(context, groups, mode, params, config):
  del params, config
  is_training = mode == tf.estimator.ModeKeys.TRAIN
  net = tf.concat(
    [tf.layers.flatten(context[name]) for name in sorted(context)]
    + [tf.layers.flatten(groups[name]) for name in sorted(groups)],
    1,
  )
  for units in (8, 4):
    net = tf.layers.dense(net, units)
    net = tf.layers.batch_normalization(net, momentum=0.9, training=is_training)
    net = tf.layers.dropout(tf.nn.relu(net), 0.2, training=is_training)
  return tf.layers.dense(net, groups["score"].shape[1].value)


def _model(directory, group_size, loss, weights_feature_name=None, **kwargs):
  def train_op(loss):
    step = tf.train.get_global_step()
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    optimizer = tf.train.AdagradOptimizer(0.1)
    return tf.group(optimizer.minimize(loss, step), *updates)

  head = tfr.head.create_ranking_head(
    loss_fn=tfr.losses.make_loss_fn(
      loss, weights_feature_name=weights_feature_name, **kwargs
    ),
    eval_metric_fns={
      "ndcg": tfr.metrics.make_ranking_metric_fn(
        tfr.metrics.RankingMetricKey.NDCG, topn=3
      ),
      "mrr": tfr.metrics.make_ranking_metric_fn(
        tfr.metrics.RankingMetricKey.MRR
      ),
    },
    train_op_fn=train_op,
  )
  estimator = tf.estimator.Estimator(
    tfr.model.make_groupwise_ranking_fn(
      group_score_fn=_score,
      group_size=group_size,
      transform_fn=_transform,
      ranking_head=head,
    ),
    config=harness.run_config(directory),
  )
  return harness.Model(estimator, lambda: _data().repeat(), _data, ())


def _data():
  random = np.random.RandomState(1)
  shape = [32, _DOCUMENTS]
  labels = random.randint(0, 3, shape).astype(np.float32)
  # The last documents of some lists are none.
  labels[::3, 4:] = _UNRATED
  words = [b"a", b"b", b"c", b"d"]
  features = {
    "query": random.normal(size=[32, 2]).astype(np.float32),
    "weight": random.uniform(0.5, 1, [32, 1]).astype(np.float32),
    "score": random.normal(size=[*shape, 3]).astype(np.float32),
    "words": np.take(words, random.randint(0, 4, [*shape, 2])),
  }
  data = tf.data.Dataset.from_tensor_slices((features, labels))
  return data.batch(8, drop_remainder=True)
