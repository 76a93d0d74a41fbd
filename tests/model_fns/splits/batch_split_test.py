"""batch_split gives what the plain model gives, from the same checkpoint."""

import itertools

import estimator_mp
from estimator_mp import toolbox
from model_fns import batch_split
from model_fns.splits import batch
from tests import tiers
from tests.estimator_mp import drawn
from tests.model_fns.splits import models

import hypothesis
import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized
from hypothesis import strategies


def function_tower(features):
  """The embedding model as one function."""
  outputs = features
  for layer in models.function_layers():
    outputs = layer(outputs)
  return outputs


# A tower of functions is one function.
_MODELS = {
  "function_weighted": (models.WEIGHTED, function_tower),
  "keras_regression": (models.WITHOUT_STATISTICS, None),
  "pairs_in_batches_of_a_known_size": (models.PAIRS, None),
}


class TransparencyTest(parameterized.TestCase):
  @parameterized.named_parameters(
    tiers.sample(
      [
        (f"{name}_{mesh.replace(':', '')}", name, mesh)
        for name in _MODELS
        # 36 examples over 5 devices are 7, 7, 7, 7 and 8.
        for mesh in ("data:1", "data:2", "data:5")
      ]
    )
  )
  def test_same_as_the_plain_model(self, name, mesh_text):
    model, tower = _MODELS[name]
    model_fn = model.split(batch_split, mesh_text, tower)
    mesh = estimator_mp.Mesh.create(mesh_text)
    models.assert_as_plain(self, model, model_fn, mesh)


class GraphTest(parameterized.TestCase):
  def _train_graph(self, tower, mesh, key):
    features = {
      "x": tf.compat.v1.placeholder(tf.float32, [None, models.NUM_FEATURES]),
      "words": tf.compat.v1.placeholder(tf.int64, [None, 6]),
      "weight": tf.compat.v1.placeholder(tf.float32, [None, 1]),
    }
    labels = tf.compat.v1.placeholder(tf.int32, [None, 1])
    tf.compat.v1.train.create_global_step()
    model_fn = batch_split(
      tower, models.WEIGHTED.head, mesh, models.ADAGRAD, feature_key=key
    )
    config = estimator_mp.run_config(estimator_mp.ShardingConfig(str(mesh)))
    return model_fn(features, labels, tf.estimator.ModeKeys.TRAIN, config)

  def test_every_device_computes_forward_and_backward(self):
    mesh = estimator_mp.Mesh.create("data:3")
    hook = toolbox.PlacementVerificationHook()
    model_fn = models.WEIGHTED.split(batch_split, mesh, function_tower)
    estimator = tf.estimator.Estimator(
      model_fn,
      config=estimator_mp.run_config(
        estimator_mp.ShardingConfig("data:3"),
        model_dir=self.create_tempdir().full_path,
        checkpoint_save_graph_def=False,
      ),
    )
    estimator.train(models.classification_input_fn(), steps=1, hooks=[hook])
    self.assertEqual(
      [bool(hook.observed[x].variables) for x in mesh.devices],
      [True, False, False],
    )
    # Three layers forward and three weight gradients, two input gradients
    # and one for the embedding below the first layer.
    self.assertEqual(models.products(hook.observed), [9, 9, 9])
    hook = toolbox.PlacementVerificationHook()
    estimator.evaluate(models.classification_input_fn(), steps=1, hooks=[hook])
    self.assertEqual(models.products(hook.observed), [3, 3, 3])

  def test_an_embedding_gradient_stays_sparse(self):
    mesh = estimator_mp.Mesh.create("data:2")
    with tf.Graph().as_default() as graph:
      self._train_graph(function_tower, mesh, None)
      updates = [
        op.type
        for op in graph.get_operations()
        if op.type.startswith(("ResourceApply", "ResourceSparseApply"))
        and "embedding" in op.name
      ]
    self.assertEqual(updates, ["ResourceSparseApplyAdagrad"])

  def test_the_barrier_stands_between_all_towers_and_the_loss(self):
    mesh = estimator_mp.Mesh.create("data:3")
    with tf.Graph().as_default() as graph:
      self._train_graph(function_tower, mesh, None)
      gate = graph.get_operation_by_name("barrier/all_computed")
      waits_for = {op.device for op in gate.control_inputs}
    self.assertEqual(gate.device, "/device:CPU:0")
    self.assertEqual(waits_for, set(mesh.devices))

  def test_a_tower_that_does_not_share_variables_is_an_error(self):
    def tower(inputs):
      return tf.keras.layers.Dense(models.NUM_CLASSES)(inputs)

    mesh = estimator_mp.Mesh.create("data:2")
    with (
      tf.Graph().as_default(),
      self.assertRaisesRegex(
        ValueError,
        "new variables when it was called again: dense.*/kernel, dense.*/bias",
      ),
    ):
      self._train_graph(tower, mesh, "x")

  def test_v1_layers_share_their_variables(self):
    def tower(inputs):
      hidden = tf.compat.v1.layers.dense(inputs, 8, tf.nn.relu)
      return tf.compat.v1.layers.dense(hidden, models.NUM_CLASSES)

    with tf.Graph().as_default():
      self._train_graph(tower, estimator_mp.Mesh.create("data:3"), "x")
      names = [v.op.name for v in tf.compat.v1.trainable_variables()]
    self.assertEqual(
      names, ["dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"]
    )

  def test_statistics_are_updated_once_per_batch(self):
    mesh = estimator_mp.Mesh.create("data:4")
    with tf.Graph().as_default() as graph:
      spec = self._train_graph(models.keras_layers(), mesh, "x")
      assigns = [
        op
        for op in graph.get_operations()
        if op.type == "AssignSubVariableOp" and op in _ancestors(spec.train_op)
      ]
    self.assertLen(assigns, 2)  # moving_mean and moving_variance

  @parameterized.parameters(
    (
      ValueError,
      estimator_mp.Mesh.create("data:2,stage:2"),
      "^batch_split uses the data axis only, but mesh data:2,stage:2 has stage",
    ),
    (TypeError, ["data:2"], r"^mesh is \['data:2'\]; pass a text such as 'dat"),
  )
  def test_another_mesh_is_an_error(self, error, mesh, message):
    with self.assertRaisesRegex(error, message):
      models.WEIGHTED.split(batch_split, mesh, function_tower)

  def test_a_wrapper_without_config(self):
    split = models.WITHOUT_STATISTICS.split(batch_split, "data:2")
    with tf.Graph().as_default():
      x = tf.compat.v1.placeholder(tf.float32, [None, models.NUM_FEATURES])
      spec = split({"x": x}, None, tf.estimator.ModeKeys.PREDICT)
    self.assertIn("predictions", spec.predictions)


def _ancestors(op):
  """Everything that has to run for an op, by data or control."""
  found, todo = set(), [op]
  while todo:
    op = todo.pop()
    if op not in found:
      found.add(op)
      todo += [*op.control_inputs, *(x.op for x in op.inputs)]
  return found


class SliceTest(parameterized.TestCase):
  @hypothesis.given(strategies.integers(0, 50), strategies.integers(1, 9))
  @drawn.examples(100)
  def test_slices_are_the_batch_in_equal_parts(self, size, num_slices):
    bounds = batch.slice_bounds(size, num_slices)
    self.assertEqual((bounds[0], bounds[-1]), (0, size))
    lengths = np.diff(bounds)
    self.assertLen(lengths, num_slices)
    self.assertLessEqual(max(lengths) - min(lengths), 1)
    self.assertGreaterEqual(min(lengths), 0)

  def test_sparse_and_ragged_features_are_cut(self):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
      dense = tf.compat.v1.placeholder(tf.int64, [None, 3])
      features = {
        "sparse": tf.sparse.from_dense(dense),
        "ragged": tf.RaggedTensor.from_tensor(dense, padding=0),
        "dense": dense,
      }
      size = batch.batch_size(features)
      bounds = batch.slice_bounds(size, 3)
      parts = [
        batch.slice_features(features, begin, end)
        for begin, end in itertools.pairwise(bounds)
      ]
      together = {
        "sparse": tf.sparse.to_dense(
          tf.sparse.concat(0, [part["sparse"] for part in parts])
        ),
        "ragged": tf.concat([part["ragged"] for part in parts], 0).to_tensor(
          shape=[None, 3]
        ),
        "dense": tf.concat([part["dense"] for part in parts], 0),
      }
      fed = np.array([[1, 2, 0], [3, 0, 0], [4, 5, 6], [7, 8, 0]])
      values = session.run(together, {dense: fed})
    for name, value in values.items():
      np.testing.assert_array_equal(value, fed, err_msg=name)

  @parameterized.named_parameters(
    ("empty", lambda: {}, "the features are empty"),
    (
      "scalar",
      lambda: {"a": tf.compat.v1.placeholder(tf.float32, [], "a")},
      "feature 'a:0' is a scalar; every feature needs the batch",
    ),
    (
      "different_sizes",
      lambda: {
        "a": tf.compat.v1.placeholder(tf.float32, [3], "a"),
        "b": tf.compat.v1.placeholder(tf.float32, [4], "b"),
      },
      r"the features have different batch sizes: 3 \(a:0\), 4 \(b:0\); every",
    ),
  )
  def test_what_is_no_batch_is_an_error(self, features, message):
    with tf.Graph().as_default(), self.assertRaisesRegex(ValueError, message):
      batch.batch_size(features())


if __name__ == "__main__":
  absltest.main()
