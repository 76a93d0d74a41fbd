"""The inspect command: the partition, its costs, the picture, the errors."""

import contextlib
import io
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
from unittest import mock

import estimator_mp
from estimator_mp import (
  amounts,
  drawing,
  input_spec,
  inspect,
  inspection,
  placement_file,
)
from tests.estimator_mp import zoo

import tensorflow as tf
from absl.testing import absltest, parameterized

ZOO_FEATURES = input_spec.parse(
  "x:float32[?,10],image:float32[?,8,8,3],ids:int32[?,12],"
  "city:string[?,1],item:int64[?,1]"
)
LABELS = input_spec.parse("int32[?,1]")
BATCH = 32  # Where the features do not say.

# What a user has in a file of their own.
PROGRAM = """
import tensorflow as tf
from absl import flags

v1 = tf.compat.v1
flags.DEFINE_string("mesh", "mine", "A flag that the command has too.")
number = 3


def model_fn(features, labels, mode, params):
  assert flags.FLAGS.mesh == "mine"
  net = v1.layers.dense(features["x"], params["units"], name="first")
  net = v1.layers.dense(net, 1, name="second")
  loss = tf.reduce_mean((net - labels) ** 2)
  step = v1.train.get_global_step()
  train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def no_spec(features):
  v1.layers.dense(features["x"], 1)
  return 5
"""


def inspect_zoo(name, **config):
  model = zoo.MODELS[name]
  return inspection.inspect_model_fn(
    model.model_fn,
    ZOO_FEATURES,
    LABELS,
    estimator_mp.ShardingConfig(**config),
    model.params,
    name,
  )


class InspectionTest(absltest.TestCase):
  def test_costs_are_those_of_the_layers(self):
    """Three dense layers: 10 -> 16 -> 16 -> 8 -> 1, cut by rules."""
    rules = (("^dense/", 0), ("^dense_1/", 1), (".", 2))
    found = inspect_zoo("mlp_adam", mesh="stage:3", placement=rules)
    first, second, _ = found.costs
    # A product, and one addition and one ReLU for each result.
    self.assertEqual(first.flops, BATCH * 16 * (2 * 10 + 2))
    self.assertEqual(second.flops, BATCH * 16 * (2 * 16 + 2))
    # MatMul, BiasAdd and Relu each make a tensor.
    self.assertEqual(first.activation_bytes, 3 * BATCH * 16 * 4)
    # A weight, its gradient, and two slots; Adam's powers are on the first.
    self.assertEqual(second.weight_bytes, (16 * 16 + 16) * 4 * 4)
    self.assertEqual(first.weight_bytes, (10 * 16 + 16) * 4 * 4 + 2 * 4)
    self.assertAlmostEqual(sum(found.time_shares()), 1.0)
    self.assertAlmostEqual(sum(found.flop_shares()), 1.0)

  def test_constants_that_say_a_shape_are_known(self):
    """A reshape to [batch, length, heads, width] is not [32, 32, 32, 32]."""
    found = inspect_zoo("transformer", mesh="stage:3")
    rows, width, up = BATCH * 12, 16, 32
    products = 2 * rows * (4 * width * width + 2 * width * up)
    for cost in found.costs:
      self.assertBetween(cost.flops, products, 2 * products)
      self.assertLess(cost.activation_bytes, 2e6)

  def test_the_partition_is_that_of_a_real_run(self):
    model = zoo.MODELS["cnn"]
    config = estimator_mp.ShardingConfig("stage:3")
    folder = self.create_tempdir().full_path
    estimator = tf.estimator.Estimator(
      estimator_mp.shard_model_fn(model.model_fn, config),
      config=estimator_mp.run_config(config, folder),
    )
    estimator.train(zoo.input_fn, steps=1)
    real = placement_file.load_placement(folder, config.create_mesh())
    found = inspect_zoo("cnn", mesh="stage:3").placement
    self.assertEqual(found.stages, real.stages)
    names = [name for name in real.ops if "/kernel" in name]
    self.assertNotEmpty(names)
    for name in names:
      self.assertEqual(found.ops[name], real.ops[name], name)

  def test_boundaries_add_up_to_what_is_sent(self):
    found = inspect_zoo("deepfm", mesh="stage:4")
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


class DrawingTest(absltest.TestCase):
  def test_the_pictures_say_what_the_table_says(self):
    found = inspect_zoo("transformer", mesh="stage:4")
    folder = self.create_tempdir().full_path
    paths = [
      pathlib.Path(path) for path in drawing.write_pictures(found, folder)
    ]
    self.assertEqual([p.suffix for p in paths], [".png", ".svg"])
    self.assertStartsWith(paths[0].read_bytes(), b"\x89PNG")
    svg = paths[1].read_text()
    graph = drawing.dot(found)
    for stage in found.placement.stages:
      for text in (stage.device, f"{stage.parameters:,}", *stage.layers):
        self.assertIn(text, graph)
        self.assertIn(f"<!-- {text} -->", svg)
    for boundary in found.boundaries:
      source, destination = boundary.source[-1], boundary.destination[-1]
      tensors = amounts.tensors(boundary.num_tensors)
      size = amounts.amount(boundary.num_bytes, "B")
      self.assertIn(
        f'stage_{source} -> stage_{destination} [label="{tensors}\\n{size}"];',
        graph,
      )
      self.assertIn(tensors, svg)

  def test_the_same_partition_is_the_same_picture(self):
    found = inspect_zoo("mlp_sgd", mesh="stage:2")
    folders = [self.create_tempdir().full_path for _ in range(2)]
    for folder in folders:
      drawing.write_pictures(found, folder)
    for name in ("placement.png", "placement.svg"):
      first, second = (
        pathlib.Path(folder, name).read_bytes() for folder in folders
      )
      self.assertEqual(first, second, name)


class AmountsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("none", 0, "0 B"),
    ("one", 1, "1 B"),
    ("below_a_thousand", 999, "999 B"),
    ("a_thousand", 1000, "1.00 kB"),
    ("rounds_up", 999_600, "1.00 MB"),
    ("tens", 24_576, "24.6 kB"),
    ("hundreds", 524_288, "524 kB"),
    ("large", 8.4e13, "84.0 TB"),
  )
  def test_amount(self, value, text):
    self.assertEqual(amounts.amount(value, "B"), text)


class InputSpecTest(parameterized.TestCase):
  def test_entries_by_name(self):
    self.assertEqual(
      input_spec.parse(" x:float32[?,10], ids : sparse int64[?, 5],c:string[]"),
      {
        "x": tf.TensorSpec([None, 10], tf.float32),
        "ids": tf.SparseTensorSpec([None, 5], tf.int64),
        "c": tf.TensorSpec([], tf.string),
      },
    )

  def test_one_tensor(self):
    self.assertEqual(
      input_spec.parse("int32[?,1]"), tf.TensorSpec([None, 1], tf.int32)
    )

  def test_placeholders(self):
    with tf.Graph().as_default():
      spec = input_spec.parse("a:bool[4],b:sparse float64[?]")
      made = input_spec.placeholders(spec)
      self.assertEqual(made["a"].shape.as_list(), [4])
      self.assertEqual(made["b"].dtype, tf.float64)
      self.assertIsNone(input_spec.placeholders(None))

  @parameterized.named_parameters(
    (
      "no_dimensions",
      "x:float32",
      "'x:float32' is no name:dtype[dimensions]; write it like "
      "x:float32[?,10],ids:int32[?,128], with ? for the batch",
    ),
    (
      "unknown_dtype",
      "x:floaty[?]",
      "'floaty' is no dtype of TensorFlow; use one such as float32, int32, "
      "int64, bool or string",
    ),
    (
      "dimension",
      "x:float32[?,-1]",
      "dimension '-1' of 'x:float32[?,-1]' is neither a positive number nor ?; "
      "use one of them",
    ),
    (
      "no_comma",
      "x:float32[?] y:float32[?]",
      "'y:float32[?]' follows 'x:float32[?]'; put a comma between entries, as "
      "in x:float32[?,10],ids:int32[?,128]",
    ),
    (
      "twice",
      "x:float32[?],x:int32[?]",
      "'x' comes twice; give it once",
    ),
    (
      "no_name",
      "x:float32[?],int32[?]",
      "of several entries each needs a name; write them like "
      "x:float32[?,10],ids:int32[?,128]",
    ),
  )
  def test_malformed(self, text, message):
    with self.assertRaises(ValueError) as caught:
      input_spec.parse(text)
    self.assertEqual(str(caught.exception), message)


def run_main(*arguments):
  """Returns the exit code, standard output and standard error."""
  argv = list(sys.argv)
  try:
    with (
      contextlib.redirect_stdout(io.StringIO()) as output,
      contextlib.redirect_stderr(io.StringIO()) as errors,
    ):
      code = inspect.main(["inspect", *arguments])
  finally:
    sys.argv[:] = argv
  return code, output.getvalue(), errors.getvalue()


class CommandTest(parameterized.TestCase):
  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.folder = absltest.get_default_test_tmpdir()
    pathlib.Path(cls.folder, "their_program.py").write_text(PROGRAM)
    pathlib.Path(cls.folder, "broken_program.py").write_text("\n1 / 0\n")
    cls._directory = os.environ.get("BUILD_WORKING_DIRECTORY")
    os.environ["BUILD_WORKING_DIRECTORY"] = cls.folder

  @classmethod
  def tearDownClass(cls):
    super().tearDownClass()
    del os.environ["BUILD_WORKING_DIRECTORY"]
    if cls._directory is not None:
      os.environ["BUILD_WORKING_DIRECTORY"] = cls._directory

  def test_a_program_of_this_directory(self):
    code, output, errors = run_main(
      "--model_fn=their_program:model_fn",
      "--features=x:float32[?,10]",
      "--labels=float32[?,1]",
      '--params={"units": 6}',
      '--placement=[["^first/", 1], [".", 0]]',
      "--mesh=stage:2",
      "--out=pictures",
    )
    self.assertEqual((code, errors), (0, ""))
    self.assertContainsInOrder(
      [
        "their_program:model_fn on stage:2",
        "0      /device:CPU:0  second           7  ",
        "1      /device:CPU:1  first           66  ",
        "sent between devices each training step: ",
        "  /device:CPU:1 -> /device:CPU:0: ",
      ],
      output,
    )
    folder = os.path.join(self.folder, "pictures")
    names = [f"placement.{x}" for x in ("png", "svg", "dot", "json")]
    self.assertCountEqual(os.listdir(folder), names)
    for name in names:
      self.assertIn(os.path.join(folder, name), output)
    mesh = estimator_mp.Mesh.create("stage:2")
    saved = placement_file.load_placement(folder, mesh)
    self.assertEqual(saved.ops["first/kernel"], 1)
    facts = json.loads(pathlib.Path(folder, "placement.json").read_text())
    self.assertLen(facts["costs"], 2)
    self.assertGreater(facts["costs"][1]["flops"], 0)

  @parameterized.named_parameters(
    (
      "unknown_flag",
      ["--mash=stage:2"],
      "--mash is not a flag; did you mean --mesh? --help lists the flags",
    ),
    (
      "mesh",
      ["--mesh=stage:x"],
      "mesh 'stage:x'",
    ),
    (
      "too_many_stages",
      ["--mesh=stage:9"],
      "the model has 4 layer(s) with weights, fewer than the 9 stages of the "
      "mesh; use at most stage:4",
    ),
    (
      "memory_limit",
      ["--memory_limit=0"],
      "--memory_limit=0 is too small; use 1 or more",
    ),
    (
      "memory_limit_of_no_partition",
      ["--memory_limit=1000"],
      "memory_limit=1000 bytes is too small: cut into 3 stages the model needs "
      "at least ",
    ),
    (
      "placement_word",
      ["--placement=best"],
      "placement='best' is unknown; use \"auto\", rules such as ",
    ),
    (
      "placement_json",
      ['--placement=[["a", 0]'],
      '--placement=[["a", 0] is no JSON (Expecting',
    ),
    (
      "placement_rule",
      ['--placement=[["^block1/", 0], ["none", 1]]'],
      "placement rule ('none', 1) matches no variable or op of the model; its "
      "variables are such as ",
    ),
    (
      "labels_alone",
      ["--labels=int32[?]"],
      "--labels is given without --model_fn; say which model it is for, such "
      "as --model_fn=my_model:model_fn",
    ),
    (
      "no_features",
      ["--model_fn=their_program:model_fn"],
      "--model_fn=their_program:model_fn needs --features: what its input_fn "
      "returns, such as --features='x:float32[?,10]'",
    ),
    (
      "features",
      ["--model_fn=their_program:model_fn", "--features=x"],
      "--features=x: 'x' is no name:dtype[dimensions]; write it like ",
    ),
    (
      "params",
      ["--model_fn=a:b", "--features=f:bool[]", "--params=[1]"],
      '--params=[1] is no JSON object; write it like {"units": 64}',
    ),
    (
      "no_function",
      ["--model_fn=their_program", "--features=x:float32[?,10]"],
      "--model_fn=their_program is no module:function; write it like "
      "my_model:model_fn",
    ),
    (
      "no_module",
      ["--model_fn=absent_program:f", "--features=x:float32[?,10]"],
      "--model_fn=absent_program:f: there is no module absent_program in ",
    ),
    (
      "no_such_function",
      ["--model_fn=their_program:f", "--features=x:float32[?,10]"],
      "--model_fn=their_program:f: module their_program has no function f; it "
      "has model_fn, no_spec",
    ),
    (
      "a_number",
      ["--model_fn=their_program:number", "--features=x:float32[?,10]"],
      "--model_fn=their_program:number: module their_program has something "
      "else than a function number; it has model_fn, no_spec",
    ),
    (
      "broken_module",
      ["--model_fn=broken_program:f", "--features=x:float32[?,10]"],
      "importing broken_program raised ZeroDivisionError: division by zero (",
    ),
    (
      "missing_feature",
      ["--model_fn=their_program:model_fn", "--features=y:float32[?,10]"],
      "--model_fn=their_program:model_fn raised KeyError: 'x' (",
    ),
    (
      "no_labels_wanted",
      [
        "--model_fn=their_program:no_spec",
        "--features=x:float32[?,10]",
        "--labels=int32[?]",
      ],
      "model_fn takes no labels, but labels were given; leave them out",
    ),
    (
      "no_spec",
      ["--model_fn=their_program:no_spec", "--features=x:float32[?,10]"],
      "--model_fn=their_program:no_spec returned 5; a model_fn returns an "
      "EstimatorSpec",
    ),
  )
  def test_bad_use_is_one_line_and_exit_code_2(self, arguments, message):
    code, output, errors = run_main(*arguments)
    self.assertEqual((code, output), (2, ""))
    self.assertStartsWith(errors, f"inspect: {message}")
    self.assertLen(errors.splitlines(), 1)

  def test_help_names_every_flag(self):
    with (
      self.assertRaises(SystemExit) as caught,
      contextlib.redirect_stdout(io.StringIO()) as output,
    ):
      inspect.main(["inspect", "--help"])
    self.assertEqual(caught.exception.code, 0)
    for name in ("model_fn", "features", "placement=auto", "mesh=stage:3"):
      self.assertIn(f"\n  --{name}\n", output.getvalue())


class GuideTest(absltest.TestCase):
  def test_every_command_of_the_guide_runs(self):
    root = pathlib.Path(__file__).parents[2]
    guide = (root / "docs" / "inspect.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", guide, re.S)
    folder = pathlib.Path(self.create_tempdir().full_path)
    (folder / "my_model.py").write_text(program)
    joined = guide.replace("\\\n", " ")
    commands = re.findall(r"^    .*estimator_mp[:.]inspect(.*)", joined, re.M)
    self.assertLen(commands, 4)
    with mock.patch.dict(os.environ, BUILD_WORKING_DIRECTORY=str(folder)):
      for command in commands:
        arguments = [x for x in shlex.split(command) if x != "--"]
        code, output, errors = run_main(*arguments)
        self.assertEqual((code, errors), (0, ""), command)
        self.assertIn("sent between devices each training step: ", output)
    self.assertTrue((folder / "docs" / "pictures" / "placement.png").exists())
    self.assertIn("](pictures/placement.png)", guide)


class ProcessTest(absltest.TestCase):
  def test_without_flags_it_shows_this_projects_model(self):
    """Its file is called inspect.py, and inspect still is Python's."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
      [sys.executable, "-m", "estimator_mp.inspect"],
      env=environment,
      capture_output=True,
      text=True,
      check=False,
    )
    self.assertEqual(done.returncode, 0, done.stderr)
    self.assertContainsInOrder(
      [
        "cifar10_cnn on stage:3",
        "stage  device",
        "0      /device:CPU:0  block1/conv1",
        "2      /device:CPU:2  block3/logits",
        "sent between devices each training step: ",
      ],
      done.stdout,
    )


if __name__ == "__main__":
  absltest.main()
