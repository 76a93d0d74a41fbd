"""Plans of a model_fn: its partition, its costs and its picture."""

import collections
import json
import pathlib
import re

import estimator_mp
from estimator_mp import amounts, toolbox
from estimator_mp.cli import user_program
from estimator_mp.config import placement_file
from estimator_mp.observe import placement_picture
from tests import tiers
from tests.estimator_mp import parts
from tests.estimator_mp.equality import bert
from tests.estimator_mp.models import catalogue, data

import tensorflow as tf
from absl.testing import absltest, parameterized

ZOO_FEATURES = user_program.input_spec(
  "x:float32[?,10],image:float32[?,8,8,3],ids:int32[?,12],"
  "city:string[?,1],item:int64[?,1]"
)
LABELS = user_program.input_spec("int32[?,1]")
BATCH = 32  # Where the features do not say.


def plan_of_specs(model_fn, features, labels, config, **fields):
  input_fn = user_program.input_fn_of_zeros(features, labels, BATCH)
  return estimator_mp.plan(model_fn, input_fn, config, **fields)


def plan_of_zoo(name, **config):
  model = catalogue.NETWORKS[name]
  config = estimator_mp.ShardingConfig(**config)
  return plan_of_specs(
    model.model_fn, ZOO_FEATURES, LABELS, config, params=model.params
  )


def _of_lines(lines):
  x = tf.strings.to_number(tf.strings.split(lines).to_tensor(shape=[None, 10]))
  return {"x": x}, x[:, :1]


class BatchTest(parameterized.TestCase):
  """The costs are those of a batch that is read, the decisions are not."""

  def _plan(self, name, input_fn, **config):
    model = catalogue.MODELS[name]
    return estimator_mp.plan(
      model.model_fn,
      input_fn,
      estimator_mp.ShardingConfig(**config),
      params=model.params,
      model=name,
    )

  @parameterized.parameters(tiers.sample(["stage:2", "model:2", "data:2"]))
  def test_costs_follow_the_batch(self, mesh):
    nominal = plan_of_zoo("mlp_adam", mesh=mesh)
    plan = self._plan("mlp_adam", data.input_fn, mesh=mesh)
    self.assertEqual(plan.num_examples, 25)
    self.assertEqual(plan.title, f"mlp_adam on {mesh}, a batch of 25 examples")
    self.assertEqual(plan.placement.stages, nominal.placement.stages)
    for x, other in zip(plan.step.devices, nominal.step.devices, strict=True):
      self.assertAlmostEqual(x.flops / other.flops, 25 / BATCH, delta=0.1)
      self.assertLess(x.live_bytes, other.live_bytes)
    if mesh == "model:2":
      sent = {x.tensor: x.num_bytes for x in plan.splits.sent}
      of_nominal = {x.tensor: x.num_bytes for x in nominal.splits.sent}
      self.assertEqual(sent["dense/MatMul:0"], 25 * 16 * 4)
      self.assertEqual(of_nominal["dense/MatMul:0"], BATCH * 16 * 4)
      self.assertEqual(sent.keys(), of_nominal.keys())

  def test_slices_that_do_not_divide_the_batch(self):
    """Of 25 examples, two slices have 13 and 12."""
    config = {"mesh": "stage:2", "num_micro_batches": 2}
    rules = (("^dense/", 0), (".", 1))
    plan = self._plan("mlp_adam", data.input_fn, placement=rules, **config)
    forward = [
      x.num_bytes
      for x in plan.placement.transfers
      if x.tensor.endswith("dense/Relu:0")
    ]
    self.assertCountEqual(forward, [13 * 16 * 4, 12 * 16 * 4])

  def test_without_its_data(self):
    """As if its files were on another machine."""

    def input_fn():
      lines = tf.data.TextLineDataset("/none/data.csv").batch(8)
      return lines.map(_of_lines)

    def model_fn(features, labels, mode):
      self.assertEqual(features["x"].shape.as_list(), [None, 10])
      return parts.spec(mode, parts.loss_of(labels, parts.tower(features["x"])))

    plan = estimator_mp.plan(
      model_fn, input_fn, estimator_mp.ShardingConfig("stage:2")
    )
    self.assertIsNone(plan.num_examples)
    self.assertEqual(
      plan.title, "model_fn on stage:2, a nominal batch of 32 examples"
    )

  @tiers.slow
  @parameterized.parameters(
    "widths_of_sparse_and_ragged", "sequence_features", "mean_of_words"
  )
  def test_sparse_and_ragged_inputs(self, name):
    model = catalogue.MODELS[name]
    plan = self._plan(name, lambda: model.input_fn("open"), mesh="stage:2")
    self.assertEqual(plan.num_examples, 8)

  def test_what_does_not_fit(self):
    for fields, message in (
      ({"params": {"units": 3}}, "^model_fn takes no params, but params were"),
      ({"machine": "none"}, "^machine='none' is unknown; give the path of a"),
    ):
      with self.assertRaisesRegex(ValueError, message):
        estimator_mp.plan(
          _embedding_model_fn,
          data.input_fn,
          estimator_mp.ShardingConfig("stage:2"),
          **fields,
        )


class ModelPlanTest(parameterized.TestCase):
  def test_what_a_mesh_has_none_of_is_not_said(self):
    found = plan_of_zoo("mlp_adam", mesh="stage:2")
    self.assertIsNone(found.replicas)
    self.assertIsNone(found.segments)
    self.assertIsNone(found.splits)
    self.assertEmpty(found.placement.replicas)
    self.assertNoCommonElements(found.to_dict(), ["segments", "splits"])
    for text in ("replica", "segment", "over the model axis"):
      self.assertNotIn(text, found.table())

  @parameterized.parameters(
    ("stage:3", 1), ("stage:3", 4), ("data:2,stage:3", 2)
  )
  def test_costs_are_those_of_the_layers(self, mesh, count):
    """Three dense layers: 10 -> 16 -> 16 -> 8 -> 1, cut by rules."""
    rules = (("^dense/", 0), ("^dense_1/", 1), (".", 2))
    found = plan_of_zoo(
      "mlp_adam", mesh=mesh, placement=rules, num_micro_batches=count
    )
    first, second, _ = found.step.devices
    # The first layer needs no gradient of its input. Of so small layers what is
    # beside products, such as updates and sums of slices, is up to as much.
    batch = BATCH // found.mesh.axis_size("data")
    for device, products in (
      (first, 2 * 2 * batch * 16 * 10),
      (second, 3 * 2 * batch * 16 * 16),
    ):
      self.assertBetween(device.flops, products, 2 * products)
    # A weight and two slots; Adam's powers are on the first.
    self.assertEqual(second.weight_bytes, (16 * 16 + 16) * 4 * 3)
    self.assertEqual(first.weight_bytes, (10 * 16 + 16) * 4 * 3 + 2 * 4)

  @tiers.slow
  def test_constants_that_say_a_shape_are_known(self):
    """A reshape to [batch, length, heads, width] is not [32, 32, 32, 32]."""
    found = plan_of_zoo("transformer", mesh="stage:3")
    rows, width, up = BATCH * 12, 16, 32
    products = 2 * rows * (4 * width * width + 2 * width * up)
    for device in found.step.devices:
      self.assertBetween(device.flops, 3 * products, 6 * products)
      self.assertLess(device.live_bytes, 2e6)

  @parameterized.parameters(tiers.sample(["mlp_adam", "cnn"]))
  def test_the_partition_is_that_of_a_real_run(self, model_name):
    model = catalogue.NETWORKS[model_name]
    config = estimator_mp.ShardingConfig("stage:3")
    folder = self.create_tempdir().full_path
    estimator = tf.estimator.Estimator(
      estimator_mp.shard_model_fn(model.model_fn, config),
      config=estimator_mp.run_config(config, folder),
      params=model.params,
    )
    estimator.train(data.input_fn, steps=1)
    real = placement_file.load_placement(folder, config.create_mesh())
    found = plan_of_zoo(model_name, mesh="stage:3").placement
    self.assertEqual(found.stages, real.stages)
    names = [name for name in real.ops if "/kernel" in name]
    self.assertNotEmpty(names)
    for name in names:
      self.assertEqual(found.ops[name], real.ops[name], name)

  def test_boundaries_add_up_to_what_is_sent(self):
    found = plan_of_zoo("deepfm", mesh="stage:4")
    sent = found.placement.transfers
    self.assertEqual(sum(b.num_tensors for b in found.boundaries), len(sent))
    self.assertEqual(
      sum(b.num_bytes for b in found.boundaries),
      sum(t.num_bytes for t in sent),
    )
    table = found.table()
    total = sum(t.num_bytes for t in sent)
    self.assertIn(f"{len(sent)} tensors, {amounts.amount(total, 'B')}", table)
    for boundary in found.boundaries:
      self.assertIn(f"  {boundary.source} -> {boundary.destination}: ", table)


# Tensors of gradients, by the ops that make them.
_GRADIENTS = re.compile(
  "all_reduce|aggregate|embedding_lookup_grad/Reshape:|"
  "_grad/tuple/control_dependency_1"
)


def _embedding_model_fn(features, labels, mode):
  table = tf.compat.v1.get_variable("table", [40, 8])
  rows = tf.nn.embedding_lookup(table, features["ids"])
  logits = tf.compat.v1.layers.dense(tf.reduce_mean(rows, 1), 1)
  loss = tf.reduce_mean((logits - tf.cast(labels, tf.float32)) ** 2)
  optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
  step = tf.compat.v1.train.get_global_step()
  return tf.estimator.EstimatorSpec(
    mode, loss=loss, train_op=optimizer.minimize(loss, step)
  )


class ReplicasTest(parameterized.TestCase):
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("buckets", "mlp_adam", {"bucket_bytes": 0, "mesh": "stage:2,data:2"}),
        ("small_buckets", "mlp_adam", {"bucket_bytes": 100}),
        ("ring", "mlp_adam", {"aggregation": "ring", "mesh": "data:3"}),
        ("tree", "mlp_adam", {"aggregation": "tree", "mesh": "data:4"}),
        ("hierarchical", "mlp_adam", {"aggregation": "hierarchical"}),
        ("rows", "transformer", {}),
        (
          "float16",
          "mlp_adam",
          {"compression": "float16", "aggregation": "ring"},
        ),
        ("top_k", "mlp_adam", {"compression": "top_k", "top_k_fraction": 0.1}),
        ("shared", "mlp_adam", {"variables": "shared"}),
        (
          "sharded_micro_batches",
          "mlp_adam",
          {"optimizer_state": "sharded", "num_micro_batches": 2},
        ),
      ]
    ),
  )
  def test_sums_send_what_the_graph_sends(self, name, fields):
    found = plan_of_zoo(name, **{"mesh": "data:2,stage:2"} | fields)
    planned = collections.Counter()
    for summed in found.replicas.sums:
      planned.update(summed.links)
    replica = {x.device: x.replica for x in found.placement.replicas}
    built = collections.Counter()
    for sent in found.placement.transfers:
      crosses = replica[sent.source] != replica[sent.destination]
      if crosses and _GRADIENTS.search(sent.tensor):
        built[sent.source, sent.destination] += sent.num_bytes
    self.assertEqual(planned, built)

  def test_rows_of_a_table_are_sent_as_rows(self):
    """Even if the replicas list more of them, 48, than the table's 40.

    Which rows they are follows from the input, which each has.
    """
    found = plan_of_specs(
      _embedding_model_fn,
      user_program.input_spec("ids:int32[16,3]"),
      user_program.input_spec("int32[16,1]"),
      estimator_mp.ShardingConfig("data:2"),
    )
    (of_table,) = [x for x in found.replicas.sums if "table" in x.variables]
    self.assertEqual(of_table.algorithm, "to_each")
    # Of 16 examples each replica has 8, with 3 ids.
    num_bytes = 8 * 3 * 8 * 4
    self.assertEqual(of_table.num_bytes, num_bytes)
    self.assertEqual([*of_table.links.values()], [num_bytes] * 2)

  def test_facts_and_text(self):
    rules = (("^dense/", 0), (".", 1))
    found = plan_of_zoo("mlp_adam", mesh="data:2,stage:2", placement=rules)
    # Weights and biases 10 -> 16 | 16 -> 16 -> 8 -> 1.
    first, second = 10 * 16 + 16, 16 * 16 + 16 + 16 * 8 + 8 + 8 + 1
    sums = [(x.num_bytes, x.algorithm) for x in found.replicas.sums]
    self.assertCountEqual(sums, [(first * 4, "copy"), (second * 4, "copy")])
    held = found.placement.replicas
    self.assertEqual(
      [(x.replica, x.stages, x.device[-1], x.parameters) for x in held],
      [
        (0, (0,), "0", first),
        (0, (1,), "1", second),
        (1, (0,), "2", first),
        (1, (1,), "3", second),
      ],
    )
    # Adam's two powers are in replica 0 only, and its slots in both.
    powers = held[0].variable_bytes - held[2].variable_bytes
    self.assertEqual(powers, 2 * 4)
    self.assertEqual(held[3].variable_bytes, second * 3 * 4)
    self.assertContainsInOrder(
      [
        "2 replicas; their variables are mirrored, the optimizer's state is "
        "replicated",
        "replica  stage  device         parameters  variables",
        f"1        1      /device:CPU:3         {second}    5.00 kB",
        "gradients summed over replicas each training step: 2.37 kB of each "
        "replica",
        "  /device:CPU:0, /device:CPU:2: 2 gradients, 704 B, in 1 sum by copy; "
        "1.41 kB sent, at most 704 B from one device to another",
        "sent between devices each training step: ",
      ],
      found.table(),
    )
    facts = json.loads(json.dumps(found.to_dict()))
    again = toolbox.Placement.from_dict(facts)
    self.assertEqual(again.replicas, held)
    self.assertLen(facts["replication"]["sums"], 2)
    graph = placement_picture.dot(found)
    self.assertIn('[label="replica 1\\nstage 0\\n/device:CPU:2"]', graph)
    self.assertIn('"/device:CPU:0" -> "/device:CPU:2" [', graph)


class SegmentsTest(parameterized.TestCase):
  @tiers.slow
  @parameterized.named_parameters(
    (name, name) for name in tiers.sample(reversed(catalogue.NETWORKS))
  )
  def test_one_in_models_of_the_zoo(self, name):
    options = {"batch_norm": "per_micro_batch"} if name == "cnn" else {}
    found = plan_of_zoo(name, mesh="stage:2", num_micro_batches=4, **options)
    self.assertEqual(found.segments.count, 1)
    self.assertGreater(found.segments.share_in_parts, 0.95)

  @tiers.slow
  def test_one_in_bert(self):
    """Its gather of the words that are masked is of each example's own rows."""
    features, labels = tf.nest.map_structure(
      lambda x: tf.TensorSpec([None, *x.shape[1:]], x.dtype),
      (bert.EXAMPLES, bert.LABELS),
    )
    found = plan_of_specs(
      bert.model_fn,
      features,
      labels,
      estimator_mp.ShardingConfig("stage:2", num_micro_batches=4),
    ).segments
    self.assertEqual(found.count, 1)
    self.assertGreater(found.share_in_parts, 0.95)

  def test_table_and_facts(self):
    found = plan_of_zoo("cnn", mesh="stage:2", num_micro_batches=4)
    self.assertGreater(found.segments.count, 1)
    self.assertContainsInOrder(
      [*found.segments.lines(), "sent between devices"], found.table()
    )
    (norm,) = {x["type"] for x in found.to_dict()["segments"]["once"]}
    self.assertStartsWith(norm, "FusedBatchNorm")


class SplitsTest(absltest.TestCase):
  def test_facts_and_table(self):
    """Two of four dense layers are split."""
    split = (("^dense/kernel", 1), ("^dense_1/kernel", 0))
    found = plan_of_zoo("mlp_adam", mesh="model:2", split=split)
    self.assertNotIn("IsInitialized", str(found.splits.sent))
    self.assertIn("dense/kernel ", found.table())
    self.assertIn("sent over the model axis each training", found.table())
    self.assertEqual(found.to_dict()["splits"], found.splits.to_dict())

  def test_a_stage_of_nearly_all_the_memory_is_said(self):
    with self.assertLogs(level="WARNING") as logs:
      plan_of_zoo("mlp_adam", mesh="stage:2")
    self.assertRegex(
      str(logs.output), r"stage 0 has 9\d% of the planned memory"
    )


class ModelAxisTest(parameterized.TestCase):
  """Stages that have several devices."""

  def _plan(self, mesh):
    rules = (("^dense/", 0), (".", 1))
    split = [("^dense/kernel", 1), ("^dense_1/kernel", 0), (".*", None)]
    return plan_of_zoo("mlp_adam", mesh=mesh, placement=rules, split=split)

  def test_what_each_device_holds(self):
    """Weights and biases 10 -> 16 | 16 -> 16 -> 8 -> 1; two kernels split."""
    found = self._plan("stage:2,model:2")
    self.assertIsNone(found.replicas)
    first, second = 10 * 16, 16 * 16
    whole = 16, 16 + 16 * 8 + 8 + 8 + 1
    parameters = [
      first // 2 + whole[0],
      first // 2,
      second // 2 + whole[1],
      second // 2,
    ]
    held = found.placement.replicas
    self.assertEqual([x.parameters for x in held], parameters)
    self.assertEqual(
      [x.parameters for x in found.placement.stages],
      [first + whole[0], second + whole[1]],
    )
    # With two slots. What is whole is on leaders: Adam's powers, global_step.
    others = [x.variable_bytes - 4 * 3 * x.parameters for x in held]
    self.assertEqual(others, [2 * 4, 0, 8, 0])
    self.assertContainsInOrder(
      [
        "stage  part  device         parameters  variables",
        f"0      1     /device:CPU:1          {parameters[1]}",
        f"1      1     /device:CPU:3         {parameters[3]}",
        "sent between devices each training step: ",
      ],
      found.table(),
    )
    self.assertNotIn("replica", found.table())
    again = toolbox.Placement.from_dict(json.loads(json.dumps(found.to_dict())))
    self.assertEqual(again.replicas, held)

  @tiers.slow
  @parameterized.named_parameters(
    ("model_last", "data:2,stage:2,model:2"),
    ("model_first", "model:2,stage:2,data:2"),
  )
  def test_pictures(self, mesh):
    found = self._plan(mesh)
    graph = placement_picture.dot(found)
    nodes = re.findall(r'^  "(\S+)" \[label=', graph, re.M)
    self.assertCountEqual(nodes, found.mesh.devices)
    device = found.mesh.device(data=1, stage=1, model=1)
    words = ("replica 1", "stage 1", "part 1", device)
    self.assertIn("\\n".join(words), graph)
    folder = self.create_tempdir().full_path
    _, svg = placement_picture.write_pictures(found, folder)
    text = pathlib.Path(svg).read_text()
    self.assertIn("<!-- /device:CPU:0 and 1 more -->", text)
    within = sum(
      boundary.num_bytes
      for boundary in found.boundaries
      for stage in (0, 1)
      if {boundary.source, boundary.destination}
      <= {*found.mesh.model_devices(stage=stage)}
    )
    self.assertGreater(within, 0)
    words = f"Within stages: {amounts.amount(within, 'B')}. Not drawn: "
    self.assertIn(words, text)


class DrawingTest(absltest.TestCase):
  @tiers.slow
  def test_the_pictures_say_what_the_table_says(self):
    found = plan_of_zoo("transformer", mesh="stage:4")
    folder = self.create_tempdir().full_path
    paths = [
      pathlib.Path(path)
      for path in placement_picture.write_pictures(found, folder)
    ]
    self.assertEqual([p.suffix for p in paths], [".png", ".svg"])
    self.assertStartsWith(paths[0].read_bytes(), b"\x89PNG")
    svg = paths[1].read_text()
    graph = placement_picture.dot(found)
    for stage in found.placement.stages:
      for text in (stage.device, f"{stage.parameters:,}", *stage.layers):
        self.assertIn(text, graph)
        self.assertIn(f"<!-- {text} -->", svg)
    for boundary in found.boundaries:
      tensors = amounts.counted(boundary.num_tensors, "tensor")
      size = amounts.amount(boundary.num_bytes, "B")
      self.assertIn(
        f'"{boundary.source}" -> "{boundary.destination}" '
        f'[label="{tensors}\\n{size}"];',
        graph,
      )
      self.assertIn(tensors, svg)

  def test_the_same_partition_is_the_same_picture(self):
    found = plan_of_zoo("mlp_sgd", mesh="stage:2")
    folders = [self.create_tempdir().full_path for _ in range(2)]
    for folder in folders:
      placement_picture.write_pictures(found, folder)
    for name in ("placement.png", "placement.svg"):
      first, second = (
        pathlib.Path(folder, name).read_bytes() for folder in folders
      )
      self.assertEqual(first, second, name)


class InputSpecTest(parameterized.TestCase):
  def test_entries_by_name(self):
    self.assertEqual(
      user_program.input_spec(
        " x:float32[?,10], ids : sparse int64[?, 5],c:string[]"
      ),
      {
        "x": tf.TensorSpec([None, 10], tf.float32),
        "ids": tf.SparseTensorSpec([None, 5], tf.int64),
        "c": tf.TensorSpec([], tf.string),
      },
    )

  def test_one_tensor(self):
    self.assertEqual(
      user_program.input_spec("int32[?,1]"), tf.TensorSpec([None, 1], tf.int32)
    )

  def test_input_fn_of_zeros(self):
    spec = user_program.input_spec(
      "a:bool[?,4],b:sparse float64[?,6],c:string[]"
    )
    with tf.Graph().as_default():
      features, labels = user_program.input_fn_of_zeros(spec, None, 3)()
      self.assertIsNone(labels)
      self.assertEqual(
        {name: (x.dtype, x.shape.as_list()) for name, x in features.items()},
        {
          "a": (tf.bool, [None, 4]),
          "b": (tf.float64, [None, 6]),
          "c": (tf.string, []),
        },
      )
      with tf.compat.v1.Session() as session:
        values = session.run([features["a"], features["b"].values])
      self.assertEqual([x.shape for x in values], [(3, 4), (3,)])

  @parameterized.named_parameters(
    ("no_dimensions", "x:float32", r"^'x:float32' is not name:dtype\["),
    ("unknown_dtype", "x:floaty[?]", "^'floaty' is not a dtype"),
    ("dimension", "x:float32[?,-1]", r"^dimension '-1' of 'x:float32\["),
    (
      "no_comma",
      "x:float32[?] y:float32[?]",
      r"^'y:float32\[\?\]' follows 'x:float32\[\?\]'; put a comma",
    ),
    ("twice", "x:float32[?],x:int32[?]", "^'x' comes twice"),
    (
      "no_name",
      "x:float32[?],int32[?]",
      "^of several entries each needs a name",
    ),
  )
  def test_malformed(self, text, message):
    with self.assertRaisesRegex(ValueError, message):
      user_program.input_spec(text)


if __name__ == "__main__":
  absltest.main()
