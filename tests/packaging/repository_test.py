"""Rules for the files of the repository itself."""

import ast
import fnmatch
import glob
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


def _build_file(path):
  """Path of the BUILD file of the package that a file is in."""
  for folder in pathlib.PurePath(path).parents:
    if os.path.exists(os.path.join(_ROOT, folder, "BUILD")):
      break
  return str(folder / "BUILD")


def _built_tests(build_file):
  """Paths of the files that a BUILD file's py_tests run, from its folder."""
  with open(os.path.join(_ROOT, build_file), encoding="utf-8") as file:
    tree = ast.parse(file.read())
  return {
    path
    for call in ast.walk(tree)
    if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "py_test"
    for keyword in call.keywords
    if keyword.arg in ("srcs", "main")
    for path in _files_of(keyword.value, os.path.dirname(build_file))
  }


def _files_of(value, folder):
  """Paths of the files that a text, a list, a glob or a sum of them names."""
  if isinstance(value, ast.Constant):
    return {value.value}
  if isinstance(value, ast.List):
    return {path for item in value.elts for path in _files_of(item, folder)}
  if isinstance(value, ast.BinOp):
    return _files_of(value.left, folder) | _files_of(value.right, folder)
  (include,) = value.args
  found = {
    path
    for pattern in _files_of(include, folder)
    for path in glob.glob(pattern, root_dir=os.path.join(_ROOT, folder))
  }
  for keyword in value.keywords:
    found -= _files_of(keyword.value, folder)
  return found


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

  def test_bazel_runs_every_test_file(self):
    forgotten = []
    for path in _files():
      if path.startswith("tests/") and path.endswith("_test.py"):
        build_file = _build_file(path)
        name = os.path.relpath(path, os.path.dirname(build_file))
        if name not in _built_tests(build_file):
          forgotten.append(f"{path}: no py_test of {build_file} runs it")
    self.assertEmpty(forgotten)

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
