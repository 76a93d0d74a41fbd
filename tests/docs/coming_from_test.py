"""The page for users of other systems says what is measured, and no more."""

import re

import estimator_mp
from tests.docs import guides

from absl.testing import absltest

_PAGE = "docs/coming_from.md"


class ComingFromTest(absltest.TestCase):
  def test_each_figure_is_one_of_the_benchmarks(self):
    figures = re.findall(r"\b\d\.\d{3}\b", guides.read(_PAGE))
    self.assertNotEmpty(figures)
    measured = guides.read("docs/benchmarks.md")
    self.assertEqual([x for x in figures if f" {x} (" not in measured], [])

  def test_what_is_said_here_is_an_option(self):
    rows = re.findall(r"^\| .*? \| (.*) \|$", guides.read(_PAGE), re.M)
    meshes = re.findall(r"`((?:data|stage|model):[\w:,]+)`", "".join(rows))
    self.assertGreater(len(meshes), 10)
    for mesh in meshes:
      estimator_mp.ShardingConfig(mesh=mesh)
    known = estimator_mp.ShardingConfig.__dataclass_fields__
    options = re.findall(r"`(\w+)=[\[\"\d]", "".join(rows))
    self.assertGreater(len(options), 10)
    self.assertEqual([x for x in options if x not in known], [])


if __name__ == "__main__":
  absltest.main()
