"""What Estimator programs use beside model_fn goes on working when sharded."""

import os

import estimator_mp
from tests import tiers
from tests.estimator_mp import runs
from tests.estimator_mp.models import catalogue, data, networks

import numpy as np
import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1
MODEL = catalogue.MODELS["mlp_adam"]
CONFIG = estimator_mp.ShardingConfig("stage:3")


def _serving_input_receiver_fn():
  receivers = {"x": v1.placeholder(tf.float32, [None, 10], "x")}
  return tf.estimator.export.ServingInputReceiver(receivers, receivers)


def _sharded(model_fn, folder, params=None, **run_config):
  return runs.make_estimator(
    estimator_mp.shard_model_fn(model_fn, CONFIG),
    CONFIG,
    params,
    folder,
    **run_config,
  )


def _serve(path, inputs):
  """Loads a SavedModel in a session with one CPU; returns logits, devices."""
  with tf.Graph().as_default() as graph, v1.Session() as session:
    loaded = v1.saved_model.load(session, ["serve"], tf.compat.as_str(path))
    signature = loaded.signature_def["serving_default"]
    logits = session.run(
      signature.outputs["logits"].name, {signature.inputs["x"].name: inputs}
    )
    devices = {op.device for op in graph.get_operations()}
  return logits, devices


class ExportTest(absltest.TestCase):
  def test_estimator_exports_what_one_plain_cpu_serves(self):
    folder = self.create_tempdir().full_path
    estimator = _sharded(MODEL.model_fn, folder, MODEL.params)
    estimator.train(lambda: data.input_fn().repeat(), steps=2)
    path = estimator.export_saved_model(
      os.path.join(folder, "export"), _serving_input_receiver_fn
    )
    # The first batch as input_fn makes it: other sizes round differently.
    logits, devices = _serve(path, data.FEATURES["x"][:25])
    self.assertEqual(devices, {""})
    predicted = runs.predict(estimator)[:25]
    np.testing.assert_allclose(logits, predicted, rtol=1e-6, atol=1e-7)

  def test_exporters_of_train_and_evaluate_do_too(self):
    folder = self.create_tempdir().full_path
    estimator = _sharded(MODEL.model_fn, folder, MODEL.params)
    exporter = tf.estimator.FinalExporter("final", _serving_input_receiver_fn)
    tf.estimator.train_and_evaluate(
      estimator,
      tf.estimator.TrainSpec(lambda: data.input_fn().repeat(), max_steps=3),
      tf.estimator.EvalSpec(data.input_fn, steps=None, exporters=exporter),
    )
    (name,) = os.listdir(os.path.join(folder, "export", "final"))
    _, devices = _serve(
      os.path.join(folder, "export", "final", name), data.FEATURES["x"]
    )
    self.assertEqual(devices, {""})

  def test_a_mesh_by_hand_is_cleared_by_export_saved_model(self):
    mesh = CONFIG.create_mesh()

    def model_fn(features, labels, mode):
      with mesh.stage(2):
        logits = v1.layers.dense(features["x"], 1)
      loss = None if labels is None else tf.reduce_mean(logits)
      train_op = None
      if mode == networks.TRAIN:
        train_op = MODEL.params["train"](loss)
      return tf.estimator.EstimatorSpec(
        mode, {"logits": logits}, loss, train_op
      )

    folder = self.create_tempdir().full_path
    estimator = runs.make_estimator(model_fn, CONFIG, None, folder)
    estimator.train(lambda: data.input_fn().repeat(), steps=1)
    base = os.path.join(folder, "export")
    path = estimator_mp.export_saved_model(
      estimator, base, _serving_input_receiver_fn
    )
    _, devices = _serve(path, data.FEATURES["x"])
    self.assertEqual(devices, {""})


class HooksTest(absltest.TestCase):
  @tiers.slow
  def test_hooks_scaffold_summaries_and_warm_start(self):
    calls = []

    class Fetcher(tf.estimator.SessionRunHook):
      def before_run(self, run_context):
        return tf.estimator.SessionRunArgs("dense_1/Relu:0")

      def after_run(self, run_context, run_values):
        calls.append(run_values.results.shape)

    def model_fn(features, labels, mode, params):
      spec = networks.mlp(features, labels, mode, params)
      if mode != networks.TRAIN:
        return spec
      scaffold = v1.train.Scaffold(
        init_fn=lambda scaffold, session: calls.append("init_fn")
      )
      return spec._replace(
        scaffold=scaffold,
        training_chief_hooks=[Fetcher()],
        training_hooks=[
          tf.estimator.LoggingTensorHook({"loss": spec.loss}, every_n_iter=1)
        ],
      )

    first = self.create_tempdir().full_path
    estimator = _sharded(model_fn, first, MODEL.params, save_summary_steps=1)
    estimator.train(lambda: data.input_fn().repeat(), steps=2)
    self.assertEqual(calls, ["init_fn", (25, 16), (25, 16)])
    tags = {
      value.tag
      for name in os.listdir(first)
      if "tfevents" in name
      for event in v1.train.summary_iterator(os.path.join(first, name))
      for value in event.summary.value
    }
    self.assertContainsSubset({"loss", "mean_logit"}, tags)

    second = self.create_tempdir().full_path
    warm = tf.estimator.Estimator(
      estimator_mp.shard_model_fn(networks.mlp, CONFIG),
      config=estimator_mp.run_config(CONFIG, model_dir=second),
      params=MODEL.params | {"train": networks.OPTIMIZERS["sgd"]},
      warm_start_from=first,
    )
    recorder = runs.LossRecorder()
    warm.train(lambda: data.input_fn().repeat(), steps=1, hooks=[recorder])
    plain = tf.estimator.Estimator(
      networks.mlp,
      model_dir=self.create_tempdir().full_path,
      params=warm.params,
      warm_start_from=first,
    )
    expected = runs.LossRecorder()
    plain.train(lambda: data.input_fn().repeat(), steps=1, hooks=[expected])
    self.assertEqual(recorder.losses, expected.losses)

  def test_params_that_model_fn_does_not_take_are_refused(self):
    with self.assertRaisesRegex(
      ValueError, "model_fn .* does not include para"
    ):
      _sharded(networks.cnn, self.create_tempdir().full_path, {"rate": 1})


if __name__ == "__main__":
  absltest.main()
