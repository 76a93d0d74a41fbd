"""Canvas: a picture of boxes, lines and texts, written as PNG and SVG.

What all pictures here have in common: the ink, the fonts' sizes in points, and
coordinates in inches from the lower left. Nothing else knows matplotlib, which
is imported when a first picture is drawn.
"""

import contextlib
import importlib.util
import logging
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any

INK = "#22272e"
FAINT = "#6b7480"
GRID = "#dde2e9"

# Two runs write the same bytes: no date, and identifiers that are not random.
_SETTINGS = {"svg.hashsalt": "estimator_mp", "hatch.linewidth": 0.6}
_FORMATS: tuple[tuple[str, dict[str, Any]], ...] = (
  ("png", {}),
  ("svg", {"Date": None}),
)


def check_available() -> None:
  """Raises if there is nothing to draw with.

  Raises:
    ValueError: If matplotlib is not installed.
  """
  if importlib.util.find_spec("matplotlib") is None:
    raise ValueError(
      "a picture needs matplotlib to draw it; pip install "
      "'estimator-mp[train]', or ask for no picture"
    )


def shortened(name: str, most: int) -> str:
  """Returns a name, without its middle if it is too long.

  Args:
    name: The name.
    most: The letters that there is room for.
  """
  if len(name) <= most:
    return name
  half = (most - 1) // 2
  return f"{name[:half]}…{name[-half:]}"


def ticks(end: float, most: int) -> list[float]:
  """Returns where an axis from 0 has its ticks, 0 among them.

  They are 1, 2 or 5 times a power of ten apart.

  Args:
    end: Where the axis ends, more than 0.
    most: How many there are at most besides 0.
  """
  power = 10.0 ** math.floor(math.log10(end / most))
  step = next(m * power for m in (1, 2, 5, 10) if m * power >= end / most)
  return [index * step for index in range(int(end / step + 1e-9) + 1)]


@contextlib.contextmanager
def opened(width: float, height: float) -> Iterator["Canvas"]:
  """Yields an empty canvas of a size in inches, to be drawn on and saved.

  Raises:
    ValueError: If matplotlib is not installed.
  """
  check_available()
  # It tells of its font cache, which it makes when it is imported first.
  logging.getLogger("matplotlib").setLevel(logging.ERROR)
  import matplotlib.figure
  import matplotlib.patches
  import matplotlib.patheffects

  with matplotlib.rc_context(_SETTINGS):
    yield Canvas(matplotlib, width, height)


class Canvas:
  """A white sheet; `opened` makes one."""

  def __init__(self, library: Any, width: float, height: float):
    self._library = library
    self._figure = library.figure.Figure(figsize=(width, height))
    self._figure.patch.set_facecolor("white")
    self._axes = self._figure.add_axes((0, 0, 1, 1))
    self._axes.set_xlim(0, width)
    self._axes.set_ylim(0, height)
    self._axes.axis("off")

  def save(self, directory: str, name: str, dpi: int) -> list[str]:
    """Writes NAME.png and NAME.svg; returns their paths.

    Args:
      directory: An existing folder.
      name: The name of the files, without an ending.
      dpi: The dots per inch of the PNG.
    """
    paths = []
    for ending, metadata in _FORMATS:
      paths.append(os.path.join(directory, f"{name}.{ending}"))
      self._figure.savefig(paths[-1], dpi=dpi, metadata=metadata)
    return paths

  def box(
    self,
    corner: tuple[float, float],
    size: tuple[float, float],
    color: str,
    edge: str | None = None,
    hatch: str | None = None,
    line_width: float = 0.8,
  ) -> None:
    """Draws a rectangle from its lower left corner on.

    Args:
      corner: That corner.
      size: Its width and height.
      color: The colour of its area.
      edge: The colour of its border and hatching; None for no border.
      hatch: Its hatching in matplotlib's words.
      line_width: The points of its border.
    """
    self._axes.add_patch(
      self._library.patches.Rectangle(
        corner,
        *size,
        facecolor=color,
        edgecolor=edge or "none",
        linewidth=line_width if edge else 0,
        hatch=hatch,
      )
    )

  def line(
    self,
    points: Sequence[tuple[float, float]],
    color: str,
    width: float,
    layer: int = 2,
  ) -> None:
    """Draws a line of a width in points; a lower layer is behind others."""
    xs, ys = zip(*points, strict=True)
    self._axes.plot(xs, ys, color=color, linewidth=width, zorder=layer)

  def arrow(
    self,
    points: Sequence[tuple[float, float]],
    color: str,
    width: float,
    label: str = "",
  ) -> None:
    """Draws a line that has a head at its last point.

    Args:
      points: Where it goes.
      color: Its colour, and that of the label.
      width: Its points.
      label: The text on the middle one of its parts, if there is one.
    """
    if len(points) > 2:
      self.line(points[:-1], color, width)
    self._axes.annotate(
      "",
      xy=points[-1],
      xytext=points[-2],
      arrowprops={
        "arrowstyle": "-|>",
        "color": color,
        "linewidth": width,
        "shrinkA": 0,
        "shrinkB": 0,
      },
    )
    if label:
      half = len(points) // 2
      (left, low), (right, high) = points[half - 1 : half + 1]
      x, y = (left + right) / 2, (low + high) / 2
      self.text(x, y, label, 8, color, "center", is_on_white=True)

  def text(
    self,
    x: float,
    y: float,
    text: str,
    size: float,
    color: str = INK,
    align: str = "left",
    weight: str = "normal",
    halo: str | None = None,
    is_on_white: bool = False,
  ) -> None:
    """Writes a text, in which no letter is markup.

    Args:
      x: Where it begins, ends or has its middle, as `align` says.
      y: The middle of its height.
      text: The text.
      size: The points of its font.
      color: Its colour.
      align: "left", "right" or "center".
      weight: "normal" or "bold".
      halo: The colour of a rim around the letters; None for none.
      is_on_white: Whether a white box hides what is behind it.
    """
    stroke = self._library.patheffects.withStroke
    self._axes.text(
      x,
      y,
      text,
      fontsize=size,
      color=color,
      ha=align,
      va="center",
      weight=weight,
      path_effects=[stroke(linewidth=3, foreground=halo)] if halo else None,
      bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5}
      if is_on_white
      else None,
      parse_math=False,
    )


class Picture:
  """The base of pictures; a subclass has the drawing and its size.

  Attributes:
    width: Its width in inches.
    height: Its height.
    canvas: The canvas that `draw` draws on.
  """

  width: float
  height: float
  canvas: Canvas

  def draw(self) -> None:
    """Draws it."""
    raise NotImplementedError

  def write(self, directory: str, name: str, dpi: int = 110) -> list[str]:
    """Draws it into NAME.png and NAME.svg; the same picture, the same files.

    Args:
      directory: An existing folder.
      name: The name of the files, without an ending.
      dpi: The dots per inch of the PNG.

    Returns:
      The paths of the files.

    Raises:
      ValueError: If matplotlib is not installed.
    """
    with opened(self.width, self.height) as self.canvas:
      self.draw()
      return self.canvas.save(directory, name, dpi)

  def frame(self, left: float, title: str, footer: Sequence[str]) -> None:
    """Writes a title at the top, and small lines at the bottom."""
    self.canvas.text(left, self.height - 0.35, title, size=12, weight="bold")
    for number, text in enumerate(reversed(footer)):
      self.canvas.text(left, 0.18 + 0.16 * number, text, 7.5, FAINT)
