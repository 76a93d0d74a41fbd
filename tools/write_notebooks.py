"""Writes the notebook of each tutorial: docs/tutorials/NAME.ipynb of NAME.md.

    python -m tools.write_notebooks [FOLDER]

as `tools/lint --fix` does, whose environment has nbformat.

Its cells write the files of the page and run the commands, in a folder of their
own. A notebook shows the outputs that the page shows.
"""

import pathlib
import sys
from typing import Any

from tools import tutorials

import nbformat

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_FOLDER = _ROOT / "docs" / "tutorials"
_IN_A_FOLDER = "import os\nimport tempfile\n\nos.chdir(tempfile.mkdtemp())"


def notebook(page: str) -> Any:
  """Returns the notebook of a tutorial, as nbformat has it.

  Args:
    page: Its Markdown.
  """
  v4 = nbformat.v4
  cells = [v4.new_code_cell(_IN_A_FOLDER)]
  files: dict[str, str] = {}
  for step in tutorials.read(page):
    if isinstance(step, tutorials.Write):
      before = files.get(step.path)
      files[step.path] = step.text
      if before is not None and step.text.startswith(before):
        head, text = f"%%writefile -a {step.path}", step.text[len(before) :]
      else:
        head, text = f"%%writefile {step.path}", step.text
      cells.append(v4.new_code_cell(f"{head}\n{text}"))
    elif isinstance(step, tutorials.Run):
      cell = v4.new_code_cell(f"!{step.command}")
      if step.output:
        cell.outputs = [v4.new_output("stream", text=step.output)]
      cells.append(cell)
    elif step.text.strip():
      cells.append(v4.new_markdown_cell(step.text.strip()))
  for number, cell in enumerate(cells):
    cell.id = f"cell-{number}"  # By default one that is drawn.
  kernel = {"name": "python3", "display_name": "Python 3"}
  return v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def main(arguments: list[str]) -> None:
  """Writes all of them.

  Args:
    arguments: The folder to write to, if it is another one.
  """
  folder = pathlib.Path(arguments[0]) if arguments else _FOLDER
  for page in sorted(_FOLDER.glob("*.md")):
    made = notebook(page.read_text(encoding="utf-8"))
    nbformat.validate(made)
    nbformat.write(made, folder / f"{page.stem}.ipynb")


if __name__ == "__main__":
  main(sys.argv[1:])
