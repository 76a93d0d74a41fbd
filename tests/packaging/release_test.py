"""A release's files agree: version, changelog and image."""

import pathlib
import re

import estimator_mp
from compat import versions
from tests.compat import matrix

from absl.testing import absltest

# A test sees links to the files it declares; they lead to the source tree.
_ROOT = pathlib.Path(__file__).resolve().parents[2]


def _read(path):
  return (_ROOT / path).read_text(encoding="utf-8")


class ReleaseTest(absltest.TestCase):
  def test_the_changelog_begins_with_this_version(self):
    (released,) = re.findall(r"^## (\S+) - ", _read("CHANGELOG.md"), re.M)[:1]
    self.assertEqual(released, estimator_mp.__version__)

  def test_the_python_of_the_image_is_one_of_the_package(self):
    (version,) = re.findall(
      r"^FROM python:(3\.\d+)-slim$", _read("Dockerfile"), re.M
    )
    classifier = f'"Programming Language :: Python :: {version}"'
    self.assertIn(classifier, _read("pyproject.toml"))

  def test_the_image_is_given_what_the_wheel_is_built_of(self):
    rules = _read(".dockerignore").splitlines()
    kept = [rule[1:] for rule in rules if rule.startswith("!")]
    files = ["LICENSE", "README.md", "pyproject.toml"]
    packages = ["compat", "estimator_mp", "model_fns"]
    self.assertContainsSubset([*files, *packages], kept)

  def test_the_newest_tensorflow_is_the_one_that_is_tested(self):
    newest = versions.NEWEST_TESTED
    self.assertEqual(versions.parse(matrix.RELEASES[-1]), newest)
    for path in ("pyproject.toml", "CITATION.cff", "mkdocs.yml", "README.md"):
      said = re.findall(r"2\.1[56] to (2\.\d+)", _read(path))
      self.assertEqual({*map(versions.parse, said)}, {newest}, path)


if __name__ == "__main__":
  absltest.main()
