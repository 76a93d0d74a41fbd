"""tf.contrib.estimator: heads, and what adds to an Estimator."""

import tempfile

import numpy as np
import tensorflow as tf

contrib = tf.contrib.estimator
_LOGITS = np.array([[0.1, -0.2, 0.3], [1.0, 2.0, -3.0]], np.float32)
_FEATURES = {
  "x": np.array([[1.0], [2.0]], np.float32),
  "w": np.array([[1.0], [3.0]], np.float32),
}


def _evaluated(head, labels, logits=_LOGITS):
  """What a head gives in each mode."""
  found = {}
  for mode in ("train", "eval", "infer"):
    with tf.Graph().as_default(), tf.Session() as session:
      features = {key: tf.constant(one) for key, one in _FEATURES.items()}
      spec = head.create_estimator_spec(
        features,
        mode,
        tf.constant(logits[:, : head.logits_dimension]),
        labels=None if mode == "infer" else labels(),
        train_op_fn=(lambda loss: tf.no_op()) if mode == "train" else None,
      )
      session.run([tf.local_variables_initializer(), tf.tables_initializer()])
      metrics = spec.eval_metric_ops or {}
      session.run([update for _, update in metrics.values()])
      values = {"eval/" + key: one[0] for key, one in metrics.items()}
      for key, one in (spec.predictions or {}).items():
        values[str(key)] = one
      if spec.loss is not None:
        values["loss"] = spec.loss
      for key, one in session.run(values).items():
        one = one.astype("S") if one.dtype == object else one
        found["%s/%s" % (mode, key)] = one
      exported = sorted(
        "%s %s" % (key, type(one).__name__)
        for key, one in (spec.export_outputs or {}).items()
      )
      found[mode + "/outputs"] = np.array(exported)
      summaries = tf.get_collection(tf.GraphKeys.SUMMARIES)
      names = sorted(one.op.name for one in summaries)
      found[mode + "/summaries"] = np.array(names)
  return found


def _several():
  return tf.constant([[1, 0, 1], [0, 1, 0]])


def _sparse():
  return tf.SparseTensor([[0, 0], [0, 1], [1, 0]], ["p", "r", "q"], [2, 2])


def _numbers():
  return tf.constant([[0.25], [1.0]])


def multi_label_head_of_names():
  head = contrib.multi_label_head(
    3,
    weight_column="w",
    thresholds=[0.5, 0.3],
    label_vocabulary=["p", "q", "r"],
    classes_for_class_based_metrics=["q", "r"],
    name="labels",
  )
  return _evaluated(head, _sparse)


def multi_label_head_sum():
  head = contrib.multi_label_head(
    3,
    weight_column="w",
    loss_reduction=tf.losses.Reduction.SUM,
    classes_for_class_based_metrics=[0],
  )
  return _evaluated(head, _several)


def poisson_regression_head():
  return _evaluated(
    contrib.poisson_regression_head(weight_column="w"), _numbers
  )


def logistic_regression_head():
  return _evaluated(contrib.logistic_regression_head(name="chance"), _numbers)


def multi_class_head():
  return _evaluated(
    contrib.multi_class_head(3), lambda: tf.constant([[2], [0]])
  )


def binary_classification_head():
  head = contrib.binary_classification_head(thresholds=[0.6])
  return _evaluated(head, lambda: tf.constant([[1], [0]]))


def regression_head():
  return _evaluated(contrib.regression_head(weight_column="w"), _numbers)


def multi_head():
  head = contrib.multi_head(
    [
      contrib.multi_label_head(3, name="a", weight_column="w"),
      contrib.regression_head(name="b"),
    ],
    [1.0, 2.0],
  )
  logits = np.concatenate([_LOGITS, [[0.5], [0.6]]], axis=1).astype(np.float32)
  return _evaluated(head, lambda: {"a": _several(), "b": _numbers()}, logits)


def multi_head_losses():
  head = contrib.multi_head(
    [
      contrib.multi_label_head(3, name="a", weight_column="w"),
      contrib.regression_head(name="b"),
    ],
    [1.0, 2.0],
  )
  logits = np.concatenate([_LOGITS, [[0.5], [0.6]]], axis=1).astype(np.float32)
  features = {key: tf.constant(one) for key, one in _FEATURES.items()}
  labels = {"a": _several(), "b": _numbers()}
  spec = head.create_loss(features, "train", tf.constant(logits), labels)
  return {
    "training_loss": spec.training_loss,
    "unreduced_a": spec.unreduced_loss["a"],
    "unreduced_b": spec.unreduced_loss["b"],
    "weights_a": spec.weights["a"],
    "weights_b": tf.convert_to_tensor(spec.weights["b"]),
    "labels_b": spec.processed_labels["b"],
  }


def _input_fn():
  features = {"x": _FEATURES["x"], "id": np.array([[7], [8]])}
  return tf.data.Dataset.from_tensors((features, [[5.0], [6.0]])).repeat(2)


def extended():
  column = tf.feature_column.numeric_column("x")
  config = tf.estimator.RunConfig(tf_random_seed=3)
  head = contrib.multi_head(
    [
      contrib.regression_head(name="a"),
      contrib.poisson_regression_head(name="b"),
    ]
  )
  estimator = tf.estimator.DNNEstimator(
    head,
    hidden_units=[3],
    feature_columns=[column],
    model_dir=tempfile.mkdtemp(),
    optimizer=lambda: contrib.clip_gradients_by_norm(
      tf.train.GradientDescentOptimizer(0.1), 0.5
    ),
    config=config,
  )

  def input_fn():
    return _input_fn().map(lambda x, y: (x, {"a": y, "b": y}))

  estimator.train(input_fn, steps=2)
  found = {
    name: estimator.get_variable_value(name)
    for name in estimator.get_variable_names()
  }
  for name, value in estimator.evaluate(input_fn).items():
    found["eval/" + name] = value
  forwarding = tf.contrib.estimator.forward_features(
    tf.estimator.LinearRegressor([column], config=config), "id"
  )
  forwarding.train(_input_fn, steps=1)
  predicted = list(forwarding.predict(_input_fn))
  found["ids"] = np.array([one["id"] for one in predicted])
  return found


def multi_head_names():
  """Names of variables and ops; batch normalization's averages stay."""
  head = contrib.multi_head(
    [
      contrib.regression_head(name="a"),
      contrib.poisson_regression_head(name="b"),
    ],
    [1.0, 0.5],
  )
  estimator = tf.estimator.DNNEstimator(
    head,
    hidden_units=[3],
    feature_columns=[tf.feature_column.numeric_column("x")],
    model_dir=tempfile.mkdtemp(),
    optimizer=tf.train.AdamOptimizer(0.1),
    batch_norm=True,
    config=tf.estimator.RunConfig(tf_random_seed=3),
  )

  def input_fn():
    return _input_fn().map(lambda x, y: (x, {"a": y, "b": y}))

  estimator.train(input_fn, steps=2)
  return {
    name: estimator.get_variable_value(name)
    for name in estimator.get_variable_names()
  }
