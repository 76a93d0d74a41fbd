"""Models of tf.contrib.learn train, evaluate and predict sharded as plain."""

import functools
import tempfile

import compat
import estimator_mp
from tests import tiers
from tests.estimator_mp import runs

import numpy as np
import tensorflow.compat.v1 as tf
from absl.testing import absltest, parameterized

compat.install(contrib=True)
from compat.contrib import layers, learn  # noqa: E402

tf.disable_v2_behavior()

_RANDOM = np.random.RandomState(0)
_FEATURES = {
  "x": _RANDOM.randn(32, 3).astype(np.float32),
  "age": (_RANDOM.rand(32, 1) * 80).astype(np.float32),
  "word": np.array([["a"], ["b"], ["c"], ["d"]] * 8),
  "w": _RANDOM.rand(32, 1).astype(np.float32) + 0.5,
}
_CLASSES = _RANDOM.randint(3, size=(32, 1))
_BATCH = 8


def _input_fn():
  data = tf.data.Dataset.from_tensor_slices((_FEATURES, _CLASSES))
  features, labels = (
    data.repeat().batch(_BATCH).make_one_shot_iterator().get_next()
  )
  words = features.pop("word")
  rows = tf.stack([tf.range(_BATCH), tf.zeros([_BATCH], tf.int32)], 1)
  features["word"] = tf.SparseTensor(
    tf.cast(rows, tf.int64), tf.reshape(words, [-1]), [_BATCH, 1]
  )
  return features, labels


def _columns():
  word = layers.sparse_column_with_hash_bucket("word", 7)
  ages = layers.bucketized_column(layers.real_valued_column("age"), [20, 50])
  wide = [word, ages, layers.crossed_column([word, ages], 11)]
  deep = [
    layers.real_valued_column("x", 3),
    layers.embedding_column(word, dimension=2),
  ]
  return wide, deep


def _options():
  config = learn.RunConfig(model_dir=tempfile.mkdtemp(), tf_random_seed=5)
  return {"n_classes": 3, "config": config}


def _of_columns():
  wide, deep = _columns()
  return learn.DNNLinearCombinedClassifier(
    weight_column_name="w",
    linear_feature_columns=wide,
    dnn_feature_columns=deep,
    dnn_hidden_units=[8, 4],
    fix_global_step_increment_bug=True,
    **_options(),
  )


def _of_arrays():
  columns = learn.infer_real_valued_columns_from_input(_FEATURES["x"])
  return learn.DNNClassifier(
    [8, 4], columns, optimizer="Adam", gradient_clip_norm=1.0, **_options()
  )


def _results(model):
  """Losses, variables, metrics and predictions of a model that is trained."""
  recorder = runs.LossRecorder()
  if isinstance(model, learn.DNNClassifier):
    x, y = _FEATURES["x"], _CLASSES
    model.fit(x, y, steps=3, batch_size=_BATCH, monitors=[recorder])
    metrics = model.evaluate(x, y, batch_size=_BATCH)
    predicted = model.predict_proba(x, batch_size=_BATCH, as_iterable=False)
  else:
    model.fit(input_fn=_input_fn, steps=3, monitors=[recorder])
    metrics = model.evaluate(input_fn=_input_fn, steps=2)
    predicted = [*model.predict_proba(input_fn=lambda: _input_fn()[0])]
  return {
    "losses": recorder.losses,
    "predicted": predicted,
    **{f"metric {key}": one for key, one in metrics.items()},
    **runs.variables_of(model.model_dir),
  }


_plain = functools.cache(lambda make: _results(make()))


class LearnTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("stage_4", _of_columns, "stage:2", 4),
    *(
      ()
      if tiers.FAST
      else (
        ("stage", _of_columns, "stage:2", 1),
        ("data", _of_columns, "data:2", 1),
        ("model", _of_columns, "model:2", 1),
        ("arrays_stage_4", _of_arrays, "stage:2", 4),
        ("arrays_data", _of_arrays, "data:2", 1),
      )
    ),
  )
  def test_equals_the_plain_model(self, make, mesh, slices):
    model = make()
    config = estimator_mp.ShardingConfig(mesh, num_micro_batches=slices)
    self.assertIs(estimator_mp.shard_estimator(model, config), model)
    found = _results(model)
    self.assertCountEqual(found, _plain(make))
    for key, value in _plain(make).items():
      np.testing.assert_allclose(
        found[key], value, rtol=1e-5, atol=1e-6, err_msg=key
      )

  def test_learn_runner_takes_what_is_sharded(self):
    def model_fn(features, labels, mode):
      net = tf.layers.dense(features["x"], 4, tf.nn.relu)
      loss = tf.losses.mean_squared_error(labels, tf.layers.dense(net, 1))
      optimizer = tf.train.GradientDescentOptimizer(0.1)
      train_op = optimizer.minimize(loss, tf.train.get_global_step())
      return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def experiment_fn(run_config, hparams):
      del hparams
      estimator = tf.estimator.Estimator(model_fn, config=run_config)
      estimator_mp.shard_estimator(
        estimator, estimator_mp.ShardingConfig("stage:2")
      )
      return learn.Experiment(
        estimator, _input_fn, _input_fn, train_steps=2, eval_steps=1
      )

    metrics, _ = learn.learn_runner.run(
      experiment_fn, run_config=_options()["config"]
    )
    self.assertEqual(metrics["global_step"], 2)

  def test_twice(self):
    model = _of_arrays()
    config = estimator_mp.ShardingConfig("stage:2")
    estimator_mp.shard_estimator(model, config)
    with self.assertRaisesRegex(ValueError, "is sharded already"):
      estimator_mp.shard_estimator(model, config)


if __name__ == "__main__":
  absltest.main()
