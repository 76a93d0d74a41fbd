"""The count of code lines."""

import contextlib
import io
import pathlib

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

  def test_counts_folders_and_the_total(self):
    root = pathlib.Path(self.create_tempdir().full_path)
    for name, lines in {
      "a/x.py": 2,
      "a/notes.txt": 1,
      "a/b/y.py": 1000,
    }.items():
      (root / name).parent.mkdir(parents=True, exist_ok=True)
      (root / name).write_text("x = 1\n" * lines)
    found = code_lines.count([str(root / "a"), str(root / "a/b")])
    expected = {f"{root}/a": (1, 2), f"{root}/a/b": (1, 1000)}
    self.assertEqual(found, expected)
    last = code_lines.table(found).splitlines()[-1].split()
    self.assertEqual(last, ["total", "2", "1,002"])

  def test_a_path_that_is_no_folder(self):
    file = self.create_tempfile("x.py").full_path
    with (
      contextlib.redirect_stderr(io.StringIO()) as printed,
      self.assertRaises(SystemExit),
    ):
      code_lines.main([file])
    self.assertIn(f"{file!r} is no folder; give folders", printed.getvalue())


if __name__ == "__main__":
  absltest.main()
