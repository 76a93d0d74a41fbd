"""Rules for the files of the repository itself."""

import fnmatch
import os
import pathlib
import re
import shutil
import subprocess

from absl.testing import absltest

# A test sees links to the files it declares; they lead to the source tree.
_ROOT = str(pathlib.Path(__file__).resolve().parents[2])

_REGISTRY_HOST = re.compile(
  r"\b(?:(?:registry|files|deb|index|snapshot)\.[\w-]+|pypi)\.(?:org|com|dev)\b"
)
# A path of nobody's, such as that of "user", is an example.
_MACHINE_PATH = re.compile(
  r"(?<![\w.~>-])/(?:(?:root|work|opt|mnt)/|home/(?!user|someone|you))\w"
)


def _files():
  """Paths of all files that are or would be committed, from the root."""
  if os.path.exists(os.path.join(_ROOT, ".git")) and shutil.which("git"):
    command = ["git", "-c", f"safe.directory={_ROOT}", "ls-files", "-z"]
    listed = subprocess.run(
      [*command, "--cached", "--others", "--exclude-standard"],
      cwd=_ROOT,
      capture_output=True,
      check=True,
      text=True,
    ).stdout.split("\0")
    return [path for path in listed if os.path.isfile(f"{_ROOT}/{path}")]
  found = []
  for folder, folders, names in os.walk(_ROOT):
    folders[:] = [name for name in folders if not name.startswith(".")]
    found += [os.path.relpath(f"{folder}/{name}", _ROOT) for name in names]
  return found


def _lines(path):
  """The numbered lines of a text file; none if it is no text."""
  with open(os.path.join(_ROOT, path), encoding="utf-8") as file:
    try:
      return list(enumerate(file, start=1))
    except UnicodeDecodeError:
      return []


class RepositoryTest(absltest.TestCase):
  def _matches(self, pattern):
    return [
      f"{path}:{number}: {line.strip()}"
      for path in _files()
      for number, line in _lines(path)
      if pattern.search(line)
    ]

  def test_the_source_tree_was_found(self):
    self.assertContainsSubset(
      ["WORKSPACE", "bazelw", "tests/packaging/repository_test.py"], _files()
    )

  def test_hypothesis_draws_the_same_in_each_run(self):
    """By `drawn.examples`, which does not count seconds, either."""
    found = self._matches(re.compile(r"hypothesis\.settings\("))
    expected = ["tests/estimator_mp/drawn.py"]
    self.assertEqual([line.partition(":")[0] for line in found], expected)

  def test_every_test_file_runs_its_tests(self):
    silent = [
      path
      for path in _files()
      if path.startswith("tests/")
      and path.endswith("_test.py")
      and not any("absltest.main()" in line for _, line in _lines(path))
    ]
    self.assertEmpty(silent)

  def test_no_registry_is_named(self):
    self.assertEmpty(self._matches(_REGISTRY_HOST))

  def test_no_path_of_one_machine_is_named(self):
    self.assertEmpty(self._matches(_MACHINE_PATH))

  def test_locks_name_packages_and_hashes_only(self):
    locked = re.compile(
      r"^[a-z0-9._-]+(\[[a-z0-9,-]+\])?==\S+( ; [^\\]*)? \\$"
      r"|^    --hash=sha256:[0-9a-f]{64}( \\)?$"
    )
    locks = [
      path
      for path in _files()
      if fnmatch.fnmatch(path, "tools/python/requirements_*.txt")
    ]
    self.assertNotEmpty(locks)
    wrong = [
      f"{path}:{number}: {line.strip()}"
      for path in locks
      for number, line in _lines(path)
      if not locked.match(line)
    ]
    self.assertEmpty(wrong)


if __name__ == "__main__":
  absltest.main()
