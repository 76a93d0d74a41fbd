"""Variables over a model axis: unusual writes, and what names them."""

import os

import estimator_mp
from tests.estimator_mp import parts, programs
from tests.estimator_mp.models import data

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_BATCH = programs.examples(data.BATCH, 0, 24)
_TABLE = np.random.RandomState(2).randn(50, 8).astype(np.float32)


class _TableProgram(programs.Program):
  """Trains a table, which is updated in a way of its own, too."""

  def __init__(self, update, config):
    hook = _Read()
    super().__init__(_table_model(update, hook), config, _BATCH, hooks=[hook])
    self.value = hook.value


class _Read(tf.estimator.SessionRunHook):
  def begin(self):
    self.value = self.table.read_value()


def _table_model(update, hook):
  def model_fn(features, labels, mode):
    table = v1.get_variable("table", initializer=_TABLE, use_resource=True)
    hook.table = table
    logits = tf.reduce_sum(tf.gather(table, features["ids"][:, 0]), 1)
    loss = parts.mean_loss(labels[:, 0], logits)
    with tf.control_dependencies([parts.descend(loss)]):
      return parts.spec(mode, loss, update(table))

  return model_fn


def _halved(table):
  """Every other step halves the table."""

  def halve():
    with tf.control_dependencies([table.assign(table / 2.0)]):
      return tf.constant(True)

  is_odd = tf.equal(v1.train.get_global_step() % 2, 1)
  return tf.cond(is_odd, halve, lambda: tf.constant(False))


def _entries_added(table):
  return tf.raw_ops.ResourceScatterNdAdd(
    ref=table.handle, indices=[[1], [40]], updates=[[1.0] * 8] * 2
  )


def _decayed(table):
  """What `assign_sub` returns is a variable, too, and is in a collection."""
  write = table.assign_sub(0.1 * table)
  v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, write)
  return write.op


class WritesTest(parameterized.TestCase):
  """Ops without a rule work on a copy of the whole variable."""

  @parameterized.product(
    update=[_halved, _entries_added, _decayed], axis=[0, 1, "mod", "whole"]
  )
  def test_all_shards_are_written(self, update, axis):
    config = estimator_mp.ShardingConfig("model:2", split=[("^table$", axis)])
    plain, sharded = (_TableProgram(update, x) for x in (None, config))
    for _ in range(3):
      values = []
      for program in (plain, sharded):
        program.run(program.spec.train_op, _BATCH)
        values.append(program.session.run(program.value))
      np.testing.assert_allclose(*values, rtol=1e-5, atol=1e-6)
    self.assertGreater(np.abs(values[0] - _TABLE).max(), 0.5)


class _LookUp(tf.estimator.SessionRunHook):
  """Looks for a variable as a program does that has no object of it."""

  def begin(self):
    self.names = [x.name for x in v1.global_variables("kernel")]
    graph = v1.get_default_graph()
    self.value = graph.get_tensor_by_name("kernel/Read/ReadVariableOp:0")
    self.norm = tf.norm(self.value)
    self.halved = self.kernel.assign(self.kernel / 2.0)

  def model_fn(self, features, labels, mode):
    self.kernel = parts.weight("kernel", [10, 8])
    net = tf.tanh(tf.matmul(features["x"], self.kernel))
    return parts.spec(mode, parts.mean_loss(labels, parts.logits(net)))


class HooksTest(parameterized.TestCase):
  @parameterized.parameters(
    ("stage:2", {}, ["kernel:0"]),
    ("data:2", {}, ["kernel:0"]),
    (
      "model:2",
      {"split": [("^kernel$", 1)]},
      ["kernel/part_0:0", "kernel/part_1:0"],
    ),
  )
  def test_what_begin_finds_of_a_variable(self, mesh, options, names):
    """On a model axis the collections have its parts; all else is whole."""
    config = estimator_mp.ShardingConfig(mesh, **options)
    plain, sharded = _LookUp(), _LookUp()
    values = []
    for hook, sharding in ((plain, None), (sharded, config)):
      program = programs.Program(hook.model_fn, sharding, _BATCH, hooks=[hook])
      program.run(program.spec.train_op, _BATCH)
      program.session.run(hook.halved)
      values.append(program.session.run([hook.value, hook.norm]))
    self.assertEqual(plain.names, ["kernel:0"])
    self.assertEqual(sharded.names, names)
    for found, expected in zip(*values, strict=True):
      np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


class RowsTest(parameterized.TestCase):
  @parameterized.parameters(0, "mod")
  def test_distinct_ids_whose_order_counts(self, axis):
    """An update may take them in any order, and who asks for the first not."""

    def model_fn(features, labels, mode):
      table = v1.get_variable("table", initializer=_TABLE, use_resource=True)
      first = v1.get_variable("first", initializer=0, trainable=False)
      logits = tf.reduce_sum(tf.gather(table, features["ids"][:, 0]), 1)
      loss = parts.mean_loss(labels[:, 0], logits)
      (gradient,) = tf.gradients(loss, [table])
      ids, places = tf.unique(gradient.indices)
      sums = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(ids))
      update = table.scatter_sub(tf.IndexedSlices(0.1 * sums, ids))
      train_op = tf.group(update, first.assign(tf.cast(ids[0], tf.int32)))
      return parts.spec(mode, loss, train_op)

    config = estimator_mp.ShardingConfig("model:2", split=[("^table$", axis)])
    plain, sharded = (
      programs.Program(model_fn, x, _BATCH) for x in (None, config)
    )
    for start in (0, 5, 9):
      batch = programs.examples(data.BATCH, start, start + 24)
      found = []
      for program in (plain, sharded):
        spec = program.spec
        loss, _ = program.run([spec.loss, spec.train_op], batch)
        first = program.session.run("first/Read/ReadVariableOp:0")
        found.append([loss, first])
      np.testing.assert_allclose(*found, rtol=1e-5)


def _partitioned(features, labels, mode):
  """The program's own partitioner has made two variables of the kernel."""
  partitioner = v1.fixed_size_partitioner(2, axis=0)
  with v1.variable_scope("up", partitioner=partitioner, use_resource=True):
    kernel = parts.weight("kernel", [10, 8])
  net = tf.tanh(tf.matmul(features["x"], kernel))
  v1.add_to_collection("activations", net)
  v1.add_to_collection("activations", "a text")
  logits = v1.layers.dense(net, 1, name="last")
  return parts.spec(mode, parts.mean_loss(labels, logits))


class _Saver(tf.estimator.SessionRunHook):
  def begin(self):
    self.saver = v1.train.Saver()


class NamesTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    split = [("^up/kernel", 1), ("last", None)]
    config = estimator_mp.ShardingConfig("model:2", split=split)
    self.savers = _Saver(), _Saver()
    self.plain, self.sharded = (
      programs.Program(_partitioned, x, _BATCH, hooks=[hook])
      for x, hook in zip((None, config), self.savers, strict=True)
    )

  def test_checkpoints_are_those_of_the_plain_partitions(self):
    folder = self.create_tempdir().full_path
    first, second = (os.path.join(folder, x) for x in ("plain", "sharded"))
    of_plain, of_sharded = (x.saver for x in self.savers)
    with self.plain.graph.as_default():
      of_plain.save(self.plain.session, first)
    with self.sharded.graph.as_default():
      of_sharded.restore(self.sharded.session, first)
      of_sharded.save(self.sharded.session, second)
    readers = [tf.train.load_checkpoint(x) for x in (first, second)]
    names, found = (x.get_variable_to_shape_map() for x in readers)
    self.assertEqual(found, names)
    for name in names:
      values = [x.get_tensor(name) for x in readers]
      np.testing.assert_array_equal(*values, name)
    losses = [x.step(_BATCH).loss for x in (self.plain, self.sharded)]
    np.testing.assert_allclose(*losses, rtol=1e-5)

  def test_collections_have_whole_tensors(self):
    net, text = self.sharded.graph.get_collection("activations")
    self.assertEqual(self.sharded.step(_BATCH, net).fetched.shape, (24, 8))
    self.assertEqual(text, "a text")


def _exported(features):
  export = tf.estimator.export
  net = tf.tanh(v1.layers.dense(features["x"], 8, name="up"))
  return {
    "serving_default": export.PredictOutput({"net": net}),
    "scores": export.ClassificationOutput(net, tf.constant(["a"])),
    "classes": export.ClassificationOutput(classes=tf.as_string(net, 3)),
    "regress": export.RegressionOutput(net),
  }


class SignaturesTest(absltest.TestCase):
  def test_they_name_whole_tensors(self):
    """Also where nothing but a signature reads what is split."""

    def model_fn(features, mode):
      outputs = _exported(features)
      net = outputs["regress"].value
      return tf.estimator.EstimatorSpec(
        mode, predictions=net, export_outputs=outputs
      )

    config = estimator_mp.ShardingConfig("model:2", split=[("kernel", 1)])
    sharded = estimator_mp.shard_model_fn(model_fn, config)
    run_config = estimator_mp.run_config(config)
    with tf.Graph().as_default():
      x = v1.placeholder(tf.float32, [None, 10])
      v1.train.create_global_step()
      spec = sharded(features={"x": x}, mode="infer", config=run_config)
      outputs = spec.export_outputs
      fetches = [
        spec.predictions,
        outputs["serving_default"].outputs["net"],
        outputs["scores"].scores,
        outputs["regress"].value,
        outputs["classes"].classes,
      ]
      with v1.Session(config=run_config.session_config) as session:
        session.run(v1.global_variables_initializer())
        *found, texts = session.run(fetches, {x: _BATCH[0]["x"]})
    self.assertIsNone(outputs["classes"].scores)
    for value in found:
      self.assertEqual(value.shape, (24, 8))
      np.testing.assert_array_equal(value, found[0])
    np.testing.assert_allclose(texts.astype(np.float32), found[0], atol=1e-3)


if __name__ == "__main__":
  absltest.main()
