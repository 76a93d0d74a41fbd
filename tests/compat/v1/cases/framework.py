"""tf.contrib.framework, tf.contrib.feature_column and tf.contrib.slim."""

import os
import tempfile

import numpy as np
import tensorflow as tf
import tensorflow.contrib.slim as slim
from tensorflow.contrib import framework
from tensorflow.contrib.feature_column import (
  sequence_categorical_column_with_hash_bucket,
  sequence_categorical_column_with_identity,
  sequence_categorical_column_with_vocabulary_list,
  sequence_input_layer,
  sequence_numeric_column,
)
from tensorflow.contrib.slim import nets
from tensorflow.contrib.summary import summary

_X = np.random.RandomState(1).normal(size=(4, 3)).astype(np.float32)
_IMAGES = np.random.RandomState(2).normal(size=(2, 8, 8, 3))


def _names(found):
  return np.array([getattr(one, "op", one).name for one in found], "S")


def variables():
  framework.model_variable(
    "model",
    [2, 3],
    initializer=tf.constant_initializer(1.0),
    regularizer=slim.l2_regularizer(0.1),
    collections=["mine"],
  )
  with tf.variable_scope("a"):
    framework.variable("plain", [2], trainable=False, device="/cpu:0")
    framework.local_variable(tf.constant(3.0), name="local")
    framework.global_variable(tf.constant([4.0]), name="global")
    framework.model_variable("model", [1], trainable=False)
  framework.add_model_variable(framework.get_unique_variable("a/plain"))
  step = framework.get_or_create_global_step()
  framework.assert_global_step(step)
  every = framework.get_variables
  return {
    "all": _names(every()),
    "in_a": _names(every("a")),
    "suffix": _names(every(suffix="model")),
    "by_suffix": _names(framework.get_variables_by_suffix("model", "a")),
    "by_name": _names(framework.get_variables_by_name("model")),
    "model": _names(framework.get_model_variables()),
    "trainable": _names(framework.get_trainable_variables()),
    "local": _names(framework.get_local_variables()),
    "mine": _names(tf.get_collection("mine")),
    "restored": _names(framework.get_variables_to_restore()),
    "some": _names(
      framework.get_variables_to_restore(["a"], exclude=["a/model"])
    ),
    "filtered": _names(
      framework.filter_variables(
        every(), include_patterns=["mod"], exclude_patterns=["^a"]
      )
    ),
    "searched": _names(
      framework.filter_variables(
        every(), include_patterns=["a"], reg_search=False
      )
    ),
    "full_name": framework.get_variable_full_name(every("a")[0]),
    "penalties": _names(tf.losses.get_regularization_losses()),
  }


def checked_shapes():
  x = tf.placeholder_with_default(_X, [None, 3])
  y = tf.constant(_X)
  predictions = tf.placeholder_with_default(_X[:, :1], None)
  squeezed, labels = framework.remove_squeezable_dimensions(
    predictions, tf.constant([1, 2, 3, 4])
  )
  static, _ = framework.remove_squeezable_dimensions(
    tf.constant(_X[:, :1]), tf.constant([1, 2, 3, 4])
  )
  return {
    "dynamic": framework.with_shape([4, 3], x),
    "by_tensor": framework.with_shape(tf.constant([-1, 3]), x),
    "static": framework.with_shape([4, 3], y),
    "scalar": framework.with_shape([], tf.constant([3.0])),
    "same": framework.with_same_shape(y, x),
    "same_dynamic": framework.with_same_shape(x, y),
    "name": framework.with_shape([4, 3], x).op.name.split("/")[0],
    "known": framework.with_shape([4, 3], x).shape.as_list(),
    "squeezed": squeezed,
    "labels": labels,
    "squeezed_static": static,
    "sum": framework.reduce_sum_n([y, x, tf.constant(2.0)]),
    "one": framework.reduce_sum_n([y]),
    "scalar_int": framework.assert_scalar_int(tf.constant(3)),
    "sparse": framework.convert_to_tensor_or_sparse_tensor(_X),
    "dtype": framework.assert_same_float_dtype([y, x]).name,
  }


def graphs_and_conditions():
  x = tf.placeholder_with_default(_X, [4, 3], name="x")
  tf.placeholder(tf.float32, [2], name="y")
  with tf.name_scope("a"), tf.name_scope("b"):
    scope = framework.get_name_scope()

  def halves(rows, times=1):
    return {"sum": rows.sum(0) * times, "n": np.int64(len(rows))}

  called = framework.py_func(
    halves,
    [x],
    {"times": tf.constant(2.0)},
    {"sum": tf.float32, "n": tf.int64},
    {"sum": tf.TensorShape([3]), "n": tf.TensorShape([])},
  )
  return {
    "scope": scope,
    "placeholders": np.array(
      [one.name for one in framework.get_placeholders(tf.get_default_graph())],
      "S",
    ),
    "sum": called["sum"],
    "n": called["n"],
    "shape": called["sum"].shape.as_list(),
    "cond": framework.smart_cond(tf.constant(True), lambda: x, lambda: -x),
    "of_bool": framework.smart_cond(False, lambda: 1, lambda: 2),
    "constant": framework.smart_constant_value(tf.constant(True)),
    "case": framework.smart_case(
      [(tf.constant(False), lambda: x), (tf.reduce_all(x > -9), lambda: -x)]
    ),
    "prefix": framework.prepend_name_scope("x:0", "s"),
    "stripped": framework.strip_name_scope("s/x:0", "s"),
    "sorted": framework.sort(x, direction="DESCENDING"),
    "order": framework.argsort(x),
    "is_tensor": [framework.is_tensor(x), framework.is_tensor(3)],
    "same_graph": framework.get_graph_from_inputs([x]) is x.graph,
  }


def fused_graph():
  x = tf.placeholder(tf.float32, [2], name="x")
  a = tf.add(x, x, name="a")
  b = tf.multiply(a, a, name="b")
  c = tf.identity(b, name="c")
  tf.negative(c, name="d")
  fused = framework.fuse_op(
    tf.get_default_graph().as_graph_def(),
    ["x"],
    ["c"],
    [1],
    False,
    "one",
    "Fused",
  )
  return {
    "nodes": np.array(
      [",".join([n.name, n.op, *n.input]) for n in fused.node], "S"
    )
  }


def initial_values():
  makers = {
    "delta": (framework.convolutional_delta_orthogonal(), [3, 3, 2, 4]),
    "one": (framework.convolutional_orthogonal_1d(), [3, 2, 4]),
    "two": (framework.convolutional_orthogonal_2d(), [2, 2, 2, 2]),
    "three": (framework.convolutional_orthogonal_3d(), [2, 2, 2, 2, 2]),
  }
  return {
    name: tf.get_variable(name, shape, initializer=initializer)
    for name, (initializer, shape) in sorted(makers.items())
  }


def _saved(folder):
  """Writes a checkpoint of two variables, and returns its path."""
  with tf.Graph().as_default(), tf.Session() as session:
    tf.get_variable("table", initializer=_X)
    tf.get_variable("old/bias", initializer=_X[0])
    session.run(tf.global_variables_initializer())
    return tf.train.Saver().save(session, os.path.join(folder, "model"))


def values_from_checkpoints():
  folder = tempfile.mkdtemp()
  path = _saved(folder)
  for name, words in (("old", "a b c d"), ("new", "d x a")):
    with open(os.path.join(folder, name), "w") as vocabulary:
      vocabulary.write("\n".join(words.split()) + "\n")
  assigned = tf.get_variable("assigned", [4, 3])
  bias = tf.get_variable("bias", [3])
  op, feeds = framework.assign_from_checkpoint(
    path, {"table": assigned, "old/bias": bias}
  )
  init = framework.assign_from_checkpoint_fn(path, {"old/bias": bias})
  with tf.Session() as session:
    session.run(op, feeds)
    values = session.run([assigned, bias])
    session.run(bias.assign([0.0, 0.0, 0.0]))
    init(session)
    again = session.run(bias)
    framework.assign_from_values_fn({"bias": np.ones([3], np.float32)})(session)
    ones = session.run(bias)
  framework.init_from_checkpoint(path, {"table": assigned})
  loaded = tf.get_variable(
    "loaded",
    [4, 3],
    initializer=framework.load_embedding_initializer(
      path,
      "table",
      3,
      3,
      os.path.join(folder, "old"),
      os.path.join(folder, "new"),
      num_oov_buckets=1,
      initializer=tf.zeros_initializer(),
    ),
  )
  remapped = tf.get_variable(
    "remapped",
    [3, 3],
    initializer=framework.load_and_remap_matrix_initializer(
      path,
      "table",
      3,
      3,
      old_row_vocab_file=os.path.join(folder, "old"),
      new_row_vocab_file=os.path.join(folder, "new"),
    ),
  )
  return {
    "values": values[0],
    "bias": values[1],
    "again": again,
    "ones": ones,
    "loaded": loaded,
    "remapped": remapped,
    "names": np.array(
      [name for name, _ in framework.list_variables(path)], "S"
    ),
    "read": framework.load_variable(path, "old/bias"),
  }


def sequences():
  places = [[0, 0], [0, 1], [1, 0]]
  features = {
    "ids": tf.SparseTensor(places, tf.constant([2, 0, 1], tf.int64), [2, 2]),
    "words": tf.SparseTensor(places, tf.constant(["a", "b", "a"]), [2, 2]),
    "numbers": tf.SparseTensor(places, [0.5, 1.5, -1.0], [2, 2]),
  }
  ids = sequence_categorical_column_with_identity("ids", 3)
  words = sequence_categorical_column_with_vocabulary_list("words", ["a", "b"])
  columns = [
    tf.feature_column.embedding_column(ids, 2),
    tf.feature_column.indicator_column(words),
    sequence_numeric_column("numbers", normalizer_fn=None),
  ]
  inputs, lengths = sequence_input_layer(features, columns)
  hashed = tf.feature_column.embedding_column(
    sequence_categorical_column_with_hash_bucket("words", 4), 3
  )
  again, _ = sequence_input_layer(features, [hashed], trainable=False)
  return {
    "inputs": inputs,
    "lengths": lengths,
    "again": again,
    "trainable": _names(tf.trainable_variables()),
  }


def _net(build, **kwargs):
  images = tf.placeholder_with_default(
    _IMAGES.astype(np.float32), [None, 8, 8, 3]
  )
  outputs, end_points = build(images, **kwargs)
  results = {
    "outputs": outputs,
    "end_points": np.array(sorted(end_points), "S"),
    "model": _names(slim.get_model_variables()),
    "updates": _names(tf.get_collection(tf.GraphKeys.UPDATE_OPS)),
    "penalties": len(tf.losses.get_regularization_losses()),
  }
  return results


def resnet_v1():
  unit = nets.resnet_v1.resnet_v1_block
  with slim.arg_scope(nets.resnet_utils.resnet_arg_scope()):
    return _net(
      nets.resnet_v1.resnet_v1,
      blocks=[unit("block1", 2, 2, 2), unit("block2", 3, 1, 1)],
      num_classes=3,
      is_training=False,
      include_root_block=False,
      scope="tiny",
    )


def summaries():
  folder = tempfile.mkdtemp()
  step = tf.train.get_or_create_global_step()
  writer = summary.create_file_writer(folder)
  with writer.as_default(), summary.always_record_summaries():
    summary.scalar("loss", tf.constant(2.0))
    summary.scalar("loss", tf.constant(2.0), family="family")
    summary.histogram("histogram", tf.constant([1.0, 2.0]))
    summary.image("image", tf.zeros([1, 2, 2, 3]))
    summary.audio("audio", tf.zeros([1, 4]), 8, 1)
    summary.generic("generic", tf.constant([3, 4]))
    with tf.name_scope("inner"):
      summary.scalar("x", tf.constant(1.0), step=tf.constant(7, tf.int64))
  with writer.as_default(), summary.record_summaries_every_n_global_steps(2):
    summary.scalar("second", tf.constant(3.0))
  with writer.as_default(), summary.never_record_summaries():
    summary.scalar("never", tf.constant(3.0))
  with writer.as_default():
    summary.scalar("undecided", tf.constant(3.0))
  increment = tf.assign_add(step, 1)
  with tf.Session() as session, writer.as_default():
    session.run(tf.global_variables_initializer())
    summary.initialize(tf.get_default_graph(), session)
    for _ in range(3):
      session.run(summary.all_summary_ops())
      session.run(increment)
    session.run(summary.flush())
  written = []
  for file in tf.gfile.ListDirectory(folder):
    for event in tf.train.summary_iterator(os.path.join(folder, file)):
      for value in event.summary.value:
        kind = value.WhichOneof("value")
        written.append("%d %s %s" % (event.step, value.tag, kind))
      if event.graph_def:
        written.append("graph")
  return {"written": np.array(sorted(written), "S")}


def trained_and_evaluated():
  folder = tempfile.mkdtemp()
  with tf.Graph().as_default():
    tf.set_random_seed(1)
    x = tf.placeholder_with_default(_X, [4, 3])
    make = tf.constant_initializer(0.5)
    logits = slim.fully_connected(x, 2, weights_initializer=make)
    slim.losses.mean_squared_error(logits, tf.ones([4, 2]))
    train_op = slim.learning.create_train_op(
      slim.losses.get_total_loss(), tf.train.GradientDescentOptimizer(0.1)
    )
    last = slim.learning.train(
      train_op,
      folder,
      number_of_steps=5,
      log_every_n_steps=2,
      save_summaries_secs=0,
      session_config=tf.ConfigProto(allow_soft_placement=False),
    )
  with tf.Graph().as_default():
    slim.get_or_create_global_step()
    x = tf.placeholder_with_default(_X, [4, 3])
    logits = slim.fully_connected(x, 2)
    values, updates = slim.metrics.aggregate_metric_map(
      {"error": slim.metrics.streaming_mean_squared_error(logits, logits + 1.0)}
    )
    mean, update = slim.metrics.streaming_mean(logits)
    found = slim.evaluation.evaluate_once(
      "",
      tf.train.latest_checkpoint(folder),
      folder,
      num_evals=2,
      eval_op=[update, updates["error"]],
      final_op={"mean": mean, "error": values["error"]},
    )
  files = {name.partition("-")[0] for name in os.listdir(folder)}
  return {
    "last": last,
    "mean": found["mean"],
    "error": found["error"],
    "files": np.array(sorted(f for f in files if "events" not in f), "S"),
  }
