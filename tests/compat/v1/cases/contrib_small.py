"""Small modules of tf.contrib: metrics, loss scales, predictors, TPU."""

import tempfile

import numpy as np
import tensorflow as tf

_X = np.random.RandomState(1).normal(size=(4, 3)).astype(np.float32)


def loss_scale():
  precision = tf.contrib.mixed_precision
  x = tf.placeholder_with_default(_X, [4, 3])
  step = tf.train.get_or_create_global_step()
  # The second step overflows.
  factor = tf.where(tf.equal(step, 1), np.inf, 1.0)
  loss = tf.reduce_mean(tf.square(tf.layers.dense(x, 2))) * factor
  manager = precision.ExponentialUpdateLossScaleManager(
    8.0, incr_every_n_steps=2, decr_every_n_nan_or_inf=1
  )
  optimizer = precision.LossScaleOptimizer(
    tf.train.GradientDescentOptimizer(0.1), manager
  )
  train_op = optimizer.minimize(loss, step)
  # Of the step that overflows, the step itself is not counted.
  with tf.control_dependencies([train_op]):
    train_op = tf.cond(
      tf.equal(step, 1),
      lambda: tf.group(tf.assign_add(step, 1)),
      lambda: tf.no_op(),
    )
  return {"scale": manager.get_loss_scale() + 0}, train_op


def fixed_loss_scale():
  precision = tf.contrib.mixed_precision
  x = tf.placeholder_with_default(_X, [4, 3])
  loss = tf.reduce_mean(tf.square(tf.layers.dense(x, 2)))
  optimizer = precision.LossScaleOptimizer(
    tf.train.AdamOptimizer(0.1), precision.FixedLossScaleManager(16.0)
  )
  step = tf.train.get_or_create_global_step()
  return {"loss": loss}, optimizer.minimize(loss, step)


def eager_metrics():
  from tensorflow.contrib.eager.python import tfe

  labels = tf.placeholder_with_default(np.array([0, 2, 1, 1]), [4])
  weights = np.array([1.0, 2.0, 0.5, 0.0])
  scores = tf.placeholder_with_default(_X, [4, 3])
  metrics = {
    "mean": (tfe.metrics.Mean("m"), (scores,)),
    "weighted": (tfe.metrics.Mean("a b"), (labels, weights)),
    "accuracy": (tfe.metrics.Accuracy(), (labels, tf.argmax(scores, 1))),
    "sparse": (tfe.metrics.SparseAccuracy(), (labels, scores, weights)),
    "binary": (
      tfe.metrics.BinaryAccuracy(0.5),
      (tf.cast(labels > 0, tf.float32), scores[:, 0]),
    ),
    "categorical": (
      tfe.metrics.CategoricalAccuracy(),
      (tf.one_hot(labels, 3), scores),
    ),
  }
  calls, found = [], {}
  for name, (metric, arguments) in sorted(metrics.items()):
    calls += tf.contrib.framework.nest.flatten(metric(*arguments))
    found[name] = metric.result()
    found[name + "/variables"] = np.array([v.op.name for v in metric.variables])
    initialize = metric.init_variables()
    del initialize
  train_op = tf.group(*calls)
  step = tf.train.get_or_create_global_step()
  train_op = tf.group(train_op, tf.assign_add(step, 1))
  return found, train_op


def tpu_loops():
  x = tf.placeholder_with_default(_X, [4, 3])

  def body(value):
    return tf.tanh(value) * 1.5

  return {
    "repeat": tf.contrib.tpu.repeat(3, body, [x])[0],
    "while": tf.contrib.tpu.while_loop(
      lambda value: tf.reduce_sum(value) < 100.0,
      lambda value: value * value + 1,
      [x],
    )[0],
  }


def summaries():
  old = tf.contrib.deprecated
  old.scalar_summary(["a", "b"], tf.constant([1.0, 2.0]))
  old.histogram_summary("h", tf.constant(_X))
  merged = old.merge_all_summaries()
  with tf.Session() as session:
    read = tf.Summary.FromString(session.run(merged))
  return {"tags": np.array([one.tag for one in read.value])}


def predictors():
  predictor = tf.contrib.predictor
  folder = tempfile.mkdtemp()

  def model_fn(features, labels, mode):
    weights = tf.get_variable("w", [3, 1])
    predicted = tf.matmul(features["x"], weights)
    loss = tf.reduce_sum(predicted)
    return tf.estimator.EstimatorSpec(
      mode,
      predictions={"p": predicted},
      loss=loss,
      train_op=tf.assign_add(tf.train.get_or_create_global_step(), 1),
      export_outputs={
        "serving_default": tf.estimator.export.PredictOutput({"p": predicted}),
        "other": tf.estimator.export.PredictOutput({"q": -predicted}),
      },
    )

  def receiver_fn():
    x = tf.placeholder(tf.float32, [None, 3])
    return tf.estimator.export.ServingInputReceiver({"x": x}, {"in": x})

  estimator = tf.estimator.Estimator(model_fn, folder)
  estimator.train(lambda: ({"x": tf.constant(_X)}, tf.constant(0)), steps=1)
  found = {}
  one = predictor.from_estimator(estimator, receiver_fn)
  found.update({"estimator/" + k: v for k, v in one({"in": _X}).items()})
  one = predictor.from_estimator(estimator, receiver_fn, output_key="other")
  found.update({"other/" + k: v for k, v in one({"in": _X}).items()})
  path = estimator.export_savedmodel(tempfile.mkdtemp(), receiver_fn)
  path = tf.compat.as_str(path)
  for key in (None, "other"):
    one = predictor.from_saved_model(path, signature_def_key=key)
    for name, value in one({"in": _X}).items():
      found["saved/%s/%s" % (key, name)] = value
  return found


def contrib_predictor():
  learn = tf.contrib.learn

  def model_fn(features, labels, mode):
    weights = tf.get_variable("w", [3, 1])
    predicted = tf.matmul(features["x"], weights)
    train_op = None
    if mode == learn.ModeKeys.TRAIN:
      train_op = tf.assign_add(tf.train.get_global_step(), 1)
    predictions = {"p": predicted, "q": predicted + 1}
    return learn.ModelFnOps(
      mode, predictions, tf.reduce_sum(predicted), train_op
    )

  def serving_input_fn():
    x = tf.placeholder(tf.float32, [None, 3])
    return learn.InputFnOps({"x": x}, None, {"in": x})

  estimator = learn.Estimator(model_fn, tempfile.mkdtemp())
  estimator.fit(
    input_fn=lambda: ({"x": tf.constant(_X)}, tf.constant(0)), steps=1
  )
  one = tf.contrib.predictor.from_contrib_estimator(estimator, serving_input_fn)
  found = dict(one({"in": _X}))
  path = estimator.export_savedmodel(tempfile.mkdtemp(), serving_input_fn)
  with tf.Session(graph=tf.Graph()) as session:
    loaded = tf.saved_model.loader.load(session, ["serve"], path)
  for key, signature in loaded.signature_def.items():
    names = [signature.method_name, *signature.inputs, *signature.outputs]
    found["signature/" + key] = np.array(sorted(names))
  return found


def cluster_resolvers():
  resolvers = tf.contrib.cluster_resolver
  one = resolvers.SimpleClusterResolver(
    tf.train.ClusterSpec({"worker": ["a:1", "b:2"]})
  )
  two = resolvers.SimpleClusterResolver(
    tf.train.ClusterSpec({"worker": ["c:3"], "ps": ["d:4"]}), master="m"
  )
  both = resolvers.UnionClusterResolver(one, two)
  return {
    "workers": np.array(both.cluster_spec().job_tasks("worker")),
    "ps": np.array(both.cluster_spec().job_tasks("ps")),
    "master": np.array(two.master()),
  }


def strategies():
  distribute = tf.contrib.distribute
  strategy = distribute.OneDeviceStrategy("/device:CPU:0")
  found = {"outside": distribute.has_strategy()}
  with strategy.scope():
    found["inside"] = distribute.has_distribution_strategy()
    found["cross"] = distribute.in_cross_replica_context()
  mirrored = distribute.MirroredStrategy(num_gpus=0)
  found["replicas"] = mirrored.num_replicas_in_sync
  return found
