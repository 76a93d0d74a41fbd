"""Every command of the guide to replicas runs, and prints what it says."""

import contextlib
import io
import re

from estimator_mp.cli import inspect_flags, run_record, run_train, train_flags
from tests import tiers
from tests.docs import guide_case, guides

from absl.testing import absltest

_GUIDE = "docs/replicas.md"


def _main(command, *arguments: str) -> str:
  """Returns what a command prints."""
  with (
    contextlib.redirect_stdout(io.StringIO()) as output,
    contextlib.redirect_stderr(io.StringIO()) as errors,
  ):
    code = command([command.__module__, *arguments])
  assert (code, errors.getvalue()) == (0, ""), errors.getvalue()
  return output.getvalue()


def _train(argv: list[str]) -> int:
  return run_train.run_command(train_flags.parse(argv))


class GuideTest(guide_case.GuideCase):
  @tiers.slow
  def test_train(self):
    (arguments,) = guide_case.commands(_GUIDE, "train")
    _main(_train, *arguments, "--train_steps=3", "--model_dir=run")
    result = run_record.read_result(str(self.folder / "run"))
    assert result is not None
    self.assertEqual(f"--mesh={result.mesh}", arguments[0])
    self.assertLen(result.devices, 6)

  def test_trace(self):
    (arguments,) = guide_case.commands(_GUIDE, "trace")
    output = _main(train_flags.TRACE.main, *arguments)
    self.picture(_GUIDE)
    self.assertIn(" between replicas, ", output)

  @tiers.slow
  def test_inspect(self):
    first, *others = guide_case.commands(_GUIDE, "inspect")
    (example,) = re.findall(
      r"^```\n(\d+ replicas; .*?)```", guides.read(_GUIDE), re.M | re.S
    )
    self.assertIn(example, _main(inspect_flags.COMMAND.main, *first))
    self.assertNotEmpty(others)
    for arguments in others:
      self.assertRegex(
        _main(inspect_flags.COMMAND.main, *arguments), r" sums? by ring; "
      )


if __name__ == "__main__":
  absltest.main()
