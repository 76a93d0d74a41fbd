"""ShardingConfig: all options of sharding, checked for this machine.

It is the options, once more checked: this machine has the devices that they
name, and the files have been read.
"""

import dataclasses
import itertools
import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from estimator_mp import mesh as mesh_lib
from estimator_mp.config import options, placement_file, sharding_options
from estimator_mp.config.algorithms import ALGORITHMS, check_algorithm
from estimator_mp.config.measured_costs import (
  MeasuredCosts,
  resolve_measured_costs,
)
from estimator_mp.config.placement import Placement
from estimator_mp.machines import machine as machine_lib

from absl import flags


@dataclasses.dataclass(frozen=True)
class ShardingConfig(sharding_options.ShardingOptions):  # noqa: D101
  __doc__ = str(sharding_options.ShardingOptions.__doc__)

  def __post_init__(self) -> None:
    super().__post_init__()
    mesh = self.create_mesh()
    self._check_aggregation(mesh)
    placement = placement_file.resolve_placement(self.placement)
    object.__setattr__(self, "placement", placement)
    if isinstance(placement, Placement):
      placement.check_mesh(mesh)
    if self.machine is not None:
      machine_lib.load(self.machine)
    measured = resolve_measured_costs(self.measured_costs)
    object.__setattr__(self, "measured_costs", measured)

  def __deepcopy__(self, memo: dict[int, Any]) -> "ShardingConfig":
    """Returns itself, as nothing of it changes; an Estimator copies its own."""
    return self

  def __reduce__(self) -> tuple[Any, ...]:
    """Pickles it by `to_dict`, as a placement cannot be pickled."""
    return type(self).from_dict, (self.to_dict(),)

  def _check_aggregation(self, mesh: mesh_lib.Mesh) -> None:
    """Raises if gradients cannot be summed over the replicas of a mesh."""
    if self.aggregation not in ALGORITHMS:
      return
    sizes = (mesh.axis_size(axis) for axis in ("data", "stage", "model"))
    replicas, stages, parts = map(range, sizes)
    for stage, part in itertools.product(stages, parts):
      devices = [mesh.device(data=r, stage=stage, model=part) for r in replicas]
      check_algorithm(self.aggregation, devices)

  def create_mesh(self) -> mesh_lib.Mesh:
    """Returns the mesh that this configuration describes.

    With virtual stages, its stage axis goes several times over the devices, as
    the schedule says.
    """
    mesh = mesh_lib.Mesh.create(self.mesh, self.devices)
    schedule = self.create_schedule()
    if schedule.num_virtual_stages == 1:
      return mesh
    return mesh.with_virtual_stages(schedule.devices_of_stages)

  @property
  def measured_seconds(self) -> Mapping[str, float] | None:
    """The measured seconds of ops, by name; None if there are none."""
    measured = self.measured_costs
    if isinstance(measured, MeasuredCosts):
      return measured.seconds
    return None

  @classmethod
  def of(
    cls, words: sharding_options.ShardingOptions, **changes: Any
  ) -> "ShardingConfig":
    """Returns the configuration that options describe.

    Args:
      words: The options; a command has others besides.
      **changes: Fields in place of those of the options.

    Raises:
      ValueError: If this machine has no such mesh, or a file cannot be read.
    """
    fields = [field.name for field in dataclasses.fields(cls)]
    return cls(**{name: getattr(words, name) for name in fields} | changes)

  @classmethod
  def from_dict(cls, values: Mapping[str, Any]) -> "ShardingConfig":
    """Returns the configuration that a dict describes.

    Args:
      values: Fields by name, each as the field itself or as `to_dict` writes
        it. Other fields have their defaults.

    Raises:
      ValueError: If there is no such field, or the configuration is wrong.
    """
    options.check_names(cls, values)
    return cls(**values)

  def to_dict(self) -> dict[str, Any]:
    """Returns all fields by name, as JSON can write them."""
    return options.fields_to_plain(self)

  @classmethod
  def from_json(cls, text: str) -> "ShardingConfig":
    """Returns the configuration that a JSON object describes.

    Args:
      text: An object such as `to_json` returns.

    Raises:
      ValueError: If it is not valid JSON; or as for `from_dict`.
    """
    return cls.from_dict(options.parse_json(text))

  def to_json(self) -> str:
    """Returns the configuration as JSON; `from_json` reads it."""
    return json.dumps(self.to_dict())

  @classmethod
  def from_flags(
    cls, flag_values: flags.FlagValues = flags.FLAGS
  ) -> "ShardingConfig":
    """Returns the configuration that a program's flags describe.

    Args:
      flag_values: The flags that `define_sharding_flags` defined, parsed.

    Raises:
      ValueError: If the flags were not defined, or the configuration is wrong.
    """
    return options.from_flags(cls, flag_values)


def check_config(config: ShardingConfig) -> None:
  """Raises if something is no ShardingConfig.

  Args:
    config: The value to check.

  Raises:
    ValueError: If it is none.
  """
  if not isinstance(config, ShardingConfig):
    raise ValueError(
      f"config={config!r} is not a ShardingConfig; write it like "
      'estimator_mp.ShardingConfig(mesh="stage:2")'
    )


def define_sharding_flags(
  flag_values: flags.FlagValues = flags.FLAGS,
  only: Sequence[str] | None = None,
  choices: Mapping[str, Sequence[str]] = MappingProxyType({}),
  **defaults: Any,
) -> None:
  """Defines a flag for each field of `ShardingConfig`, under its name.

  Call it before the flags are parsed, as at the top of a program;
  `ShardingConfig.from_flags` reads them.

  Args:
    flag_values: Where to define them; absl's own if left out.
    only: The names of the fields to define flags for; None for all.
    choices: Fewer words than a field may be, by its name, where the program
      cannot use all.
    **defaults: The program's own defaults, such as `mesh="stage:4"`.

  Raises:
    ValueError: If `only`, `choices` or `defaults` have a name of no field, or
      a word that the field cannot be.
  """
  options.define_flags(ShardingConfig, flag_values, only, choices, **defaults)
