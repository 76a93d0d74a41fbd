"""Every program of every page runs as it stands, alone, in an empty folder."""

import contextlib
import io
import os
import re

from tests import tiers
from tests.docs import guide_case, guides

from absl.testing import absltest, parameterized

# Programs that edit this repository, or need a process, a cluster or a package
# of their own, and the test that runs them.
_RUN_BY = {
  "docs/architecture.md": "tests/docs/architecture_test.py",
  "docs/cluster.md": "tests/docs/cluster_test.py",
  "docs/horovod.md": "tests/estimator_mp/replicas/horovod_test.py",
  "docs/migrating.md": "tests/compat/migrating_test.py",
  "docs/tensorflow1.md": "tests/compat/migrating_test.py",
}
_PROGRAMS = [
  (page, number)
  for page in guides.pages()
  for number, _ in enumerate(guides.programs(page))
  if page not in _RUN_BY
]


class ProgramsTest(guide_case.GuideCase):
  @parameterized.parameters(tiers.sample(_PROGRAMS))
  def test_runs_as_it_stands(self, page, number):
    program = guides.programs(page)[number]
    with contextlib.redirect_stdout(io.StringIO()):
      names = guides.run(program, f"{page} {number}")
    trained = r"^estimator\.train\(input_fn, (?:max_)?steps=(\d+)"
    for steps in re.findall(trained, program, re.M):
      step = names["estimator"].get_variable_value("global_step")
      self.assertEqual(step, int(steps))

  def test_the_tests_of_the_others_exist(self):
    root = os.path.join(os.path.dirname(__file__), "..", "..")
    for page, path in _RUN_BY.items():
      self.assertNotEmpty(guides.programs(page))
      self.assertTrue(os.path.exists(os.path.join(root, path)), path)


if __name__ == "__main__":
  absltest.main()
