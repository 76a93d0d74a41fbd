"""layer_split gives what the plain model gives, from the same checkpoint."""

import functools
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

CLASSES = tf.estimator.MultiClassHead(models.NUM_CLASSES)
WEIGHTED = tf.estimator.MultiClassHead(
  models.NUM_CLASSES, weight_column="weight"
)
NUMBERS = tf.estimator.RegressionHead(label_dimension=2)

ADAM = functools.partial(tf.compat.v1.train.AdamOptimizer, 0.01)
MOMENTUM = functools.partial(tf.compat.v1.train.MomentumOptimizer, 0.05, 0.9)

# name -> (layers, head, optimizer, feature_key, input_fn)
MODELS = {
  "functions_adam": (
    models.function_layers(),
    WEIGHTED,
    ADAM,
    None,
    models.classification_input_fn(36),
  ),
  "keras_momentum": (
    models.keras_layers(),
    CLASSES,
    MOMENTUM,
    "x",
    models.classification_input_fn(),
  ),
  "regression": (
    models.keras_layers(units=2),
    NUMBERS,
    MOMENTUM,
    "x",
    models.regression_input_fn(),
  ),
}


@functools.cache
def plain_run(name):
  """Returns the folder of a checkpoint, and the plain run from there."""
  parts, head, optimizer, key, input_fn = MODELS[name]
  plain = models.plain_model_fn(parts, head, optimizer, key)
  return models.plain_run(plain, input_fn)


class TransparencyTest(parameterized.TestCase):
  @parameterized.named_parameters(
    tiers.sample(
      [
        (f"{name}_{mesh.replace(':', '')}", name, mesh)
        for name in MODELS
        for mesh in ("stage:1", "stage:3", "stage:4")
      ]
    )
  )
  def test_same_as_the_plain_model(self, name, mesh_text):
    parts, head, optimizer, key, input_fn = MODELS[name]
    mesh = estimator_mp.Mesh.create(mesh_text)
    model_fn = layer_split(parts, head, mesh, optimizer, feature_key=key)
    start, plain = plain_run(name)
    model_dir = os.path.join(self.create_tempdir().full_path, "run")
    run = models.go_on(model_fn, mesh, input_fn, start, model_dir)
    models.assert_same(self, run, plain)

  @tiers.slow
  @parameterized.named_parameters((name, name) for name in tiers.sample(MODELS))
  def test_layers_of_a_stage_may_be_split(self, name):
    parts, head, optimizer, key, input_fn = MODELS[name]
    config = estimator_mp.ShardingConfig(
      "model:2,stage:2", split=[("kernel$", 1)]
    )
    model_fn = layer_split(parts, head, config, optimizer, feature_key=key)
    start, plain = plain_run(name)
    model_dir = os.path.join(self.create_tempdir().full_path, "run")
    run = models.go_on(
      model_fn, config.create_mesh(), input_fn, start, model_dir
    )
    models.assert_same(self, run, plain)

  @tiers.slow
  def test_from_no_checkpoint_the_start_is_the_plain_models(self):
    parts, head, optimizer, key, input_fn = MODELS["functions_adam"]
    losses = []
    for mesh_text in ("stage:1", "stage:3"):
      mesh = estimator_mp.Mesh.create(mesh_text)
      model_fn = layer_split(parts, head, mesh, optimizer, feature_key=key)
      empty = self.create_tempdir().full_path
      run = models.go_on(
        model_fn, mesh, input_fn, empty, os.path.join(empty, "run")
      )
      losses.append(run.losses)
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)

  @tiers.slow
  def test_one_optimizer_object_serves_every_graph(self):
    parts, head, _, key, input_fn = MODELS["keras_momentum"]
    mesh = estimator_mp.Mesh.create("stage:2")
    model_fn = layer_split(parts, head, mesh, MOMENTUM(), feature_key=key)
    start, plain = plain_run("keras_momentum")
    folder = self.create_tempdir().full_path
    for attempt in ("first", "second"):
      run = models.go_on(
        model_fn, mesh, input_fn, start, os.path.join(folder, attempt)
      )
      models.assert_same(self, run, plain)


class PlacementTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.mesh = estimator_mp.Mesh.create("stage:3")
    self.config = estimator_mp.run_config(
      estimator_mp.ShardingConfig("stage:3"),
      model_dir=self.create_tempdir().full_path,
    )

  def _estimator(self, **kwargs):
    model_fn = layer_split(
      models.keras_layers(), CLASSES, self.mesh, ADAM, feature_key="x", **kwargs
    )
    return tf.estimator.Estimator(model_fn, config=self.config)

  def test_each_stage_ran_its_layers_forward_and_backward(self):
    hook = toolbox.PlacementVerificationHook()
    estimator = self._estimator()
    input_fn = models.repeated(models.classification_input_fn())
    estimator.train(input_fn, steps=1, hooks=[hook])

    def kernels(device):
      names = hook.observed[device].variables
      return [name for name in names if "/" in name and "bias" not in name]

    self.assertEqual(
      kernels("/device:CPU:0"),
      [
        "hidden1/kernel",
        "hidden1/kernel/Adam",
        "hidden1/kernel/Adam_1",
        "norm/beta",
        "norm/beta/Adam",
        "norm/beta/Adam_1",
        "norm/gamma",
        "norm/gamma/Adam",
        "norm/gamma/Adam_1",
        "norm/moving_mean",
        "norm/moving_variance",
      ],
    )
    self.assertEqual(
      kernels("/device:CPU:1"),
      ["hidden2/kernel", "hidden2/kernel/Adam", "hidden2/kernel/Adam_1"],
    )
    self.assertEqual(
      kernels("/device:CPU:2"),
      ["logits/kernel", "logits/kernel/Adam", "logits/kernel/Adam_1"],
    )
    matmuls = [
      sum(n for t, n in contents.op_types.items() if t.endswith("MatMul"))
      for contents in hook.observed.values()
    ]
    # Forward and weight gradient on each; input gradient but on the first.
    self.assertEqual(matmuls, [2, 3, 3])

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
      layer_split(
        models.keras_layers(), CLASSES, self.mesh, ADAM, feature_key="x"
      ),
      model_dir=self.create_tempdir().full_path,
    )
    with self.assertRaisesRegex(
      ValueError,
      r"mesh stage:3 uses /device:CPU:2, but the session has 1 CPU device",
    ):
      estimator.train(models.classification_input_fn(), steps=1)


INTERLEAVED = estimator_mp.ShardingConfig(
  "stage:2", num_micro_batches=2, schedule="interleaved", num_virtual_stages=2
)
SEVERAL_STAGES = (
  "layer_split needs a device for each stage, but mesh stage:4 has several on "
  "/device:CPU:0; use num_virtual_stages=1, or give shard_model_fn a model_fn "
  'of your own and placement="auto"'
)


class ErrorsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (
      "fewer_layers_than_stages",
      "stage:5",
      {},
      ValueError,
      "mesh stage:5 has 5 stages, but the model has 4 layer(s); use at most "
      "stage:4",
    ),
    (
      "no_mesh",
      "stage:2",
      {"mesh": 2},
      TypeError,
      "mesh is 2; pass a text such as 'stage:2', an estimator_mp.Mesh or an "
      "estimator_mp.ShardingConfig",
    ),
    (
      "text_of_another_mesh",
      "stage:2",
      {"mesh": "stage:50"},
      ValueError,
      "mesh stage:50 has 50 stages, but the model has 4 layer(s); use "
      "at most stage:4",
    ),
    (
      "virtual_stages",
      "stage:2",
      {"mesh": INTERLEAVED},
      ValueError,
      SEVERAL_STAGES,
    ),
    (
      "virtual_stages_of_a_mesh",
      "stage:2",
      {"mesh": INTERLEAVED.create_mesh()},
      ValueError,
      SEVERAL_STAGES,
    ),
    (
      "placement_by_rules",
      "stage:2",
      {"mesh": estimator_mp.ShardingConfig("stage:2", placement=((".", 0),))},
      ValueError,
      "layer_split places layers itself, but the ShardingConfig has a "
      "placement; leave it out, and use layers_per_stage",
    ),
    (
      "memory_limit",
      "stage:2",
      {"mesh": estimator_mp.ShardingConfig("stage:2", memory_limit=10**9)},
      ValueError,
      "layer_split places layers itself, but the ShardingConfig has a "
      "memory_limit; leave it out, and use layers_per_stage",
    ),
    (
      "layers_per_stage",
      "stage:2",
      {"layers_per_stage": [4, 0]},
      ValueError,
      "layers_per_stage=[4, 0] does not fit: it needs 2 numbers of at least 1 "
      "with the sum 4",
    ),
    (
      "no_layers",
      "stage:1",
      {"layers": []},
      ValueError,
      "layers is empty; pass at least one layer",
    ),
    (
      "no_layer",
      "stage:1",
      {"layers": ["dense"]},
      TypeError,
      "layers[0] is 'dense'; a layer is a function of the previous layer's "
      "outputs, or a tf_keras layer",
    ),
    (
      "no_optimizer",
      "stage:1",
      {"optimizer": "adam"},
      TypeError,
      "optimizer is 'adam'; pass a tf.compat.v1.train.Optimizer, or a function "
      "without arguments that returns one",
    ),
  )
  def test_what_cannot_be_split_is_an_error(
    self, mesh, changes, error, message
  ):
    arguments = {
      "layers": models.keras_layers(),
      "head": CLASSES,
      "mesh": estimator_mp.Mesh.create(mesh),
      "optimizer": ADAM,
    } | changes
    with self.assertRaises(error) as caught:
      layer_split(**arguments)
    self.assertEqual(str(caught.exception), message)

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
    model_fn = layer_split(
      models.keras_layers(),
      CLASSES,
      estimator_mp.Mesh.create("stage:1"),
      ADAM,
      feature_key="x",
    )
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
