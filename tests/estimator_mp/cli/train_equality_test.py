"""The same run on one device and on several gives the same model."""

import functools
import tempfile

from estimator_mp.cli import run_train, train_flags
from tests import tiers

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_STEPS = 50
_COMPARED_STEPS = (1, 10, 50)
_TOLERANCE = 1e-5


class _RecordLossHook(tf.estimator.SessionRunHook):
  """Keeps the loss of every step."""

  def __init__(self):
    self.losses = []
    self._loss = None

  def begin(self):
    self._loss = tf.compat.v1.losses.get_losses()[-1]

  def before_run(self, run_context):
    return tf.estimator.SessionRunArgs(self._loss)

  def after_run(self, run_context, run_values):
    self.losses.append(run_values.results)


def _train(model_dir: str, *arguments: str):
  """Returns the losses, and the checkpoint's variables by name."""
  options = train_flags.parse(["train", f"--model_dir={model_dir}", *arguments])
  job = run_train.prepare(options)
  hook = _RecordLossHook()
  job.estimator.train(job.recipe.train_input_fn, hooks=[hook], max_steps=_STEPS)
  names = job.estimator.get_variable_names()
  variables = {x: job.estimator.get_variable_value(x) for x in names}
  return hook.losses, variables


@functools.cache
def _plain(model: str):
  """Returns what a model's run on one device gives."""
  model_dir = tempfile.mkdtemp(dir=absltest.get_default_test_tmpdir())
  return _train(model_dir, f"--model={model}", "--mesh=stage:1")


class EqualityTest(parameterized.TestCase):
  @tiers.slow
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("cnn_stage_3", "cifar10_cnn", "stage:3"),
        ("mlp_stage_4", "mlp", "stage:4"),
        ("mlp_data_2_stage_2", "mlp", "data:2,stage:2"),
      ]
    )
  )
  def test_losses_and_variables_are_those_of_one_device(self, model, mesh):
    plain_losses, plain = _plain(model)
    losses, variables = _train(
      self.create_tempdir().full_path, f"--model={model}", f"--mesh={mesh}"
    )
    self.assertLen(losses, _STEPS)
    for step in _COMPARED_STEPS:
      np.testing.assert_allclose(
        losses[step - 1],
        plain_losses[step - 1],
        rtol=_TOLERANCE,
        err_msg=f"step {step}",
      )
    self.assertLess(losses[-1], losses[0] / 2)
    self.assertEqual(
      {name: value.shape for name, value in variables.items()},
      {name: value.shape for name, value in plain.items()},
    )
    for name, value in variables.items():
      np.testing.assert_allclose(
        value, plain[name], rtol=1e-3, atol=1e-5, err_msg=name
      )

  @tiers.slow
  @tiers.newest_only
  def test_seed_decides_the_run(self):
    directory = self.create_tempdir()
    runs = [
      _train(
        directory.mkdir(str(number)).full_path, "--model=mlp", f"--seed={seed}"
      )[0]
      for number, seed in enumerate((1, 2))
    ]
    self.assertNotAlmostEqual(runs[0][0], runs[1][0], places=3)


if __name__ == "__main__":
  absltest.main()
