"""Evenness: a line for people where one stage has nearly all of a model."""

from collections.abc import Sequence

from estimator_mp import amounts

_NEARLY_ALL = 0.9
_ALL = 0.99


def shares(values: Sequence[float]) -> list[float]:
  """Returns each stage's part of a sum; the sum of the parts is 1.

  Args:
    values: The values of stages; parts are 0 if all of these are.
  """
  total = sum(values)
  return [value / total if total else 0.0 for value in values]


def has_all(values: Sequence[float]) -> int | None:
  """Returns the stage that has all of a sum but a hundredth; None if none has.

  Args:
    values: The values of stages, of which there are several.
  """
  parts = shares(values)
  return parts.index(max(parts)) if max(parts) > _ALL else None


def uneven_lines(
  seconds: Sequence[float], memory_bytes: Sequence[float]
) -> list[str]:
  """Returns lines about uneven stages, with options against it; or none.

  Args:
    seconds: The planned time of each stage.
    memory_bytes: The planned bytes of each stage.
  """
  lines = []
  slow, full = shares(seconds), shares(memory_bytes)
  if len(seconds) > 1 and max(slow) > _NEARLY_ALL:
    stage = slow.index(max(slow))
    lines.append(
      f"stage {stage} takes {max(slow):.0%} of the planned time, so the other "
      "stages mostly wait: use fewer stages and a data axis, or a model axis "
      "that splits its layers"
    )
  if len(seconds) > 1 and max(full) > _NEARLY_ALL:
    stage = full.index(max(full))
    lines.append(
      f"stage {stage} has {max(full):.0%} of the planned memory, "
      f"{amounts.amount(max(memory_bytes), 'B')}: a memory_limit below that "
      "moves layers to other stages even if steps get slower, and a model axis "
      "splits variables"
    )
  return lines
