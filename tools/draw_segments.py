"""Draws segments: the work of micro-batches between two waits.

    python -m tools.draw_segments

writes docs/pictures/segments.png: a forward pass of two stages in three
segments, and in one. The cells are in the order of `gpipe`'s forward passes.
"""

import argparse
import dataclasses
import pathlib
from collections.abc import Sequence

from estimator_mp.observe import canvas

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_FOLDER = pathlib.Path("docs", "pictures")
_MICRO_BATCHES, _STAGES = 4, 2

# In inches.
_CELL, _ROW, _MARGIN, _LABEL, _TITLE = 0.34, 0.4, 0.25, 0.75, 0.4
_COLORS = ("#dbe9f6", "#a9cbe8", "#76acd8", "#4a8ac4")
_ONCE, _LINE = "#f6d8a8", "#7b8794"


@dataclasses.dataclass(frozen=True)
class Block:
  """The work of a device in an interval.

  Attributes:
    stage: The stage whose device it is.
    begin: When it begins, in forward passes of one layer of one micro-batch.
    length: How long it takes.
    micro_batch: Its micro-batch; None for what is executed once.
  """

  stage: int
  begin: float
  length: float
  micro_batch: int | None


def blocks_of(segments: Sequence[Sequence[int]]) -> list[Block]:
  """Returns the forward passes of a model, segment by segment.

  Args:
    segments: For each segment the stages of its layers, in order. An op that is
      executed once comes after each segment but the last, on the stage of the
      segment's last layer.
  """
  found: list[Block] = []
  start = 0.0
  for number, layers in enumerate(segments):
    free = [start] * _STAGES
    for micro_batch in range(_MICRO_BATCHES):
      ready = start
      for stage in layers:
        begin = max(ready, free[stage])
        found.append(Block(stage, begin, 1, micro_batch))
        ready = free[stage] = begin + 1
    start = max(free)
    if number + 1 < len(segments):
      found.append(Block(layers[-1], start, 1, None))
      start += 1
  return found


CASES = {
  "Three segments: micro-batches wait at each op that is executed once": (
    blocks_of([[0], [0, 1], [1]])
  ),
  "One segment: all ops are executed in parts": blocks_of([[0, 0, 1, 1]]),
}


def draw(directory: pathlib.Path) -> list[str]:
  """Draws both cases; returns the paths of the files.

  Args:
    directory: An existing folder.
  """
  ends = [max(x.begin + x.length for x in case) for case in CASES.values()]
  width = 2 * _MARGIN + _LABEL + _CELL * max(ends)
  panel = _TITLE + _STAGES * _ROW
  height = len(CASES) * (panel + _MARGIN) + _MARGIN
  with canvas.opened(width, height) as sheet:
    top = height
    for title, blocks in CASES.items():
      top -= _MARGIN
      sheet.text(_MARGIN, top - 0.15, title, 9, weight="bold")
      for stage in range(_STAGES):
        middle = top - _TITLE - (stage + 0.5) * _ROW
        sheet.text(_MARGIN, middle, f"stage {stage}", 8)
      for block in blocks:
        _draw_block(sheet, block, top - _TITLE)
      top -= panel
    return sheet.save(str(directory), "segments", dpi=110)


def _draw_block(sheet: canvas.Canvas, block: Block, top: float) -> None:
  left = _MARGIN + _LABEL + block.begin * _CELL
  bottom = top - (block.stage + 1) * _ROW + 0.04
  color, text = _ONCE, "once"
  if block.micro_batch is not None:
    color, text = _COLORS[block.micro_batch], str(block.micro_batch)
  size = (block.length * _CELL - 0.03, _ROW - 0.08)
  sheet.box((left, bottom), size, color, edge=_LINE)
  sheet.text(left + 0.03, bottom + size[1] / 2, text, 6)


def main(arguments: Sequence[str] | None = None) -> None:
  """Draws the picture.

  Args:
    arguments: Those of the command line, without the command.
  """
  parser = argparse.ArgumentParser(description="Draws segments.")
  parser.add_argument("--root", default=str(_ROOT), help="the repository")
  folder = pathlib.Path(parser.parse_args(arguments).root, _FOLDER)
  folder.mkdir(parents=True, exist_ok=True)
  _, drawn_twice = draw(folder)
  pathlib.Path(drawn_twice).unlink()  # Documents show the PNG.


if __name__ == "__main__":
  main()
