"""Bad inputs: each error names what is wrong and the fix, before any session.

It is one line, and has the value that is wrong, the limit, and what to change.
"""

import functools
import json
import os
from unittest import mock

import estimator_mp
from estimator_mp import toolbox
from tests.estimator_mp import parts
from tests.estimator_mp.models import data

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


def configured(**fields):
  """Returns a configuration; the mesh has two stages."""
  return estimator_mp.ShardingConfig(**{"mesh": "stage:2"} | fields)


def of_file(option, data):
  """Makes a configuration of a file, such as one of measured costs."""
  name = f"{option}.json"
  return lambda test: configured(**{option: test.write(name, data)})


def in_model_dir(data):
  """Builds a model in whose directory is a placement."""

  def build(test):
    config = configured()
    folder = os.path.dirname(test.write("placement.json", data))
    run_config = estimator_mp.run_config(config, folder)
    sharded = estimator_mp.shard_model_fn(mlp, config)
    with tf.Graph().as_default():
      v1.train.create_global_step()
      features = {"x": v1.placeholder(tf.float32, [None, 10])}
      sharded(features, None, tf.estimator.ModeKeys.EVAL, config=run_config)

  return build


def as_json(facts):
  return json.dumps(facts).encode()


def changed(path, value):
  """Returns the text of a placement.json with another value at a path."""
  facts = {"mesh": "stage:2"} | json.loads(json.dumps(PLACEMENT.to_dict()))
  part = facts
  for key in path[:-1]:
    part = part[key]
  part[path[-1]] = value
  return as_json(facts)


def traced_into_a_file(test):
  estimator_mp.TraceHook([5], test.write("a_file", b""))


def trained_without_devices(test):
  config = configured(devices=["cpu:0", "cpu:1"])
  test.train(mlp, config, tf.estimator.RunConfig(test.folder()))


def sharded_by(model_fn, config):
  return lambda test: estimator_mp.shard_model_fn(model_fn, config)


def run_config_of_a_text(test):
  estimator_mp.run_config("stage:2")


def sharded_twice(test):
  config = configured()
  sharded = estimator_mp.shard_model_fn(mlp, config)
  estimator_mp.shard_model_fn(sharded, config)


def trained_in_a_cluster(test):
  """Its tasks would wait for each other, and one fail in its session."""
  with task("worker", chief=1, worker=2, ps=1):
    run_config = tf.estimator.RunConfig(test.folder())
  test.train(mlp, configured(), run_config)


def task(kind, **jobs):
  """Makes this process a task of a cluster."""
  cluster = {
    job: [f"localhost:{i}" for i in range(size)] for job, size in jobs.items()
  }
  text = json.dumps({"cluster": cluster, "task": {"type": kind, "index": 0}})
  return mock.patch.dict(os.environ, TF_CONFIG=text)


def with_strategy(name, mesh):
  def make(test):
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    config = estimator_mp.ShardingConfig(mesh)
    estimator_mp.run_config(config, **{name: strategy})

  return make


def around_strategy(gives_config):
  """Trains under a strategy of a RunConfig that is not made for sharding."""

  def train(test):
    config = configured()
    sharded = estimator_mp.shard_model_fn(mlp, config)

    def wrapper(features, labels, mode):
      return sharded(features, labels, mode)

    run_config = tf.estimator.RunConfig(
      test.folder(),
      session_config=estimator_mp.run_config(config).session_config,
      train_distribute=tf.distribute.MirroredStrategy(["/cpu:0"]),
    )
    model_fn = sharded if gives_config else wrapper
    estimator = tf.estimator.Estimator(model_fn, config=run_config)
    estimator.train(data.input_fn, steps=1)

  return train


TRILLION = 10**12
NESTED = b"[" * 100_000


def formats(newer):
  """Returns files of formats of a version to come, or of nobody."""
  return [
    (str(x).lower(), as_json({"format": x}), f"format {x!r}|up to {newer - 1}")
    for x in (newer, 0, str(newer - 1), True)
  ]


# What is wrong with a placement.json, and what is said of it.
PLACEMENTS = (
  ("cut_off", b'{"mesh": "stage:2", "sta', "Unterminated string|column 21"),
  ("not_text", b"\xff\xfe", "'utf-8'|0xff|position 0"),
  ("another_thing", b"[1]", "not a JSON object"),
  ("nested", NESTED, "nested too deeply|line 1 column 1"),
  ("no_stages", b'{"mesh": "stage:2"}', "no 'stages'"),
  *(
    ("_".join(map(str, (*path, value))), changed(path, value), said)
    for path, value, said in (
      (["stages"], {"0": 1}, "it.stages is {'0': 1}|type list"),
      (["stages", 0], "first", "it.stages[0] is 'first'|type object"),
      (["stages", 0], {"stage": 0}, "it.stages[0] has no 'device'"),
      (["stages", 0, "stage"], "0", "it.stages[0].stage is '0'|type int"),
      (["stages", 1, "variable_bytes"], None, "bytes is None|type int"),
      (["stages", 1, "device"], 1, "it.stages[1].device is 1|type str"),
      (["stages", 1, "layers"], "dense", "layers is 'dense'|type list"),
      (["ops"], ["dense/kernel"], "it.ops is ['dense/kernel']|type object"),
      (["ops", "dense/bias"], True, "it.ops.dense/bias is True|type int"),
      (["ops", "dense/bias"], 0.5, "it.ops.dense/bias is 0.5|type int"),
      (["transfers"], [{"tensor": "x"}], "it.transfers[0] has no 'source'"),
      (["replicas"], 7, "it.replicas is 7|type list"),
    )
  ),
  ("another_order", changed(["stages", 0, "stage"], 1), "are 1, 1|0 to 1"),
  ("op_outside", changed(["ops"], {"w": 4}), "'w'|stage 4|2 stage(s)"),
)
WITHOUT_MESH = (
  ("no_mesh", as_json(PLACEMENT.to_dict()), "no 'mesh'"),
  ("mesh_type", as_json(PLACEMENT.to_dict() | {"mesh": 2}), "its mesh is 2"),
)
COSTS = (
  ("nested", NESTED, f"nested too deeply|'{'[' * 40}'"),
  ("cut_off", b'{"sec', "Unterminated string|column 2|'{\"sec'"),
  ("another_thing", b"[]", "measured_costs is []|object|measure them again"),
  ("negative", b'{"seconds": {"a": -1}}', "'a' -1|measure them again"),
  ("older", b'{"seconds": {"a": 1.0}}', "older|measure them again"),
)

# Options, and what their errors have to say, parted by "|".
CONFIGS = (
  ({"mesh": "stage:--3"}, "'stage:--3'|NAME:SIZE"),
  (
    {"mesh": f"stage:{TRILLION}"},
    f"'stage:{TRILLION}'| {TRILLION} |4096|smaller",
  ),
  ({"mesh": "data:65,stage:64"}, "'data:65,stage:64'|4160|4096|smaller"),
  *(
    (
      {"num_micro_batches": TRILLION, "schedule": schedule},
      f"num_micro_batches={TRILLION}|2 stage(s)|{4 * TRILLION} cells|1000000;|"
      "fewer micro-batches",
    )
    for schedule in ("1f1b", "none")
  ),
  (
    {
      "num_micro_batches": 2,
      "schedule": "interleaved",
      "num_virtual_stages": TRILLION,
    },
    f"num_micro_batches=2 |{2 * TRILLION} stage(s)|{8 * TRILLION} cells|"
    "1000000;|fewer stages",
  ),
  (
    {"gradient_accumulation_steps": TRILLION},
    f"gradient_accumulation_steps={TRILLION}|{4 * TRILLION} cells|1000000;|"
    "fewer rounds",
  ),
  (
    {"devices": ["/cpu:0"]},
    "stage:2|needs 2|1 were given|/device:CPU:0|give 2 devices",
  ),
  (
    {"memory_limit": 9, "placement": [(".", 0)]},
    'memory_limit|placement="auto"|leave one',
  ),
  (
    {"placement": "automatic"},
    "placement='automatic'|\"auto\"|rules|placement.json",
  ),
  (
    {"mesh": "stage:3", "placement": PLACEMENT},
    '2 stage(s)|stage:3 has 3|placement="auto"',
  ),
  (
    {"placement": "nowhere/placement.json"},
    "placement='nowhere/placement.json'|does not exist|model_dir",
  ),
  ({"placement": ()}, 'placement=()|placement="auto"'),
  (
    {"placement": ["dense"]},
    "'dense'|pair of an expression and one of the mesh's stages|such as (",
  ),
  (
    {"placement": [("a(", 0)]},
    "('a(', 0)|unterminated subpattern at position 1|re module",
  ),
  ({"placement": [("dense", 2)]}, "('dense', 2)|mesh's stages, 0 to 1"),
  ({"placement": [("dense", True)]}, "('dense', True)|mesh's stages, 0 to 1"),
  ({"mesh": 3}, "mesh=3|give a string"),
  ({"devices": "cpu:0,cpu:1"}, "devices='cpu:0,cpu:1'|a list of strings"),
  ({"memory_limit": "4XB"}, "memory_limit='4XB'|256MiB, 16GB"),
  ({"memory_limit": "0GB"}, "memory_limit='0GB'|use 1 or more"),
  ({"memory_limit": True}, "memory_limit=True|amount of bytes or None"),
  ({"verify_placement": 1}, "verify_placement=1|give true or false"),
  ({"num_micro_batches": 0}, "num_micro_batches=0|use 1 or more"),
  ({"num_micro_batches": 1.5}, "num_micro_batches=1.5|give an integer"),
  ({"schedule": "x"}, "schedule='x'|use one of none, gpipe, 1f1b, "),
  ({"top_k_fraction": "x"}, "top_k_fraction='x'|give a number"),
  (
    {
      "mesh": "data:2",
      "variables": "shared",
      "optimizer_state": "sharded",
    },
    'optimizer_state="sharded"|variables="shared"|variables="mirrored"',
  ),
  ({"split": "Auto"}, "split='Auto'|\"auto\""),
  ({"split": {"a": 1}}, "split={'a': 1}|\"auto\""),
  ({"split": ()}, 'split=()|(".*", None)|split="auto"'),
  ({"split": [("a", 0), ("(", 1)]}, "'('|regular expression|position 0"),
  *(
    ({"split": [rule]}, f'split has {rule!r}|from 0|"mod", "div", "columns"')
    for rule in ("a", ("a", -1), ("a", True), ("a", "rows"), (3, 1))
  ),
  ({"split": [("a", "mod")]}, "('a', 'mod')|'stage:2'|'stage:2,model:2'"),
  (
    {"mesh": "data:2", "split": [("a", 1)]},
    "('a', 1)|'data:2'|\"mod\", \"div\"|'data:2,model:2'",
  ),
  (
    {"measured_costs": "nowhere/costs.json"},
    "measured_costs='nowhere/costs.json'|MeasuredCosts.save",
  ),
  (
    {"measured_costs": 5},
    "measured_costs=5|measure_costs returned|path of a file",
  ),
)

# The same of models that do not fit their options.
MODELS = (
  (
    mlp,
    {"placement": [("^dens/", 0), (".", 1)]},
    "('^dens/', 0)|a/kernel, a/bias, b/kernel",
  ),
  (
    mlp,
    {"placement": [("^a/", 0), ("^[bd]/", 1)]},
    "'c/kernel'|none of the 2 placement rule|add a rule|(\".*\", stage)",
  ),
  *(
    (
      model_fn,
      {"placement": [("^first", 0), (rest, 1)]},
      f"('^first', 0)|('{rest}', 1)|'first'|'second'|belong to one stage",
    )
    for model_fn, rest in ((colocated, "^second"), (loop_of_two_weights, "."))
  ),
  (mlp, {"mesh": "stage:5"}, "4 layer(s)|5 stages|at most 4"),
  (
    mlp,
    {"memory_limit": 1000},
    "memory_limit=1000 bytes|2 stages|at least | kB more|raise the limit",
  ),
  (
    mlp,
    {"placement": PLACEMENT},
    "'a/kernel'|2 ops|placement.json|placement=\"auto\"",
  ),
  (
    mlp,
    {"measured_costs": toolbox.MeasuredCosts({"dense/MatMul": 0.1})},
    "measured_costs|10 ops|estimator_mp.measure_costs",
  ),
  (never_asks, {}, "no gradients|nothing was sharded|tf.gradients|minimize"),
  (returns_a_loss, {}, "returned 5|return tf.estimator.EstimatorSpec("),
  (marks_a_stage_too_many, {}, "stage 2 |stage:2|0 to 1"),
  (
    names_another_device,
    {},
    "'a/kernel'|/device:CPU:7|/device:CPU:0, /device:CPU:1",
  ),
)

# The same of files, and of other inputs.
OTHERS = (
  *(
    (
      f"placement_file_{kind}_{name}",
      read(data),
      f"placement.json|{said}|delete it|train or plan again",
    )
    for kind, read, files in (
      ("given", functools.partial(of_file, "placement"), PLACEMENTS),
      # Without a mesh it was taken for one of another mesh.
      ("found", in_model_dir, PLACEMENTS + WITHOUT_MESH),
    )
    for name, data, said in files
  ),
  *(
    (
      f"format_{name}_of_{option}",
      of_file(option, data),
      f"{option}.json|{said}|upgrade estimator_mp|{fix}",
    )
    for option, newer, fix in (
      ("placement", 2, "train or plan again"),
      ("measured_costs", 3, "measure them again"),
    )
    for name, data, said in formats(newer)
  ),
  *(
    (f"costs_{name}", of_file("measured_costs", data), f"costs.json|{said}")
    for name, data, said in COSTS
  ),
  ("trace_into_a_file", traced_into_a_file, "a_file|TraceHook|folder"),
  (
    "a_device_that_the_session_lacks",
    trained_without_devices,
    "stage:2|/device:CPU:1|1 CPU device(s)|estimator_mp.run_config(|"
    'device_count={"CPU": 2}',
  ),
  (
    "no_model_fn",
    sharded_by(None, configured()),
    "model_fn=None|plain model_fn",
  ),
  ("sharded_twice", sharded_twice, "sharded already|plain model_fn"),
  (
    "a_cluster",
    trained_in_a_cluster,
    "TF_CONFIG|4 tasks|chief:1, ps:1, worker:2|"
    "estimator_mp.train_and_evaluate(|unset TF_CONFIG",
  ),
  *(
    (
      name,
      with_strategy(name, mesh),
      f"{name}=MirroredStrategy|2 replica(s)|mesh='{advice}'",
    )
    for name, mesh, advice in (
      ("train_distribute", "stage:2", "data:2,stage:2"),
      ("eval_distribute", "data:3", "data:2"),
    )
  ),
  *(
    (
      f"a_strategy_around_a_sharded_model_fn_{gives_config}",
      around_strategy(gives_config),
      "train_distribute=MirroredStrategy|1 replica(s)|leave it out",
    )
    for gives_config in (True, False)
  ),
  *(
    (
      f"a_text_for_a_configuration_of_{name}",
      make,
      "config='stage:2'|estimator_mp.ShardingConfig(mesh=\"stage:2\")",
    )
    for name, make in (
      ("a_model", sharded_by(mlp, "stage:2")),
      ("a_run", run_config_of_a_text),
    )
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

  def folder(self):
    return self.create_tempdir().full_path

  def write(self, name, data):
    path = os.path.join(self.folder(), name)
    with open(path, "wb") as file:
      file.write(data)
    return path

  def train(self, model_fn, config, run_config=None):
    estimator = tf.estimator.Estimator(
      estimator_mp.shard_model_fn(model_fn, config),
      config=run_config or estimator_mp.run_config(config, self.folder()),
    )
    estimator.train(data.input_fn, steps=1)

  @parameterized.parameters(*CONFIGS)
  def test_configuration(self, fields, said):
    self._check(said, lambda: configured(**fields))

  @parameterized.parameters(*MODELS)
  def test_model(self, model_fn, fields, said):
    config = configured(**fields)
    self._check(said, lambda: self.train(model_fn, config))

  @parameterized.named_parameters(*OTHERS)
  def test_other(self, make, said):
    self._check(said, lambda: make(self))

  def _check(self, said, make, error=ValueError):
    with self.assertRaises(error) as caught:
      make()
    message = str(caught.exception)
    for fragment in said.split("|"):
      self.assertIn(fragment, message)
    self.assertLen(message.splitlines(), 1)
    self.session.assert_not_called()

  def test_a_model_without_fault_comes_to_its_session(self):
    with self.assertRaisesRegex(AssertionError, "a session"):
      self.train(mlp, configured())

  def test_a_cluster_of_one_task_comes_to_its_session(self):
    with (
      task("chief", chief=1),
      self.assertRaisesRegex(AssertionError, "a session"),
    ):
      self.train(mlp, configured())

  def test_an_evaluator_comes_to_its_session(self):
    """It is no part of the cluster; the others may train a plain model."""
    config = configured()
    with task("evaluator", chief=1, worker=2, ps=1):
      estimator = tf.estimator.Estimator(
        estimator_mp.shard_model_fn(mlp, config),
        config=estimator_mp.run_config(config, self.folder()),
      )
      with self.assertRaisesRegex(AssertionError, "a session"):
        estimator.evaluate(data.input_fn)


if __name__ == "__main__":
  absltest.main()
