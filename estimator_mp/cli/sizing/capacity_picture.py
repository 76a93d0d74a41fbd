"""The picture of capacities: parameters against stages, beside linear growth.

parameters
100 M |                 o   . what one stage has, times the stages
 50 M |         o   .
      |     o .         o   the largest that fits; filled: trained, too
    0 +------------------ stages
"""

from collections.abc import Sequence

from estimator_mp import amounts
from estimator_mp.observe import drawing


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
  words = "parameters of the largest model that fits"
  if any(is_trained):
    words += "; filled: trained, too"
  with drawing.figure((6.4, 4.0)) as figure:
    import matplotlib.ticker

    axes = figure.subplots()
    axes.set_title(f"{title}\n{words}", loc="left")
    axes.set_xlabel("stages")
    axes.set_xticks(stages)
    axes.yaxis.set_major_formatter(matplotlib.ticker.EngFormatter())
    axes.grid(axis="y", color=drawing.GRID)
    axes.plot(
      stages, linear, color="silver", label="one stage's, times the stages"
    )
    axes.plot(stages, parameters)
    for count, size, trained in zip(
      stages, parameters, is_trained, strict=True
    ):
      fill = "full" if trained else "none"
      axes.plot(count, size, "C0s", fillstyle=fill)
      axes.annotate(
        amounts.amount(size, "").strip(),
        (count, size),
        (-6, 6),
        textcoords="offset points",
        ha="right",
      )
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return drawing.save(figure, directory, "capacity")
