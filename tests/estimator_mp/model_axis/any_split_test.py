"""Whatever is split, along whatever dimension: training is the plain one's.

Most of these splits suit nobody: layers read gathered tensors then, and
gradients are of what was gathered. Losses and variables stay what they are.
"""

import os
import random

import estimator_mp
from tests import tiers
from tests.estimator_mp import runs
from tests.estimator_mp.models import catalogue, networks

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


def _rules(model_dir, num_parts, seed):
  """Returns a dimension of the most variables of a checkpoint, by chance."""
  chance = random.Random(seed)
  rules = []
  shapes = dict(tf.train.list_variables(model_dir))
  for name, shape in shapes.items():
    if any(name.startswith(f"{other}/") for other in shapes):
      continue  # Slots follow their variable.
    axes = [axis for axis, size in enumerate(shape) if size >= num_parts]
    if axes and chance.random() < 0.75:
      rules.append((f"^{name}$", chance.choice(axes)))
  return tuple(rules)


def _assert_same(test, split, plain):
  """Asserts that training gave the losses and variables of another run."""
  np.testing.assert_allclose(split.losses, plain.losses, atol=1e-5)
  test.assertCountEqual(split.variables, plain.variables)
  for name, value in plain.variables.items():
    # Adam makes steps of roundings, where a gradient would be 0.
    np.testing.assert_allclose(
      split.variables[name], value, 1e-5, 1e-5, err_msg=name
    )


class AnySplitTest(parameterized.TestCase):
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("two_optimizers", "two_optimizers", "model:3", 6, 1),
        ("transformer", "transformer", "model:3", 2, 3),
        ("cnn", "cnn", "model:2", 3, 1),
        ("lstm", "lstm", "model:2", 4, 2),
        ("deepfm", "deepfm", "model:2", 5, 1),
        ("keras", "keras_functional", "model:2", 7, 1),
      ]
    )
  )
  def test_losses_and_variables_are_the_plain_ones(
    self, name, mesh, seed, num_micro_batches
  ):
    model = catalogue.PURE_NETWORKS[name]
    folder = self.create_tempdir().full_path
    start = os.path.join(folder, "start")
    runs.train(model.model_fn, None, model.params, start, steps=2)
    rules = _rules(start, int(mesh[-1]), seed)
    config = estimator_mp.ShardingConfig(
      mesh, num_micro_batches=num_micro_batches, split=rules
    )
    plain, split = (
      runs.go_on(
        model_fn, of, model.params, start, os.path.join(folder, kind), steps=3
      )
      for kind, model_fn, of in (
        ("plain", model.model_fn, None),
        ("split", estimator_mp.shard_model_fn(model.model_fn, config), config),
      )
    )
    _assert_same(self, split, plain)


def _two_layers_in_turns(features, labels, mode):
  """One layer in even steps, the other in odd ones; both read one kernel."""
  x, step = features["x"], v1.train.get_global_step()
  kernel = v1.get_variable("kernel", [10, 5])
  bias = v1.get_variable("bias", [5])
  net = v1.cond(
    tf.equal(step % 2, 0),
    lambda: tf.nn.relu(tf.matmul(x, kernel) + bias),
    lambda: tf.tanh(tf.matmul(x, kernel * 2.0)),
  )
  logits = tf.matmul(net, v1.get_variable("output", [5, 1]))
  train = networks.minimize(v1.train.AdamOptimizer(0.01))
  return networks.spec(mode, logits, labels, train)


class BranchTest(parameterized.TestCase):
  """Shards are read in the branches of a cond of TensorFlow 1."""

  def setUp(self):
    super().setUp()
    v1.disable_control_flow_v2()
    self.addCleanup(v1.enable_control_flow_v2)

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("columns", (("^kernel$", 1),), 1),
        ("columns_and_rows", (("^kernel$", 1), ("^output$", 0)), 2),
        ("rows", (("^kernel$", 0),), 1),
        ("in_one_branch", (("^bias$", 0),), 1),
      ]
    )
  )
  def test_a_variable_of_branches(self, rules, num_micro_batches):
    config = estimator_mp.ShardingConfig(
      "model:2", num_micro_batches=num_micro_batches, split=rules
    )
    plain, split = runs.plain_and_sharded(
      self, _two_layers_in_turns, config, before=2
    )
    _assert_same(self, split, plain)


if __name__ == "__main__":
  absltest.main()
