"""The programs of docs/architecture.md work, and print what it shows."""

import ast
import contextlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys

from tests import tiers
from tests.docs import guide_case, guides

from absl.testing import absltest

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_GUIDE = "docs/architecture.md"
_EXAMPLES = (
  "A schedule",
  "An all-reduce algorithm",
  "A placement strategy",
  "A rule",
)


def _guide():
  return (_ROOT / _GUIDE).read_text(encoding="utf-8")


def _end_of(tree, name):
  """The last line of the value of a name of a file."""
  for node in tree.body:
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    if any(getattr(target, "id", "") == name for target in targets):
      value = node.value
      if isinstance(value, ast.Call):  # MappingProxyType({...})
        (value,) = value.args
      return value.end_lineno
  raise ValueError(name)


def _start_of(tree, name):
  """The first line of a function of a file."""
  return next(n.lineno for n in tree.body if getattr(n, "name", "") == name)


def _apply(block, root):
  """Does what the first line of an example says; returns a program to run."""
  title, _, text = block.partition("\n")
  if found := re.fullmatch(r"# A new file, (\S+):", title):
    (root / found[1]).write_text(text, encoding="utf-8")
    return ""
  if title == "# Then this runs:":
    return text
  path, where, name = re.fullmatch(
    r"@@ (\S+), (before|at the end of) (\w+) @@", title
  ).groups()
  text = re.sub(r"(?m)^\+", "", text)
  source = (root / path).read_text(encoding="utf-8")
  lines = source.splitlines(keepends=True)
  find = _start_of if where == "before" else _end_of
  line = find(ast.parse(source), name) - 1
  lines[line:line] = [text, "\n\n"] if where == "before" else [text]
  (root / path).write_text("".join(lines), encoding="utf-8")
  return ""


class ArchitectureTest(guide_case.GuideCase):
  def test_one_layer_is_what_the_guide_prints(self):
    section = _guide().split("\n## One layer, step by step\n")[1]
    program, shown = re.findall(r"```(?:python)?\n(.*?)```", section, re.S)[:2]
    with contextlib.redirect_stdout(io.StringIO()) as output:
      guides.run(program, _GUIDE)
    rest = output.getvalue()
    for line in shown.replace("...\n", "").splitlines():
      _, found, rest = rest.partition(line)
      self.assertEqual(found, line)

  @tiers.slow
  def test_examples(self):
    """All in one copy of the repository, and one process."""
    root = pathlib.Path(self.create_tempdir().full_path)
    for folder in ("compat", "estimator_mp"):
      shutil.copytree(_ROOT / folder, root / folder)
    program = "".join(
      f"exec({self._apply_example(title, root)!r}, {{}})\n"
      for title in _EXAMPLES
    )
    paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    ran = subprocess.run(
      [sys.executable, "-c", program],
      cwd=root,
      env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
      capture_output=True,
      text=True,
      check=False,
    )
    self.assertEqual(ran.returncode, 0, ran.stderr)

  def _apply_example(self, title, root):
    """Does what an example of the guide says; returns the program to run."""
    section = _guide().split(f"\n### {title}\n")[1].split("\n### ")[0]
    blocks = re.findall(r"```(?:python|diff)\n(.*?)```", section, re.S)
    return "".join([_apply(block, root) for block in blocks])


if __name__ == "__main__":
  absltest.main()
