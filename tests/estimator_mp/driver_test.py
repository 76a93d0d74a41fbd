"""The driver of finished graphs."""

from unittest import mock

import estimator_mp
from estimator_mp import driver
from estimator_mp.capture import input_pieces
from estimator_mp.graph import traversal
from estimator_mp.planning import sharding_plan
from estimator_mp.session import export
from tests.estimator_mp import programs, session_configs
from tests.estimator_mp.replicas import horovod_stand_in

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_v1 = tf.compat.v1
_BATCH = {"x": np.linspace(-1, 1, 40).reshape(10, 4).astype(np.float32)}
_LABELS = np.arange(10, dtype=np.float32)[:, None]


def _model_fn(features, labels, mode):
  h = _v1.layers.dense(features["x"], 4, tf.tanh)
  y = _v1.layers.dense(h, 1)
  loss = tf.reduce_mean(tf.square(y - labels))
  train_op = _v1.train.AdamOptimizer(0.1).minimize(
    loss, _v1.train.get_or_create_global_step()
  )
  _v1.summary.scalar("largest", tf.reduce_max(y))
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _config(mesh, **options):
  return estimator_mp.ShardingConfig(mesh, **options)


class DriverTest(parameterized.TestCase):
  @parameterized.parameters(
    _config("stage:2"),
    _config("stage:2", num_micro_batches=4),
    _config("data:2,stage:2", num_micro_batches=2, variables="shared"),
    _config("data:2"),
    _config("data:3,stage:2", num_micro_batches=2, aggregation="ring"),
    _config("data:2", num_micro_batches=2, optimizer_state="sharded"),
    _config("stage:2", num_micro_batches=3, schedule="gpipe"),
    _config("stage:2", num_micro_batches=4, schedule="auto"),
    _config("stage:2", gradient_accumulation_steps=2, num_micro_batches=2),
    _config("data:2", aggregation="collective"),
    _config("stage:2", num_micro_batches=4, weight_gradients="batched"),
    _config("stage:2", num_micro_batches=4, recompute="always"),
    _config(
      "data:2,stage:2",
      num_micro_batches=2,
      schedule="gpipe",
      recompute="except_last",
    ),
  )
  def test_steps_are_the_plain_models(self, config):
    batch = _BATCH, _LABELS
    with mock.patch.object(
      driver.Driver, "shard", autospec=True, side_effect=driver.Driver.shard
    ) as shard:
      program = programs.Program(_model_fn, config, batch)
    shard.assert_called_once()
    plain = programs.Program(_model_fn, None, batch)
    programs.assert_same_steps(self, plain, program, [batch] * 3)

  def test_what_a_summary_reads_is_what_slices_have_made(self):
    config = _config("stage:1", num_micro_batches=5)
    program = programs.Program(_model_fn, config, (_BATCH, _LABELS))
    (largest,) = [
      op for op in program.graph.get_operations() if op.name == "Max"
    ]
    (joined,) = [x.op for x in largest.inputs if x.dtype == tf.float32]
    self.assertEqual(joined.type, "ConcatV2")

  @parameterized.parameters(True, False)
  def test_what_a_hook_fetches_is_of_before_the_update(self, is_resource):
    """Nothing orders a lookup that no step runs, and the table's update."""

    def model_fn(features, labels, mode):
      table = _v1.get_variable("table", [9, 4], use_resource=is_resource)
      ids = tf.cast(features["x"] * 4 + 4, tf.int32)
      rows = tf.nn.embedding_lookup(table, ids)
      y = tf.reduce_sum(rows, [1, 2], name="rows")[:, tf.newaxis]
      loss = tf.reduce_mean(tf.square(y - labels))
      train_op = _v1.train.AdamOptimizer(0.1).minimize(
        loss, _v1.train.get_or_create_global_step()
      )
      return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    batch = _BATCH, _LABELS
    program = programs.Program(model_fn, _config("data:2"), batch)
    rows = program.graph.get_tensor_by_name("rows:0")
    found, step = map(traversal.ops_run_with, (rows, program.spec.train_op))
    lookups = {op for op in found if op.name.endswith("embedding_lookup")}
    self.assertNotEmpty(lookups & step)
    # What no step runs joins what slices have looked up.
    self.assertEqual({op.type for op in lookups - step}, {"ConcatV2"})

  def test_inputs_of_different_numbers_of_examples(self):
    """Nothing cuts the second, whose size alone is read."""

    def model_fn(features, labels, mode):
      y = _v1.layers.dense(features["x"], 1)
      count = tf.cast(tf.size(features["z"]), tf.float32)
      loss = tf.reduce_mean(tf.square(y - labels)) / count
      train_op = _v1.train.GradientDescentOptimizer(0.1).minimize(
        loss, _v1.train.get_or_create_global_step()
      )
      return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    features = {**_BATCH, "z": np.zeros(7, np.float32)}
    config = _config("stage:1", num_micro_batches=5)
    with self.assertRaisesRegex(Exception, "features/z has 7, .*batch_axis"):
      program = programs.Program(model_fn, config, (features, _LABELS))
      program.step((features, _LABELS))

  def test_examples_on_another_axis(self):
    """And a sparse feature beside them, whose rows are looked up once."""

    def model_fn(features, labels, mode):
      y = _v1.layers.dense(tf.reshape(tf.transpose(features["x"]), [-1, 4]), 1)
      table = _v1.get_variable("table", [9, 4], use_resource=True)
      ids = tf.sparse.from_dense(features["ids"])
      rows = _v1.nn.safe_embedding_lookup_sparse([table], ids, combiner="mean")
      y += _v1.layers.dense(rows, 1)
      loss = tf.reduce_mean(tf.square(y - labels))
      train_op = _v1.train.AdamOptimizer(0.1).minimize(
        loss, _v1.train.get_or_create_global_step()
      )
      return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    x = np.linspace(-1, 1, 40).reshape(4, 10).astype(np.float32)
    ids = np.arange(30).reshape(10, 3) % 9
    batch = {"x": x, "ids": ids}, _LABELS
    config = _config("data:2", batch_axis=[["features/x", 1]])
    plain = programs.Program(model_fn, None, batch)
    program = programs.Program(model_fn, config, batch)
    programs.assert_same_steps(self, plain, program, [batch] * 3)

  def test_metrics_of_a_tpu_spec_are_of_the_whole_batch(self):
    def model_fn(features, labels, mode):
      y = _v1.layers.dense(_v1.layers.dense(features["x"], 4, tf.tanh), 1)
      loss = _v1.losses.mean_squared_error(labels, y)
      metrics = (lambda y: {"mean": _v1.metrics.mean(y)}, [y])
      spec = _v1.estimator.tpu.TPUEstimatorSpec
      return spec(mode, y, loss, eval_metrics=metrics)

    config = _config("stage:2", num_micro_batches=5)
    with tf.Graph().as_default():
      sharded = estimator_mp.shard_model_fn(model_fn, config)
      features = {"x": tf.constant(_BATCH["x"])}
      mode = tf.estimator.ModeKeys.EVAL
      spec = sharded(features, tf.constant(_LABELS), mode=mode)
      _, (y,) = spec.eval_metrics
      self.assertIs(y, spec.predictions)
      self.assertEqual(y.op.type, "ConcatV2")

  def test_an_exported_graph_is_of_no_other_process(self):
    horovod_stand_in.install(self, factor=5)
    batch = _BATCH, _LABELS
    config = _config("stage:2", num_micro_batches=2, aggregation="horovod")
    with mock.patch.object(export, "is_for_export", return_value=True):
      program = programs.Program(_model_fn, config, batch)
    self.assertIsNone(sharding_plan.get_plan(program.graph).pipeline)
    plain = programs.Program(_model_fn, None, batch)
    programs.assert_same_steps(self, plain, program, [batch] * 3)

  @parameterized.named_parameters(
    ("cut", "stage:2", lambda: {"scale": tf.constant(2.0), "note": "text"}),
    (
      "whole",
      "stage:1",
      lambda: {"x": _v1.placeholder_with_default(2.0, None)},
    ),
  )
  def test_inputs_without_known_examples(self, mesh, features):
    """Nothing has to have examples where nothing is cut."""

    def model_fn(features, mode):
      (x,) = (x for x in features.values() if tf.is_tensor(x))
      y = _v1.layers.dense(tf.reshape(x, [1, 1]), 2, tf.tanh)
      y = _v1.layers.dense(y, 1)
      return tf.estimator.EstimatorSpec(mode, predictions=y)

    sharded = estimator_mp.shard_model_fn(
      model_fn, _config(mesh, num_micro_batches=2)
    )
    with tf.Graph().as_default():
      spec = sharded(features(), mode=tf.estimator.ModeKeys.PREDICT)
      options = session_configs.config(device_count={"CPU": 2})
      with _v1.Session(config=options) as session:
        session.run(_v1.global_variables_initializer())
        self.assertEqual(session.run(spec.predictions).shape, (1, 1))

  def test_results_without_gradients(self):
    """The mean of a metric, whose sums are added as micro-batches come."""

    def model_fn(features, labels, mode):
      y = _v1.layers.dense(_v1.layers.dense(features["x"], 4, tf.tanh), 1)
      loss = _v1.losses.mean_squared_error(labels, y)
      metrics = {"mean": _v1.metrics.mean(y)}
      return tf.estimator.EstimatorSpec(mode, y, loss, eval_metric_ops=metrics)

    found = []
    sharded = _config("stage:2", num_micro_batches=5, schedule="gpipe")
    for config in (None, sharded):
      with tf.Graph().as_default() as graph:
        tf.keras.utils.set_random_seed(11)
        x = _v1.placeholder(tf.float32, [None, 4])
        y = _v1.placeholder(tf.float32, [None, 1])
        call = model_fn
        if config is not None:
          call = estimator_mp.shard_model_fn(model_fn, config)
        spec = call({"x": x}, y, mode=tf.estimator.ModeKeys.EVAL)
        fetches = [spec.loss, spec.predictions, spec.eval_metric_ops]
        options = session_configs.config(device_count={"CPU": 2})
        with _v1.Session(config=options) as session:
          session.run(_v1.global_variables_initializer())
          session.run(_v1.local_variables_initializer())
          feed = {x: _BATCH["x"], y: _LABELS}
          session.run(spec.eval_metric_ops["mean"][1], feed)
          found.append(session.run(fetches[:2], feed))
          found[-1].append(session.run(spec.eval_metric_ops["mean"][0]))
    self.assertIsNotNone(sharding_plan.get_plan(graph).pipeline)
    for value, expected in zip(*reversed(found), strict=True):
      np.testing.assert_allclose(value, expected, 1e-5)

  def test_a_size_of_what_waits_for_all_slices_waits_for_none(self):
    """How many rows a running sum has: as many as there are examples."""

    def model_fn(features, labels, mode):
      y = _v1.layers.dense(_v1.layers.dense(features["x"], 4, tf.tanh), 1)
      count = tf.shape(tf.cumsum(y, axis=0))[0]
      loss = tf.reduce_sum(tf.square(y - labels)) / tf.cast(count, tf.float32)
      train_op = _v1.train.AdamOptimizer(0.1).minimize(
        loss, _v1.train.get_or_create_global_step()
      )
      return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    batch = _BATCH, _LABELS
    config = _config("stage:2", num_micro_batches=5)
    plain = programs.Program(model_fn, None, batch)
    program = programs.Program(model_fn, config, batch)
    programs.assert_same_steps(self, plain, program, [batch] * 2)
    step = traversal.ops_run_with(program.spec.train_op)
    self.assertNotIn("Cumsum", {op.type for op in step})

  def test_a_norm_of_gradients_counts_rows_as_often_as_they_are_listed(self):
    """Replicas look up the same rows; their updates are clipped together."""

    def model_fn(features, labels, mode):
      table = _v1.get_variable("table", [4, 3], use_resource=True)
      ids = tf.cast(tf.abs(features["x"]) * 3, tf.int32)
      net = tf.reduce_sum(tf.nn.embedding_lookup(table, ids), 1)
      y = _v1.layers.dense(net, 1)
      loss = tf.reduce_mean(tf.square(y - labels))
      variables = _v1.trainable_variables()
      gradients = tf.gradients(loss, variables)
      clipped, _ = tf.clip_by_global_norm(gradients, 0.1)
      train_op = _v1.train.AdagradOptimizer(0.1).apply_gradients(
        zip(clipped, variables, strict=True),
        _v1.train.get_or_create_global_step(),
      )
      return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    batch = _BATCH, _LABELS
    config = _config("data:2", num_micro_batches=2)
    plain = programs.Program(model_fn, None, batch)
    program = programs.Program(model_fn, config, batch)
    programs.assert_same_steps(self, plain, program, [batch] * 3)

  def test_what_parts_cut_is_cut_on_their_stage(self):
    """Regression: what was cut had no device, so TensorFlow took the first."""

    def model_fn(features, labels, mode):
      h = _v1.layers.dense(features["x"], 4, tf.tanh, name="first")
      return _model_fn({"x": h}, labels, mode)

    config = _config(
      "stage:2,model:2",
      num_micro_batches=2,
      placement=[("^first", 0), (".*", 1)],
      split=[("(first|dense)/kernel$", 1)],
    )
    program = programs.Program(model_fn, config, (_BATCH, _LABELS))
    cuts = [
      op
      for op in traversal.ops_run_with(program.spec.train_op)
      if op.type.startswith("Split") and "gradients" in op.name
    ]
    self.assertNotEmpty(cuts)
    for op in cuts:  # A gradient is cut where it is.
      self.assertEqual(op.device, op.inputs[1].device, op.name)

  def test_a_batch_that_a_replica_has_read_is_not_sent(self):
    """Seven and three examples, in two slices each: 4, 3, 2 and 1."""
    found = []
    for config in (None, _config("data:2", num_micro_batches=2)):
      with tf.Graph().as_default() as graph:
        tf.keras.utils.set_random_seed(11)
        pieces = [
          (
            {"x": _v1.placeholder(tf.float32, [None, 4])},
            _v1.placeholder(tf.float32, [None, 1]),
          )
          for _ in range(2)
        ]
        features, labels = input_pieces.join(pieces)
        call = _model_fn
        if config is not None:
          call = estimator_mp.shard_model_fn(_model_fn, config)
        spec = call(features, labels, mode=tf.estimator.ModeKeys.TRAIN)
        scaffold = (spec.scaffold or _v1.train.Scaffold()).finalize()
        feed = {}
        for (x, y), rows in zip(
          pieces, (slice(0, 7), slice(7, 10)), strict=True
        ):
          feed |= {x["x"]: _BATCH["x"][rows], y: _LABELS[rows]}
        options = session_configs.config(device_count={"CPU": 2})
        with _v1.Session(config=options) as session:
          session.run([scaffold.init_op, scaffold.local_init_op])
          fetches = [spec.loss, spec.train_op]
          found.append([session.run(fetches, feed)[0] for _ in range(3)])
        step = traversal.ops_run_with(*fetches)
        self.assertEqual(features["x"].op in step, config is None)
    np.testing.assert_allclose(found[1], found[0], 1e-5)
    self.assertIsNotNone(sharding_plan.get_plan(graph))

  def test_mirrors_are_read_before_they_are_written(self):
    """Each has reads and a write of its own, in whatever order they begin."""

    def model_fn(features, labels, mode):
      seen = _v1.get_variable("seen", [4], use_resource=True, trainable=False)
      old = seen.read_value()
      update = seen.assign(0.9 * old + tf.reduce_mean(features["x"], 0))
      y = _v1.layers.dense(features["x"] - old, 1)
      loss = tf.reduce_mean(tf.square(y - labels))
      train_op = _v1.train.GradientDescentOptimizer(0.1).minimize(
        loss, _v1.train.get_or_create_global_step()
      )
      return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=tf.group(train_op, update)
      )

    program = programs.Program(model_fn, _config("data:2"), (_BATCH, _LABELS))
    plan = sharding_plan.get_plan(program.graph)
    (mirror,) = plan.mirrors["seen"]
    handle = program.graph.get_tensor_by_name(mirror)
    step = traversal.ops_run_with(program.spec.train_op)
    users = [op for op in handle.consumers() if op in step]
    reads = {op for op in users if op.type == "ReadVariableOp"}
    (write,) = [op for op in users if op not in reads]
    self.assertNotEmpty(reads)
    self.assertLessEqual(reads, traversal.ops_run_with(write))

  def test_a_model_that_asks_for_no_gradients(self):
    def never_asks(features, labels, mode):
      del labels
      loss = tf.reduce_mean(features["x"])
      step = _v1.train.get_or_create_global_step()
      return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=step.assign_add(1)
      )

    with self.assertRaisesRegex(ValueError, "computed no gradients"):
      programs.Program(never_asks, _config("stage:2"), (_BATCH, _LABELS))


if __name__ == "__main__":
  absltest.main()
