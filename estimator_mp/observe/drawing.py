"""Drawing: a figure of matplotlib, and its files.

matplotlib is imported when a first picture is drawn.
"""

import contextlib
import importlib.util
import logging
import os
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

FAINT = "#6b7480"
TRACK = "#f3f5f8"
GRID = "#dde2e9"

# A text whose middle is at a point, legible on anything.
ON_WHITE: Mapping[str, Any] = MappingProxyType(
  {
    "ha": "center",
    "va": "center",
    "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1},
  }
)

# Names of ops are no mathematics, and two runs write the same bytes.
_SETTINGS: Mapping[str, Any] = MappingProxyType(
  {
    "text.parse_math": False,
    "svg.hashsalt": "estimator_mp",
    "hatch.linewidth": 0.6,
    "axes.prop_cycle": (
      "cycler('color', ['4e79a7', 'f28e2b', '59a14f', 'e15759', '76b7b2',"
      " 'b07aa1', 'd4a72c', '9c755f'])"
    ),
    "axes.axisbelow": True,
    "axes.titlesize": 9,
    "axes.spines.bottom": False,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "font.size": 8,
    "figure.titlesize": 12,
    "figure.titleweight": "bold",
    "figure.labelsize": 8,
    "savefig.bbox": "tight",
    "savefig.dpi": 120,
    "savefig.pad_inches": 0.2,
  }
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


@contextlib.contextmanager
def figure(
  size: tuple[float, float], title: str = "", footer: str = ""
) -> Iterator[Any]:
  """Yields a figure with a title and a footer, to be drawn on and saved.

  Args:
    size: Its width and height in inches.
    title: The text at the top.
    footer: The small text at the bottom.

  Raises:
    ValueError: If matplotlib is not installed.
  """
  check_available()
  # It tells of its font cache, which it makes when it is imported first.
  logging.getLogger("matplotlib").setLevel(logging.ERROR)
  import matplotlib.figure

  with matplotlib.rc_context(_SETTINGS):
    picture = matplotlib.figure.Figure(size, layout="constrained")
    picture.suptitle(title, x=0.02, ha="left")
    picture.supxlabel(footer, x=0.02, ha="left", color=FAINT)
    yield picture


def save(figure: Any, directory: str, name: str) -> list[str]:
  """Writes NAME.png and NAME.svg; returns their paths.

  Args:
    figure: A figure that `figure` has yielded, within its context.
    directory: An existing folder.
    name: The name of the files, without an ending.
  """
  paths = [os.path.join(directory, f"{name}.{x}") for x in ("png", "svg")]
  for path in paths:
    figure.savefig(path, metadata={"Date": None})
  return paths
