"""The count of code lines."""

import contextlib
import io
import os
import pathlib
import textwrap

from tools import code_lines

from absl.testing import absltest, parameterized

_MODULE = '''
"""A module."""

import os  # Counts.


class A:
  """A class.

  With three lines.
  """

  name = """A text
of two lines"""

  def f(self):
    "A short docstring."
    # A comment.
    return os.path.join(
      "a",

      "b",  # Both count.
    )
'''


class CodeLinesTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("empty", "", 0),
    ("comments", "# One.\n\n# Two.\n", 0),
    ("module_docstring", '"""One\n\ntwo."""\n', 0),
    ("function_docstring", 'def f():\n  """One\n  two."""\n', 1),
    ("async_docstring", 'async def f():\n  """One."""\n', 1),
    ("docstring_behind_code", 'def f(): """One\n  two."""\n', 1),
    ("text_that_is_no_docstring", 'x = 1\n"""One\ntwo."""\n', 3),
    ("formatted_text", 'x = f"""{1}\n{2}\n"""\n', 3),
    ("two_statements", "x = 1; y = 2\n", 1),
    ("imports", "import a\nfrom b import (\n  c,\n)\n", 4),
    ("all", _MODULE, 9),
  )
  def test_counts(self, source, expected):
    self.assertEqual(expected, code_lines.code_lines(source))

  def test_prints_folders_and_the_total(self):
    root = pathlib.Path(self.create_tempdir().full_path)
    for name, source in {
      "a/x.py": "x = 1\ny = 2\n",
      "a/notes.txt": "x = 1\n",
      "a/b/y.py": "x = 1\n" * 1000,
      "a/b/z.py": "",
      "a/c/d/z.py": "# Nothing.\n",
      "e/u.py": "u = 1\n",
    }.items():
      path = root / name
      path.parent.mkdir(parents=True, exist_ok=True)
      path.write_text(source)
    with (
      absltest.mock.patch.dict(os.environ, BUILD_WORKING_DIRECTORY=str(root)),
      contextlib.redirect_stdout(io.StringIO()) as printed,
    ):
      code_lines.main(["a", "a/b", "e"])
    self.assertEqual(
      textwrap.dedent(f"""\
      {"folder":{len(str(root)) + 6}}  files   lines
      {root}/a          1       2
      {root}/a/b        2   1,000
      {root}/a/c/d      1       0
      {root}/e          1       1
      {"total":{len(str(root)) + 6}}      5   1,003
      """),
      printed.getvalue(),
    )

  def test_a_path_that_is_no_folder(self):
    file = self.create_tempfile("x.py").full_path
    with (
      contextlib.redirect_stderr(io.StringIO()) as printed,
      self.assertRaises(SystemExit),
    ):
      code_lines.main([file])
    self.assertIn(
      f"{file!r} is no folder; give folders with Python files, such as "
      "estimator_mp",
      printed.getvalue(),
    )

  def test_a_folder_without_python_files(self):
    folder = self.create_tempdir().full_path
    self.assertEqual(
      "folder  files   lines\ntotal       0       0",
      code_lines.table(code_lines.count([folder])),
    )


if __name__ == "__main__":
  absltest.main()
