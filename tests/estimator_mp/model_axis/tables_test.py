"""Tables that are split by rows: equal to those of the plain model."""

import collections

import estimator_mp
from estimator_mp.graph import traversal
from tests import tiers
from tests.estimator_mp import runs
from tests.estimator_mp.model_axis import table_models
from tests.estimator_mp.models import networks

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1

_OPTIMIZERS = (
  ("adadelta", lambda: v1.train.AdadeltaOptimizer(0.5)),
  ("adam", lambda: v1.train.AdamOptimizer(0.1)),
  ("ftrl", lambda: v1.train.FtrlOptimizer(0.2)),
  ("gradient_descent", lambda: v1.train.GradientDescentOptimizer(0.2)),
  ("momentum", lambda: v1.train.MomentumOptimizer(0.1, 0.9)),
  ("proximal", lambda: v1.train.ProximalAdagradOptimizer(0.1)),
  (
    "rms_prop",
    lambda: v1.train.RMSPropOptimizer(0.05, momentum=0.5, centered=True),
  ),
)
_KERAS_OPTIMIZERS = (
  ("adagrad", lambda k: k.Adagrad(0.2)),
  ("adam", lambda k: k.Adam(0.1, amsgrad=True)),
  ("rms_prop", lambda k: k.RMSprop(0.05)),
  ("sgd", lambda k: k.SGD(0.1, momentum=0.5)),
)


# Tables by rows, by turns, and whole ones on one device each.
_DIV, _MOD, _WHOLE = (("table|embedding", by) for by in ("div", "mod", "whole"))
_TRAININGS = [
  *tiers.sample(
    [
      ("gather", _DIV, "model:3", table_models.gather),
      ("lookup_sparse", _DIV, "model:3", table_models.lookup_sparse),
      ("columns", _DIV, "model:3", table_models.columns),
      ("keras_layer", _DIV, "model:3", table_models.keras_layer),
      ("nested", _DIV, "model:3", table_models.nested),
      ("tied", _DIV, "model:3", table_models.tied),
    ]
  ),
  # Without a model axis, tables are split over the replicas of the rest.
  *tiers.sample(
    [
      ("hybrid_columns", _DIV, "data:2", table_models.columns),
      ("hybrid_tied", _DIV, "data:2", table_models.tied),
    ]
  ),
  *tiers.sample(
    [
      ("mod_mirrors", _MOD, "data:2,model:2", table_models.gather),
      ("mod_stages", _MOD, "stage:2,model:2", table_models.columns, 3),
      ("mod_hybrid", _MOD, "data:2", table_models.keras_layer),
      ("mod_sparse", _MOD, "model:3", table_models.lookup_sparse),
      ("mod_tied", _MOD, "model:3", table_models.tied),
    ]
  ),
  *tiers.sample(
    [
      ("whole_hybrid", _WHOLE, "data:2", table_models.columns),
      ("whole_sparse", _WHOLE, "model:3", table_models.lookup_sparse),
      ("whole_mirrors", _WHOLE, "data:2,model:2", table_models.gather, 3),
      ("whole_tied", _WHOLE, "model:2", table_models.tied),
    ]
  ),
]
_ROWS, _TURNS = ((("table", by), (".*", None)) for by in ("div", "mod"))


class LookUpTest(parameterized.TestCase):
  @parameterized.named_parameters(*_TRAININGS)
  def test_trains_as_the_plain_model(
    self, split, mesh, look_up, num_micro_batches=1
  ):
    table_models.check(
      self,
      table_models.make_model_fn(look_up),
      mesh,
      (split,),
      num_micro_batches=num_micro_batches,
    )

  @parameterized.parameters(
    tiers.sample(
      [
        (table_models.in_branches_and_outside, "div"),
        (table_models.in_branches, "mod"),
      ]
    )
  )
  def test_in_the_branches_of_a_cond(self, look_up, by):
    """Of TensorFlow 1: that of TensorFlow 2 is a function."""
    if v1.control_flow_v2_enabled():
      v1.disable_control_flow_v2()
      self.addCleanup(v1.enable_control_flow_v2)
    table_models.check(
      self, table_models.make_model_fn(look_up), "model:3", (("table", by),)
    )

  @parameterized.named_parameters(
    *tiers.sample(
      [
        ("micro_batches", "model:2", 4),
        ("replicas", "data:2,model:2", 1),
        ("stages", "stage:2,model:2", 2),
        ("replicas_and_micro_batches", "data:2,model:3", 3),
      ]
    ),
    *tiers.sample(
      [
        ("hybrid", "data:3", 3),
        ("hybrid_stages", "data:2,stage:2", 2),
        ("shared", "data:2", 1, {"variables": "shared"}),
        ("zero", "data:2", 1, {"optimizer_state": "sharded"}),
      ]
    ),
  )
  def test_with_the_other_axes(self, mesh, num_micro_batches, options=()):
    table_models.check(
      self,
      table_models.make_model_fn(table_models.gather, clip=True),
      mesh,
      num_micro_batches=num_micro_batches,
      **dict(options),
    )

  @parameterized.parameters(None, "columns")
  def test_replicas_may_have_different_numbers_of_rows(self, where):
    """Twelve examples are in slices of two, and of one."""
    mesh = "data:2,model:2" if where else "data:2"
    model_fn = table_models.make_model_fn(table_models.gather)
    table_models.check(
      self, model_fn, mesh, (("table", where),), num_micro_batches=4
    )

  def test_slots_of_shards_are_spread_with_their_shards(self):
    """ZeRO's shards are of variables: all of a table's share one gradient."""
    table_models.check(
      self,
      table_models.make_model_fn(table_models.columns),
      "data:2,model:2",
      optimizer_state="sharded",
    )

  def test_beside_one_that_no_step_needs(self):
    table_models.check(
      self,
      table_models.make_model_fn(table_models.beside_one_that_no_step_needs),
      "model:3",
    )

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("by_turns", table_models.gather, _TURNS),
        ("by_rows", table_models.lookup_sparse, _ROWS),
      ]
    )
  )
  def test_goes_on_from_a_plain_checkpoint(self, look_up, split):
    model_fn = table_models.make_model_fn(look_up)
    config = estimator_mp.ShardingConfig("model:3", split=split)
    folder = self.create_tempdir().full_path
    plain = runs.make_estimator(model_fn, None, {}, folder)
    plain.train(table_models.input_fn, steps=2)
    sharded = runs.make_estimator(
      estimator_mp.shard_model_fn(model_fn, config), config, {}, folder
    )
    for _ in range(2):
      ours, theirs = (
        x.evaluate(table_models.input_fn)["loss"] for x in (sharded, plain)
      )
      self.assertAlmostEqual(ours, theirs, places=6)
      ours, theirs = (
        runs.predict(x, table_models.input_fn) for x in (sharded, plain)
      )
      np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
      sharded.train(table_models.input_fn, steps=2)

  @parameterized.named_parameters(
    ("gather", table_models.gather, {"table": 1}),
    ("columns", table_models.columns, {"bag_id_shared": 1, "word": 1}),
    ("lookup_sparse", table_models.lookup_sparse, {"table": 1}),
    ("nested", table_models.nested, {"table": 2}),
    ("after_an_update", table_models.after_an_update, {"table": 2}),
  )
  def test_ids_are_exchanged_once_for_each_table(self, look_up, expected):
    """Lookups whose ids follow from rows of the table cannot wait for it."""
    config = estimator_mp.ShardingConfig("model:3", split=(_DIV, (".*", None)))
    model_fn = table_models.make_model_fn(look_up)
    with table_models.built(model_fn, config) as (_, spec):
      gathers = collections.Counter(
        op.inputs[0].op.name
        for op in _ops_of(spec)
        if op.type == "ResourceGather"
      )
    exchanges = {
      name: count
      for name, count in gathers.items()
      for key in expected
      if key in name
    }
    self.assertLen(exchanges, 3 * len(expected), gathers)
    for name, count in exchanges.items():
      self.assertRegex(name, "/part_[012]$")
      self.assertEqual(
        {count}, {x for key, x in expected.items() if key in name}
      )


class _Loads(tf.estimator.SessionRunHook):
  """Loads a table before the first step."""

  def __init__(self, value):
    self._value = value

  def after_create_session(self, session, coord):
    (table,) = (v for v in v1.global_variables() if v.op.name == "table")
    table.load(self._value, session)


class HybridTest(parameterized.TestCase):
  """Without a model axis, tables are split over the replicas of the rest."""

  def test_each_replica_looks_up_once_and_has_the_rest(self):
    """Replicas get rows from their owners: none passes through a third one."""
    config = estimator_mp.ShardingConfig("data:3", split=(_DIV, (".*", None)))
    model_fn = table_models.make_model_fn(table_models.gather)
    with table_models.built(model_fn, config) as (_, spec):
      ops = _ops_of(spec)
    gathers = collections.Counter(
      (op.inputs[0].op.name, op.device)
      for op in ops
      if op.type == "ResourceGather"
    )
    self.assertEqual(
      gathers,
      {(f"table/part_{i}", f"/device:CPU:{i}"): 3 for i in range(3)},
    )
    variables = [op.name for op in ops if op.type == "VarHandleOp"]
    self.assertLen([x for x in variables if "kernel" in x], 6, variables)
    self.assertCountEqual(
      [x for x in variables if "table" in x],
      [f"table{slot}/part_{i}" for slot in ("", "/Adagrad") for i in range(3)],
    )


class ByTurnsTest(parameterized.TestCase):
  """Tables whose row r is on device r % N."""

  def test_a_hook_loads_rows(self):
    """`Variable.load` writes all shards, though it is told of one variable."""
    value = np.random.RandomState(3).randn(table_models.NUM_ROWS, 4)
    found = {}
    for mesh in (None, "model:3", "data:2"):
      model_fn = table_models.make_model_fn(table_models.gather)
      config = None
      if mesh is not None:
        config = estimator_mp.ShardingConfig(mesh, split=_TURNS)
        model_fn = estimator_mp.shard_model_fn(model_fn, config)
      folder = self.create_tempdir().full_path
      recorder = runs.LossRecorder()
      runs.make_estimator(model_fn, config, {}, folder).train(
        table_models.input_fn, steps=2, hooks=[_Loads(value), recorder]
      )
      found[mesh] = recorder.losses
    np.testing.assert_allclose(found["model:3"], found[None], rtol=2e-6)
    np.testing.assert_allclose(found["data:2"], found[None], rtol=2e-6)

  @parameterized.named_parameters(
    (
      "shape",
      [3, 4],
      v1.Session,
      "table.load(value) got the shape [3, 4]; pass [11, 4]",
    ),
    (
      "session",
      [11, 4],
      lambda: None,
      "table.load(value) has no session; pass it as the second argument, or "
      "call it in `with session.as_default()`",
    ),
  )
  def test_rows_that_cannot_be_loaded(self, shape, make_session, message):
    config = estimator_mp.ShardingConfig("model:3", split=[("table", "mod")])
    model_fn = table_models.make_model_fn(table_models.gather)
    with table_models.built(model_fn, config):
      (table,) = (v for v in v1.global_variables() if v.op.name == "table")
      with self.assertRaises(ValueError) as caught:
        table.load(np.zeros(shape), make_session())
    self.assertEqual(str(caught.exception), message)

  def test_compared_with_the_plain_model(self):
    """Its value can be fetched, too."""
    found = estimator_mp.compare(
      table_models.make_model_fn(table_models.gather),
      lambda: table_models.input_fn().repeat(),
      estimator_mp.ShardingConfig("data:2", split=_TURNS),
      steps=2,
      params={},
    )
    self.assertTrue(found.ok, found)

  def test_shards_have_every_nth_row(self):
    config = estimator_mp.ShardingConfig("model:3", split=_TURNS)
    model_fn = table_models.make_model_fn(table_models.gather)
    with table_models.built(model_fn, config) as (graph, _):
      (table,) = (x for x in v1.trainable_variables() if "table" in x.name)
      shards = [
        tf.raw_ops.ReadVariableOp(
          resource=graph.get_tensor_by_name(f"table/part_{i}:0"),
          dtype=tf.float32,
        )
        for i in range(3)
      ]
      whole = table.read_value()
      initialize = v1.global_variables_initializer()
      graph.finalize()
      session_config = estimator_mp.run_config(config).session_config
      with v1.Session(graph=graph, config=session_config) as session:
        session.run(initialize)
        value, parts = session.run([whole, shards])
    for i, part in enumerate(parts):
      np.testing.assert_array_equal(part, value[i::3])


class InitializerTest(parameterized.TestCase):
  @parameterized.parameters("div", "mod", "whole")
  def test_a_program_runs_it_by_itself(self, by):
    config = estimator_mp.ShardingConfig("model:3", split=[("table", by)])
    found = {}

    def look_up(features):
      found["table"] = v1.get_variable("table", [11, 4], use_resource=True)
      return [tf.gather(found["table"], features["id"])]

    model_fn = table_models.make_model_fn(look_up)
    with table_models.built(model_fn, config) as (graph, _):
      value = found["table"].read_value()
      graph.finalize()
      session_config = estimator_mp.run_config(config).session_config
      with v1.Session(graph=graph, config=session_config) as session:
        session.run(found["table"].initializer)
        self.assertEqual(session.run(value).shape, (11, 4))
        first = found["table"].initializer
        with self.assertRaisesRegex(ValueError, "may not be fed"):
          session.run(first, {first.inputs[1]: np.zeros([11, 4])})


class WholeTest(parameterized.TestCase):
  """Tables that are on one device each."""

  def test_a_vocabulary_that_one_device_has(self):
    """Its logits are whole: other devices have no class to work on."""

    def look_up(features):
      ids = tf.cast(features["id"], tf.int64)
      table = v1.get_variable("table", [11, 4], use_resource=True)
      rows = tf.gather(table, ids)
      logits = tf.matmul(rows, table, transpose_b=True)
      losses = tf.nn.sparse_softmax_cross_entropy_with_logits(ids, logits)
      return [rows, tf.expand_dims(losses, 1)]

    model_fn = table_models.make_model_fn(look_up)
    table_models.check(self, model_fn, "model:3", (("table", "whole"),))

  def test_local_variables_are_initialized_alone(self):
    """A session that restored the table initializes local variables after."""
    config = estimator_mp.ShardingConfig(
      "model:2", split=[("kernel", None), ("table", "whole")]
    )

    def look_up(features):
      tables = [v1.get_variable(f"table_{i}", [9, 4]) for i in range(2)]
      return [tf.gather(table, features["id"] // 2) for table in tables]

    model_fn = table_models.make_model_fn(look_up)
    with table_models.built(model_fn, config) as (graph, _):
      tables = v1.trainable_variables()[:2]
      session_config = estimator_mp.run_config(config).session_config
      reads = [table.read_value() for table in tables]
      initialize = v1.global_variables_initializer()
      again = v1.local_variables_initializer()
      with v1.Session(graph=graph, config=session_config) as session:
        session.run(initialize)
        before = session.run(reads)
        session.run(again)
        after = session.run(reads)
    np.testing.assert_array_equal(before, after)

  @parameterized.parameters(tiers.sample(["whole", "mod"]))
  def test_adam_reads_slots_after_it_has_written_them(self, where):
    model_fn = table_models.make_model_fn(
      table_models.gather, lambda: v1.train.AdamOptimizer(0.1)
    )
    table_models.check(self, model_fn, "model:3", (("table", where),))

  def test_tables_are_spread_by_bytes(self):
    rows = {"a": 5, "b": 40, "c": 30, "d": 20, "e": 5}

    def look_up(features):
      return [
        tf.gather(v1.get_variable(f"table_{name}", [size, 4]), features["id"])
        for name, size in rows.items()
      ]

    config = estimator_mp.ShardingConfig(
      "model:2", split=[("table", "whole"), (".*", None)]
    )
    model_fn = table_models.make_model_fn(look_up)
    with table_models.built(model_fn, config):
      found = {
        variable.op.name: variable.device
        for variable in v1.trainable_variables()
        if "table" in variable.op.name
      }
    first, second = "/device:CPU:0", "/device:CPU:1"
    self.assertEqual(
      found,
      {
        "table_a/part_0": first,
        "table_b/part_0": first,
        "table_c/part_1": second,
        "table_d/part_1": second,
        "table_e/part_0": first,
      },
    )


class _ByHand(tf.compat.v1.train.Optimizer):
  """Adam as BERT has it: plain ops, on dense gradients."""

  def __init__(self):
    super().__init__(False, "by_hand")

  def apply_gradients(self, grads_and_vars, global_step=None, name=None):
    update = networks.adam_by_hand(grads_and_vars, 0.05)
    return tf.group(update, v1.assign_add(global_step, 1))


class UpdateTest(parameterized.TestCase):
  @parameterized.named_parameters(tiers.sample(_OPTIMIZERS))
  def test_optimizers(self, make_optimizer):
    model_fn = table_models.make_model_fn(table_models.gather, make_optimizer)
    table_models.check(self, model_fn, "model:3")

  @parameterized.named_parameters(
    tiers.sample(
      [
        (f"{name}{kind}", make, bool(kind))
        for name, make in _KERAS_OPTIMIZERS
        for kind in ("", "_legacy")
      ]
    )
  )
  def test_optimizers_of_keras(self, make, legacy):
    optimizers = tf.keras.optimizers
    if legacy:
      optimizers = optimizers.legacy
    model_fn = table_models.make_model_fn(
      table_models.gather, lambda: make(optimizers)
    )
    table_models.check(self, model_fn, "model:3")

  def test_clipping_sees_the_rows_of_the_plain_gradient(self):
    model_fn = table_models.make_model_fn(table_models.gather, clip=True)
    table_models.check(self, model_fn, "model:3")

  @parameterized.named_parameters(
    tiers.sample([("one", 1), ("micro_batches", 3)])
  )
  def test_rows_of_a_tensor_have_a_gradient_of_rows(self, num_micro_batches):
    model_fn = table_models.make_model_fn(
      table_models.rows_of_a_tensor,
      lambda: v1.train.MomentumOptimizer(0.2, 0.9),
      clip=True,
    )
    table_models.check(
      self,
      model_fn,
      "model:3",
      split=(("table", 0),),
      num_micro_batches=num_micro_batches,
    )

  @parameterized.named_parameters(
    tiers.sample([("micro_batches", 2), ("one", 1)])
  )
  def test_an_optimizer_of_dense_gradients(self, num_micro_batches):
    model_fn = table_models.make_model_fn(table_models.gather, _ByHand, True)
    table_models.check(
      self, model_fn, "model:3", num_micro_batches=num_micro_batches
    )

  @parameterized.named_parameters(("sparse", None), ("dense", _ByHand))
  def test_no_tensor_is_as_large_as_the_table(self, make_optimizer):
    """All that a step makes is a shard's, or the batch's."""
    rows = 4000

    def look_up(features):
      table = v1.get_variable("table", [rows, 4], use_resource=True)
      return [
        tf.gather(table, features["id"]),
        tf.gather(table, features["id"] + rows // 2),
      ]

    config = estimator_mp.ShardingConfig("model:4", split=(_DIV, (".*", None)))
    model_fn = table_models.make_model_fn(look_up, make_optimizer)
    with table_models.built(model_fn, config) as (graph, spec):
      made = [
        tensor
        for op in _ops_of(spec)
        for tensor in op.outputs
        if tensor.dtype not in (tf.resource, tf.variant)
      ]
      initialize = v1.global_variables_initializer()
      session_config = estimator_mp.run_config(config).session_config
      with v1.Session(graph=graph, config=session_config) as session:
        session.run(initialize)
        values = session.run([made, spec.train_op])[0]
    largest = max(np.size(value) for value in values)
    self.assertLessEqual(largest, rows)  # A quarter of what has four columns.


def _ops_of(spec):
  """Returns the ops of a training step."""
  train_op = getattr(spec.train_op, "op", spec.train_op)
  return traversal.ops_run_with(train_op, spec.loss.op)


if __name__ == "__main__":
  absltest.main()
