"""The picture of capacities: parameters against stages, beside linear growth.

parameters
100 M |                 o   . what one stage has, times the stages
 50 M |         o   .
      |     o .         o   the largest that fits; filled: trained, too
    0 +------------------ stages
"""

from collections.abc import Sequence

from estimator_mp import amounts
from estimator_mp.observe import canvas

_WIDTH, _HEIGHT = 6.4, 4.0
_LEFT, _BOTTOM, _RIGHT, _TOP = 0.9, 0.7, 0.4, 0.8
_PLANNED = "#2f6fb2"
_LINEAR = "#b9c0c8"
_MARK = 0.06
_TICKS = 6
_DPI = 130


def write_pictures(
  title: str,
  stages: Sequence[int],
  parameters: Sequence[int],
  is_trained: Sequence[bool],
  directory: str,
) -> list[str]:
  """Writes capacity.png and capacity.svg; returns their paths.

  Args:
    title: The text above the picture.
    stages: The numbers of stages, growing.
    parameters: Those of the largest model, for each.
    is_trained: Whether that was trained under its memory limit, for each.
    directory: An existing folder.

  Raises:
    ValueError: If matplotlib is not installed.
  """
  linear = [parameters[0] * count / stages[0] for count in stages]
  most = max(*parameters, *linear, 1)

  def point(count: float, height: float) -> tuple[float, float]:
    wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _BOTTOM - _TOP
    return _LEFT + wide * count / stages[-1], _BOTTOM + high * height / most

  with canvas.opened(_WIDTH, _HEIGHT) as sheet:
    sheet.text(_LEFT, _HEIGHT - 0.35, title, 10, weight="bold")
    for size in canvas.ticks(most, _TICKS):
      left, y = point(0, size)
      sheet.line([(left, y), point(stages[-1], size)], canvas.GRID, 0.8, 0)
      words = amounts.amount(size, "").strip()
      sheet.text(left - 0.1, y, words, 9, align="right")
    sheet.line(
      [point(0, most), point(0, 0), point(stages[-1], 0)], canvas.INK, 1
    )
    sheet.line([point(0, 0), point(stages[-1], linear[-1])], _LINEAR, 1.5, 1)
    end = point(stages[-1] * 0.62, linear[-1] * 0.62)
    words = "one stage's, times the stages"
    sheet.text(
      end[0] + 0.1, end[1] - 0.12, words, 8, canvas.FAINT, halo="white"
    )
    sheet.line(
      [point(*pair) for pair in zip(stages, parameters, strict=True)],
      _PLANNED,
      1.5,
    )
    for count, size, trained in zip(
      stages, parameters, is_trained, strict=True
    ):
      x, y = point(count, size)
      sheet.box(
        (x - _MARK, y - _MARK),
        (2 * _MARK, 2 * _MARK),
        _PLANNED if trained else "white",
        _PLANNED,
        line_width=1.5,
      )
      words = amounts.amount(size, "").strip()
      sheet.text(x - 0.1, y + 0.16, words, 9, align="right", halo="white")
      sheet.text(x, _BOTTOM - 0.2, str(count), 9, align="center")
    middle = point(stages[-1] / 2, 0)[0]
    sheet.text(middle, 0.2, "stages", 9, canvas.FAINT, "center")
    words = "parameters of the largest model that fits"
    if any(is_trained):
      words += "; filled: trained, too"
    sheet.text(_LEFT, _HEIGHT - 0.58, words, 8, canvas.FAINT)
    return sheet.save(directory, "capacity", _DPI)
