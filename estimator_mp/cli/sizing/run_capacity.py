"""What the capacity command runs: plans, a table, a picture, measurements."""

import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Any

from estimator_mp import amounts
from estimator_mp.cli import commands, run_record
from estimator_mp.cli.sizing import capacity_picture, measurement, planning
from estimator_mp.cli.sizing.capacity_flags import CapacityOptions
from estimator_mp.config import options as options_lib

_TITLES = ("parameters", "of linear", "variables", "gradients", "tensors")


@dataclasses.dataclass(frozen=True)
class Capacity:
  """The largest model for a number of stages.

  Attributes:
    plan: What it needs.
    measured: What happened when it was trained; None if nobody tried.
  """

  plan: planning.Plan
  measured: measurement.Measurement | None

  def to_dict(self) -> dict[str, Any]:
    """Returns everything for JSON, but for the placement."""
    model = self.plan.model
    return {
      "stages": self.plan.num_stages,
      "family": model.family,
      "sizes": dict(model.sizes),
      "free_size": model.free_size,
      "parameters": self.plan.parameters,
      "devices": options_lib.to_plain(self.plan.devices),
      "measured": options_lib.to_plain(self.measured),
    }


def find(options: CapacityOptions) -> list[Capacity]:
  """Returns the largest model for each number of stages.

  Args:
    options: What is asked for.

  Raises:
    ValueError: If no model fits, or one cannot be placed; the text is one line
      and says what would be right.
  """
  found: list[Capacity] = []
  guess = 1
  for num_stages in sorted(set(options.stages)):
    if found:
      last = found[-1].plan
      guess = last.model.free_size * num_stages // last.num_stages
    on_stages = amounts.counted(num_stages, "stage")
    print(f"planning for {on_stages} ...", flush=True)
    plan = planning.largest_plan(options, num_stages, guess)
    if plan is None:
      raise commands.FlagsError(
        f"--memory_per_device={options.memory_per_device} is too small for "
        f"{options.model} with {options.family.size}=1 on {on_stages}; raise "
        "it, or choose smaller --sizes"
      )
    measured = None
    if options.measure and num_stages in (
      options.measured_stages or options.stages
    ):
      count = amounts.counted(len(plan.devices), "process", "es")
      print(f"training in {count} ...", flush=True)
      measured = measurement.measure(options, plan)
    found.append(Capacity(plan, measured))
  return found


def table(options: CapacityOptions, found: Sequence[Capacity]) -> str:
  """Returns a table for people: a line for each number of stages.

  Args:
    options: What was asked for.
    found: What was found.
  """
  rows = [["stages", options.family.size, *_TITLES, "planned", "measured"]]
  first = found[0].plan
  for capacity in found:
    plan = capacity.plan
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
        _measured(capacity.measured),
      ]
    )
  return "\n".join(amounts.columns(rows, 0))


def _measured(measured: measurement.Measurement | None) -> str:
  if measured is None:
    return "-"
  if not measured.fits:
    return "does not fit"
  return amounts.amount(max(measured.peaks), "B")


def _lines_of_training(found: Sequence[Capacity]) -> list[str]:
  """Returns lines about the models that were trained."""
  lines = []
  for capacity in found:
    measured = capacity.measured
    if measured is not None and measured.fits:
      losses = " ".join(f"{loss:.4f}" for loss in measured.losses)
      count = amounts.counted(capacity.plan.num_stages, "stage")
      lines.append(f"trained on {count}: loss {losses}")
  return lines


def _write(
  options: CapacityOptions, found: Sequence[Capacity], title: str
) -> list[str]:
  """Writes capacity.png, .svg and .json; returns the paths."""
  directory = str(options.out)
  paths = capacity_picture.write_pictures(
    title,
    [x.plan.num_stages for x in found],
    [x.plan.parameters for x in found],
    [x.measured is not None and x.measured.fits for x in found],
    directory,
  )
  paths.append(os.path.join(directory, "capacity.json"))
  with open(paths[-1], "w", encoding="utf-8") as file:
    json.dump([x.to_dict() for x in found], file, indent=1)
    file.write("\n")
  return paths


def run_command(options: CapacityOptions) -> int:
  """Prints, and draws, capacities.

  Args:
    options: What is asked for.

  Returns:
    The exit code: 0; 1 if a model that was to fit does not.

  Raises:
    ValueError: An option is wrong; the text is one line and says what would be
      right.
  """
  title = f"{options.model}, {options.memory_per_device} per device"
  if options.out is not None:
    run_record.make_writable("out", options.out)
  found = find(options)
  print(f"\n{title}\n\n{table(options, found)}")
  print("\n".join(["", *_lines_of_training(found)]))
  if options.out is not None:
    print("\n".join(_write(options, found, title)))
  return int(any(x.measured and not x.measured.fits for x in found))
