"""Whatever is split, along whatever dimension: training is the plain one's.

Most of these splits suit nobody: layers read gathered tensors then, and
gradients are of what was gathered. Losses and variables stay what they are.
"""

import os
import random

import estimator_mp
from tests.estimator_mp import runs, zoo

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized


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


class AnySplitTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("transformer", "transformer", "model:3", 2, 3),
    ("cnn", "cnn", "model:2", 3, 1),
    ("lstm", "lstm", "model:2", 4, 2),
    ("deepfm", "deepfm", "model:2", 5, 1),
    ("two_optimizers", "two_optimizers", "model:3", 6, 1),
    ("keras", "keras_functional", "model:2", 7, 1),
  )
  def test_losses_and_variables_are_the_plain_ones(
    self, name, mesh, seed, num_micro_batches
  ):
    model = zoo.PURE_MODELS[name]
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
    np.testing.assert_allclose(split.losses, plain.losses, atol=1e-5)
    self.assertCountEqual(split.variables, plain.variables)
    for variable, value in plain.variables.items():
      # Adam makes steps of roundings, where a gradient would be 0.
      np.testing.assert_allclose(
        split.variables[variable], value, 1e-5, 1e-5, err_msg=variable
      )


if __name__ == "__main__":
  absltest.main()
