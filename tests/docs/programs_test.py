"""Every program of every page runs as it stands, alone, in an empty folder."""

import contextlib
import io
import pathlib
import re

from tests import tiers
from tests.docs import guide_case, guides

from absl.testing import absltest, parameterized

# Their programs edit this repository, or need a process, a cluster or a package
# of their own. architecture_test, cluster_test, horovod_test and, in
# tests/compat, migrating_test run them.
_OTHERS = (
  "docs/architecture.md",
  "docs/cluster.md",
  "docs/horovod.md",
  "docs/migrating.md",
  "docs/tensorflow1.md",
)
_PROGRAMS = [
  (f"{pathlib.Path(page).stem}_{number}", page, number)
  for page in guides.pages()
  if page not in _OTHERS
  for number, _ in enumerate(guides.programs(page))
]


class ProgramsTest(guide_case.GuideCase):
  @tiers.slow
  @parameterized.named_parameters(tiers.sample(_PROGRAMS))
  def test_runs_as_it_stands(self, page, number):
    program = guides.programs(page)[number]
    with contextlib.redirect_stdout(io.StringIO()):
      names = guides.run(program, f"{page} {number}")
    trained = r"^estimator\.train\(input_fn, (?:max_)?steps=(\d+)"
    for steps in re.findall(trained, program, re.M):
      checkpoint = names["estimator"].latest_checkpoint()
      self.assertEndsWith(checkpoint, f"model.ckpt-{steps}")


if __name__ == "__main__":
  absltest.main()
