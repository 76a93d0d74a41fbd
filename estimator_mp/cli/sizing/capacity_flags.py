"""What the capacity command is told; the fields are the flags of the names."""

import dataclasses
import functools
import json

from estimator_mp.cli import commands
from estimator_mp.cli.sizing import catalogue
from estimator_mp.config import options as options_lib
from estimator_mp.config import sharding_options

from absl import flags

_MODEL = "Model"
_DEVICES = "Devices"
_OUTPUT = "Output"
_USED = ("num_micro_batches", "schedule", "recompute")

_model = functools.partial(options_lib.option, group=_MODEL)
_devices = functools.partial(options_lib.option, group=_DEVICES)


@dataclasses.dataclass(frozen=True)
class CapacityOptions:
  """Which models are to fit which devices. Paths are absolute."""

  sharding: sharding_options.ShardingOptions
  model: str = _model(
    "transformer",
    "The family, of which the number of layers is free.",
    choices=tuple(catalogue.FAMILIES),
  )
  sizes: str | None = _model(
    None, 'Other sizes of the family, as JSON: {"hidden_size": 256}.'
  )
  batch_size: int = _model(
    8, "Examples per training step, of each replica.", minimum=1
  )
  memory_per_device: str = _devices(
    "256MiB",
    "The memory of a device for variables, slots, gradients and activations,"
    " such as 256MiB, 16GB or a number of bytes.",
  )
  stages: tuple[int, ...] = _devices(
    (1, 2, 4, 8), "The numbers of stages to find the largest model for.", 1
  )
  replicas: int = _devices(1, "Replicas of the staged model.", minimum=1)
  optimizer_state: str = _devices(
    "replicated",
    "Whether each replica has all slots of the optimizer, or a part of them"
    " (ZeRO-1).",
    choices=sharding_options.OPTIMIZER_STATES,
  )
  measure: bool = _devices(
    False,
    "Train each of the models that were found for some steps, with a process"
    " for each device that can take no more than its memory.",
  )
  measured_stages: tuple[int, ...] = _devices(
    (), "With --measure: for these numbers of stages only.", 1
  )
  steps: int = _devices(3, "With --measure: training steps.", minimum=1)
  out: str | None = options_lib.option(
    None,
    "Directory for capacity.png, capacity.svg and capacity.json. Without it"
    " nothing is written.",
    group=_OUTPUT,
    is_path=True,
  )

  @property
  def num_bytes(self) -> int:
    """The memory of a device in bytes."""
    return commands.parse_bytes("memory_per_device", self.memory_per_device)

  @property
  def family(self) -> catalogue.Family:
    """The family of the model."""
    return catalogue.FAMILIES[self.model]

  @property
  def all_sizes(self) -> dict[str, int]:
    """The sizes of the family that are not free."""
    return {**self.family.sizes, **_parse_sizes(self)}


_COMMAND = commands.Command(
  "capacity",
  "Finds the largest model of a family that fits devices of a given memory.",
  CapacityOptions,
  (_MODEL, _DEVICES, options_lib.SHARDING, _OUTPUT),
  without=options_lib.names(sharding_options.ShardingOptions, _USED),
  defaults={"num_micro_batches": 4, "recompute": "always"},
)


def parse(argv: list[str]) -> CapacityOptions:
  """Returns the options that a command line means.

  Args:
    argv: The command and its arguments.

  Raises:
    ValueError: If a flag is wrong, or they do not fit together.
  """
  options = _COMMAND.parse(argv, flags.FlagValues())
  commands.parse_bytes("memory_per_device", options.memory_per_device)
  _parse_sizes(options)
  _check(options)
  return options


def _parse_sizes(options: CapacityOptions) -> dict[str, int]:
  """Returns what --sizes says.

  Raises:
    FlagsError: If it is no JSON object of sizes that the family has.
  """
  if options.sizes is None:
    return {}
  known = options.family.sizes
  try:
    sizes = json.loads(options.sizes)
  except json.JSONDecodeError:
    sizes = None
  if not isinstance(sizes, dict) or not all(
    name in known and type(size) is int and size > 0
    for name, size in sizes.items()
  ):
    raise commands.FlagsError(
      f"--sizes={options.sizes} has to be JSON with sizes of "
      f"{options.model}, which are {', '.join(known)}, such as "
      f"{json.dumps(dict([*known.items()][:1]))}; {options.family.size} is "
      "what is found"
    )
  return sizes


def _check(options: CapacityOptions) -> None:
  """Raises if options do not fit together."""
  if not options.stages:
    raise commands.FlagsError("--stages=none leaves nothing; use such as 1,2,4")
  if options.optimizer_state == "sharded" and options.replicas == 1:
    raise commands.FlagsError(
      "--optimizer_state=sharded spreads slots over replicas, but --replicas=1;"
      " use 2 or more"
    )
  slices = options.sharding.num_micro_batches
  if options.batch_size % slices:
    raise commands.FlagsError(
      f"--batch_size={options.batch_size} is not divisible into "
      f"--num_micro_batches={slices}; use a multiple of it"
    )
  others = [x for x in options.measured_stages if x not in options.stages]
  if others:
    raise commands.FlagsError(
      f"--measured_stages has {others[0]}, which is not among --stages="
      f"{','.join(map(str, options.stages))}; add it there"
    )
