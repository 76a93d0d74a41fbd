"""Export: which Savers clear devices, and how a SavedModel loses its own."""

import functools
import os
import tempfile

import estimator_mp
from estimator_mp.session import export
from tests import tiers
from tests.estimator_mp import graph_case, parts

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized
from tensorflow.core.protobuf import saved_model_pb2

v1 = tf.compat.v1
_MODES = tf.estimator.ModeKeys


def _spec(mode, has_variable=True, scaffold=None):
  """Returns a spec in a graph with a variable on a device of a mesh."""
  with tf.device("/device:CPU:3"):
    x = tf.constant(1.0)
    if has_variable:
      x = x * v1.get_variable("weight", [])
  fields = {"loss": x, "train_op": x.op, "predictions": x}
  return tf.estimator.EstimatorSpec(mode, **fields, scaffold=scaffold)


class SaverTest(graph_case.GraphCase):
  def test_prediction_saves_without_devices(self):
    hook_op = tf.no_op("mine")
    scaffold = v1.train.Scaffold(ready_op=hook_op)
    spec = export.with_deviceless_export(
      _spec(_MODES.PREDICT, scaffold=scaffold)
    )
    self.assertIs(spec.scaffold.ready_op, hook_op)
    exported = spec.scaffold.saver.export_meta_graph()
    self.assertNotEmpty(exported.graph_def.node)
    self.assertEqual({node.device for node in exported.graph_def.node}, {""})

  @parameterized.parameters(
    (_MODES.TRAIN, True, False),
    (_MODES.EVAL, True, False),
    (_MODES.PREDICT, False, False),
    (_MODES.PREDICT, True, True),
  )
  def test_others_stay_as_they_are(self, mode, has_variable, has_saver):
    """Other modes, models without variables or with a Saver of their own."""
    spec = _spec(mode, has_variable)
    if has_saver:
      spec = spec._replace(scaffold=v1.train.Scaffold(saver=v1.train.Saver()))
    self.assertIs(export.with_deviceless_export(spec), spec)

  def test_a_tpu_spec_gets_a_function_that_makes_one(self):
    x = _spec(_MODES.PREDICT).predictions
    tpu_spec = v1.estimator.tpu.TPUEstimatorSpec
    spec = export.with_deviceless_export(
      tpu_spec(_MODES.PREDICT, predictions={"x": x})
    )
    saver = spec.scaffold_fn().saver
    devices = {node.device for node in saver.export_meta_graph().graph_def.node}
    self.assertEqual(devices, {""})
    own = tpu_spec(
      _MODES.PREDICT, predictions={"x": x}, scaffold_fn=v1.train.Scaffold
    )
    self.assertIs(export.with_deviceless_export(own), own)


def _model_fn(features, labels, mode):
  """A model that keeps what it was told of an export."""
  logits = v1.layers.dense(features["x"], 1)
  calls.append((mode, export.is_for_export()))
  predictions = {"y": logits}
  if mode == _MODES.PREDICT:
    return tf.estimator.EstimatorSpec(mode, predictions=predictions)
  loss = tf.reduce_mean((logits - labels) ** 2)
  return parts.spec(mode, loss, predictions=predictions)


def _input_fn():
  x = np.ones((4, 2), np.float32)
  data = tf.data.Dataset.from_tensor_slices(({"x": x}, x[:, :1]))
  return data.batch(2)


def _serving_input_fn():
  x = v1.placeholder(tf.float32, [None, 2], name="x")
  return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})


def _supervised_input_fn():
  x = v1.placeholder(tf.float32, [None, 2], name="x")
  y = v1.placeholder(tf.float32, [None, 1], name="y")
  kind = tf.estimator.experimental.build_raw_supervised_input_receiver_fn
  return kind({"x": x}, y)()


# What `_model_fn` was called for, and whether that was for an export.
calls: list[tuple[str, bool]] = []


def _two_layers(features, labels, mode):
  """The same values in each program: no seed decides about them."""
  ones = v1.ones_initializer()
  net = v1.layers.dense(features["x"], 3, tf.tanh, kernel_initializer=ones)
  net = v1.layers.dense(net, 1, kernel_initializer=ones, name="out")
  loss = tf.reduce_mean((net - labels) ** 2)
  return parts.spec(mode, loss, predictions={"y": net})


@functools.cache
def _losses(config):
  """Returns the losses of steps of an exported training graph."""
  folder = tempfile.mkdtemp(dir=absltest.get_default_test_tmpdir())
  model_fn = _two_layers
  made = tf.estimator.RunConfig(f"{folder}/model")
  if config is not None:
    model_fn = estimator_mp.shard_model_fn(_two_layers, config)
    made = estimator_mp.run_config(config, f"{folder}/model")
  estimator = tf.estimator.Estimator(model_fn, config=made)
  estimator.train(_input_fn, steps=1)
  exported = estimator.experimental_export_all_saved_models(
    folder, {_MODES.TRAIN: _supervised_input_fn}
  )
  # What keeps no shards is there for one device.
  num_cpus = 2 if config is not None and config.export_shards else 1
  on = v1.ConfigProto(device_count={"CPU": num_cpus})
  with tf.Graph().as_default() as graph, v1.Session(config=on) as session:
    loaded = v1.saved_model.load(session, ["train"], exported.decode())
    train = loaded.signature_def["train"]
    (loss,) = [x for key, x in train.outputs.items() if "loss" in key]
    train_op, *_ = graph.get_collection("saved_model_train_op")
    fetches = [graph.get_tensor_by_name(loss.name), train_op]
    rows = np.arange(6, dtype=np.float32).reshape(3, 2) / 7
    feed = {
      x.name: rows if x.tensor_shape.dim[1].size == 2 else rows[:, :1]
      for x in train.inputs.values()
    }
    return [session.run(fetches, feed)[0] for _ in range(3)]


_OF_TRAINING = [
  ("micro_batches", "stage:2", {"num_micro_batches": 2}),
  ("replicas_of_stages", "data:2,stage:2", {}),
  ("model_axis", "model:2", {"split": [("dense/kernel", 1)]}),
  (
    "shards",
    "model:2",
    {"split": [("dense/kernel", 1)], "export_shards": True},
  ),
  ("prefetching", "stage:2", {"prefetch_inputs": True}),
]
if not tiers.FAST:
  _OF_TRAINING += [("stages", "stage:2", {}), ("replicas", "data:2", {})]


class ExportedTrainingTest(tf.test.TestCase, parameterized.TestCase):
  """A training graph in a SavedModel is the plain model's, on one device."""

  @parameterized.named_parameters(*_OF_TRAINING)
  def test_steps_are_the_plain_model_s(self, mesh, options):
    losses = _losses(estimator_mp.ShardingConfig(mesh, **options))
    self.assertAllClose(losses, _losses(None), rtol=1e-6)
    self.assertLess(losses[2], losses[0])


class IsForExportTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    calls.clear()
    self.folder = self.create_tempdir().full_path

  def _trained(self, kind=tf.estimator.Estimator):
    estimator = kind(_model_fn, f"{self.folder}/model")
    estimator.train(_input_fn, steps=1)
    self.assertEqual(calls, [(_MODES.TRAIN, False)])
    calls.clear()
    return estimator

  @parameterized.named_parameters(
    tiers.sample(
      [("v1", v1.estimator.Estimator), ("now", tf.estimator.Estimator)]
    )
  )
  def test_methods(self, kind):
    estimator = self._trained(kind)
    estimator.evaluate(_input_fn)
    next(estimator.predict(_input_fn))
    estimator.export_saved_model(self.folder, _serving_input_fn)
    told = [(_MODES.EVAL, False), (_MODES.PREDICT, False)]
    self.assertEqual(calls, [*told, (_MODES.PREDICT, True)])
    if kind is v1.estimator.Estimator:  # It has the old name, too.
      estimator.export_savedmodel(self.folder, _serving_input_fn)
      self.assertEqual(calls[3:], [(_MODES.PREDICT, True)])

  def test_all_modes_may_be_exported(self):
    self._trained().experimental_export_all_saved_models(
      self.folder,
      {
        _MODES.TRAIN: _supervised_input_fn,
        _MODES.EVAL: _supervised_input_fn,
        _MODES.PREDICT: _serving_input_fn,
      },
    )
    modes = (_MODES.TRAIN, _MODES.EVAL, _MODES.PREDICT)
    self.assertEqual(calls, [(mode, True) for mode in modes])

  def test_an_exporter_while_training_goes_on(self):
    estimator = tf.estimator.Estimator(_model_fn, f"{self.folder}/model")
    exporter = tf.estimator.LatestExporter("latest", _serving_input_fn)
    tf.estimator.train_and_evaluate(
      estimator,
      tf.estimator.TrainSpec(_input_fn, max_steps=1),
      tf.estimator.EvalSpec(_input_fn, exporters=exporter),
    )
    self.assertIn((_MODES.PREDICT, True), calls)
    self.assertNotIn((_MODES.TRAIN, True), calls)
    self.assertNotIn((_MODES.EVAL, True), calls)

  def test_another_estimator_predicts_for_an_export(self):
    estimator = self._trained()

    def serving_input_fn():
      with tf.Graph().as_default():
        next(estimator.predict(_input_fn))
      return _serving_input_fn()

    estimator.export_saved_model(self.folder, serving_input_fn)
    self.assertEqual(calls, [(_MODES.PREDICT, False), (_MODES.PREDICT, True)])


class KeepDevicesTest(absltest.TestCase):
  def _exported(self, model_fn):
    folder = self.create_tempdir().full_path
    config = estimator_mp.run_config(
      estimator_mp.ShardingConfig("stage:2"), model_dir=folder
    )
    estimator = tf.estimator.Estimator(model_fn, config=config)
    estimator.train(_input_fn, steps=1)
    path = export.export_saved_model(estimator, folder, _serving_input_fn)
    with open(os.path.join(path, "saved_model.pb"), "rb") as file:
      model = saved_model_pb2.SavedModel.FromString(file.read())
    (meta_graph,) = model.meta_graphs
    return {node.device for node in meta_graph.graph_def.node}

  def test_a_graph_that_is_to_keep_them(self):
    def model_fn(features, labels, mode):
      with tf.device("/device:CPU:1"):
        spec = _model_fn(features, labels, mode)
      export.keep_devices()
      export.keep_devices()
      return export.with_deviceless_export(spec)

    self.assertIn("/device:CPU:1", self._exported(model_fn))

  def test_another_graph(self):
    def model_fn(features, labels, mode):
      with tf.device("/device:CPU:1"):
        return _model_fn(features, labels, mode)

    self.assertEqual(self._exported(model_fn), {""})


class ClearDevicesTest(absltest.TestCase):
  def test_of_ops_and_of_ops_in_functions(self):
    model = saved_model_pb2.SavedModel()
    graph = model.meta_graphs.add().graph_def
    graph.node.add(name="a", op="NoOp", device="/device:GPU:1")
    body = graph.library.function.add()
    body.node_def.add(name="b", op="NoOp", device="/device:CPU:0")
    folder = self.create_tempdir().full_path
    path = os.path.join(folder, "saved_model.pb")
    with open(path, "wb") as file:
      file.write(model.SerializeToString())
    export.clear_devices(folder)
    graph.node[0].device = body.node_def[0].device = ""
    with open(path, "rb") as file:
      self.assertEqual(
        saved_model_pb2.SavedModel.FromString(file.read()), model
      )

  def test_no_saved_model(self):
    folder = self.create_tempdir().full_path
    with self.assertRaisesRegex(FileNotFoundError, f"{folder} holds no "):
      export.clear_devices(folder)


if __name__ == "__main__":
  absltest.main()
