"""A sheet to draw boxes and arrows on, in inches from its lower left."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from estimator_mp.observe import drawing

LINE = "#7b8794"


@contextlib.contextmanager
def opened(width: float, height: float) -> Iterator[Any]:
  """Yields the axes of an empty sheet; `save` writes it.

  Args:
    width: Its width.
    height: Its height.
  """
  with drawing.figure((width, height)) as figure:
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.axis("off")
    yield axes


def save(axes: Any, directory: str, name: str) -> list[str]:
  """Writes a sheet into NAME.png and NAME.svg; returns their paths.

  Args:
    axes: Those of the sheet.
    directory: An existing folder.
    name: The name of the files, without an ending.
  """
  return drawing.save(axes.figure, directory, name)


def box(
  axes: Any, corner: tuple[float, float], size: tuple[float, float], color: str
) -> None:
  """Draws a box from its lower left corner on.

  Args:
    axes: Those of the sheet.
    corner: The corner.
    size: Its width and its height.
    color: Its color.
  """
  (left, bottom), (width, height) = corner, size
  axes.bar(
    left, height, width, bottom, align="edge", color=color, edgecolor=LINE
  )


def text(
  axes: Any, x: float, y: float, text: str, size: float, **look: Any
) -> None:
  """Writes a text from its left on.

  Args:
    axes: Those of the sheet.
    x: Its left.
    y: The middle of its height.
    text: The text.
    size: The points of its font.
    **look: What else matplotlib is told of it.
  """
  axes.text(x, y, text, fontsize=size, va="center", **look)


def arrow(axes: Any, points: Sequence[tuple[float, float]]) -> None:
  """Draws a line that has a head at its last point.

  Args:
    axes: Those of the sheet.
    points: Where it goes.
  """
  axes.plot(*zip(*points[:-1], strict=True), color=LINE, linewidth=1)
  look = {"arrowstyle": "-|>", "color": LINE, "shrinkA": 0, "shrinkB": 0}
  axes.annotate("", points[-1], points[-2], arrowprops=look)
