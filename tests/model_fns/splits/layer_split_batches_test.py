"""layer_split where batches are cut gives what the plain model gives."""

import functools
import os

import estimator_mp
from estimator_mp import toolbox
from model_fns import layer_split
from tests import tiers
from tests.model_fns.splits import models

import tensorflow as tf
from absl.testing import absltest, parameterized

WEIGHTED = tf.estimator.MultiClassHead(
  models.NUM_CLASSES, weight_column="weight"
)
SUMS = tf.estimator.RegressionHead(label_dimension=2, loss_reduction="sum")
ADAM = functools.partial(tf.compat.v1.train.AdamOptimizer, 0.01)
MOMENTUM = functools.partial(tf.compat.v1.train.MomentumOptimizer, 0.0005, 0.9)


def without_statistics(units):
  """Keras layers; statistics of slices are not those of the batch."""
  return [layer for layer in models.keras_layers(units) if layer.name != "norm"]


# name -> (layers, head, optimizer, feature_key, input_fn)
# Losses that are a mean over examples, with weights, and their sum.
# 96 examples in batches of 36: the last batch is short.
MODELS = {
  "weighted": (
    models.function_layers(),
    WEIGHTED,
    ADAM,
    None,
    models.classification_input_fn(36),
  ),
  "sum": (
    without_statistics(2),
    SUMS,
    MOMENTUM,
    "x",
    models.regression_input_fn(36),
  ),
}
CUTS = {
  "replicas": estimator_mp.Mesh.create("data:2,stage:3"),
  # 36 examples over 5 devices are 8, 7, 7, 7 and 7.
  "uneven_replicas": estimator_mp.Mesh.create("data:5"),
  "micro_batches": estimator_mp.ShardingConfig("stage:3", num_micro_batches=4),
  "both": estimator_mp.ShardingConfig(
    "data:2,stage:3", num_micro_batches=3, schedule="gpipe", variables="shared"
  ),
}


def mesh_of(mesh_or_config):
  """Returns the mesh of what layer_split takes as one."""
  if isinstance(mesh_or_config, estimator_mp.Mesh):
    return mesh_or_config
  return mesh_or_config.create_mesh()


def build(model_fn, config, mode):
  """Calls a model_fn in a new graph; returns spec and graph."""
  with tf.Graph().as_default() as graph:
    tf.compat.v1.train.create_global_step()
    data = MODELS["weighted"][-1]()
    features, labels = tf.compat.v1.data.make_one_shot_iterator(data).get_next()
    run_config = estimator_mp.run_config(config)
    return model_fn(features, labels, mode, run_config), graph


@functools.cache
def plain_run(name):
  """Returns the folder of a checkpoint, and the plain run from there."""
  parts, head, optimizer, key, input_fn = MODELS[name]
  plain = models.plain_model_fn(parts, head, optimizer, key)
  return models.plain_run(plain, input_fn)


class CutBatchesTest(parameterized.TestCase):
  def _assert_as_plain(self, name, model_fn, mesh):
    input_fn = MODELS[name][-1]
    start, plain = plain_run(name)
    model_dir = os.path.join(self.create_tempdir().full_path, "run")
    run = models.go_on(model_fn, mesh, input_fn, start, model_dir)
    models.assert_same(self, run, plain)

  @parameterized.named_parameters(
    tiers.sample(
      [
        (f"{name}_{cut}", name, cut)
        for name, cuts in (
          ("weighted", ("uneven_replicas", "micro_batches", "both")),
          ("sum", ("replicas", "both")),
        )
        for cut in cuts
      ]
    )
  )
  def test_same_as_the_plain_model(self, name, cut):
    parts, head, optimizer, key, _ = MODELS[name]
    model_fn = layer_split(parts, head, CUTS[cut], optimizer, feature_key=key)
    self._assert_as_plain(name, model_fn, mesh_of(CUTS[cut]))

  def test_every_device_has_its_part_of_the_work(self):
    config = CUTS["both"]
    parts, head, optimizer, key, input_fn = MODELS["sum"]
    hook = toolbox.PlacementVerificationHook()
    estimator = tf.estimator.Estimator(
      layer_split(parts, head, config, optimizer, feature_key=key),
      config=estimator_mp.run_config(
        config, model_dir=self.create_tempdir().full_path
      ),
    )
    estimator.train(input_fn, steps=1, hooks=[hook])
    matmuls = [
      sum(
        n
        for t, n in hook.observed[device].op_types.items()
        if t.endswith("MatMul")
      )
      for device in config.create_mesh().devices
    ]
    # For each of three micro-batches a forward pass and the gradients of the
    # weights, and of the inputs but for the features.
    self.assertEqual(matmuls, [6, 9, 9] * 2)

  @parameterized.named_parameters(
    ("both", True, True, True),
    ("argument", True, False, False),
    ("config", False, True, False),
  )
  def test_placement_is_verified_if_both_say_so(
    self, of_config, argument, expected
  ):
    config = estimator_mp.ShardingConfig("stage:2", verify_placement=of_config)
    parts, head, optimizer, _, _ = MODELS["weighted"]
    model_fn = layer_split(
      parts, head, config, optimizer, verify_placement=argument
    )
    spec, _ = build(model_fn, config, tf.estimator.ModeKeys.PREDICT)
    kinds = [type(hook) for hook in spec.prediction_hooks]
    self.assertEqual(
      kinds, [toolbox.PlacementVerificationHook] if expected else []
    )

  @tiers.slow
  @parameterized.named_parameters(
    tiers.sample([("stages", "stage:2"), ("replicas", "data:2,stage:4")])
  )
  def test_shard_model_fn_splits_the_layers_over_its_own_mesh(self, mesh_text):
    parts, head, optimizer, key, _ = MODELS["weighted"]
    mesh = estimator_mp.Mesh.create(mesh_text)
    config = estimator_mp.ShardingConfig("stage:3", num_micro_batches=2)
    model_fn = estimator_mp.shard_model_fn(
      layer_split(parts, head, mesh, optimizer, feature_key=key), config
    )
    self._assert_as_plain("weighted", model_fn, config.create_mesh())
    _, graph = build(model_fn, config, tf.estimator.ModeKeys.TRAIN)
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
    model_fn = layer_split(
      *MODELS["weighted"][:2], mesh, ADAM, layers_per_stage=[1, 3]
    )
    config = estimator_mp.ShardingConfig("stage:3")
    with self.assertRaisesWithLiteralMatch(
      ValueError,
      "layers_per_stage=[1, 3] does not fit: it needs 3 numbers of at least 1 "
      "with the sum 4",
    ):
      build(
        estimator_mp.shard_model_fn(model_fn, config),
        config,
        tf.estimator.ModeKeys.TRAIN,
      )


if __name__ == "__main__":
  absltest.main()
