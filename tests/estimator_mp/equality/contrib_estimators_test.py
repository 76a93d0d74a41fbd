"""Estimators of tf.contrib.estimator: sharded, each is the plain one."""

import compat

compat.install(v1=True)

import estimator_mp  # noqa: E402
from tests import tiers  # noqa: E402
from tests.estimator_mp import runs  # noqa: E402

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from absl.testing import absltest, parameterized  # noqa: E402

_MESHES = {
  "micro_batches": estimator_mp.ShardingConfig("stage:2", num_micro_batches=4),
  "stages": estimator_mp.ShardingConfig("stage:2"),
  "replicas": estimator_mp.ShardingConfig("data:2"),
  "parts": estimator_mp.ShardingConfig(
    "model:2", split=[("(cell_0/.*|hidden)/kernel", 1)]
  ),
}
# Of eight sequences, of one to three steps.
_PLACES = [
  [number, step] for number in range(8) for step in range(1 + number % 3)
]


def _input_fn():
  random = np.random.RandomState(5)
  features = {
    "words": tf.SparseTensor(
      _PLACES, random.choice(list("abcd"), len(_PLACES)), [8, 3]
    ),
    "numbers": tf.SparseTensor(
      _PLACES, random.normal(size=len(_PLACES)).astype(np.float32), [8, 3]
    ),
    "age": random.normal(size=[8, 1]).astype(np.float32),
    "w": random.uniform(size=[8, 1]).astype(np.float32),
  }
  labels = random.choice(["no", "yes", "maybe"], [8, 1])
  return tf.data.Dataset.from_tensors((features, labels)).repeat(3)


def _rnn_classifier(model_dir):
  columns = tf.contrib.feature_column
  words = columns.sequence_categorical_column_with_vocabulary_list(
    "words", ["a", "b", "c", "d"]
  )
  return tf.contrib.estimator.RNNClassifier(
    [
      tf.feature_column.embedding_column(words, 3),
      columns.sequence_numeric_column("numbers"),
    ],
    [tf.feature_column.numeric_column("age")],
    num_units=[4, 3],
    cell_type="lstm",
    n_classes=3,
    weight_column="w",
    label_vocabulary=["yes", "no", "maybe"],
    model_dir=model_dir,
    config=tf.estimator.RunConfig(tf_random_seed=3),
  )


def _replicated(model_dir):
  """A model_fn for two devices, as TensorFlow 1 had them."""
  contrib = tf.contrib.estimator

  def model_fn(features, labels, mode):
    net = tf.layers.dense(features["age"], 8, tf.tanh, name="hidden")
    logits = tf.layers.dense(net, 1, name="logits")
    predictions = {"probabilities": tf.sigmoid(logits)}
    if mode == tf.estimator.ModeKeys.PREDICT:
      return tf.estimator.EstimatorSpec(mode, predictions)
    loss = tf.losses.sigmoid_cross_entropy(
      tf.cast(tf.equal(labels, "yes"), tf.float32), logits
    )
    optimizer = contrib.TowerOptimizer(tf.train.AdamOptimizer(0.1))
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

  return tf.estimator.Estimator(
    contrib.replicate_model_fn(model_fn, devices=["/gpu:0", "/gpu:1"]),
    model_dir=model_dir,
    config=tf.estimator.RunConfig(tf_random_seed=3),
  )


class ContribEstimatorsTest(parameterized.TestCase):
  def _results(self, estimator):
    """What training, evaluation and prediction give."""
    recorder = runs.LossRecorder()
    estimator.train(_input_fn, [recorder], steps=3)
    return {
      "losses": recorder.losses,
      **{
        name: estimator.get_variable_value(name)
        for name in estimator.get_variable_names()
      },
      **estimator.evaluate(_input_fn),
      "predicted": [
        one["probabilities"] for one in estimator.predict(_input_fn)
      ],
    }

  @parameterized.named_parameters(
    (f"{mesh}{make.__name__}", make, config)
    for make in (_rnn_classifier, _replicated)
    for mesh, config in tiers.sample(_MESHES.items())
  )
  def test_equals_the_plain_one(self, make, config):
    plain, sharded = (make(self.create_tempdir().full_path) for _ in range(2))
    estimator_mp.shard_estimator(sharded, config)
    expected, found = self._results(plain), self._results(sharded)
    self.assertCountEqual(found, expected)
    for name, value in expected.items():
      np.testing.assert_allclose(
        found[name], value, rtol=1e-5, atol=1e-6, err_msg=name
      )


if __name__ == "__main__":
  absltest.main()
