"""batch_split gives what the plain model gives, from the same checkpoint."""

import functools
import itertools
import os

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

WEIGHTED = tf.estimator.MultiClassHead(
  models.NUM_CLASSES, weight_column="weight"
)
NUMBERS = tf.estimator.RegressionHead(label_dimension=2)
ADAGRAD = functools.partial(tf.compat.v1.train.AdagradOptimizer, 0.1)
MOMENTUM = functools.partial(tf.compat.v1.train.MomentumOptimizer, 0.05, 0.9)


def function_tower(features):
  """The embedding model as one function."""
  outputs = features
  for layer in models.function_layers():
    outputs = layer(outputs)
  return outputs


def without_statistics(units):
  """Keras layers; statistics of slices are not those of the batch."""
  return [layer for layer in models.keras_layers(units) if layer.name != "norm"]


def loss_of_pairs(labels, logits):
  """Compares each example with all others, which no slice of a batch can."""
  own = tf.nn.sparse_softmax_cross_entropy_with_logits(
    labels=tf.squeeze(labels, 1), logits=logits
  )
  score = logits[:, 0]
  margin = tf.nn.relu(1.0 - score[:, tf.newaxis] + score[tf.newaxis, :])
  return tf.expand_dims(own + tf.reduce_mean(margin, axis=1), axis=1)


def full_batches_input_fn():
  """Images in batches of 36, which the graph knows."""
  data = tf.data.Dataset.from_tensor_slices(
    ({"x": models.IMAGES}, models.LABELS)
  )
  return data.batch(36, drop_remainder=True)


# name -> (tower, plain layers, head, optimizer, feature_key, input_fn)
MODELS = {
  # 96 examples in batches of 36: the last batch is short.
  "function_weighted": (
    function_tower,
    models.function_layers(),
    WEIGHTED,
    ADAGRAD,
    None,
    models.classification_input_fn(36),
  ),
  "keras_regression": (
    without_statistics(2),
    without_statistics(2),
    NUMBERS,
    MOMENTUM,
    "x",
    models.regression_input_fn(32),
  ),
  "pairs_in_batches_of_a_known_size": (
    without_statistics(models.NUM_CLASSES),
    without_statistics(models.NUM_CLASSES),
    tf.estimator.MultiClassHead(models.NUM_CLASSES, loss_fn=loss_of_pairs),
    ADAGRAD,
    "x",
    full_batches_input_fn,
  ),
}


@functools.cache
def plain_run(name):
  """Returns the folder of a checkpoint, and the plain run from there."""
  _, parts, head, optimizer, key, input_fn = MODELS[name]
  plain = models.plain_model_fn(parts, head, optimizer, key)
  return models.plain_run(plain, input_fn)


class TransparencyTest(parameterized.TestCase):
  @parameterized.named_parameters(
    tiers.sample(
      [
        (f"{name}_{mesh.replace(':', '')}", name, mesh)
        for name in MODELS
        # 36 examples over 5 devices are 7, 7, 7, 7 and 8.
        for mesh in ("data:1", "data:2", "data:5")
      ]
    )
  )
  def test_same_as_the_plain_model(self, name, mesh_text):
    tower, _, head, optimizer, key, input_fn = MODELS[name]
    model_fn = batch_split(tower, head, mesh_text, optimizer, feature_key=key)
    start, plain = plain_run(name)
    run = models.go_on(
      model_fn,
      estimator_mp.Mesh.create(mesh_text),
      input_fn,
      start,
      os.path.join(self.create_tempdir().full_path, "run"),
    )
    models.assert_same(self, run, plain)


class GraphTest(absltest.TestCase):
  def _train_graph(self, tower, mesh, key):
    features = {
      "x": tf.compat.v1.placeholder(tf.float32, [None, models.NUM_FEATURES]),
      "words": tf.compat.v1.placeholder(tf.int64, [None, 6]),
      "weight": tf.compat.v1.placeholder(tf.float32, [None, 1]),
    }
    labels = tf.compat.v1.placeholder(tf.int32, [None, 1])
    tf.compat.v1.train.create_global_step()
    model_fn = batch_split(tower, WEIGHTED, mesh, ADAGRAD, feature_key=key)
    config = estimator_mp.run_config(estimator_mp.ShardingConfig(str(mesh)))
    return model_fn(features, labels, tf.estimator.ModeKeys.TRAIN, config)

  def test_every_device_computes_forward_and_backward(self):
    mesh = estimator_mp.Mesh.create("data:3")
    hook = toolbox.PlacementVerificationHook()
    model_fn = batch_split(function_tower, WEIGHTED, mesh, ADAGRAD)
    estimator = tf.estimator.Estimator(
      model_fn,
      config=estimator_mp.run_config(
        estimator_mp.ShardingConfig("data:3"),
        model_dir=self.create_tempdir().full_path,
      ),
    )
    estimator.train(models.classification_input_fn(), steps=1, hooks=[hook])
    for i in range(3):
      contents = hook.observed[f"/device:CPU:{i}"]
      # Three layers forward and three weight gradients, two input gradients
      # and one for the embedding below the first layer.
      matmuls = sum(
        n for t, n in contents.op_types.items() if t.endswith("MatMul")
      )
      self.assertEqual(matmuls, 9)
      self.assertEqual(bool(contents.variables), i == 0)
    hook = toolbox.PlacementVerificationHook()
    estimator.evaluate(models.classification_input_fn(), steps=1, hooks=[hook])
    for i in range(3):
      types = hook.observed[f"/device:CPU:{i}"].op_types
      matmuls = sum(n for t, n in types.items() if t.endswith("MatMul"))
      self.assertEqual(matmuls, 3)

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
        "the tower made new variables when it was called again: "
        "dense.*/kernel, dense.*/bias; make variables with "
        "tf.compat.v1.get_variable, or pass Keras layers as a list",
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

  def test_another_axis_is_an_error(self):
    with self.assertRaises(ValueError) as caught:
      batch_split(
        function_tower,
        WEIGHTED,
        estimator_mp.Mesh.create("data:2,stage:2"),
        ADAGRAD,
      )
    self.assertEqual(
      str(caught.exception),
      "batch_split uses the data axis only, but mesh data:2,stage:2 has "
      "stage:2; use a mesh such as data:4",
    )

  def test_what_is_no_mesh_is_an_error(self):
    with self.assertRaises(TypeError) as caught:
      batch_split(function_tower, WEIGHTED, ["data:2"], ADAGRAD)
    self.assertEqual(
      str(caught.exception),
      "mesh is ['data:2']; pass a text such as 'data:2', or an "
      "estimator_mp.Mesh",
    )

  def test_a_wrapper_without_config(self):
    split = batch_split(
      without_statistics(2), NUMBERS, "data:2", ADAGRAD, feature_key="x"
    )
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
