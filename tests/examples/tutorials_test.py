"""The tutorials do what they say, and say what is in examples/tutorials."""

import json
import pathlib
import shlex
import subprocess
import sys

from estimator_mp.cli.launching import network
from tests import tiers
from tests.compat import processes
from tools import shown_output, tutorials

from absl.testing import absltest, parameterized

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_PAGES = [(x.stem, x) for x in sorted(_ROOT.glob("docs/tutorials/*.md"))]
_COMMANDS = {
  "estimator-mp": [sys.executable, "-m", "estimator_mp"],
  "estimator-mp-run": [sys.executable, "-m", "compat"],
  "python": [sys.executable],
}


def missing(shown, printed):
  """Returns the lines of a block that are not printed in its order."""
  rest = iter(_lines(printed))
  lines = [line for line in _lines(shown) if line not in ("", "...")]
  return [
    line
    for line in lines
    if not any(shown_output.is_same_line(line, x, within=0.1) for x in rest)
  ]


def _lines(text):
  return [" ".join(line.split()) for line in text.splitlines()]


class TutorialsTest(parameterized.TestCase):
  def test_lines(self):
    printed = "x\nloss   0.501, to 0.0e+00 of 3\ny\n"
    self.assertEqual(
      missing("loss 0.5, to 3.1e-07 of 3\n...\ny\n", printed), []
    )
    self.assertEqual(missing("y\nx\n", printed), ["x"])
    for line in ("loss 0.6, to 0.0e+00 of 3", "loss 0.5, to 0.0e+00 of 4"):
      self.assertEqual(missing(line, printed), [line])

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
        self.assertEqual(missing(step.output, printed), [], printed)

  def _run(self, command, folder):
    """Returns what a command prints."""
    # Where no network of its own is permitted, this one is trusted.
    if " launch " in command and network.why_not() is not None:
      command = command.replace(" launch ", " launch --network=host ")
      command += " --trusted_network"
    name, *arguments = shlex.split(command)
    done = subprocess.run(
      [*_COMMANDS[name], *arguments],
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
