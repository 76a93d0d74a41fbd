"""Tutorials, read as what a reader does: files that grow, and commands.

A block with a title is the next part of that file; one in `diff` changes it. An
indented line is a command, and the block without a language after it shows what
the command prints.
"""

import dataclasses
import re

_BLOCK = re.compile(
  r'^```(?P<language>\w*)(?: title="(?P<title>[^"]+)")?\n(?P<body>.*?)^```\n'
  r"|^    (?P<command>\S[^\n]*)\n(?:\n```\n(?P<output>.*?)^```\n)?",
  re.M | re.S,
)


@dataclasses.dataclass(frozen=True)
class Words:
  """Text that is only to be read, as Markdown."""

  text: str


@dataclasses.dataclass(frozen=True)
class Write:
  """A part of a file, or a change of it.

  Attributes:
    path: The file's, from the reader's folder.
    text: All of the file, from now on.
  """

  path: str
  text: str


@dataclasses.dataclass(frozen=True)
class Run:
  """A command, and what the page shows of its output."""

  command: str
  output: str


def read(page: str) -> list[Words | Write | Run]:
  """Returns the steps of a tutorial.

  Args:
    page: Its Markdown.

  Raises:
    ValueError: A block in `diff` does not fit the file.
  """
  steps: list[Words | Write | Run] = []
  files: dict[str, str] = {}
  end = 0
  for found in _BLOCK.finditer(page):
    steps.append(Words(page[end : found.start()]))
    end = found.end()
    if found["command"]:
      steps.append(Run(found["command"], found["output"] or ""))
      continue
    path = found["title"]
    if path is None:
      steps.append(Words(found[0]))
      continue
    if found["language"] == "diff":
      files[path] = _changed(files.get(path, ""), found["body"])
    elif path in files:
      # Parts of a program are parted as its functions are.
      files[path] += f"\n\n{found['body']}"
    else:
      files[path] = found["body"]
    steps.append(Write(path, files[path]))
  return [*steps, Words(page[end:])]


def _changed(text: str, diff: str) -> str:
  """Returns a file after a change of some lines, between others."""
  lines = diff.splitlines(keepends=True)
  old = "".join(line[1:] for line in lines if line[0] in " -")
  new = "".join(line[1:] for line in lines if line[0] in " +")
  if text.count(old) != 1:
    raise ValueError(f"these lines are not in the file once:\n{old}")
  return text.replace(old, new)
