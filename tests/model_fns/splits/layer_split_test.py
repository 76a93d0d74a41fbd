"""layer_split gives what the plain model gives, from the same checkpoint."""

import dataclasses
import os

import estimator_mp
from estimator_mp import toolbox
from model_fns import layer_split
from model_fns.images import cifar10_cnn, mlp
from model_fns.splits import layers
from tests import tiers
from tests.model_fns.splits import models

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_MODELS = {
  "functions_adam": models.WEIGHTED,
  "keras_momentum": models.KERAS,
  "regression": models.REGRESSION,
}
_CUTS = {
  "replicas": estimator_mp.Mesh.create("data:2,stage:3"),
  # 36 examples over 5 devices are 8, 7, 7, 7 and 7.
  "uneven_replicas": estimator_mp.Mesh.create("data:5"),
  "micro_batches": estimator_mp.ShardingConfig("stage:3", num_micro_batches=4),
  "both": estimator_mp.ShardingConfig(
    "data:2,stage:3", num_micro_batches=3, schedule="gpipe", variables="shared"
  ),
}


def _mesh_of(mesh_or_config):
  """Returns the mesh of what layer_split takes as one."""
  if isinstance(mesh_or_config, estimator_mp.Mesh):
    return mesh_or_config
  return mesh_or_config.create_mesh()


def _build(model_fn, config, mode):
  """Calls a model_fn in a new graph; returns spec and graph."""
  with tf.Graph().as_default() as graph:
    tf.compat.v1.train.create_global_step()
    data = models.WEIGHTED.input_fn()
    features, labels = tf.compat.v1.data.make_one_shot_iterator(data).get_next()
    run_config = estimator_mp.run_config(config)
    return model_fn(features, labels, mode, run_config), graph


class TransparencyTest(parameterized.TestCase):
  @parameterized.named_parameters(
    tiers.sample(
      [
        (f"{name}_{mesh.replace(':', '')}", name, mesh)
        for name in _MODELS
        for mesh in ("stage:1", "stage:3", "stage:4")
      ]
    )
  )
  def test_same_as_the_plain_model(self, name, mesh_text):
    model, mesh = _MODELS[name], estimator_mp.Mesh.create(mesh_text)
    models.assert_as_plain(self, model, model.split(layer_split, mesh), mesh)

  @tiers.slow
  @parameterized.named_parameters(tiers.sample(_MODELS.items()))
  def test_layers_of_a_stage_may_be_split(self, model):
    config = estimator_mp.ShardingConfig(
      "model:2,stage:2", split=[("kernel$", 1)]
    )
    model_fn = model.split(layer_split, config)
    models.assert_as_plain(self, model, model_fn, config.create_mesh())

  @tiers.slow
  def test_from_no_checkpoint_the_start_is_the_plain_models(self):
    model = models.WEIGHTED
    losses = []
    for mesh_text in ("stage:1", "stage:3"):
      mesh = estimator_mp.Mesh.create(mesh_text)
      model_fn = model.split(layer_split, mesh)
      empty = self.create_tempdir().full_path
      run = models.go_on(
        model_fn, mesh, model.input_fn, empty, os.path.join(empty, "run")
      )
      losses.append(run.losses)
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)

  @tiers.slow
  def test_one_optimizer_object_serves_every_graph(self):
    model = models.KERAS
    model = dataclasses.replace(model, optimizer=model.optimizer())
    mesh = estimator_mp.Mesh.create("stage:2")
    model_fn = model.split(layer_split, mesh)
    for _ in range(2):
      models.assert_as_plain(self, models.KERAS, model_fn, mesh)


class PlacementTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.mesh = estimator_mp.Mesh.create("stage:3")
    self.config = estimator_mp.run_config(
      estimator_mp.ShardingConfig("stage:3"),
      model_dir=self.create_tempdir().full_path,
      checkpoint_save_graph_def=False,
    )

  def _estimator(self, **kwargs):
    model = dataclasses.replace(models.KERAS, optimizer=models.ADAM)
    model_fn = model.split(layer_split, self.mesh, **kwargs)
    return tf.estimator.Estimator(model_fn, config=self.config)

  def test_each_stage_ran_its_layers_forward_and_backward(self):
    hook = toolbox.PlacementVerificationHook()
    estimator = self._estimator()
    input_fn = models.repeated(models.classification_input_fn())
    estimator.train(input_fn, steps=1, hooks=[hook])

    layers_of = [
      {x.partition("/")[0] for x in hook.observed[device].variables if "/" in x}
      for device in self.mesh.devices
    ]
    self.assertEqual(layers_of, [{"hidden1", "norm"}, {"hidden2"}, {"logits"}])
    variables = hook.observed["/device:CPU:1"].variables
    slots = ["", "/Adam", "/Adam_1"]
    self.assertContainsSubset([f"hidden2/kernel{x}" for x in slots], variables)
    # Forward and weight gradient on each; input gradient but on the first.
    self.assertEqual(models.products(hook.observed), [2, 3, 3])

  def test_the_table_counts_layers_and_variables(self):
    tables = []

    class Reader(tf.estimator.SessionRunHook):
      def begin(self):
        graph = tf.compat.v1.get_default_graph()
        tables.append(estimator_mp.get_placement(graph).table())

    input_fn = models.repeated(models.classification_input_fn())
    estimator = self._estimator(layers_per_stage=[2, 1, 1])
    estimator.train(input_fn, steps=1, hooks=[Reader()])
    *table, sent = tables[0].splitlines()
    self.assertEqual(
      table,
      [
        "stage  device         layers         parameters  variables",
        "0      /device:CPU:0  hidden1, norm         240    3.02 kB",
        "1      /device:CPU:1  hidden2               136    1.63 kB",
        "2      /device:CPU:2  logits                 45      540 B",
        "all                                         421    5.19 kB",
      ],
    )
    self.assertRegex(sent, r"^sent between devices each step: \d+ tensors, ")

  def test_export_serves_on_a_machine_without_the_mesh(self):
    estimator = self._estimator()
    input_fn = models.classification_input_fn()
    estimator.train(models.repeated(input_fn), steps=2)
    path = estimator.export_saved_model(
      self.create_tempdir().full_path, models.serving_input_receiver_fn
    )
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
      loaded = tf.compat.v1.saved_model.load(
        session, ["serve"], tf.compat.as_str(path)
      )
      devices = {op.device for op in graph.get_operations()}
      signature = loaded.signature_def["predict"]
      served = session.run(
        signature.outputs["logits"].name,
        {signature.inputs["x"].name: models.IMAGES},
      )
    self.assertEqual(devices, {""})
    predicted = [p["logits"] for p in estimator.predict(input_fn)]
    np.testing.assert_allclose(served, predicted, rtol=1e-5, atol=1e-6)

  def test_a_session_without_the_mesh_is_an_error(self):
    estimator = tf.estimator.Estimator(
      models.KERAS.split(layer_split, self.mesh)
    )
    with self.assertRaisesRegex(
      ValueError,
      r"mesh stage:3 uses /device:CPU:2, but the session has 1 CPU device",
    ):
      estimator.train(models.classification_input_fn(), steps=1)


class CutBatchesTest(parameterized.TestCase):
  @tiers.slow
  @parameterized.named_parameters(
    ("weighted_uneven_replicas", models.WEIGHTED, "uneven_replicas"),
    ("weighted_micro_batches", models.WEIGHTED, "micro_batches"),
    ("weighted_both", models.WEIGHTED, "both"),
    ("sum_replicas", models.SUM, "replicas"),
    ("sum_both", models.SUM, "both"),
  )
  def test_same_as_the_plain_model(self, model, cut):
    model_fn = model.split(layer_split, _CUTS[cut])
    models.assert_as_plain(self, model, model_fn, _mesh_of(_CUTS[cut]))

  def test_every_device_has_its_part_of_the_work(self):
    config = _CUTS["both"]
    hook = toolbox.PlacementVerificationHook()
    estimator = tf.estimator.Estimator(
      models.SUM.split(layer_split, config),
      config=estimator_mp.run_config(
        config,
        model_dir=self.create_tempdir().full_path,
        checkpoint_save_graph_def=False,
      ),
    )
    estimator.train(models.SUM.input_fn, steps=1, hooks=[hook])
    # For each of three micro-batches a forward pass and the gradients of the
    # weights, and of the inputs but for the features.
    self.assertEqual(models.products(hook.observed), [6, 9, 9] * 2)

  @parameterized.named_parameters(
    ("both", True, True, True),
    ("argument", True, False, False),
    ("config", False, True, False),
  )
  def test_placement_is_verified_if_both_say_so(
    self, of_config, argument, expected
  ):
    config = estimator_mp.ShardingConfig("stage:2", verify_placement=of_config)
    model_fn = models.WEIGHTED.split(
      layer_split, config, verify_placement=argument
    )
    spec, _ = _build(model_fn, config, tf.estimator.ModeKeys.PREDICT)
    kinds = [type(hook) for hook in spec.prediction_hooks]
    self.assertEqual(
      kinds, [toolbox.PlacementVerificationHook] if expected else []
    )

  @tiers.slow
  @parameterized.named_parameters(
    tiers.sample([("stages", "stage:2"), ("replicas", "data:2,stage:4")])
  )
  def test_shard_model_fn_splits_the_layers_over_its_own_mesh(self, mesh_text):
    model = models.WEIGHTED
    mesh = estimator_mp.Mesh.create(mesh_text)
    config = estimator_mp.ShardingConfig("stage:3", num_micro_batches=2)
    model_fn = estimator_mp.shard_model_fn(
      model.split(layer_split, mesh), config
    )
    models.assert_as_plain(self, model, model_fn, config.create_mesh())
    _, graph = _build(model_fn, config, tf.estimator.ModeKeys.TRAIN)
    stages = estimator_mp.get_placement(graph).stages
    self.assertEqual(
      {stage.device: stage.layers for stage in stages},
      {
        "/device:CPU:0": ("embedding", "hidden1"),
        "/device:CPU:1": ("hidden2",),
        "/device:CPU:2": ("logits",),
      },
    )

  def test_layers_per_stage_has_to_fit_the_mesh_of_shard_model_fn(self):
    mesh = estimator_mp.Mesh.create("stage:2")
    model_fn = models.WEIGHTED.split(layer_split, mesh, layers_per_stage=[1, 3])
    config = estimator_mp.ShardingConfig("stage:3")
    with self.assertRaisesRegex(
      ValueError, r"\[1, 3\] does not fit: it needs 3 numbers .* the sum 4"
    ):
      _build(
        estimator_mp.shard_model_fn(model_fn, config),
        config,
        tf.estimator.ModeKeys.TRAIN,
      )


_INTERLEAVED = estimator_mp.ShardingConfig(
  "stage:2", num_micro_batches=2, schedule="interleaved", num_virtual_stages=2
)
_SEVERAL = "for each stage, but mesh stage:4 has several on /device:CPU:0; use"
_PLACES = (
  "layer_split places layers itself, but the ShardingConfig has a {}; le"
)


class ErrorsTest(parameterized.TestCase):
  @parameterized.parameters(
    ("stage:5", "mesh stage:5 has 5 stages, but the model has 4 layer(s); use"),
    (_INTERLEAVED, _SEVERAL),
    (_INTERLEAVED.create_mesh(), _SEVERAL),
    (
      estimator_mp.ShardingConfig("stage:2", placement=((".", 0),)),
      _PLACES.format("placement"),
    ),
    (
      estimator_mp.ShardingConfig("stage:2", memory_limit=10**9),
      _PLACES.format("memory_limit"),
    ),
    (
      "stage:2",
      "layers_per_stage=[4, 0] does not fit: it needs 2 numbers of at least 1",
      {"layers_per_stage": [4, 0]},
    ),
    (
      "stage:1",
      "layers is empty; pass at least one layer",
      {"layers": []},
    ),
    (
      "stage:1",
      "layers[0] is 'dense'; a layer is a function of the previous layer's",
      {"layers": ["dense"]},
      TypeError,
    ),
    (
      "stage:1",
      "optimizer is 'adam'; pass a tf.compat.v1.train.Optimizer, or a function",
      {"optimizer": "adam"},
      TypeError,
    ),
    (2, "mesh is 2; pass a text such as 'stage:2', an es", {}, TypeError),
  )
  def test_what_cannot_be_split_is_an_error(
    self, mesh, message, changes=None, error=ValueError
  ):
    arguments = {
      "layers": models.keras_layers(),
      "head": models.KERAS.head,
      "mesh": mesh,
      "optimizer": models.ADAM,
    } | (changes or {})
    with self.assertRaises(error) as caught:
      layer_split(**arguments)
    self.assertIn(message, str(caught.exception))

  def test_a_layer_with_values_is_an_error(self):
    layer = tf.keras.layers.Dense(2, name="trained")
    layer.build([None, 3])
    with self.assertRaisesRegex(
      ValueError,
      r"layers\[0\] \(trained\) has variables already, whose values would be",
    ):
      layers.check_layers([layer])

  @parameterized.named_parameters(
    ("dict", {"a": 1, "b": 2}, "'a', 'b'"),
    ("tensor", np.zeros([2]), "a single ndarray"),
  )
  def test_a_missing_feature_is_an_error(self, features, names):
    model_fn = models.KERAS.split(layer_split, "stage:1")
    with tf.Graph().as_default(), self.assertRaises(ValueError) as caught:
      model_fn(
        features, None, tf.estimator.ModeKeys.TRAIN, tf.estimator.RunConfig()
      )
    self.assertEqual(
      str(caught.exception),
      f"feature_key='x' is not among the features ({names}); change "
      "feature_key or the input_fn",
    )


class LayersTest(absltest.TestCase):
  def test_a_layer_that_occurs_twice_shares_its_variables(self):
    twice = tf.keras.layers.Dense(4, name="twice")
    with tf.Graph().as_default():
      x = tf.compat.v1.placeholder(tf.float32, [None, 4])
      first, second = layers.bind_layers([twice, twice])
      second(first(x, False), False)
      self.assertLen(tf.compat.v1.trainable_variables(), 2)
    self.assertFalse(twice.built)

  def test_training_is_passed_to_layers_that_take_it(self):
    seen = []

    def knows(inputs, training):
      seen.append(training)
      return inputs

    def does_not_know(inputs):
      return inputs

    for layer in layers.bind_layers([knows, does_not_know]):
      layer(1, True)
      layer(1, False)
    self.assertEqual(seen, [True, False])

  def test_models_refuse_what_makes_no_sense(self):
    for make in (cifar10_cnn.layers, mlp.layers):
      with self.assertRaisesRegex(ValueError, "num_classes=1 is too few"):
        make(1, seed=0)
    with self.assertRaisesRegex(ValueError, r"hidden_units=\[8, 0\] has a"):
      mlp.layers(3, seed=0, hidden_units=(8, 0))


if __name__ == "__main__":
  absltest.main()
