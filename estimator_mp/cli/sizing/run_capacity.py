"""The capacity command: plans, a table, a picture, measurements."""

import dataclasses
import os
from collections.abc import Sequence

from estimator_mp import amounts
from estimator_mp.cli import commands, run_record
from estimator_mp.cli.sizing import capacity_picture, measurement, planning
from estimator_mp.cli.sizing.capacity_flags import CapacityOptions
from estimator_mp.config import files

_TITLES = ("parameters", "of linear", "variables", "gradients", "tensors")


def find(options: CapacityOptions) -> list[planning.Plan]:
  """Returns the largest model for each number of stages.

  Args:
    options: The options of the command.

  Raises:
    ValueError: If no model fits, or one cannot be placed; the text is one line
      and says what would be right.
  """
  found: list[planning.Plan] = []
  guess = 1
  memory = amounts.format_bytes(options.memory_per_device)
  for num_stages in sorted(set(options.stages)):
    if found:
      last = found[-1]
      guess = last.model.free_size * num_stages // last.num_stages
    on_stages = amounts.counted(num_stages, "stage")
    print(f"planning for {on_stages} ...", flush=True)
    plan = planning.largest_plan(options, num_stages, guess)
    if plan is None:
      raise commands.FlagsError(
        f"--memory_per_device={memory} is too small for {options.model} with "
        f"{options.family.size}=1 on {on_stages}; raise it, or choose smaller "
        "--sizes"
      )
    if options.measure and num_stages in (
      options.measured_stages or options.stages
    ):
      count = amounts.counted(len(plan.devices), "process", "es")
      print(f"training in {count} ...", flush=True)
      measured = measurement.measure(options, plan)
      plan = dataclasses.replace(plan, measured=measured)
    found.append(plan)
  return found


def table(options: CapacityOptions, found: Sequence[planning.Plan]) -> str:
  """Returns a table for people: a line for each number of stages.

  Args:
    options: The options of the command.
    found: The plans, one for each number of stages.
  """
  rows = [["stages", options.family.size, *_TITLES, "planned", "measured"]]
  first = found[0]
  for plan in found:
    fullest = max(plan.devices, key=lambda device: device.total)
    linear = first.parameters * plan.num_stages / first.num_stages
    rows.append(
      [
        str(plan.num_stages),
        f"{plan.model.free_size:,}",
        f"{plan.parameters:,}",
        f"{plan.parameters / linear:.0%}",
        *(
          amounts.amount(value, "B")
          for value in (
            fullest.variables,
            fullest.gradients,
            fullest.tensors,
            fullest.total,
          )
        ),
        _measured(plan.measured),
      ]
    )
  return "\n".join(amounts.columns(rows, 0))


def _measured(measured: planning.Measurement | None) -> str:
  if measured is None:
    return "-"
  if not measured.fits:
    return "does not fit"
  return amounts.amount(max(measured.peaks), "B")


def _lines_of_training(found: Sequence[planning.Plan]) -> list[str]:
  """Returns lines about the models that were trained."""
  lines = []
  for plan in found:
    measured = plan.measured
    if measured is not None and measured.fits:
      losses = " ".join(f"{loss:.4f}" for loss in measured.losses)
      count = amounts.counted(plan.num_stages, "stage")
      lines.append(f"trained on {count}: loss {losses}")
  return lines


def _write(
  options: CapacityOptions, found: Sequence[planning.Plan], title: str
) -> list[str]:
  """Writes capacity.png, .svg and .json; returns the paths."""
  directory = str(options.out)
  paths = capacity_picture.write_pictures(
    title,
    [x.num_stages for x in found],
    [x.parameters for x in found],
    [x.measured is not None and x.measured.fits for x in found],
    directory,
  )
  paths.append(os.path.join(directory, "capacity.json"))
  files.write_json(paths[-1], [x.to_dict() for x in found])
  return paths


def run_command(options: CapacityOptions) -> int:
  """Prints, and draws, capacities.

  Args:
    options: The options of the command.

  Returns:
    The exit code: 0; 1 if a model that was to fit does not.

  Raises:
    ValueError: An option is wrong; the text is one line and says what would be
      right.
  """
  memory = amounts.format_bytes(options.memory_per_device)
  title = f"{options.model}, {memory} per device"
  if options.out is not None:
    run_record.make_writable("out", options.out)
  found = find(options)
  print(f"\n{title}\n\n{table(options, found)}")
  print("\n".join(["", *_lines_of_training(found)]))
  if options.out is not None:
    print("\n".join(_write(options, found, title)))
  return int(any(x.measured and not x.measured.fits for x in found))
