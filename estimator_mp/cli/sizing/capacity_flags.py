"""The options of the capacity command; each field is the flag of its name."""

import dataclasses
import json
from collections.abc import Mapping

from estimator_mp import json_values
from estimator_mp.cli import commands
from estimator_mp.cli.launching import network
from estimator_mp.config import options as options_lib
from estimator_mp.config import sharding_options

_model = options_lib.Group("Model")
_devices = options_lib.Group("Devices")
_output = options_lib.Group("Output")
_USED = ("num_micro_batches", "schedule", "recompute", "optimizer_state")


@dataclasses.dataclass(frozen=True)
class Family:
  """Models that differ by one size.

  Attributes:
    size: The size that is free.
    sizes: The others, with their defaults.
    empty: Other sizes, so small that a model of the same ops has next to no
      tensors.
  """

  size: str
  sizes: Mapping[str, int]
  empty: Mapping[str, int]


_TRANSFORMER = {
  "hidden_size": 512,
  "num_heads": 8,
  "sequence_length": 64,
  "vocabulary_size": 256,
}
_EMPTY_TRANSFORMER = {"hidden_size": 8, "vocabulary_size": 8}

FAMILIES: Mapping[str, Family] = {
  "transformer": Family("num_layers", _TRANSFORMER, _EMPTY_TRANSFORMER),
  "moe": Family(
    "num_layers",
    {**_TRANSFORMER, "hidden_size": 256, "num_experts": 4},
    _EMPTY_TRANSFORMER,
  ),
}


@dataclasses.dataclass(frozen=True)
class CapacityOptions:
  """Which models are to fit which devices. Paths are absolute."""

  sharding: sharding_options.ShardingOptions
  model: str = _model(
    "transformer",
    "Model family, whose number of layers is searched.",
    choices=tuple(FAMILIES),
  )
  sizes: str | None = _model(
    None, 'Other sizes of the family, as JSON: {"hidden_size": 256}.'
  )
  batch_size: int = _model(
    8, "Examples per training step and replica.", minimum=1
  )
  memory_per_device: options_lib.Bytes = _devices(
    256 * 2**20,
    "Memory of a device for variables, slots, gradients and activations.",
    minimum=1,
  )
  stages: tuple[int, ...] = _devices(
    (1, 2, 4, 8), "Numbers of stages to find the largest model for.", 1
  )
  replicas: int = _devices(1, "Replicas of the staged model.", minimum=1)
  measure: bool = _devices(
    False,
    "Train each model found for some steps, with one process per device,"
    " limited to the memory of the device.",
  )
  measured_stages: tuple[int, ...] = _devices(
    (), "With --measure: for these numbers of stages only.", 1
  )
  steps: int = _devices(3, "With --measure: training steps.", minimum=1)
  out: str | None = _output(
    None,
    "Directory for capacity.png, capacity.svg and capacity.json. By default"
    " nothing is written.",
    is_path=True,
  )

  def __post_init__(self) -> None:
    _ = self.all_sizes  # It raises if the flag has no such sizes.
    if not self.stages:
      raise commands.FlagsError(
        "--stages=none has no number of stages; use one or more, such as 1,2,4"
      )
    if self.sharding.optimizer_state == "sharded" and self.replicas == 1:
      raise commands.FlagsError(
        "--optimizer_state=sharded spreads slots over replicas, but "
        "--replicas=1; use 2 or more"
      )
    if self.sharding.create_schedule().num_virtual_stages > 1:
      raise commands.FlagsError(
        f"--schedule={self.sharding.schedule} has several stages per device, "
        "which are not measured; use such as 1f1b or zb1p"
      )
    slices = self.sharding.num_micro_batches
    if self.batch_size % slices:
      raise commands.FlagsError(
        f"--batch_size={self.batch_size} is not divisible into "
        f"--num_micro_batches={slices}; use a multiple of it"
      )
    others = [x for x in self.measured_stages if x not in self.stages]
    if others:
      raise commands.FlagsError(
        f"--measured_stages has {others[0]}, which is not among --stages="
        f"{','.join(map(str, self.stages))}; add it there"
      )

  @property
  def family(self) -> Family:
    """The family of the model."""
    return FAMILIES[self.model]

  @property
  def all_sizes(self) -> dict[str, int]:
    """The sizes of the family that are not free.

    Raises:
      FlagsError: If --sizes is no JSON object of sizes that the family has.
    """
    known = self.family.sizes
    try:
      sizes = json_values.parse(self.sizes or "{}")
    except json.JSONDecodeError:
      sizes = None
    if not isinstance(sizes, dict) or not all(
      name in known and type(size) is int and size > 0
      for name, size in sizes.items()
    ):
      raise commands.FlagsError(
        f"--sizes={self.sizes} has to be JSON with sizes of {self.model}, "
        f"which are {', '.join(known)}, such as "
        f"{json.dumps(dict([*known.items()][:1]))}; {self.family.size} is the "
        "size that is searched"
      )
    return {**known, **sizes}


class _CapacityCommand(commands.Command[CapacityOptions]):
  """A command whose servers cannot be reached from outside."""

  def prepare(self, options: CapacityOptions) -> None:
    """Enters a network of its own; TensorFlow has threads, which cannot."""
    if options.measure:
      network.enter_or_refuse("leave out --measure")


COMMAND = _CapacityCommand(
  "capacity",
  "Finds the largest model of a family that fits devices of a given memory.",
  CapacityOptions,
  (_model, _devices, options_lib.SHARDING, _output),
  "estimator_mp.cli.sizing.run_capacity",
  without=options_lib.names(sharding_options.ShardingOptions, _USED),
  defaults={"num_micro_batches": 4, "recompute": "always"},
)


parse = COMMAND.parse
