"""Jupyter executes the notebooks of the tutorials, from the first cell on.

Bazel makes its environment. Without Bazel it is this one, if that has Jupyter.
"""

import json
import os
import pathlib
import shlex
import subprocess
import sys
from importlib import util

from tests import tiers
from tests.compat import processes
from tests.examples import following

from absl.testing import absltest, parameterized

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_NOTEBOOKS = [(x.stem, x) for x in sorted(_ROOT.glob("docs/tutorials/*.ipynb"))]
_OF_BAZEL = pathlib.Path(
  os.environ.get("RUNFILES_DIR", ""), "py_notebooks/python3"
)
_JUPYTER_EXECUTE = "from nbclient import cli; cli.main()"


def _text(lines):
  return lines if isinstance(lines, str) else "".join(lines)


def _output(cell):
  return "".join(_text(x.get("text", "")) for x in cell.get("outputs", []))


class NotebooksTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    if not _OF_BAZEL.exists() and util.find_spec("nbclient") is None:
      self.skipTest("there is no Jupyter here")

  @tiers.slow
  @parameterized.named_parameters(_NOTEBOOKS)
  def test_prints_what_it_shows(self, path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    shown = [_output(cell) for cell in notebook["cells"]]
    for cell in notebook["cells"]:
      source = _text(cell["source"])
      if cell["cell_type"] == "code":
        cell["outputs"] = []
        if source.startswith("!"):
          cell["source"] = self._command(source[1:])
    executed = self._execute(notebook)["cells"]
    self.assertNotEmpty("".join(shown))
    for block, cell in zip(shown, executed, strict=True):
      printed = _output(cell)
      self.assertEqual(following.missing(block, printed), [], printed)

  def _command(self, command):
    """Returns the source of a cell that runs it, and raises if it fails.

    It has the packages of this process; Jupyter has its own.
    """
    paths = f"PYTHONPATH={processes.environment()['PYTHONPATH']}"
    words = ["env", paths, *following.arguments(command)]
    return f"!{shlex.join(words)}\nassert _exit_code == 0, _exit_code"

  def _execute(self, notebook):
    """Returns the notebook with the outputs of all cells."""
    home = pathlib.Path(self.create_tempdir().full_path)
    path = home / "notebook.ipynb"
    path.write_text(json.dumps(notebook), encoding="utf-8")
    python = str(_OF_BAZEL) if _OF_BAZEL.exists() else sys.executable
    done = subprocess.run(
      [python, "-c", _JUPYTER_EXECUTE, "--inplace", "--timeout=-1", str(path)],
      env=processes.environment(
        BUILD_WORKING_DIRECTORY=None,
        HOME=str(home),
        PYTHONPATH=None,
        TMPDIR=str(home),  # Its first cell makes a folder.
      ),
      stdin=subprocess.DEVNULL,
      capture_output=True,
      text=True,
      check=False,
    )
    self.assertEqual(done.returncode, 0, done.stderr)
    return json.loads(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
  absltest.main()
