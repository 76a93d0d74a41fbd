"""Packages from PyPI that stopped at TensorFlow 2.15 or before run unedited.

The packages are no dependencies of this repository: pip puts them into a
folder, without theirs.

The losses below were recorded on TensorFlow 2.15.1, with its own tf.estimator.
"""

import os
from unittest import mock

import compat
from tests.compat.packages import installed

from absl.testing import absltest, parameterized

compat.install(contrib=True)
installed.add_to_path()
import numpy as np  # noqa: E402
import requests  # noqa: E402
import tensorflow as tf  # noqa: E402
import tensorflow.compat.v1 as tf1  # noqa: E402

# deepctr asks the network for newer versions of itself when it is imported.
with mock.patch.object(requests, "get", side_effect=OSError("no network")):
  from deepctr.estimator import DeepFMEstimator, xDeepFMEstimator
from bert import modeling, run_classifier  # noqa: E402

_RELATIVE = 1e-4


def _run_config(kind=tf.estimator.RunConfig, **kwargs):
  return kind(
    tf_random_seed=9,
    session_config=tf1.ConfigProto(allow_soft_placement=False),
    **kwargs,
  )


class MeshTensorflowTest(absltest.TestCase):
  def test_matrix_product_on_two_devices(self):
    """mesh_tensorflow splits a product over a mesh of two CPUs."""
    if tf.__version__.startswith("2.15"):
      self.skipTest("mesh_tensorflow 0.1.21 needs TensorFlow < 2.15 by itself")
    import mesh_tensorflow as mtf

    a = np.random.RandomState(1).normal(size=(4, 6)).astype(np.float32)
    b = np.random.RandomState(2).normal(size=(6, 2)).astype(np.float32)
    rows, inner, columns = (
      mtf.Dimension(name, size)
      for name, size in (("rows", 4), ("inner", 6), ("columns", 2))
    )
    config = tf1.ConfigProto(device_count={"CPU": 2})
    with tf.Graph().as_default(), tf1.Session(config=config) as session:
      graph = mtf.Graph()
      mesh = mtf.Mesh(graph, "mesh")
      fed = tf1.placeholder_with_default(a, a.shape)
      left = mtf.import_tf_tensor(mesh, fed, [rows, inner])
      right = mtf.import_tf_tensor(mesh, b, [inner, columns])
      product = mtf.einsum([left, right], [rows, columns])
      implementation = mtf.placement_mesh_impl.PlacementMeshImpl(
        "all:2", "rows:all", ["/cpu:0", "/cpu:1"]
      )
      lowering = mtf.Lowering(graph, {mesh: implementation})
      found = session.run(lowering.export_to_tf_tensor(product))
    np.testing.assert_allclose(found, a @ b, rtol=1e-5)


class DeepCtrTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("deepfm", DeepFMEstimator, 38.888958),
    ("xdeepfm", xDeepFMEstimator, 35.464268),
  )
  def test_trains_to_the_loss_it_had(self, estimator, recorded):
    random = np.random.RandomState(3)
    item = random.randint(0, 20, 256)
    price = random.uniform(size=256).astype(np.float32)
    labels = ((item % 3 == 0) | (price > 0.8)).astype(np.float32)

    def input_fn():
      features = {"item": item, "price": price}
      data = tf.data.Dataset.from_tensor_slices((features, labels))
      return data.batch(64)

    items = tf.feature_column.categorical_column_with_identity("item", 20)
    prices = tf.feature_column.numeric_column("price")
    model = estimator(
      [items, prices],
      [tf.feature_column.embedding_column(items, 4), prices],
      dnn_hidden_units=(8, 4),
      config=_run_config(),
      model_dir=self.create_tempdir().full_path,
    )
    model.train(lambda: input_fn().repeat(), steps=40)
    metrics = model.evaluate(input_fn)
    self.assertEqual(metrics["global_step"], 40)
    np.testing.assert_allclose(metrics["loss"], recorded, rtol=_RELATIVE)


class BertTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    # It asks a dimension for its `value`; on 2.15 it needs this as well.
    tf1.disable_v2_tensorshape()
    self.addCleanup(tf1.enable_v2_tensorshape)

  def initial_checkpoint(self, config):
    """Writes a small BERT's first weights, the same on every TensorFlow."""
    path = os.path.join(self.create_tempdir().full_path, "bert.ckpt")
    with tf.Graph().as_default(), tf1.Session() as session:
      ids = tf1.placeholder_with_default(np.ones((2, 8), np.int32), (2, 8))
      run_classifier.create_model(
        config, False, ids, ids, ids, tf.constant([0, 1]), 2, False
      )
      variables = sorted(tf1.trainable_variables(), key=lambda v: v.op.name)
      random = np.random.RandomState(4)
      for variable in variables:
        value = random.normal(size=variable.shape) * 0.1
        if variable.op.name.endswith("gamma"):
          value += 1
        variable.load(value.astype(np.float32), session)
      tf1.train.Saver(variables).save(session, path)
    return path

  def test_classifier_trains_to_the_loss_it_had(self):
    """bert-tensorflow's run_classifier, by TPUEstimator(use_tpu=False)."""
    config = modeling.BertConfig(
      vocab_size=30,
      hidden_size=16,
      num_hidden_layers=2,
      num_attention_heads=2,
      intermediate_size=32,
      hidden_dropout_prob=0.0,
      attention_probs_dropout_prob=0.0,
      max_position_embeddings=8,
    )
    random = np.random.RandomState(5)
    features = []
    for _ in range(64):
      ids = random.randint(0, 30, 8).tolist()
      features.append(
        run_classifier.InputFeatures(ids, [1] * 8, [0] * 8, int(ids[0] > 14))
      )
    once = run_classifier.input_fn_builder(features, 8, False, True)
    model_fn = run_classifier.model_fn_builder(
      config,
      num_labels=2,
      init_checkpoint=self.initial_checkpoint(config),
      learning_rate=1e-3,
      num_train_steps=60,
      num_warmup_steps=6,
      use_tpu=False,
      use_one_hot_embeddings=False,
    )
    model = tf1.estimator.tpu.TPUEstimator(
      model_fn,
      use_tpu=False,
      train_batch_size=16,
      eval_batch_size=16,
      config=_run_config(
        tf1.estimator.tpu.RunConfig,
        model_dir=self.create_tempdir().full_path,
      ),
    )
    model.train(lambda params: once(params).repeat(), max_steps=60)
    metrics = model.evaluate(once, steps=4)
    self.assertGreater(metrics["eval_accuracy"], 0.8)
    np.testing.assert_allclose(
      metrics["eval_loss"], 0.0198515728, rtol=_RELATIVE
    )


if __name__ == "__main__":
  absltest.main()
