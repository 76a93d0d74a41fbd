"""What others get of a split model: checkpoints and SavedModels, as plain."""

import functools
import os

import estimator_mp
from tests import tiers
from tests.estimator_mp import parts, runs

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized
from tensorflow.core.protobuf import saved_model_pb2

v1 = tf.compat.v1
_X = np.random.RandomState(5).randn(24, 6).astype(np.float32)
_RULES = [("^up/kernel", 1), ("^down/kernel", 0)]


def _input_fn():
  labels = (_X[:, :1] > 0).astype(np.float32)
  return tf.data.Dataset.from_tensor_slices(({"x": _X}, labels)).batch(12)


def _model_fn(features, labels, mode):
  net = tf.nn.tanh(v1.layers.dense(features["x"], 7, name="up"))
  logits = v1.layers.dense(net, 1, name="down")
  if mode == tf.estimator.ModeKeys.PREDICT:
    return tf.estimator.EstimatorSpec(mode, predictions={"logits": logits})
  loss = parts.mean_loss(labels, logits)
  v1.losses.add_loss(loss)
  return parts.spec(mode, loss, v1.train.AdamOptimizer(0.1))


def _serving_input_fn():
  x = v1.placeholder(tf.float32, [None, 6], name="x")
  return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})


def _config(**fields):
  return estimator_mp.ShardingConfig("model:2", split=_RULES, **fields)


def _facts(path):
  """Returns the names of variables, and the devices, of a SavedModel."""
  with open(os.path.join(path, "saved_model.pb"), "rb") as file:
    model = saved_model_pb2.SavedModel.FromString(file.read())
  (meta_graph,) = model.meta_graphs
  nodes = meta_graph.graph_def.node
  names = {node.name for node in nodes if node.op == "VarHandleOp"}
  return names, {node.device for node in nodes}


def _served(path, num_cpus=1):
  """Returns the logits of a SavedModel in a session of its own."""
  config = v1.ConfigProto(device_count={"CPU": num_cpus})
  with tf.Graph().as_default(), v1.Session(config=config) as session:
    loaded = v1.saved_model.load(session, ["serve"], path)
    signature = loaded.signature_def["serving_default"]
    return session.run(
      signature.outputs["logits"].name, {signature.inputs["x"].name: _X}
    )


class SavedModelTest(parameterized.TestCase):
  def _trained(self, config):
    folder = self.create_tempdir().full_path
    model_fn = estimator_mp.shard_model_fn(_model_fn, config)
    estimator = runs.make_estimator(model_fn, config, None, folder)
    estimator.train(_input_fn, steps=2)
    self.assertIn("up/kernel", estimator.get_variable_names())
    return estimator, runs.predict(estimator, _input_fn), folder

  @parameterized.named_parameters(
    ("split", _config(export_shards=True), 2),
    *tiers.sample(
      [
        ("plain", _config()),
        (
          "stages",
          estimator_mp.ShardingConfig("stage:2", export_shards=True),
        ),
      ]
    ),
  )
  def test_it_is_the_plain_models_or_keeps_the_split(
    self, config, num_devices=1
  ):
    estimator, expected, folder = self._trained(config)
    if num_devices > 1:
      export = functools.partial(estimator_mp.export_saved_model, estimator)
    else:
      export = estimator.export_saved_model
    path = tf.compat.as_str(export(folder, _serving_input_fn))
    names, devices = _facts(path)
    if num_devices == 1:
      self.assertEqual(
        names,
        {"up/kernel", "up/bias", "down/kernel", "down/bias", "global_step"},
      )
      self.assertEqual(devices, {""})
    else:
      self.assertContainsSubset({"up/kernel/part_0", "up/kernel/part_1"}, names)
      self.assertContainsSubset({"/device:CPU:0", "/device:CPU:1"}, devices)
    served = _served(path, num_devices)
    np.testing.assert_allclose(served, expected, rtol=1e-5, atol=1e-6)


class CheckpointTest(parameterized.TestCase):
  def _train(self, estimator, config, steps):
    if config is not None:
      estimator = estimator_mp.shard_estimator(estimator, config)
    estimator.train(lambda: _input_fn().repeat(), steps=steps)
    return runs.variables_of(estimator.model_dir)

  def _canned(self, folder):
    column = tf.feature_column.numeric_column("x", [6])
    return v1.estimator.DNNClassifier(
      [8, 5],
      [column],
      folder,
      optimizer=v1.train.AdagradOptimizer(0.1),
      config=tf.estimator.RunConfig(folder, tf_random_seed=3),
    )

  @tiers.slow
  def test_variables_that_the_model_partitions_keep_their_names(self):
    """DNNClassifier's kernels are partitioned, into one: they have a slice."""
    split = [("hiddenlayer_0/kernel", 1), ("hiddenlayer_1/kernel", 0)]
    config = estimator_mp.ShardingConfig("model:2", split=split)
    folders = [self.create_tempdir().full_path for _ in range(2)]
    plain, sharded = (self._canned(folder) for folder in folders)
    expected = self._train(plain, None, 3)
    found = self._train(sharded, config, 3)
    self.assertCountEqual(found, expected)
    for name, value in expected.items():
      np.testing.assert_allclose(
        found[name], value, rtol=1e-4, atol=1e-6, err_msg=name
      )
    # The plain one goes on where the other one was.
    again = self._train(self._canned(folders[1]), None, 1)
    expected = self._train(self._canned(folders[0]), None, 1)
    for name, value in expected.items():
      np.testing.assert_allclose(
        again[name], value, rtol=1e-4, atol=1e-6, err_msg=name
      )


if __name__ == "__main__":
  absltest.main()
