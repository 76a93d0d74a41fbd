"""The tutorials do what they say, and say what is in examples/tutorials."""

import json
import pathlib
import subprocess

from tests import tiers
from tests.compat import processes
from tests.examples import following
from tools import tutorials

from absl.testing import absltest, parameterized

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_PAGES = [(x.stem, x) for x in sorted(_ROOT.glob("docs/tutorials/*.md"))]


class TutorialsTest(parameterized.TestCase):
  def test_lines(self):
    printed = "x\nloss   0.501, to 0.0e+00 of 3\ny\n"
    self.assertEqual(
      following.missing("loss 0.5, to 3.1e-07 of 3\n...\ny\n", printed), []
    )
    self.assertEqual(following.missing("y\nx\n", printed), ["x"])
    for line in ("loss 0.6, to 0.0e+00 of 3", "loss 0.5, to 0.0e+00 of 4"):
      self.assertEqual(following.missing(line, printed), [line])

  def test_a_change_that_does_not_fit(self):
    with self.assertRaisesWithLiteralMatch(
      ValueError, "these lines are not in the file once:\na\n"
    ):
      tutorials.read('```diff title="x.py"\n-a\n+b\n```\n')

  @parameterized.named_parameters(_PAGES)
  def test_programs_are_those_of_examples(self, page):
    steps = tutorials.read(page.read_text(encoding="utf-8"))
    files = {x.path: x.text for x in steps if isinstance(x, tutorials.Write)}
    self.assertNotEmpty(files)
    for path, text in files.items():
      kept = _ROOT / "examples/tutorials" / page.stem / path
      self.assertEqual(text, kept.read_text(encoding="utf-8"), path)

  @parameterized.named_parameters(_PAGES)
  def test_the_notebook_is_the_page_s(self, page):
    """`python -m tools.write_notebooks` writes it."""
    text = page.with_suffix(".ipynb").read_text(encoding="utf-8")
    cells = ["".join(cell["source"]) for cell in json.loads(text)["cells"]]
    steps = tutorials.read(page.read_text(encoding="utf-8"))
    shown = iter(cells[1:])
    files = {}
    for step in steps:
      if isinstance(step, tutorials.Write):
        how, text = next(shown).split("\n", 1)
        before = files.get(step.path, "") if " -a " in how else ""
        files[step.path] = before + text
        self.assertEqual(files[step.path], step.text)
        self.assertEndsWith(how, step.path)
      elif isinstance(step, tutorials.Run):
        self.assertEqual(next(shown), f"!{step.command}")
      elif step.text.strip():
        self.assertEqual(next(shown), step.text.strip())
    self.assertEmpty([*shown])

  @tiers.slow
  @parameterized.named_parameters(_PAGES)
  def test_step_by_step(self, page):
    folder = pathlib.Path(self.create_tempdir().full_path)
    for step in tutorials.read(page.read_text(encoding="utf-8")):
      if isinstance(step, tutorials.Write):
        (folder / step.path).write_text(step.text, encoding="utf-8")
      elif isinstance(step, tutorials.Run):
        printed = self._run(step.command, folder)
        self.assertEqual(following.missing(step.output, printed), [], printed)

  def _run(self, command, folder):
    """Returns what a command prints."""
    done = subprocess.run(
      following.arguments(command),
      cwd=folder,
      env=processes.environment(BUILD_WORKING_DIRECTORY=None),
      stdin=subprocess.DEVNULL,
      capture_output=True,
      text=True,
      check=False,
    )
    self.assertEqual(done.returncode, 0, done.stderr)
    return done.stdout


if __name__ == "__main__":
  absltest.main()
