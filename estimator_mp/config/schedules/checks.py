"""Checks: whether the rows of a schedule can be run, cell after cell."""

from estimator_mp.config.schedules.schedule import Cell, Schedule


def check(schedule: Schedule) -> None:
  """Checks that devices that run their rows in order run every cell once.

  Args:
    schedule: The schedule.

  Raises:
    ValueError: If a cell is missing, too much or on a wrong device, or waits
      for one that cannot run before it; the text is one line and names the
      first such cell.
  """
  if schedule.name == "none" and not schedule.rows:
    return
  if len(schedule.rows) != schedule.num_devices:
    raise ValueError(
      f"schedule {schedule.name!r} has {len(schedule.rows)} rows for "
      f"{schedule.num_devices} devices; give each device one row"
    )
  _check_cells(schedule)
  list(schedule.running_order)


def _check_cells(schedule: Schedule) -> None:
  """Raises unless each cell is there once, on the device of its stage."""
  right = set(schedule.cells())
  seen: set[Cell] = set()
  problem = None
  for device, row in enumerate(schedule.rows):
    for cell in row:
      if cell.phase not in schedule.phases:
        problem = f"has the {cell}, but it does not split the backward pass"
      elif cell not in right:
        problem = (
          f"has the {cell}, but only {schedule.num_stages} stages and "
          f"{schedule.num_micro_batches} micro-batches"
        )
      elif schedule.device_of(cell.stage) != device:
        problem = (
          f"has the {cell} on device {device}; it belongs on device "
          f"{schedule.device_of(cell.stage)}"
        )
      elif cell in seen:
        problem = f"has the {cell} twice"
      if problem:
        raise ValueError(f"schedule {schedule.name!r} {problem}")
      seen.add(cell)
  for cell in schedule.cells():
    if cell not in seen:
      raise ValueError(
        f"schedule {schedule.name!r} lacks the {cell} on device "
        f"{schedule.device_of(cell.stage)}"
      )
