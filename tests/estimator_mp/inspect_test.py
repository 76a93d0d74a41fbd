"""Inspection: the partition of a model_fn, its costs and its picture."""

import pathlib

import estimator_mp
from estimator_mp import (
  amounts,
  drawing,
  input_spec,
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


if __name__ == "__main__":
  absltest.main()
