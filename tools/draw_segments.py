"""Draws segments: the work of micro-batches between two waits.

    python -m tools.draw_segments

writes docs/pictures/segments.png: a forward pass of two stages in three
segments, and in one. The cells are in the order of `gpipe`'s forward passes.
"""

import argparse
import dataclasses
import pathlib
from collections.abc import Sequence

from estimator_mp.observe import drawing

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_FOLDER = pathlib.Path("docs", "pictures")
_MICRO_BATCHES, _STAGES = 4, 2

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
  with drawing.figure((6.6, 3.2)) as figure:
    both = figure.subplots(len(CASES), sharex=True)
    for axes, (title, blocks) in zip(both, CASES.items(), strict=True):
      axes.set_title(title, loc="left", weight="bold")
      axes.set_xticks([])
      axes.set_yticks(range(_STAGES), [f"stage {x}" for x in range(_STAGES)])
      axes.set_xlim(left=-0.1)
      axes.invert_yaxis()
      for block in blocks:
        color, text = _ONCE, "once"
        if block.micro_batch is not None:
          color, text = _COLORS[block.micro_batch], str(block.micro_batch)
        bars = axes.barh(
          block.stage,
          block.length - 0.1,
          left=block.begin,
          color=color,
          edgecolor=_LINE,
        )
        axes.bar_label(bars, [text], label_type="center", fontsize=7)
    return drawing.save(figure, str(directory), "segments")


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
