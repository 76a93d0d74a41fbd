"""The traffic command of the guide to pipelines prints what the guide shows."""

import re

from estimator_mp.cli import train_flags
from tests import tiers
from tests.docs import guide_case, guides

from absl.testing import absltest

_GUIDE = "docs/pipeline.md"


class GuideTest(guide_case.GuideCase):
  @tiers.newest_only
  def test_the_command_prints_what_the_guide_shows(self):
    (arguments,) = guide_case.commands(_GUIDE, "traffic")
    (example,) = re.findall(
      r"^```\n(step \d+\n\nfrom device.*?)```", guides.read(_GUIDE), re.M | re.S
    )
    output = guide_case.printed(train_flags.TRAFFIC.main, *arguments)
    self.assertEqual(output, example)


if __name__ == "__main__":
  absltest.main()
