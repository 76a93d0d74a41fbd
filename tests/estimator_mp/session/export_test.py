"""Export: which Savers clear devices, and how a SavedModel loses its own."""

import os

from estimator_mp.session import export

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


class SaverTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.graph = self.enter_context(tf.Graph().as_default())

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

  @parameterized.parameters(_MODES.TRAIN, _MODES.EVAL)
  def test_other_modes_stay_as_they_are(self, mode):
    spec = _spec(mode)
    self.assertIs(export.with_deviceless_export(spec), spec)

  def test_a_model_without_variables_stays_as_it_is(self):
    spec = _spec(_MODES.PREDICT, has_variable=False)
    self.assertIs(export.with_deviceless_export(spec), spec)

  def test_a_saver_of_the_models_own_is_kept(self):
    spec = _spec(_MODES.PREDICT)
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
    with self.assertRaisesWithLiteralMatch(
      FileNotFoundError,
      f"{folder} holds no saved_model.pb; give the folder of a SavedModel",
    ):
      export.clear_devices(folder)


if __name__ == "__main__":
  absltest.main()
