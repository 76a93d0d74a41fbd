"""The models of tf.contrib.learn: linear, deep, and both; k-means."""

import tempfile

import numpy as np
import tensorflow as tf

learn = tf.contrib.learn
layers = tf.contrib.layers

_RANDOM = np.random.RandomState(1)
_X = _RANDOM.normal(size=(12, 3)).astype(np.float32)
_WORDS = np.array([["ab"], ["cd"], ["ef"], ["ab"]] * 3)
_TARGETS = _RANDOM.normal(size=(12, 2)).astype(np.float32)
_CLASSES = np.array([[0], [2], [1], [1], [0], [2]] * 2)


def _features():
  words = tf.constant(_WORDS)
  rows = tf.stack([tf.range(12, dtype=tf.int64), tf.zeros(12, tf.int64)], 1)
  return {
    "x": tf.constant(_X),
    "age": tf.constant(np.arange(12, dtype=np.float32)[:, None] * 7),
    "word": tf.SparseTensor(rows, tf.reshape(words, [-1]), [12, 1]),
    "key": words,
    "w": tf.constant(np.linspace(0.5, 2, 12, dtype=np.float32)[:, None]),
  }


def _with(labels):
  def input_fn():
    return _features(), None if labels is None else tf.constant(labels)

  return input_fn


def _sparse_columns():
  word = layers.sparse_column_with_hash_bucket("word", 5)
  ages = layers.bucketized_column(
    layers.real_valued_column("age"), boundaries=[10, 30, 60]
  )
  return word, ages


def _columns_of_words():
  word, ages = _sparse_columns()
  return [word, layers.crossed_column([word, ages], 11)]


def _linear_columns():
  return [
    *_columns_of_words(),
    _sparse_columns()[1],
    layers.real_valued_column("x", dimension=3),
  ]


def _embedded():
  return layers.embedding_column(_sparse_columns()[0], dimension=2)


def _deep_columns(*more):
  word, ages = _sparse_columns()
  return [
    layers.real_valued_column("x", dimension=3),
    ages,
    layers.one_hot_column(word),
    *more,
  ]


def _core_columns():
  column = tf.feature_column
  words = column.categorical_column_with_vocabulary_list(
    "key", ["ab", "cd", "ef"]
  )
  return [
    column.numeric_column("x", [3]),
    column.embedding_column(words, 2),
  ]


def _options(**more):
  return dict(
    model_dir=tempfile.mkdtemp(),
    config=learn.RunConfig(tf_random_seed=3),
    **more,
  )


def _found(estimator, labels, **fitted):
  """Trained, evaluated, and what it predicts."""
  estimator.fit(input_fn=_with(labels), steps=3, **fitted)
  found = {
    "value/" + name: estimator.get_variable_value(name)
    for name in estimator.get_variable_names()
  }
  evaluated = estimator.evaluate(input_fn=_with(labels), steps=2)
  found.update({"eval/" + name: one for name, one in evaluated.items()})
  predicted = learn.Estimator.predict(
    estimator, input_fn=_with(None), as_iterable=False
  )
  found.update({"predicted/%s" % key: one for key, one in predicted.items()})
  return found


def linear_classifier():
  return _found(
    learn.LinearClassifier(_linear_columns(), **_options()), _CLASSES % 2
  )


def linear_classifier_of_three():
  return _found(
    learn.LinearClassifier(
      _linear_columns(),
      n_classes=3,
      weight_column_name="w",
      optimizer="Adagrad",
      gradient_clip_norm=0.3,
      **_options(),
    ),
    _CLASSES,
  )


def linear_classifier_joint():
  return _found(
    learn.LinearClassifier(
      _columns_of_words(), _joint_weight=True, **_options()
    ),
    _CLASSES % 2,
  )


def linear_classifier_of_core_columns():
  return _found(
    learn.LinearClassifier(
      _core_columns()[:1],
      optimizer=lambda: tf.train.GradientDescentOptimizer(0.1),
      **_options(),
    ),
    _CLASSES % 2,
  )


def linear_regressor():
  estimator = learn.LinearRegressor(
    _linear_columns(),
    weight_column_name="w",
    label_dimension=2,
    **_options(),
  )
  found = _found(estimator, _TARGETS)
  scores = estimator.predict_scores(input_fn=_with(None))
  found["scores"] = np.array(list(scores))
  return found


def centered_bias():
  models = {
    "linear": learn.LinearRegressor(
      _linear_columns(),
      label_dimension=2,
      enable_centered_bias=True,
      **_options(),
    ),
    "dnn": learn.DNNClassifier(
      [4], _deep_columns(), enable_centered_bias=True, **_options()
    ),
    "both": learn.DNNLinearCombinedClassifier(
      linear_feature_columns=_linear_columns(),
      dnn_feature_columns=_deep_columns(),
      dnn_hidden_units=[4],
      enable_centered_bias=True,
      **_options(),
    ),
  }
  found = {}
  for name, model in models.items():
    labels = _TARGETS if name == "linear" else _CLASSES % 2
    model.fit(input_fn=_with(labels), steps=1)
    # Not the values: the bias is trained twice at the same time.
    found[name] = np.array(sorted(model.get_variable_names()))
  return found


def linear_estimator():
  head = learn.poisson_regression_head(weight_column_name="w")
  estimator = learn.LinearEstimator(_linear_columns(), head, **_options())
  return _found(estimator, np.abs(_TARGETS[:, :1]))


def dnn_classifier():
  estimator = learn.DNNClassifier([4, 3], _deep_columns(), **_options())
  found = _found(estimator, _CLASSES % 2)
  for name in ("predict", "predict_classes", "predict_proba"):
    for as_iterable in (False, True):
      predicted = getattr(estimator, name)(
        input_fn=_with(None), as_iterable=as_iterable
      )
      found["%s/%s" % (name, as_iterable)] = np.array(list(predicted))
  return found


def dnn_classifier_of_three():
  column = _embedded()
  return _found(
    learn.DNNClassifier(
      [4],
      _deep_columns(column),
      n_classes=3,
      weight_column_name="w",
      optimizer=tf.train.AdamOptimizer(0.01),
      activation_fn="tanh",
      dropout=0.2,
      gradient_clip_norm=0.5,
      embedding_lr_multipliers={column: 3.0},
      input_layer_min_slice_size=1,
      **_options(),
    ),
    _CLASSES,
  )


def dnn_classifier_of_names():
  names = np.array(["p", "q", "r"])
  estimator = learn.DNNClassifier(
    [4], _deep_columns(), n_classes=3, label_keys=list(names), **_options()
  )
  found = _found(estimator, names[_CLASSES])
  classes = found["predicted/classes"]
  found["predicted/classes"] = classes.astype("S")
  return found


def dnn_classifier_of_core_columns():
  return _found(
    learn.DNNClassifier([4], _core_columns(), **_options()), _CLASSES % 2
  )


def on_parameter_servers():
  column = layers.embedding_column(
    layers.sparse_column_with_hash_bucket("word", 12), dimension=2
  )
  estimator = learn.DNNClassifier(
    [4],
    _deep_columns(column),
    embedding_lr_multipliers={column: 3.0},
    input_layer_min_slice_size=16,
    **_options(),
  )
  return _steps_on_parameter_servers(estimator)


def both_on_parameter_servers():
  wide = [layers.sparse_column_with_hash_bucket("word", 12)]
  estimator = learn.DNNLinearCombinedEstimator(
    learn.multi_class_head(2),
    linear_feature_columns=wide,
    dnn_feature_columns=_deep_columns(_embedded()),
    dnn_hidden_units=[4],
    input_layer_partitioner=tf.fixed_size_partitioner(2),
    fix_global_step_increment_bug=True,
    **_options(),
  )
  return _steps_on_parameter_servers(estimator)


def _steps_on_parameter_servers(estimator):
  class Config(object):
    num_ps_replicas = 3

  tf.train.create_global_step()
  ops = estimator.model_fn(
    _features(), tf.constant(_CLASSES % 2), "train", Config
  )
  summaries = [one.op.name for one in tf.get_collection(tf.GraphKeys.SUMMARIES)]
  results = {"loss": ops.loss, "summaries": np.array(sorted(summaries))}
  return results, ops.train_op


def dnn_regressor_of_arrays():
  columns = learn.infer_real_valued_columns_from_input(_X)
  options = _options(optimizer="SGD")
  estimator = learn.DNNRegressor([4], columns, **options)
  estimator.fit(_X, _TARGETS[:, 0], steps=5, batch_size=5)
  metrics = {
    "absolute": tf.contrib.metrics.streaming_mean_absolute_error,
    ("squared", "scores"): tf.contrib.metrics.streaming_mean_squared_error,
  }
  found = {
    "value/" + name: estimator.get_variable_value(name)
    for name in estimator.get_variable_names()
  }
  evaluated = estimator.evaluate(
    _X, _TARGETS[:, 0], batch_size=5, metrics=metrics
  )
  found.update({"eval/" + name: one for name, one in evaluated.items()})
  found["scores"] = np.array(list(estimator.predict(_X, batch_size=7)))
  more = estimator.predict(_X, outputs=["scores"], as_iterable=False)
  found["more"] = more["scores"]
  estimator.partial_fit(_X, _TARGETS[:, 0], steps=2)
  found["later"] = estimator.evaluate(_X, _TARGETS[:, 0])["loss"]
  return found


def sklearn_of_a_classifier():
  columns = learn.infer_real_valued_columns_from_input(_X)
  model = learn.SKCompat(
    learn.DNNClassifier([4], columns, n_classes=3, **_options())
  )
  model.fit(_X, _CLASSES[:, 0], batch_size=5, steps=4)
  found = {"predicted/" + key: one for key, one in model.predict(_X).items()}
  found["classes"] = model.predict(_X, outputs=["classes"])["classes"]
  scored = model.score(_X, _CLASSES[:, 0])
  found.update({"eval/" + key: one for key, one in scored.items()})
  return found


def dnn_estimator():
  head = learn.multi_label_head(
    3,
    weight_column_name="w",
    thresholds=[0.3],
    metric_class_ids=[0, 2],
    head_name="labels",
  )
  estimator = learn.DNNEstimator(head, [4], _deep_columns(), **_options())
  return _found(estimator, np.eye(3, dtype=np.int64)[_CLASSES[:, 0]])


def dnn_estimator_of_heads():
  head = learn.multi_head(
    [
      learn.multi_class_head(3, label_name="a", head_name="a"),
      learn.regression_head(
        label_name="b", weight_column_name="w", head_name="b"
      ),
    ],
    loss_weights=[0.5, 2.0],
  )
  estimator = learn.DNNEstimator(head, [4], _deep_columns(), **_options())

  def input_fn():
    labels = {"a": tf.constant(_CLASSES), "b": tf.constant(_TARGETS[:, :1])}
    return _features(), labels

  estimator.fit(input_fn=input_fn, steps=3)
  evaluated = estimator.evaluate(input_fn=input_fn, steps=1)
  found = {"eval/" + name: one for name, one in evaluated.items()}
  predicted = estimator.predict(input_fn=_with(None), as_iterable=False)
  found.update({"/".join(key): one for key, one in predicted.items()})
  found.update(_served(estimator, "a"))
  return found


def exports():
  classifier = learn.DNNClassifier(
    [4],
    _deep_columns(),
    n_classes=3,
    label_keys=["p", "q", "r"],
    **_options(),
  )
  classifier.fit(input_fn=_with(np.array(["p", "q", "r"])[_CLASSES]), steps=1)
  regressor = learn.LinearRegressor(_linear_columns(), **_options())
  regressor.fit(input_fn=_with(_TARGETS[:, :1]), steps=1)
  both = {"classifier": classifier, "regressor": regressor}
  return {
    "%s/%s" % (name, key): value
    for name, model in both.items()
    for key, value in _served(model).items()
  }


def _served(estimator, head=None):
  """The signatures of an export, and what they give for an example."""
  spec = layers.create_feature_spec_for_parsing(_deep_columns())
  path = estimator.export_savedmodel(
    tempfile.mkdtemp(), learn.build_parsing_serving_input_fn(spec), head
  )
  example = tf.train.Example()
  feature = example.features.feature
  feature["x"].float_list.value.extend([1, 2, 3])
  feature["age"].float_list.value.append(20)
  feature["word"].bytes_list.value.append(b"cd")
  found = {}
  with tf.Graph().as_default(), tf.Session() as session:
    graph = tf.saved_model.loader.load(
      session, ["serve"], tf.compat.as_str(path)
    )
    for key, one in graph.signature_def.items():
      (fed,) = one.inputs.values()
      found["served/%s" % key] = np.array(one.method_name)
      for name, output in one.outputs.items():
        value = session.run(
          output.name, {fed.name: [example.SerializeToString()]}
        )
        value = value.astype("S") if value.dtype == object else value
        found["served/%s/%s" % (key, name)] = value
  return found


def combined_classifier():
  column = _embedded()
  return _found(
    learn.DNNLinearCombinedClassifier(
      linear_feature_columns=_linear_columns(),
      dnn_feature_columns=[column],
      dnn_hidden_units=[4, 3],
      embedding_lr_multipliers={column: 2.0},
      fix_global_step_increment_bug=True,
      **_options(),
    ),
    _CLASSES % 2,
  )


def combined_classifier_of_three():
  return _found(
    learn.DNNLinearCombinedClassifier(
      n_classes=3,
      weight_column_name="w",
      linear_feature_columns=_columns_of_words(),
      linear_optimizer=tf.train.FtrlOptimizer(0.1),
      _joint_linear_weights=True,
      dnn_feature_columns=_deep_columns(),
      dnn_optimizer="Adam",
      dnn_hidden_units=[4],
      dnn_dropout=0.3,
      gradient_clip_norm=0.4,
      input_layer_min_slice_size=1,
      **_options(),
    ),
    _CLASSES,
  )


def combined_classifier_of_core_columns():
  return _found(
    learn.DNNLinearCombinedClassifier(
      linear_feature_columns=_core_columns()[:1],
      dnn_feature_columns=_core_columns(),
      dnn_hidden_units=[4],
      **_options(),
    ),
    _CLASSES % 2,
  )


def combined_regressor():
  return _found(
    learn.DNNLinearCombinedRegressor(
      weight_column_name="w",
      linear_feature_columns=_linear_columns(),
      dnn_feature_columns=_deep_columns(),
      dnn_hidden_units=[4],
      label_dimension=2,
      fix_global_step_increment_bug=True,
      **_options(),
    ),
    _TARGETS,
  )


def combined_estimator():
  head = learn.binary_svm_head(weight_column_name="w")
  return _found(
    learn.DNNLinearCombinedEstimator(
      head,
      dnn_feature_columns=_deep_columns(),
      dnn_hidden_units=[3],
      **_options(),
    ),
    _CLASSES % 2,
  )


_LOGITS = np.array([[0.1, -0.2, 0.3], [1.0, 2.0, -3.0]], np.float32)


def _of_head(head, labels, **logits):
  """What a head gives in each mode."""
  found = {}
  for mode in ("train", "eval", "infer"):
    with tf.Graph().as_default(), tf.Session() as session:
      features = {"w": tf.constant([1.0, 3.0])}
      given = {
        key: tf.get_variable("given", initializer=one)
        for key, one in logits.items()
      }
      tf.train.create_global_step()
      ops = head.create_model_fn_ops(
        features,
        mode,
        None if mode == "infer" else labels(),
        # The bias is trained besides, at the same time.
        lambda loss: tf.no_op(),
        **given,
      )
      summaries = tf.get_collection(tf.GraphKeys.SUMMARIES)
      names = sorted(one.op.name for one in summaries)
      found[mode + "/summaries"] = np.array(names)
      session.run(tf.global_variables_initializer())
      session.run([tf.local_variables_initializer(), tf.tables_initializer()])
      metrics = ops.eval_metric_ops or {}
      session.run([update for _, update in metrics.values()])
      values = {"eval/" + key: one[0] for key, one in metrics.items()}
      for key, one in (ops.predictions or {}).items():
        values["/".join(key) if isinstance(key, tuple) else key] = one
      alternatives = ops.output_alternatives or {}
      for name, (kind, tensors) in alternatives.items():
        for key, one in tensors.items():
          values["exported/%s/%d/%s" % (name, kind, key)] = one
      if ops.loss is not None:
        values["loss"] = ops.loss
      for key, one in session.run(values).items():
        one = one.astype("S") if one.dtype == object else one
        found["%s/%s" % (mode, key)] = one
      if mode == "train":
        session.run(ops.train_op)
        for one in tf.global_variables():
          found["after/" + one.op.name] = session.run(one)
  return found


def head_of_classes():
  head = learn.multi_class_head(
    3,
    label_name="y",
    weight_column_name="w",
    enable_centered_bias=True,
    head_name="classes",
    metric_class_ids=[0, 2],
  )
  labels = lambda: {"y": tf.constant([[0], [2]])}  # noqa: E731
  return _of_head(head, labels, logits=_LOGITS)


def head_of_two_classes():
  head = learn.multi_class_head(
    2,
    weight_column_name="w",
    enable_centered_bias=True,
    thresholds=[0.25, 0.75],
  )
  labels = lambda: tf.constant([[0], [1]])  # noqa: E731
  return _of_head(head, labels, logits_input=_LOGITS)


def head_of_sparse_labels():
  head = learn.multi_label_head(3)
  labels = lambda: tf.SparseTensor(  # noqa: E731
    [[0, 0], [0, 1], [1, 0]], tf.constant([2, 0, 1], tf.int64), [2, 2]
  )
  return _of_head(head, labels, logits=_LOGITS)


def head_with_a_loss_fn():
  head = learn.multi_class_head(
    3,
    loss_fn=lambda labels, logits, weights=None: tf.reduce_sum(
      tf.cast(labels, tf.float32) * logits
    ),
  )
  return _of_head(head, lambda: tf.constant([[0], [2]]), logits=_LOGITS)


def head_with_a_link():
  head = learn.regression_head(label_dimension=3, link_fn=tf.exp)
  return _of_head(head, lambda: tf.constant(_LOGITS + 1), logits=_LOGITS)


def head_of_heads():
  head = learn.multi_head(
    [
      learn.multi_class_head(2, label_name="a", head_name="a"),
      learn.regression_head(
        label_name="b",
        label_dimension=2,
        enable_centered_bias=True,
        head_name="b",
      ),
    ],
    loss_weights=[0.25, 2.0],
  )

  def labels():
    return {"a": tf.constant([[0], [1]]), "b": tf.constant(_LOGITS[:, 1:])}

  return _of_head(head, labels, logits=_LOGITS)


_POINTS = np.array([[1, 2], [1, 3], [8, 8], [9, 8], [1, 1]], np.float32)


def _points():
  return tf.train.limit_epochs(tf.constant(_POINTS), num_epochs=1), None


def k_means():
  factorization = tf.contrib.factorization
  estimator = factorization.KMeansClustering(
    2,
    initial_clusters=_POINTS[:2],
    distance_metric=factorization.SQUARED_EUCLIDEAN_DISTANCE,
    random_seed=3,
    use_mini_batch=False,
    **_options(),
  )
  for _ in range(3):
    estimator.train(lambda: _points()[0])
  return {
    "centers": estimator.cluster_centers(),
    "score": estimator.score(lambda: _points()[0]),
    "index": np.array(
      list(estimator.predict_cluster_index(lambda: _points()[0]))
    ),
    "distances": np.array(list(estimator.transform(lambda: _points()[0]))),
    "constants": np.array(
      [
        factorization.COSINE_DISTANCE,
        factorization.SQUARED_EUCLIDEAN_DISTANCE,
        factorization.RANDOM_INIT,
        factorization.KMEANS_PLUS_PLUS_INIT,
      ]
    ),
  }


def k_means_of_learn():
  estimator = learn.KMeansClustering(
    2,
    initial_clusters=_POINTS[:2],
    use_mini_batch=False,
    relative_tolerance=0.01,
    **_options(),
  )
  estimator.fit(input_fn=lambda: (tf.constant(_POINTS), None), steps=10)
  found = {
    "value/" + name: estimator.get_variable_value(name)
    for name in estimator.get_variable_names()
  }
  found["clusters"] = estimator.clusters()
  found["index"] = np.array(list(estimator.predict_cluster_idx(_points)))
  found["distances"] = estimator.transform(_points)
  # Its metric reads the input once more than there are steps.
  endless = lambda: (tf.constant(_POINTS), None)  # noqa: E731
  found["score"] = estimator.score(endless, steps=1)
  evaluated = estimator.evaluate(input_fn=endless, steps=1)
  found.update({"eval/" + key: one for key, one in evaluated.items()})
  return found
