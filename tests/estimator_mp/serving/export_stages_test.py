"""Stages that were exported give, one after the other, what the model gives."""

import functools
import glob
import os
import shutil
import tempfile

import estimator_mp
from estimator_mp.serving import export_stages, pipeline_file
from tests import tiers
from tests.estimator_mp.serving import chains, served_models

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized
from tensorflow.core.protobuf import saved_model_pb2

v1 = tf.compat.v1
_SIZES = (served_models.EXAMPLES, 1, 3)
_FAST = ("skip_to_and_fro", "outputs", "ragged")


def setUpModule():
  tf.get_logger().setLevel("FATAL")


@functools.cache
def _start(name):
  folder = tempfile.mkdtemp(dir=absltest.get_default_test_tmpdir())
  chains.trained(served_models.MODELS[name], folder)
  return folder


def _trained(name, folder, model=None):
  """Returns an Estimator in a copy of the folder where a model was trained.

  Args:
    name: The model's name.
    folder: The copy.
    model: What goes on from the checkpoint; by default, the model itself.
  """
  shutil.copytree(_start(name), folder, dirs_exist_ok=True)
  return chains.made(model or served_models.MODELS[name], folder)


class EqualityTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def _check(self, name, trained=_trained):
    model = served_models.MODELS[name]
    estimator = trained(name, self.folder)
    requests = [
      {x: served_models.FEATURES[x][:size] for x in model.inputs}
      for size in _SIZES
    ]
    receiver_fn = served_models.receiver_fn(*model.inputs)
    return chains.check(self, estimator, receiver_fn, self.folder, requests)

  @parameterized.parameters(*(_FAST if tiers.FAST else served_models.MODELS))
  def test_equal(self, name):
    self._check(name)

  def test_v1_loops(self):
    model = served_models.MODELS["loops"]
    with served_models.v1_control_flow():
      self._check("loops", lambda _, folder: chains.trained(model, folder))


class StagesTest(absltest.TestCase):
  """What is in a stage, and who sends what to whom."""

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def _exported(self, name):
    model = served_models.MODELS[name]
    path = export_stages.export_stages(
      _trained(name, self.folder),
      self.folder,
      served_models.receiver_fn(*model.inputs),
    )
    return path, pipeline_file.read(path)

  def test_a_stage_has_its_variables_alone(self):
    path, pipeline = self._exported("mlp")
    names = [("a/bias", "a/kernel"), ("b/bias", "b/kernel")]
    names.append(("c/bias", "c/kernel"))
    self.assertEqual([x.variables for x in pipeline.stages], names)
    for stage, expected in zip(pipeline.stages, names, strict=True):
      folder = os.path.join(path, stage.folder)
      saved = tf.train.list_variables(f"{folder}/variables/variables")
      self.assertEqual(tuple(name for name, _ in saved), expected)
      (nodes,) = (x.graph_def.node for x in _read(folder).meta_graphs)
      made = {x.name for x in nodes if x.op == "VarHandleOp"}
      self.assertEqual(tuple(sorted(made)), expected)
    self.assertEqual(pipeline.checkpoint_step, 2)
    self.assertCountEqual(
      os.listdir(path), ["pipeline.json", "stage_0", "stage_1", "stage_2"]
    )
    self.assertEmpty(glob.glob(f"{self.folder}/tmp-*"))

  def test_the_identity_follows_from_the_values(self):
    model = served_models.MODELS["tables"]
    estimator = _trained("tables", self.folder)
    receiver_fn = served_models.receiver_fn(*model.inputs)

    def identity():
      path = export_stages.export_stages(estimator, self.folder, receiver_fn)
      return pipeline_file.read(path).identity

    first = identity()
    self.assertEqual(identity(), first)
    words = os.path.join(self.folder, "words.txt")
    with open(words, encoding="utf-8") as file:
      lines = file.read().splitlines()
    with open(words, "w", encoding="utf-8") as file:
      file.write("\n".join(reversed(lines)) + "\n")
    self.assertNotEqual(identity(), first)

  def test_what_is_skipped_over_is_not_copied_through(self):
    _, pipeline = self._exported("skip")
    steps = pipeline.signatures["serving_default"].steps
    self.assertEqual([x.stage for x in steps], [0, 1, 2])
    self.assertEqual([*steps[1].inputs], ["a/Tanh:0"])
    sources = {(x.step, x.name) for x in steps[2].inputs.values()}
    self.assertEqual(sources, {(0, "a/Tanh:0"), (1, "b/Tanh:0"), (None, "ids")})

  def test_each_stage_that_reads_a_variable_has_it(self):
    _, pipeline = self._exported("tied")
    has_table = ["a/table" in x.variables for x in pipeline.stages]
    self.assertEqual(has_table, [True, False, True])
    sent = [
      spec.shape
      for step in pipeline.signatures["serving_default"].steps
      for spec in step.outputs.values()
    ]
    self.assertNotIn((9, 5), sent)

  def test_only_the_stage_of_a_table_has_its_file(self):
    path, _ = self._exported("tables")
    os.remove(os.path.join(self.folder, "words.txt"))
    os.rename(path, f"{self.folder}/moved")
    path = f"{self.folder}/moved"
    name = chains.Chain(path).run("serving_default", {"word": ["ulm", "?"]})[
      "name"
    ]
    self.assertContainsSubset(name, [b"no", b"maybe", b"yes"])
    assets = {os.path.relpath(x, path) for x in glob.glob(f"{path}/*/assets/*")}
    self.assertEqual(
      assets, {"stage_0/assets/words.txt", "stage_2/assets/names.txt"}
    )

  def test_data_may_visit_a_stage_again(self):
    with self.assertLogs("tensorflow", "WARNING") as logs:
      _, pipeline = self._exported("skip_to_and_fro")
    self.assertRegex(
      " ".join(logs.output),
      r"serving_default visits stages again, .*: \[0, 1, 0\]. The first of "
      "them is stage 0, such as for c/",
    )
    steps = pipeline.signatures["serving_default"].steps
    self.assertEqual(
      [(x.stage, x.signature) for x in steps],
      [
        (0, "serving_default"),
        (1, "serving_default"),
        (0, "serving_default_visit_2"),
      ],
    )
    self.assertLen(pipeline.stages, 2)

  def test_a_signature_visits_the_stages_that_it_needs(self):
    _, pipeline = self._exported("heads")
    stages = {
      name: [x.stage for x in signature.steps]
      for name, signature in pipeline.signatures.items()
    }
    self.assertEqual(
      stages,
      {"early": [0], "serving_default": [0, 1, 2]},
    )

  def test_other_programs_load_a_stage(self):
    """TensorFlow 2's loader has each variable of it, as a variable."""
    path, _ = self._exported("skip")
    loaded = tf.saved_model.load(os.path.join(path, "stage_0"))
    names = [variable.name for variable in loaded.variables]
    self.assertCountEqual(names, ["a/kernel:0", "a/bias:0"])
    x = served_models.X
    (found,) = loaded.signatures["serving_default"](x=tf.constant(x)).values()
    kernel, bias = sorted(loaded.variables, key=lambda v: -v.shape.rank)
    expected = np.tanh(x @ kernel.numpy() + bias.numpy())
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


class ConfigTest(parameterized.TestCase):
  """Other ways to shard, and to receive."""

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("one_stage", {"mesh": "model:2"}),
        ("whole", {"mesh": "stage:2,model:2"}),
        ("shards", {"mesh": "stage:2,model:2", "export_shards": True}),
        (
          "rows",
          {
            "mesh": "stage:2,model:2",
            "export_shards": True,
            "split": [("table", "mod")],
          },
        ),
        ("tables", {"mesh": "data:2", "split": [("table", "div")]}),
        (
          "tables_in_shards",
          {
            "mesh": "data:2",
            "split": [("table", "div")],
            "export_shards": True,
          },
        ),
        ("micro_batches", {"mesh": "data:2,stage:2", "num_micro_batches": 2}),
      ]
    )
  )
  def test_equal(self, config):
    model = served_models.Model(
      served_models.tied, ("ids",), "auto", {"mesh": "stage:2", **config}
    )
    estimator = chains.trained(model, self.folder)
    requests = [{"ids": served_models.IDS[:n]} for n in _SIZES]
    receiver_fn = served_models.receiver_fn("ids")
    stages = chains.check(self, estimator, receiver_fn, self.folder, requests)
    if config.get("export_shards"):
      self.assertIn(2, [x.devices for x in stages.pipeline.stages])

  def test_virtual_stages(self):
    config = {"num_micro_batches": 2, "schedule": "interleaved"}
    model = served_models.Model(
      served_models.deep,
      placement="auto",
      config={"mesh": "stage:2", "num_virtual_stages": 2, **config},
    )
    estimator = chains.trained(model, self.folder)
    requests = [{"x": served_models.X[:n]} for n in _SIZES]
    receiver_fn = served_models.receiver_fn("x")
    stages = chains.check(self, estimator, receiver_fn, self.folder, requests)
    self.assertLen(stages.pipeline.stages, 4)

  @tiers.slow
  def test_a_canned_estimator_with_serialized_examples(self):
    columns = tf.feature_column
    words = columns.categorical_column_with_vocabulary_list("word", ["ulm"])
    features = [
      columns.numeric_column("x", 6),
      columns.embedding_column(words, 3),
    ]
    config = estimator_mp.ShardingConfig("stage:2")
    estimator = estimator_mp.shard_estimator(
      tf.estimator.DNNClassifier([5, 5, 4], features, f"{self.folder}/model"),
      config,
    )
    estimator.train(_classes, steps=2)
    spec = columns.make_parse_example_spec(features)
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
    examples = np.array([_example(k) for k in range(7)], object)
    requests = [
      {"examples": examples[:n], "inputs": examples[:n]} for n in _SIZES
    ]
    stages = chains.check(self, estimator, receiver, self.folder, requests)
    self.assertGreater(len(stages.pipeline.signatures), 2)

  def test_features_that_may_be_fed_in_two_ways(self):
    def receiver_fn():
      text = v1.placeholder(tf.string, [None], name="text")
      parsed = tf.strings.to_number(tf.strings.split(text, ",").to_tensor())
      parsed.set_shape([None, 6])
      features = {"x": parsed, "ids": tf.cast(parsed[:, :4], tf.int64)}
      return tf.estimator.export.ServingInputReceiver(
        features, {"text": text}, {"raw": {"x": parsed}}
      )

    x = np.round(served_models.X, 3)
    text = [",".join(map(str, row)).encode() for row in x]
    requests = [
      {"text": np.array(text, object)[:n], "x": x[:n]} for n in _SIZES
    ]
    estimator = _trained("skip", self.folder)
    stages = chains.check(self, estimator, receiver_fn, self.folder, requests)
    signatures = stages.pipeline.signatures
    self.assertLen(signatures, 2)
    # The text is taken apart where it is read first.
    for signature in signatures.values():
      self.assertEqual([x.stage for x in signature.steps], [0, 1, 2])


def _count(output):
  step = v1.train.get_global_step()
  with tf.control_dependencies([v1.assign_add(step, 1)]):
    return {"output": tf.identity(output)}


class RefusedTest(parameterized.TestCase):
  """What would not be the whole model is refused, in one line."""

  def _export(self, predict, receiver_fn=None):
    folder = self.create_tempdir().full_path

    def model_fn(features, labels, mode):
      spec = served_models.mlp(features, labels, mode)
      if mode != tf.estimator.ModeKeys.PREDICT:
        return spec
      predictions = predict(spec.predictions["output"])
      return tf.estimator.EstimatorSpec(mode, predictions)

    model = served_models.Model(model_fn)
    estimator = _trained("mlp", folder, model)
    try:
      export_stages.export_stages(
        estimator, folder, receiver_fn or served_models.receiver_fn("x")
      )
    finally:
      left = ["model", "names.txt", "words.txt"]
      self.assertCountEqual(os.listdir(folder), left)

  @parameterized.parameters(
    (_count, r"^AssignAdd\w* \(Assign\w+\) changes global_step while the"),
    (
      lambda y: {"y": v1.py_func(lambda x: x, [y], tf.float32)},
      r"\(PyFunc\w*\) runs a Python function, which no other pro",
    ),
    (
      lambda y: {"x": y.graph.get_tensor_by_name("x:0")},
      "^the model's predictions are its inputs, so that no stage",
    ),
  )
  def test_a_prediction(self, predict, message):
    with self.assertRaisesRegex(ValueError, message):
      self._export(predict)

  def test_a_branch_on_several_stages(self):
    def predict(output):
      def branch():
        with v1.name_scope("a/"):
          net = tf.tanh(output)
        with v1.name_scope("c/"):
          return tf.exp(net)

      is_large = tf.reduce_sum(output, name="c/sum") > 0
      return {"output": v1.cond(is_large, branch, lambda: tf.exp(output))}

    with (
      served_models.v1_control_flow(),
      self.assertRaisesRegex(
        ValueError, r"is in a loop or a branch that spans several stages"
      ),
    ):
      self._export(predict)

  def test_a_sparse_tensor_of_the_caller(self):
    def receiver_fn():
      x = v1.sparse_placeholder(tf.float32, [None, 6], name="sparse")
      features = {"x": tf.ensure_shape(tf.sparse.to_dense(x), [None, 6])}
      return tf.estimator.export.ServingInputReceiver(features, {"x": x})

    with self.assertRaisesRegex(
      ValueError,
      "^x of the signature serving_default is not a dense tensor, and",
    ):
      self._export(lambda output: {"output": output}, receiver_fn)

  def test_a_model_that_is_not_sharded(self):
    folder = self.create_tempdir().full_path
    estimator = tf.estimator.Estimator(served_models.mlp, folder)
    receiver_fn = served_models.receiver_fn("x")
    with self.assertRaisesRegex(ValueError, " has no checkpoint, and stages "):
      export_stages.export_stages(estimator, folder, receiver_fn)
    estimator.train(served_models.input_fn, steps=1)
    with self.assertRaisesRegex(ValueError, "of a sharded model, but nothing"):
      export_stages.export_stages(estimator, folder, receiver_fn)


def _read(folder):
  with open(os.path.join(folder, "saved_model.pb"), "rb") as file:
    return saved_model_pb2.SavedModel.FromString(file.read())


def _classes():
  features = {"x": served_models.X, "word": served_models.WORDS.astype(bytes)}
  labels = served_models.LABELS.astype(np.int64)
  return tf.data.Dataset.from_tensor_slices((features, labels)).batch(4)


def _example(row):
  feature = tf.train.Feature
  x = feature(float_list=tf.train.FloatList(value=served_models.X[row]))
  word = feature(
    bytes_list=tf.train.BytesList(value=[served_models.WORDS[row]])
  )
  features = tf.train.Features(feature={"x": x, "word": word})
  return tf.train.Example(features=features).SerializeToString()


if __name__ == "__main__":
  absltest.main()
