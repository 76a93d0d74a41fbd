"""tf.contrib.learn: Estimator, Experiment, monitors, readers, data sets."""

import os
import tempfile

import numpy as np
import tensorflow as tf

learn = tf.contrib.learn

_X = np.random.RandomState(1).normal(size=(10, 3)).astype(np.float32)
_Y = np.arange(10, dtype=np.float32)


def _linear(features, labels, mode, params):
  weights = tf.get_variable("w", [3, 1])
  predicted = tf.squeeze(tf.matmul(features, weights), 1)
  loss = train_op = None
  if mode != learn.ModeKeys.INFER:
    loss = tf.reduce_mean(tf.square(predicted - labels), name="loss")
    optimizer = tf.train.GradientDescentOptimizer(params["rate"])
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
  return learn.ModelFnOps(
    mode, {"p": predicted, "q": predicted + 1}, loss, train_op
  )


def _estimator(**config):
  return learn.Estimator(
    _linear,
    tempfile.mkdtemp(),
    learn.RunConfig(tf_random_seed=3, **config),
    {"rate": 0.1},
  )


def _values(estimator):
  return {
    name: estimator.get_variable_value(name)
    for name in estimator.get_variable_names()
  }


def fit_arrays():
  estimator = _estimator()
  estimator.fit(_X, _Y, steps=7, batch_size=4)
  found = _values(estimator)
  metrics = {
    "error": learn.MetricSpec(
      tf.contrib.metrics.streaming_mean_absolute_error, prediction_key="q"
    )
  }
  evaluated = estimator.evaluate(_X, _Y, batch_size=3, metrics=metrics)
  found.update({"eval/" + name: one for name, one in evaluated.items()})
  found["p"] = estimator.predict(_X, outputs=["p"], as_iterable=False)["p"]
  found["q"] = np.array([one["q"] for one in estimator.predict(_X, None, 4)])
  estimator.partial_fit(_X, _Y)
  estimator.fit(_X, _Y, max_steps=10, batch_size=5)
  found["later"] = estimator.get_variable_value("w")
  found["files"] = np.array(
    [name for name in sorted(os.listdir(estimator.model_dir)) if "ck" in name]
  )
  return found


def fit_input_fn():
  estimator = _estimator()

  def input_fn():
    return tf.train.limit_epochs(_X, num_epochs=3), tf.constant(_Y)

  monitor = learn.monitors.CaptureVariable("w:0", every_n=2)
  estimator.fit(input_fn=input_fn, monitors=[monitor])
  found = _values(estimator)
  found.update({"at/%d" % step: one for step, one in monitor.values.items()})
  return found


def stops_early():
  estimator = _estimator(save_checkpoints_steps=1)
  monitor = learn.monitors.ValidationMonitor(
    _X[5:],
    _Y[5:],
    every_n_steps=2,
    early_stopping_rounds=3,
    check_interval_secs=0,
  )
  estimator.fit(_X[:5], _Y[:5], steps=30, monitors=[monitor])
  found = _values(estimator)
  found["best_step"] = monitor.best_step
  found["best_value"] = monitor.best_value
  found["stopped"] = monitor.early_stopped
  return found


def experiment():
  def experiment_fn(run_config, hparams):
    estimator = learn.Estimator(
      _linear, config=run_config, params={"rate": hparams.rate}
    )

    def input_fn():
      return tf.constant(_X), tf.constant(_Y)

    def export_fn(estimator, export_dir_base, checkpoint_path, eval_result):
      return (
        os.path.basename(export_dir_base) + b"%d" % eval_result["global_step"]
      )

    return learn.Experiment(
      estimator,
      input_fn,
      input_fn,
      train_steps=6,
      eval_steps=2,
      export_strategies=learn.ExportStrategy("mine", export_fn),
    )

  config = learn.RunConfig(model_dir=tempfile.mkdtemp(), tf_random_seed=3)
  metrics, exported = learn.learn_runner.run(
    experiment_fn,
    run_config=config,
    hparams=tf.contrib.training.HParams(rate=0.05),
  )
  return dict(metrics, exported=np.array(exported))


def run_configs():
  config = learn.RunConfig(save_checkpoints_steps=5, num_cores=2)
  names = (
    "environment",
    "is_chief",
    "keep_checkpoint_max",
    "num_ps_replicas",
    "num_worker_replicas",
    "save_checkpoints_steps",
    "task_id",
  )
  found = {name: getattr(config, name) for name in names}
  found["replaced"] = config.replace(tf_random_seed=4).tf_random_seed
  return found


def vocabularies():
  text = ["Hello world, it's a HTTPRequest-test", "hello world world", "foo"]
  found = {}
  for least in (0, 1):
    words = learn.preprocessing.VocabularyProcessor(4, min_frequency=least)
    found["words%d" % least] = np.array(list(words.fit_transform(text)))
    found["again%d" % least] = np.array(list(words.transform(["new world"])))
    found["back%d" % least] = np.array(list(words.reverse([[0, 1]])))
  table = [["a", "x"], ["b", "x"], ["a", "y"], ["a", "x"]]
  for share in (False, True):
    rows = learn.preprocessing.CategoricalProcessor(share=share)
    found["rows%s" % share] = np.array(list(rows.fit_transform(table)))
    found["unknown%s" % share] = np.array(list(rows.transform([["a", "q"]])))
  counts = learn.preprocessing.CategoricalVocabulary()
  for word, count in [("a", 3), ("b", 10), ("c", 1), ("d", 7), ("e", 3)]:
    counts.add(word, count)
  counts.trim(2, 8)
  found["trimmed"] = np.array([counts.get(word) for word in "deabc"])
  some_bytes = learn.preprocessing.ByteProcessor(6).transform(
    ["abc", "abcdefg"]
  )
  found["bytes"] = np.array(list(some_bytes))
  return found


def data_sets():
  iris = learn.datasets.load_iris()
  found = {"iris": iris.data, "iris_target": iris.target}
  for name in ("circles", "spirals"):
    for noise in (None, 0.1):
      made = learn.datasets.make_dataset(name, 8, noise, seed=5)
      found["%s/%s" % (name, noise)] = np.round(made.data, 7)
      found["%s/%s/target" % (name, noise)] = made.target
  for mode in ("bernoulli", "fermat"):
    made = learn.datasets.make_dataset(
      "spirals", 8, None, 5, mode=mode, n_loops=3
    )
    found["spirals/" + mode] = np.round(made.data, 7)
  return found


def digits():
  images = np.arange(5 * 4).reshape((5, 2, 2, 1)).astype(np.uint8)
  data = learn.datasets.mnist.DataSet(images, np.arange(5), seed=7)
  found = {"images": data.images}
  for index in range(4):
    found["x%d" % index], found["y%d" % index] = data.next_batch(2)
    found["epochs%d" % index] = data.epochs_completed
  found["in_order"] = data.next_batch(3, shuffle=False)[1]
  fake = learn.datasets.mnist.read_data_sets("", fake_data=True, one_hot=True)
  found["fake"] = np.array(fake.train.next_batch(2, fake_data=True)[1])
  return found


def csv_files():
  path = os.path.join(tempfile.mkdtemp(), "a.csv")
  with open(path, "w") as file:
    file.write("2,3,foo,bar,baz\n1,2,3,0\n4,5,6,1\n")
  base = learn.datasets.base
  table = base.load_csv_with_header(path, np.int64, np.float32)
  return {"data": table.data, "target": table.target}


_SPEC = {
  "a": tf.FixedLenFeature([1], tf.int64),
  "b": tf.VarLenFeature(tf.string),
}


def _records():
  folder = tempfile.mkdtemp()
  for number in range(2):
    path = os.path.join(folder, "%d.rec" % number)
    with tf.python_io.TFRecordWriter(path) as writer:
      for index in range(3):
        example = tf.train.Example()
        feature = example.features.feature
        feature["a"].int64_list.value.append(10 * number + index)
        feature["b"].bytes_list.value.extend([b"x"] * index)
        writer.write(example.SerializeToString())
  return os.path.join(folder, "*.rec")


def _batches(fetches):
  """All batches of a graph with queues."""
  found = {}
  with tf.Session() as session:
    session.run(tf.local_variables_initializer())
    coordinator = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(session, coordinator)
    try:
      for index in range(9):
        for name, value in session.run(fetches).items():
          value = value.astype("S") if value.dtype == object else value
          found["%s%d" % (name, index)] = value
    except tf.errors.OutOfRangeError:
      pass
    coordinator.request_stop()
    coordinator.join(threads, 10, ignore_live_threads=True)
  tf.get_default_graph().clear_collection(tf.GraphKeys.QUEUE_RUNNERS)
  return found


def reads_features():
  features = learn.read_batch_features(
    _records(), 4, _SPEC, tf.TFRecordReader, False, num_epochs=1
  )
  features["b"] = tf.sparse.to_dense(features["b"], default_value="")
  return _batches(features)


def reads_records():
  records = _records()
  options = dict(randomize_input=False, num_epochs=1)
  keys, examples = learn.read_keyed_batch_examples(
    records, 4, tf.TFRecordReader, **options
  )
  parsed = learn.read_batch_examples(
    records,
    4,
    tf.TFRecordReader,
    parse_fn=lambda one: tf.parse_single_example(one, {"a": _SPEC["a"]})["a"],
    **options,
  )
  offsets = tf.strings.regex_replace(keys, ".*/", "")
  lengths = tf.strings.length(examples)
  return _batches({"key": offsets, "length": lengths, "parsed": parsed})


def runs_graphs():
  with tf.Graph().as_default():
    fed = tf.placeholder(tf.float32, [])
    variable = tf.get_variable("v", initializer=tf.constant(2.0))
    more = tf.assign_add(variable, fed)
    outputs = {"more": more}
    steps = learn.run_feeds(outputs, [{fed: 1.0}, {fed: 2.0}])
    again = learn.run_n(outputs, {fed: 0.5}, n=3)
    once = learn.infer(None, outputs, {fed: 4.0})
  return {
    "feeds": np.array([one["more"] for one in steps]),
    "n": np.array([one["more"] for one in again]),
    "infer": once["more"],
  }
