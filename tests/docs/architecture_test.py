"""What docs/architecture.md names exists, and its examples work."""

import ast
import os
import pathlib
import re
import shutil
import subprocess
import sys

from tools import draw_architecture, draw_step

from absl.testing import absltest

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_GUIDE = "docs/architecture.md"
_COMMAND = "run: ./bazelw run //tools:draw_architecture"
_NO_MODULES = ("pyproject.toml", "tf.Graph", "tf.estimator")
_EXAMPLES = (
  "A schedule",
  "An all-reduce algorithm",
  "A placement strategy",
  "A rule",
)
_NOT_ABOVE_CONFIG = ("config", "mesh", "graph", "devices")


def _guide():
  return (_ROOT / _GUIDE).read_text(encoding="utf-8")


def _names(tree):
  """Names that a file defines, with those in its classes, such as "A.b"."""
  for node in tree.body:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
      yield node.name
    if isinstance(node, ast.ClassDef):
      for member in node.body:
        if isinstance(member, ast.FunctionDef):
          yield f"{node.name}.{member.name}"
        elif isinstance(member, ast.AnnAssign):
          yield f"{node.name}.{member.target.id}"


def _exists(name):
  """Whether a name such as `folder.file.Class.method` is of this repository."""
  parts = name.split(".")
  for root in (_ROOT / "estimator_mp", _ROOT):
    for count in range(len(parts), 0, -1):
      path = root.joinpath(*parts[:count])
      rest = ".".join(parts[count:])
      if path.is_dir() and (path / "__init__.py").exists() and not rest:
        return True
      if path.with_suffix(".py").exists():
        tree = ast.parse(path.with_suffix(".py").read_text(encoding="utf-8"))
        return not rest or rest in _names(tree)
  return False


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


def _row(name):
  """Returns the guide's row of a folder."""
  (row,) = (x for x in _guide().splitlines() if x.startswith(f"|{name}|"))
  return row


class ArchitectureTest(absltest.TestCase):
  def test_what_is_named_exists(self):
    text = re.sub(r"```.*?```", "", _guide(), flags=re.S)
    names = re.findall(r"`([a-z]\w*(?:\.\w+)+)`", text)
    self.assertGreater(len(names), 40)
    absent = [
      name
      for name in names
      if not _exists(name)
      and name not in ("pyproject.toml", "tf.Graph", "tf.estimator")
    ]
    self.assertEmpty(absent)

  def test_the_table_is_that_of_the_code(self):
    """But for lines of code, which are no more than roughly so many."""
    table = draw_architecture.table(draw_architecture.read_parts(_ROOT))
    lines = re.compile(r" ([\d,]+) \|$", re.M)
    is_written = lines.sub("", table) in lines.sub("", _guide())
    self.assertTrue(is_written, _COMMAND)
    for row in table.splitlines()[2:]:
      (count,) = lines.findall(row)
      (written,) = lines.findall(_row(row.split("|")[1]))
      own, said = (int(x.replace(",", "")) for x in (count, written))
      self.assertBetween(said, 0.8 * own - 20, 1.2 * own + 20, _COMMAND)

  def test_the_command_draws_and_writes(self):
    root = pathlib.Path(self.create_tempdir().full_path)
    shutil.copytree(_ROOT / "estimator_mp", root / "estimator_mp")
    (root / "docs" / "pictures").mkdir(parents=True)
    for path in (root / "estimator_mp").rglob("trace*.py"):
      path.unlink()
    shutil.copy(_ROOT / _GUIDE, root / _GUIDE)
    draw_architecture.main([f"--root={root}"])
    (picture,) = (root / "docs" / "pictures").iterdir()
    self.assertEqual(picture.read_bytes()[1:4], b"PNG")
    text = (root / _GUIDE).read_text(encoding="utf-8")
    self.assertIn("| `plan` |", text)
    self.assertIn("pictures/architecture.png", _guide())
    self.assertTrue((_ROOT / "docs/pictures/architecture.png").exists())

  def test_the_calls_of_a_step_are_those_of_the_code(self):
    root = pathlib.Path(self.create_tempdir().full_path)
    (root / "docs").mkdir()
    shutil.copy(_ROOT / _GUIDE, root / _GUIDE)
    draw_step.main([f"--root={root}"])
    written = (root / _GUIDE).read_text(encoding="utf-8")
    self.assertIn("`plan.stages.StagePlanner.plan_forward`", written)
    self.assertEqual(written, _guide(), "run: ./bazelw run //tools:draw_step")
    self.assertEmpty(draw_step.calls_back(draw_step.read_calls()))

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


class DrawingTest(absltest.TestCase):
  def test_a_way_over_others_stands_for_an_import(self):
    parts = {
      name: draw_architecture.Part(name, "", "", "", frozenset(imports))
      for name, imports in {"a": "bcd", "b": "cd", "c": "d", "d": ""}.items()
    }
    needed = draw_architecture.needed_imports(parts)
    self.assertEqual(
      {name: set(others) for name, others in needed.items()},
      {"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": set()},
    )
    self.assertEqual(
      draw_architecture.rows_of(needed), [["a"], ["b"], ["c"], ["d"]]
    )

  def test_is_legible_on_a_page(self):
    """8.3 inches, which are 597.6 points, with letters of 8 points or more."""
    folder = pathlib.Path(self.create_tempdir().full_path)
    parts = draw_architecture.read_parts(_ROOT)
    _, path = draw_architecture.draw(parts, folder)
    svg = pathlib.Path(path).read_text(encoding="utf-8")
    self.assertIn('width="597.6pt"', svg)
    sizes = {float(x) for x in re.findall(r"scale\((\S+) -\1\)", svg)}
    self.assertEqual(min(sizes), 0.08)
    drawn = " ".join(re.findall("<!-- (.*) -->", svg))
    for part in parts.values():
      self.assertIn(part.summary.replace("`", ""), drawn)

  def test_the_steps_are_in_order(self):
    parts = draw_architecture.read_parts(_ROOT)
    rows = draw_architecture.rows_of(draw_architecture.needed_imports(parts))
    row_of = {name: k for k, row in enumerate(rows) for name in row}
    self.assertLess(row_of["lower"], row_of["plan"])
    self.assertLess(row_of["observe"], row_of["plan"])
    self.assertLess(row_of["plan"], row_of["capture"])
    for name in _NOT_ABOVE_CONFIG:
      self.assertGreaterEqual(row_of[name], row_of["config"])


if __name__ == "__main__":
  absltest.main()
