"""Whole small programs: sessions, Supervisor, flags, checkpoints."""

import os
import tempfile

import numpy as np
import tensorflow as tf

_X = np.random.RandomState(12).normal(size=(6, 3)).astype(np.float32)


def _training():
  x = tf.placeholder_with_default(_X, [None, 3], name="x")
  y = tf.layers.dense(
    x, 2, kernel_initializer=tf.constant_initializer(0.1), name="y"
  )
  loss = tf.reduce_mean(tf.square(y - 1), name="loss")
  step = tf.train.get_or_create_global_step()
  train = tf.train.AdamOptimizer(0.1).minimize(loss, step)
  tf.summary.scalar("loss", loss)
  tf.summary.histogram("y", y)
  return loss, train, step


def supervisor():
  folder = tempfile.mkdtemp()
  with tf.Graph().as_default():
    loss, train, step = _training()
    boss = tf.train.Supervisor(
      logdir=folder, save_summaries_secs=0, save_model_secs=0
    )
    with boss.managed_session() as session:
      while not boss.should_stop():
        value, _, at = session.run([loss, train, step])
        if at >= 3:
          break
      boss.saver.save(session, boss.save_path, global_step=step)
  return {"loss": value, "files": _files(folder)}


def _files(folder):
  return " ".join(
    sorted(one for one in os.listdir(folder) if not one.startswith("events"))
  )


def monitored_session():
  folder = tempfile.mkdtemp()
  seen = []

  class _Seen(tf.train.SessionRunHook):
    def before_run(self, run_context):
      return tf.train.SessionRunArgs("loss:0")

    def after_run(self, run_context, run_values):
      seen.append(run_values.results)

  with tf.Graph().as_default():
    _, train, _ = _training()
    hooks = [tf.train.StopAtStepHook(last_step=4), _Seen()]
    with tf.train.MonitoredTrainingSession(
      checkpoint_dir=folder,
      hooks=hooks,
      save_checkpoint_steps=2,
      save_summaries_steps=2,
      log_step_count_steps=2,
    ) as session:
      while not session.should_stop():
        session.run(train)
  reader = tf.train.NewCheckpointReader(tf.train.latest_checkpoint(folder))
  events = [one for one in os.listdir(folder) if one.startswith("events")]
  tags = []
  for event in tf.train.summary_iterator(os.path.join(folder, events[0])):
    tags += [value.tag for value in event.summary.value]
  return {
    "seen": np.float32(seen),
    "files": _files(folder),
    "names": " ".join(sorted(reader.get_variable_to_shape_map())),
    "kernel": reader.get_tensor("y/kernel"),
    "tags": " ".join(sorted(set(tags) - {"global_step/sec"})),
  }


def savers():
  folder = tempfile.mkdtemp()
  path = os.path.join(folder, "model.ckpt")
  with tf.Graph().as_default(), tf.Session() as session:
    _, train, step = _training()
    saver = tf.train.Saver(max_to_keep=2)
    session.run(tf.initialize_all_variables())
    for _ in range(4):
      session.run(train)
      saved = saver.save(session, path, global_step=step)
    kept = len(saver.last_checkpoints)
  with tf.Graph().as_default(), tf.Session() as session:
    again = tf.train.import_meta_graph(saved + ".meta")
    again.restore(session, tf.train.latest_checkpoint(folder))
    graph = tf.get_default_graph()
    value = session.run("loss:0", {graph.get_tensor_by_name("x:0"): _X})
    operations = " ".join(
      sorted(v.op.name for v in tf.get_collection("trainable_variables"))
    )
  with tf.Graph().as_default(), tf.Session() as session:
    with tf.variable_scope("z"):
      kernel = tf.get_variable("kernel", [3, 2])
    tf.train.init_from_checkpoint(folder, {"y/": "z/"})
    session.run(tf.global_variables_initializer())
    loaded = session.run(kernel)
  return {
    "kept": kept,
    "files": _files(folder),
    "value": value,
    "operations": operations,
    "loaded": loaded,
    "listed": str(tf.train.list_variables(folder)),
    "exists": str(tf.train.checkpoint_exists(saved)),
    "state": os.path.basename(
      tf.train.get_checkpoint_state(folder).model_checkpoint_path
    ),
  }


def sessions():
  with tf.Graph().as_default():
    a = tf.placeholder(tf.float32, name="a")
    v = tf.Variable([1.0, 2.0])
    with tf.Session() as session:
      session.run(tf.global_variables_initializer())
      results = session.run(
        {"list": [a, (v, a * 2)], "same": a}, feed_dict={a: 3}
      )
      evaluated = (v * 2).eval()
      v.load([5.0, 6.0], session)
      loaded = v.eval(session)
      partial = session.make_callable(a * 3, [a])(2.0)
      failed = ""
      try:
        session.run(a)
      except tf.errors.InvalidArgumentError as error:
        failed = str("feed a value for placeholder" in error.message)
      options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
      metadata = tf.RunMetadata()
      session.run(v, options=options, run_metadata=metadata)
    interactive = tf.InteractiveSession()
    total = tf.reduce_sum(tf.constant([1, 2])).eval()
    interactive.close()
  return {
    "results": str(sorted(results)),
    "list": results["list"][1][1],
    "evaluated": evaluated,
    "loaded": loaded,
    "partial": partial,
    "failed": failed,
    "metadata": str(len(metadata.step_stats.dev_stats) > 0),
    "total": total,
  }


def flags_and_logging():
  flags = tf.app.flags
  flags.DEFINE_string("core_name", "x", "a name")
  flags.DEFINE_integer("core_steps", default_value=3, docstring="how many")
  flags.DEFINE_float("core_rate", 0.1, "a rate")
  flags.DEFINE_bool("core_fast", False, "whether")
  flags.DEFINE_boolean("core_slow", True, "whether")
  flags.DEFINE_enum("core_kind", "a", ["a", "b"], "which")
  flags.DEFINE_list("core_list", ["a"], "which")
  found = tf.flags.FLAGS
  found(["program", "--core_name=y", "--core_list=a,b", "rest"])
  before = tf.logging.get_verbosity()
  tf.logging.set_verbosity(tf.logging.ERROR)
  tf.logging.info("not %s", "seen")
  after = tf.logging.get_verbosity()
  tf.logging.set_verbosity(before)
  return {
    "values": str(
      [
        found.core_name,
        found.core_steps,
        found.core_rate,
        found.core_fast,
        found.core_slow,
        found.core_kind,
        found.core_list,
      ]
    ),
    "levels": str([tf.logging.INFO, tf.logging.WARN, after]),
    "help": found["core_steps"].help,
    "resource": str(callable(tf.resource_loader.get_path_to_datafile)),
    "versions": str([tf.__version__, tf.VERSION, tf.version.VERSION]),
    "git": str([tf.GIT_VERSION, tf.version.GIT_VERSION, tf.__git_version__]),
    "built": str(tf.test.is_built_with_cuda()),
    "gpu": str(tf.test.is_gpu_available()) + tf.test.gpu_device_name(),
  }


def estimators():
  folder = tempfile.mkdtemp()

  def model_fn(features, labels, mode, params):
    y = tf.layers.dense(
      features["x"], 1, kernel_initializer=tf.zeros_initializer()
    )
    if mode == tf.estimator.ModeKeys.PREDICT:
      return tf.estimator.EstimatorSpec(mode, predictions={"y": y})
    loss = tf.losses.mean_squared_error(labels, y)
    train = tf.train.GradientDescentOptimizer(params["rate"]).minimize(
      loss, tf.train.get_global_step()
    )
    return tf.estimator.EstimatorSpec(
      mode,
      loss=loss,
      train_op=train,
      eval_metric_ops={"mae": tf.metrics.mean_absolute_error(labels, y)},
    )

  def input_fn():
    dataset = tf.data.Dataset.from_tensor_slices(({"x": _X}, _X[:, :1]))
    return dataset.repeat(2).batch(2).make_one_shot_iterator().get_next()

  config = tf.estimator.RunConfig(tf_random_seed=3, save_checkpoints_steps=2)
  estimator = tf.estimator.Estimator(
    model_fn, folder, config, params={"rate": 0.1}
  )
  estimator.train(input_fn, steps=4)
  evaluated = estimator.evaluate(input_fn)
  predicted = [one["y"] for one in estimator.predict(input_fn)]
  return {
    "evaluated": np.float32([evaluated[key] for key in sorted(evaluated)]),
    "keys": " ".join(sorted(evaluated)),
    "predicted": np.float32(predicted),
    "names": " ".join(estimator.get_variable_names()),
    "kernel": estimator.get_variable_value("dense/kernel"),
    "files": _files(folder),
  }
