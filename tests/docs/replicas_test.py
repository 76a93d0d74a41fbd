"""Every command of the guide to replicas runs, and prints what it says."""

import re

from estimator_mp.cli import inspect_flags, run_record, run_train, train_flags
from tests import tiers
from tests.docs import guide_case, guides

from absl.testing import absltest

_GUIDE = "docs/replicas.md"


def _train(argv: list[str]) -> int:
  return run_train.run_command(train_flags.parse(argv))


class GuideTest(guide_case.GuideCase):
  @tiers.slow
  def test_train(self):
    (arguments,) = guide_case.commands(_GUIDE, "train")
    guide_case.printed(_train, *arguments, "--train_steps=3", "--model_dir=run")
    result = run_record.read_result(str(self.folder / "run"))
    assert result is not None
    self.assertEqual(f"--mesh={result.mesh}", arguments[0])
    self.assertLen(result.devices, 6)

  @tiers.slow
  def test_trace(self):
    (arguments,) = guide_case.commands(_GUIDE, "trace")
    output = guide_case.printed(train_flags.TRACE.main, *arguments)
    self.picture(_GUIDE)
    self.assertIn(" between replicas, ", output)

  @tiers.slow
  def test_inspect(self):
    first, *others = guide_case.commands(_GUIDE, "inspect")
    (example,) = re.findall(
      r"^```\n(\d+ replicas; .*?)```", guides.read(_GUIDE), re.M | re.S
    )
    self.assertIn(
      example, guide_case.printed(inspect_flags.COMMAND.main, *first)
    )
    self.assertNotEmpty(others)
    for arguments in others:
      self.assertRegex(
        guide_case.printed(inspect_flags.COMMAND.main, *arguments),
        r" sums? by ring; ",
      )


if __name__ == "__main__":
  absltest.main()
