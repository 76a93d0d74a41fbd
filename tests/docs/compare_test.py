"""The guide to compare does what it says, and compares the guides' examples."""

import contextlib
import io
import os
import pathlib
import re
import shlex
import sys
from unittest import mock

import estimator_mp
from estimator_mp.cli import compare_flags
from tests import tiers
from tests.docs import guide_case, guides

from absl.testing import absltest

_GUIDES = (
  "docs/compare.md",
  "docs/model_axis.md",
  "docs/models.md",
  "docs/pipeline.md",
  "docs/replicas.md",
  "docs/sharding.md",
)
_EXAMPLES = [
  (guide, number)
  for guide in _GUIDES
  for number, _ in enumerate(guides.programs(guide))
]


# A program of the guide's model.
_TRAIN = """
import sys

import my_model
import tensorflow as tf

assert sys.argv[1:] == ["--units=64"]
params = {"dropout": 0.3}
estimator = tf.estimator.Estimator(my_model.model_fn, params=params)
estimator.train(my_model.input_fn, steps=5)
"""


def _run(arguments: list[str]) -> tuple[int, str]:
  """Returns the exit code and the output of the command."""
  argv = list(sys.argv)
  try:
    with (
      contextlib.redirect_stdout(io.StringIO()) as output,
      contextlib.redirect_stderr(io.StringIO()) as errors,
    ):
      code = compare_flags.COMMAND.main(["compare", *arguments])
  finally:
    sys.argv[:] = argv
  assert not errors.getvalue(), errors.getvalue()
  return code, output.getvalue()


def _rounded(text: str) -> str:
  """Returns a text without the numbers that rounding makes."""
  return re.sub(r"to \d\.\de-\d\d", "to almost nothing", text)


class GuideTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    folder = self.create_tempdir().full_path
    self.enter_context(
      mock.patch.dict(os.environ, BUILD_WORKING_DIRECTORY=folder)
    )
    program = guides.programs("docs/compare.md")[0]
    pathlib.Path(folder, "my_model.py").write_text(program)
    pathlib.Path(folder, "train.py").write_text(_TRAIN)
    self.enter_context(mock.patch.object(sys, "path", list(sys.path)))
    self.addCleanup(os.chdir, os.getcwd())
    self.addCleanup(sys.modules.pop, "my_model", None)

  @tiers.slow
  def test_every_command_prints_what_the_guide_shows(self):
    text = guides.read("docs/compare.md").replace("\\\n", " ")
    commands_ = re.findall(r"^    estimator-mp compare (--.*)", text, re.M)
    equal, parted = re.findall(r"\n\n```\n(.*?)\n```", text)
    found = [_run(shlex.split(arguments)) for arguments in commands_]
    self.assertEqual([code for code, _ in found], [0, 1, 0, 0])
    self.assertEqual(_rounded(found[0][1].splitlines()[-1]), _rounded(equal))
    self.assertEndsWith(found[1][1], f"; {parted}\n")


class ExamplesTest(guide_case.GuideCase):
  @tiers.slow
  def test_every_example_is_equal_to_the_plain_model(self):
    """Whatever a guide shards is compared with what it was sharded from."""
    for guide, number in tiers.sample(_EXAMPLES):
      for model_fn, config, input_fn in self._sharded(guide, number):
        with self.subTest(guide, program=number):
          self._check(model_fn, config, input_fn)

  def _sharded(self, guide, number):
    """Returns what a program gives to `shard_model_fn`, and its input_fn."""
    found = []
    shard_model_fn = estimator_mp.shard_model_fn

    def recording(model_fn, config):
      found.append((model_fn, config))
      return shard_model_fn(model_fn, config)

    with (
      mock.patch.object(estimator_mp, "shard_model_fn", recording),
      contextlib.redirect_stdout(io.StringIO()),
    ):
      names = guides.before_training(guide, number)
    if "shard_model_fn(" in guides.programs(guide)[number]:
      self.assertNotEmpty(found)
    return [(*sharded, names["input_fn"]) for sharded in found]

  def _check(self, model_fn, config, input_fn):
    compared = estimator_mp.compare(model_fn, input_fn, config, 2)
    if config.compression == "none":
      self.assertTrue(compared.ok, compared.text())
    else:
      self.assertStartsWith(compared.reason, "compression=")


if __name__ == "__main__":
  absltest.main()
