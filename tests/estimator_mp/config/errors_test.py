"""Bad inputs: each is one line that says what is wrong, before any session."""

import json
import os
from typing import Any
from unittest import mock

import estimator_mp
from estimator_mp import toolbox
from estimator_mp.cli import run_record
from tests.estimator_mp import parts, zoo

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
PLACEMENT = toolbox.Placement(
  tuple(
    toolbox.StagePlacement(k, f"/device:CPU:{k}", (), 0, 0) for k in range(2)
  ),
  {"dense/kernel": 0, "dense/bias": 0},
)


def setUpModule():
  # For distribution strategies. Sessions have devices of their own.
  cpu = tf.config.list_physical_devices("CPU")[0]
  two = [tf.config.LogicalDeviceConfiguration()] * 2
  tf.config.set_logical_device_configuration(cpu, two)


def spec_of(mode, net):
  return parts.spec(mode, tf.reduce_mean(tf.square(net)), predictions=net)


def mlp(features, labels, mode):
  net = features["x"]
  for name in "abc":
    net = v1.layers.dense(net, 4, name=name)
  return spec_of(mode, v1.layers.dense(net, 1, name="d"))


def colocated(features, labels, mode):
  first = v1.get_variable("first", [10, 4])
  with v1.colocate_with(first.op):
    second = v1.get_variable("second", [4, 1])
  return spec_of(mode, tf.matmul(tf.matmul(features["x"], first), second))


def _loop(features, body):
  """A v1 loop, as programs of TensorFlow 1 have it."""
  v1.disable_control_flow_v2()
  try:
    _, net = tf.while_loop(
      lambda i, net: i < 3, body, [tf.constant(0), features["x"]]
    )
  finally:
    v1.enable_control_flow_v2()
  return net


def loop_of_two_weights(features, labels, mode):
  first = v1.get_variable("first", [10, 10])
  second = v1.get_variable("second", [10, 10])
  net = _loop(
    features,
    lambda i, net: (i + 1, tf.matmul(tf.matmul(net, first), second)),
  )
  return spec_of(mode, v1.layers.dense(net, 1, name="last"))


def never_asks(features, labels, mode):
  weight = v1.get_variable("weight", [10, 1])
  loss = tf.reduce_mean(tf.matmul(features["x"], weight))
  return tf.estimator.EstimatorSpec(
    mode, loss=loss, train_op=v1.assign_add(v1.train.get_global_step(), 1)
  )


def marks_a_stage_too_many(features, labels, mode):
  with estimator_mp.stage(2):
    return spec_of(mode, v1.layers.dense(features["x"], 1))


def names_another_device(features, labels, mode):
  with tf.device("/cpu:7"):
    net = v1.layers.dense(features["x"], 4, name="a")
  net = v1.layers.dense(net, 4, name="b")
  return spec_of(mode, v1.layers.dense(net, 1, name="c"))


def returns_a_loss(features, labels, mode):
  mlp(features, labels, mode)
  return 5


CLUSTER = (
  "TF_CONFIG names a cluster of 4 tasks (chief:1, ps:1, worker:2), whose "
  "servers a sharded model needs; train by estimator_mp.train_and_evaluate("
  "estimator, train_spec, eval_spec), which starts them, or unset TF_CONFIG"
)

# What ShardingConfig says of its own fields; the mesh has two stages.
CONFIGS: tuple[tuple[str, dict[str, Any], str], ...] = (
  (
    "mesh_sign",
    {"mesh": "stage:--3"},
    "mesh 'stage:--3' is malformed at 'stage:--3'; write axes as NAME:SIZE, "
    "such as stage:3 or data:2,stage:3",
  ),
  (
    "mesh_of_a_trillion",
    {"mesh": "stage:1000000000000"},
    "mesh 'stage:1000000000000' has 1000000000000 positions, more than the "
    "4096 that a mesh may have; use a smaller one",
  ),
  (
    "mesh_of_a_large_product",
    {"mesh": "data:65,stage:64"},
    "mesh 'data:65,stage:64' has 4160 positions, more than the 4096 that a "
    "mesh may have; use a smaller one",
  ),
  (
    "micro_batches_of_a_trillion",
    {"num_micro_batches": 10**12},
    "num_micro_batches=1000000000000 on 2 stage(s) makes a schedule of "
    "4000000000000 cells, more than 1000000; use fewer micro-batches",
  ),
  (
    "micro_batches_without_an_order",
    {"num_micro_batches": 10**12, "schedule": "none"},
    "num_micro_batches=1000000000000 on 2 stage(s) makes a schedule of "
    "4000000000000 cells, more than 1000000; use fewer micro-batches",
  ),
  (
    "virtual_stages_of_a_trillion",
    {
      "num_micro_batches": 2,
      "schedule": "interleaved",
      "num_virtual_stages": 10**12,
    },
    "num_micro_batches=2 on 2000000000000 stage(s) makes a schedule of "
    "8000000000000 cells, more than 1000000; use fewer stages",
  ),
  (
    "rounds_of_a_trillion",
    {"gradient_accumulation_steps": 10**12},
    "gradient_accumulation_steps=1000000000000 of 4 cells makes a schedule of "
    "4000000000000 cells, more than 1000000; use fewer rounds",
  ),
  (
    "number_of_devices",
    {"devices": ["/cpu:0"]},
    "mesh 'stage:2' needs 2 = 2 devices, but 1 were given (/device:CPU:0); "
    "give 2 devices or change the mesh",
  ),
  (
    "memory_limit_with_rules",
    {"memory_limit": 9, "placement": [(".", 0)]},
    'memory_limit is for placement="auto" only, but another placement is '
    "given; leave one of them out",
  ),
  (
    "placement_unknown",
    {"placement": "automatic"},
    "placement='automatic' is unknown; use \"auto\", rules such as "
    '[("layer_[0-5]/", 0), (".*", 1)], a Placement, or the path of a '
    "placement.json",
  ),
  (
    "placement_of_another_mesh",
    {"mesh": "stage:3", "placement": PLACEMENT},
    "the placement is for 2 stage(s), but mesh stage:3 has 3; give a placement "
    'made for this mesh, or placement="auto"',
  ),
  (
    "placement_file_missing",
    {"placement": "nowhere/placement.json"},
    "placement='nowhere/placement.json' does not exist; give the path of a "
    "placement.json that training wrote into its model_dir",
  ),
  (
    "no_rule",
    {"placement": ()},
    'placement=() has no rule; give at least one, or placement="auto"',
  ),
  (
    "rule_is_no_pair",
    {"placement": ["dense"]},
    "placement rule 'dense' is malformed; write (expression, stage), such as "
    '("encoder/layer_[0-5]/", 0)',
  ),
  (
    "rule_expression",
    {"placement": [("a(", 0)]},
    "placement rule ('a(', 0) has a malformed expression (missing ), "
    "unterminated subpattern at position 1); use the syntax of Python's re "
    "module",
  ),
  (
    "rule_stage_outside",
    {"placement": [("dense", 2)]},
    "placement rule ('dense', 2) names stage 2, which is outside of the mesh; "
    "its stages are 0 to 1",
  ),
  (
    "rule_stage_is_no_number",
    {"placement": [("dense", True)]},
    "placement rule ('dense', True) names stage True, which is outside of the "
    "mesh; its stages are 0 to 1",
  ),
  (
    "measured_costs_missing",
    {"measured_costs": "nowhere/costs.json"},
    "measured_costs='nowhere/costs.json' cannot be read; give the path of a "
    "file that MeasuredCosts.save wrote",
  ),
  (
    "measured_costs_unknown",
    {"measured_costs": 5},
    "measured_costs=5 is unknown; give what measure_costs returned, or the "
    "path of a file that it was saved to",
  ),
)

NOT_AS_WRITTEN = (
  "its stages, ops, transfers or replicas are not as Placement.to_dict() writes"
)


def _changed(path, value):
  """Returns the text of a placement.json with another value at a path."""
  facts = {"mesh": "stage:2"} | json.loads(json.dumps(PLACEMENT.to_dict()))
  part = facts
  for key in path[:-1]:
    part = part[key]
  part[path[-1]] = value
  return json.dumps(facts).encode()


# What a damaged placement.json says of itself; the texts follow its path.
PLACEMENT_FILES = (
  (
    "cut_off",
    b'{"mesh": "stage:2", "sta',
    "Unterminated string starting at: line 1 column 21 (char 20)",
  ),
  (
    "not_text",
    b"\xff\xfe",
    "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
  ),
  ("another_thing", b"[1]", "it is not a JSON object"),
  (
    "nested",
    b"[" * 100_000,
    "its brackets are nested too deeply: line 1 column 1 (char 0)",
  ),
  ("no_stages", b'{"mesh": "stage:2"}', "it has no 'stages'"),
  *(
    (f"{name}_of_another_type", _changed(path, value), NOT_AS_WRITTEN)
    for name, path, value in (
      ("stages", ["stages"], {"0": 1}),
      ("a_stage", ["stages", 0], "first"),
      ("a_number", ["stages", 0, "stage"], "0"),
      ("a_size", ["stages", 1, "variable_bytes"], None),
      ("a_device", ["stages", 1, "device"], 1),
      ("layers", ["stages", 1, "layers"], "dense"),
      ("ops", ["ops"], ["dense/kernel"]),
      ("the_stage_of_an_op", ["ops", "dense/bias"], True),
      ("another_stage_of_an_op", ["ops", "dense/bias"], 0.5),
      ("transfers", ["transfers"], [{"tensor": "x"}]),
      ("replicas", ["replicas"], 7),
    )
  ),
  (
    "stages_in_another_order",
    _changed(["stages", 0, "stage"], 1),
    "its stages are 1, 1, which should be 0 to 1",
  ),
  (
    "a_stage_without_layers",
    b'{"mesh": "stage:2", "stages": [{"stage": 0}], "ops": {}}',
    NOT_AS_WRITTEN,
  ),
  (
    "an_op_outside",
    json.dumps(
      {"mesh": "stage:2", **PLACEMENT.to_dict(), "ops": {"w": 4}}
    ).encode(),
    "'w' is on stage 4, but it has 2 stage(s)",
  ),
)

# What a damaged file of measured costs says of itself.
COSTS_FILES = (
  (
    "nested",
    b"[" * 100_000,
    "the text is not valid JSON (its brackets are nested too deeply: line 1 "
    f"column 1 (char 0)); it begins with '{'[' * 40}'",
  ),
  (
    "cut_off",
    b'{"sec',
    "the text is not valid JSON (Unterminated string starting at: line 1 "
    "column 2 (char 1)); it begins with '{\"sec'",
  ),
  (
    "another_thing",
    b"[]",
    'measured costs have no "seconds"; measure them again',
  ),
  (
    "negative",
    b'{"seconds": {"a": -1}}',
    "measured costs give 'a' -1 seconds, which is not a positive number; "
    "measure them again",
  ),
)

# What training says of a model that does not fit its configuration.
MODELS: tuple[tuple[str, Any, dict[str, Any], str], ...] = (
  (
    "rule_matches_nothing",
    mlp,
    {"placement": [("^dens/", 0), (".", 1)]},
    "placement rule ('^dens/', 0) matches no variable or op of the model; its "
    "variables are such as a/kernel, a/bias, b/kernel",
  ),
  (
    "variable_unplaced",
    mlp,
    {"placement": [("^a/", 0), ("^[bd]/", 1)]},
    "variable 'c/kernel' is matched by none of the 2 placement rule(s); add a "
    'rule for it, the last one may be (".*", stage)',
  ),
  (
    "rules_cut_through_a_colocation_group",
    colocated,
    {"placement": [("^first", 0), ("^second", 1)]},
    "placement rules ('^first', 0) and ('^second', 1) are in conflict: 'first' "
    "and 'second' share a device (a variable with its ops, a loop or a "
    "colocation group) and belong to one stage",
  ),
  (
    "rules_cut_through_a_loop",
    loop_of_two_weights,
    {"placement": [("^first", 0), (".", 1)]},
    "placement rules ('^first', 0) and ('.', 1) are in conflict: 'first' and "
    "'second' share a device (a variable with its ops, a loop or a colocation "
    "group) and belong to one stage",
  ),
  (
    "fewer_layers_than_stages",
    mlp,
    {"mesh": "stage:5"},
    "the model has 4 layer(s) with weights, fewer than the 5 stages of the "
    "mesh; use at most 4, counting each virtual stage",
  ),
  (
    "memory_limit_of_no_partition",
    mlp,
    {"memory_limit": 1000},
    "memory_limit=1000 bytes is too small: cut into 2 stages the model needs "
    "at least 3.07 kB on one device, 2.07 kB more; raise the limit or use more "
    "stages",
  ),
  (
    "placement_of_another_model",
    mlp,
    {"placement": PLACEMENT},
    "variable 'a/kernel' is not among the 2 ops of the placement, which is of "
    "another model; give the placement.json of this one, or "
    'placement="auto"',
  ),
  (
    "costs_of_another_model",
    mlp,
    {"measured_costs": toolbox.MeasuredCosts({"dense/MatMul": 0.1})},
    "measured_costs has none of the model's 10 ops, such as 'Mean': it is of "
    "another model; measure this one with estimator_mp.measure_costs",
  ),
  (
    "never_asks_for_gradients",
    never_asks,
    {},
    "model_fn returned a spec for training but computed no gradients in the "
    "Estimator's graph, so nothing was sharded; compute them by tf.gradients, "
    "an optimizer's minimize or compute_gradients, or tf.GradientTape inside "
    "model_fn",
  ),
  (
    "returns_no_spec",
    returns_a_loss,
    {},
    "model_fn returned 5, which is not an EstimatorSpec; return "
    "tf.estimator.EstimatorSpec(mode, loss=..., train_op=...)",
  ),
  (
    "marks_a_stage_too_many",
    marks_a_stage_too_many,
    {},
    "stage 2 is outside of mesh stage:2, whose stage axis goes from 0 to 1",
  ),
  (
    "names_a_device_that_is_missing",
    names_another_device,
    {},
    "model_fn puts 'a/kernel' on /device:CPU:7, which the session does not "
    "have; use one of mesh stage:2: /device:CPU:0, /device:CPU:1",
  ),
)


class ErrorsTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.session = self.enter_context(
      mock.patch.object(
        v1.Session, "__init__", side_effect=AssertionError("a session")
      )
    )

  def _check(self, message, function, *args, **kwargs):
    with self.assertRaisesWithLiteralMatch(ValueError, message):
      function(*args, **kwargs)
    self.assertLen(message.splitlines(), 1)
    self.session.assert_not_called()

  def _train(self, model_fn, config, run_config=None):
    run_config = run_config or estimator_mp.run_config(
      config, self.create_tempdir().full_path
    )
    estimator = tf.estimator.Estimator(
      estimator_mp.shard_model_fn(model_fn, config), config=run_config
    )
    estimator.train(zoo.input_fn, steps=1)

  def _write(self, name, data):
    path = os.path.join(self.create_tempdir().full_path, name)
    with open(path, "wb") as file:
      file.write(data)
    return path

  def test_there_are_at_least_twenty_kinds(self):
    kinds = {message for *_, message in (*CONFIGS, *MODELS)}
    self.assertGreaterEqual(len(kinds), 30)

  def test_a_model_without_fault_comes_to_its_session(self):
    with self.assertRaisesRegex(AssertionError, "a session"):
      self._train(mlp, estimator_mp.ShardingConfig("stage:2"))

  @parameterized.named_parameters(*CONFIGS)
  def test_configuration(self, fields, message):
    fields = {"mesh": "stage:2"} | fields
    self._check(message, estimator_mp.ShardingConfig, **fields)

  @parameterized.named_parameters(*MODELS)
  def test_model(self, model_fn, fields, message):
    config = estimator_mp.ShardingConfig(**{"mesh": "stage:2"} | fields)
    self._check(message, self._train, model_fn, config)

  @parameterized.named_parameters(*PLACEMENT_FILES)
  def test_placement_file(self, data, reason):
    path = self._write("placement.json", data)
    message = (
      f"{path} holds no placement ({reason}); delete it, and train or inspect "
      "again to write a new one"
    )
    with self.subTest("given"):
      self._check(
        message, estimator_mp.ShardingConfig, "stage:2", placement=path
      )
    with self.subTest("found in the model_dir"), tf.Graph().as_default():
      v1.train.create_global_step()
      config = estimator_mp.ShardingConfig("stage:2")
      self._check(
        message,
        estimator_mp.shard_model_fn(mlp, config),
        {"x": v1.placeholder(tf.float32, [None, 10])},
        None,
        tf.estimator.ModeKeys.EVAL,
        config=estimator_mp.run_config(config, os.path.dirname(path)),
      )

  @parameterized.named_parameters(
    ("missing", {}, "it has no 'mesh'"),
    ("another_type", {"mesh": 2}, "its mesh is 2, which is not a string"),
  )
  def test_placement_file_without_mesh(self, fields, reason):
    """It was taken for one of another mesh."""
    facts = PLACEMENT.to_dict() | fields
    path = self._write("placement.json", json.dumps(facts).encode())
    config = estimator_mp.ShardingConfig("stage:2")
    estimator = tf.estimator.Estimator(
      estimator_mp.shard_model_fn(mlp, config),
      config=estimator_mp.run_config(config, os.path.dirname(path)),
    )
    self._check(
      f"{path} holds no placement ({reason}); delete it, and train or inspect "
      "again to write a new one",
      estimator.evaluate,
      zoo.input_fn,
    )

  @parameterized.named_parameters(
    ("newer", 2), ("none", 0), ("a_text", "1"), ("true", True)
  )
  def test_a_format_that_is_not_known(self, number):
    message = (
      f"it has format {number!r}, but this estimator_mp reads formats up to 1; "
      "upgrade estimator_mp, or "
    )
    data = json.dumps({"format": number, "what": "is not known"}).encode()
    path = self._write("placement.json", data)
    self._check(
      f"{path}: {message}train or inspect again to write a new one",
      estimator_mp.ShardingConfig,
      placement=path,
    )
    path = self._write("costs.json", data)
    self._check(
      f"measured_costs={path!r}: {message}measure them again",
      estimator_mp.ShardingConfig,
      measured_costs=path,
    )

  @parameterized.named_parameters(
    ("newer", 3), ("none", 0), ("a_text", "2"), ("true", True)
  )
  def test_a_result_of_a_format_that_is_not_known(self, number):
    data = json.dumps({"format": number, "what": "is not known"}).encode()
    path = self._write("result.json", data)
    with self.assertRaisesWithLiteralMatch(
      run_record.ModelDirError,
      f"{path}: it has format {number!r}, but this estimator_mp reads formats"
      " up to 2; upgrade estimator_mp, or choose another --model_dir",
    ):
      run_record.read_result(os.path.dirname(path))

  def test_a_file_where_traces_are_to_be(self):
    file = self.create_tempfile().full_path
    self._check(
      f"directory={file!r} is a file, and TraceHook writes into a folder; give "
      "it another one, or move the file away",
      estimator_mp.TraceHook,
      [5],
      file,
    )

  @parameterized.named_parameters(*COSTS_FILES)
  def test_costs_file(self, data, reason):
    path = self._write("costs.json", data)
    self._check(
      f"measured_costs={path!r}: {reason}",
      estimator_mp.ShardingConfig,
      measured_costs=path,
    )

  def test_a_device_that_the_session_lacks(self):
    folder = self.create_tempdir().full_path
    self._check(
      "mesh stage:2 uses /device:CPU:1, but the session has 1 CPU device(s); "
      "pass the Estimator config=estimator_mp.run_config(...), which sets "
      'device_count={"CPU": 2}',
      self._train,
      mlp,
      estimator_mp.ShardingConfig("stage:2", devices=["cpu:0", "cpu:1"]),
      tf.estimator.RunConfig(folder),
    )

  def test_no_model_fn(self):
    self._check(
      "model_fn=None cannot be called; give the plain model_fn that you would "
      "give to an Estimator",
      estimator_mp.shard_model_fn,
      None,
      estimator_mp.ShardingConfig("stage:2"),
    )

  def test_a_model_fn_that_is_sharded_already(self):
    config = estimator_mp.ShardingConfig("stage:2")
    sharded = estimator_mp.shard_model_fn(mlp, config)
    self._check(
      f"model_fn={sharded!r} is sharded already; give the plain model_fn that "
      "you would give to an Estimator",
      estimator_mp.shard_model_fn,
      sharded,
      config,
    )

  def test_a_cluster(self):
    """Its tasks would wait for each other, and one fail in its session."""
    with self._task("worker", chief=1, worker=2, ps=1):
      run_config = tf.estimator.RunConfig(self.create_tempdir().full_path)
    config = estimator_mp.ShardingConfig("stage:2")
    self._check(CLUSTER, self._train, mlp, config, run_config)

  def _task(self, kind, **jobs):
    """Makes this process a task of a cluster."""
    cluster = {
      job: [f"localhost:{i}" for i in range(size)] for job, size in jobs.items()
    }
    text = json.dumps({"cluster": cluster, "task": {"type": kind, "index": 0}})
    return mock.patch.dict(os.environ, TF_CONFIG=text)

  def test_a_cluster_of_one_task_comes_to_its_session(self):
    with (
      self._task("chief", chief=1),
      self.assertRaisesRegex(AssertionError, "a session"),
    ):
      self._train(mlp, estimator_mp.ShardingConfig("stage:2"))

  def test_an_evaluator_comes_to_its_session(self):
    """It is no part of the cluster; the others may train a plain model."""
    config = estimator_mp.ShardingConfig("stage:2")
    with self._task("evaluator", chief=1, worker=2, ps=1):
      estimator = tf.estimator.Estimator(
        estimator_mp.shard_model_fn(mlp, config),
        config=estimator_mp.run_config(config, self.create_tempdir().full_path),
      )
      with self.assertRaisesRegex(AssertionError, "a session"):
        estimator.evaluate(zoo.input_fn)

  @parameterized.named_parameters(
    ("train_distribute", "train_distribute", "stage:2", "data:2,stage:2"),
    ("eval_distribute", "eval_distribute", "data:3", "data:2"),
  )
  def test_a_strategy(self, name, mesh, advice):
    config = estimator_mp.ShardingConfig(mesh)
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    message = (
      f"{name}=MirroredStrategy(...) has 2 replica(s) of a model that is "
      f"sharded; leave it out of the RunConfig, and use mesh={advice!r} for "
      "replicas"
    )
    self._check(message, estimator_mp.run_config, config, **{name: strategy})

  @parameterized.named_parameters(
    ("by_a_run_config", True), ("by_a_wrapper_without_one", False)
  )
  def test_a_strategy_around_a_sharded_model_fn(self, gives_config):
    config = estimator_mp.ShardingConfig("stage:2")
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    sharded = estimator_mp.shard_model_fn(mlp, config)

    def wrapper(features, labels, mode):
      return sharded(features, labels, mode)

    estimator = tf.estimator.Estimator(
      sharded if gives_config else wrapper,
      config=tf.estimator.RunConfig(
        self.create_tempdir().full_path,
        session_config=estimator_mp.run_config(config).session_config,
        train_distribute=strategy,
      ),
    )
    self._check(
      "train_distribute=MirroredStrategy(...) has 1 replica(s) of a model that "
      "is sharded; leave it out of the RunConfig",
      estimator.train,
      zoo.input_fn,
      steps=1,
    )

  @parameterized.named_parameters(
    ("shard_model_fn", lambda x: estimator_mp.shard_model_fn(mlp, x)),
    ("run_config", estimator_mp.run_config),
  )
  def test_a_text_for_a_configuration(self, function):
    self._check(
      "config='stage:2' is not a ShardingConfig; write it like "
      'estimator_mp.ShardingConfig(mesh="stage:2")',
      function,
      "stage:2",
    )


if __name__ == "__main__":
  absltest.main()
