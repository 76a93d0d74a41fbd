"""Every recipe trains, evaluates and exports by its flags' defaults.

On a part of its data: tests of the data sets have all of it, and what a model
learns from it is a benchmark. Of models that one module makes, some export, and
some are on a smaller mesh, unless all cases are run.
"""

import contextlib
import dataclasses
import functools
import io
import os
import re
from unittest import mock

from estimator_mp.cli import run_train, train_flags
from model_fns.datasets import clicks, text
from model_fns.recipes import catalogue
from model_fns.recipes import recipe as recipe_lib
from tests import tiers

import tensorflow as tf
from absl.testing import absltest, parameterized

_ALL = tuple((name, name) for name in catalogue.ENTRIES)
_EXPORTED = tiers.sample(catalogue.ENTRIES)
# dlrm has the mesh of all three, and moe as many tokens in a step.
_SMALLER = {
  "wide_deep": ["--mesh=data:2"],
  "deepfm": ["--mesh=data:2"],
  "transformer": ["--num_micro_batches=2"],
}


def setUpModule():
  # The command does so itself, once its flags are parsed.
  tf.get_logger().setLevel("FATAL")


def _request(**changes):
  facts = {
    "model": "mlp",
    "dataset": "digits",
    "data_dir": None,
    "batch_size": 8,
    "train_steps": 1,
    "learning_rate": 0.01,
    "optimizer": "adam",
    "seed": 1,
  }
  return recipe_lib.Request(**{**facts, **changes})


def _some_text(load, *args):
  """Returns some thousand bytes of a text, and some hundred held out."""
  whole = load(*args)
  return dataclasses.replace(
    whole, train=whole.train[:20_000], test=whole.test[:2_000]
  )


class RecipesTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    for module, name, some in (
      (clicks, "load", functools.partial(clicks.load, 5_000, 1_000)),
      (
        text,
        "python_docs",
        functools.partial(_some_text, text.python_docs),
      ),
    ):
      self.enter_context(mock.patch.object(module, name, some))

  @parameterized.named_parameters(tiers.sample(_ALL))
  def test_trains_evaluates_and_exports(self, model):
    folder = self.create_tempdir().full_path
    arguments = [
      f"--model={model}",
      f"--model_dir={os.path.join(folder, 'run')}",
      "--train_steps=2",
      "--trace_steps=none",
    ]
    if model in _EXPORTED:
      arguments.append(f"--export_dir={os.path.join(folder, 'export')}")
    if len(_EXPORTED) < len(catalogue.ENTRIES):
      arguments += _SMALLER.get(model, [])
    options = train_flags.TRAIN.parse(["train", *arguments])
    with contextlib.redirect_stdout(io.StringIO()) as output:
      result = run_train.train(options)
    self.assertEqual(result.global_step, 2)
    self.assertEqual(result.dataset, catalogue.ENTRIES[model].datasets[0])
    self.assertIn(f"{result.figure} {result.value:.4f}", output.getvalue())
    self.assertIn(f"{result.baseline}: ", output.getvalue())
    if model in _EXPORTED:
      self.assertTrue(
        tf.io.gfile.exists(f"{result.saved_model}/saved_model.pb")
      )

  @parameterized.named_parameters(*_ALL)
  def test_help_has_its_defaults(self, model):
    with (
      contextlib.redirect_stdout(io.StringIO()) as output,
      self.assertRaises(SystemExit),
    ):
      train_flags.TRAIN.parse(["train", f"--model={model}", "--help"])
    entry = catalogue.ENTRIES[model]
    shown = dict(re.findall(r"^  --(\w+)=(.*)", output.getvalue(), re.M))
    self.assertEqual(shown["dataset"], entry.datasets[0])
    for name in entry.defaults:
      self.assertIn(name, shown)

  def test_flags_take_the_defaults_of_the_model(self):
    entry = catalogue.Entry("images", ("cifar10",), {"mesh": "stage:2"})
    with mock.patch.dict(catalogue.ENTRIES, {"mlp": entry}):
      options = train_flags.TRAIN.parse(["train", "--model=mlp"])
      self.assertEqual(options.mesh, "stage:2")
      self.assertEqual(options.dataset, "cifar10")
      options = train_flags.TRAIN.parse(
        ["train", "--model=mlp", "--mesh=stage:4"]
      )
      self.assertEqual(options.mesh, "stage:4")

  @parameterized.named_parameters(
    (
      "model",
      {"model": "alexnet"},
      "model=alexnet is not known; use one of: cifar10_cnn, mlp",
    ),
    (
      "dataset",
      {"dataset": "imagenet"},
      "dataset=imagenet does not fit model=mlp; use digits or cifar10",
    ),
    (
      "optimizer",
      {"optimizer": "own"},
      "model=mlp has no optimizer of its own; use one of adam, adagrad,"
      " momentum, rmsprop, sgd",
    ),
  )
  def test_errors(self, changes, message):
    with self.assertRaises(recipe_lib.RecipeError) as caught:
      recipe_lib.make(_request(**changes))
    self.assertStartsWith(str(caught.exception), message)


if __name__ == "__main__":
  absltest.main()
