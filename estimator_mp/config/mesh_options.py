"""Options of the mesh: its devices, and the placement of the model on them."""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from estimator_mp.config import options
from estimator_mp.config import placement as placement_lib

AXES = ("data", "stage", "model")
# Each virtual device costs memory; no machine, and hardly a cluster, has more.
MAX_SIZE = 4096
_SPEC_HELP = "write axes as NAME:SIZE, such as stage:3 or data:2,stage:3"

# An expression for names, and the stage of what has such a name.
Rule: TypeAlias = tuple[str, int]

# TensorFlow counts the memory of logical GPUs in these.
_LEAST_GPU_BYTES = 2**20
_STRATEGIES = ". ".join(
  f"{name}: {strategy.summary}"
  for name, strategy in placement_lib.STRATEGIES.items()
)
_option = options.Group("Sharding: the mesh")


@dataclasses.dataclass(frozen=True)
class MeshOptions:
  """The mesh, and the placement of the model on it.

  Attributes:
    mesh: The mesh as text, such as "stage:3".
    devices: Device names for the mesh, as many as it has positions; empty for
      this machine's GPUs, or virtual CPU devices if it has none.
    placement: Assignment of ops to stages: "auto"; rules (pairs of a regular
      expression and a stage, in order); a `Placement`; or the path of a
      placement.json that training or `inspect` wrote, which is read at once.
      Ops that model_fn itself places by `estimator_mp.stage` or `tf.device`
      stay there.
    memory_limit: Memory limit of a device for the automatic placement, in
      bytes, or as text such as "500MB" or "256MiB": weights with gradients and
      two slots, and activations. None for no limit.
    measured_costs: The `MeasuredCosts` of `measure_costs`, or the path of the
      file that they were saved to, which is read at once. The automatic
      placement and the schedule "auto" then use these seconds. None for
      estimates from FLOPs and bytes.
    verify_placement: Whether the first step of a session checks that each op
      ran on its planned device.
    logical_gpu_bytes: Bytes of memory of each logical GPU, as an integer or as
      text such as "2GiB", if the mesh needs more GPUs than this machine has:
      `run_config` then divides each GPU into several devices. They are for
      checks, and compute in turns. None: too few GPUs are an error.
  """

  mesh: str = _option(
    "stage:1",
    "Axes and sizes of the mesh: stage:3 spreads the model over three devices,"
    " stage:1 keeps it on one.",
  )
  devices: tuple[str, ...] = _option(
    (),
    "Devices of the mesh, such as gpu:0,gpu:1,gpu:2. Default: this machine's"
    " GPUs, or virtual CPU devices if it has none.",
  )
  # The name of a strategy, rules, a path or a Placement.
  placement: Any = _option(
    "auto",
    f"{_STRATEGIES}. Or rules as JSON, pairs of a regular expression for names"
    ' and a stage: [["layer_[0-5]/", 0], [".*", 1]]. Or the path of a'
    " placement.json.",
  )
  memory_limit: options.Bytes | None = _option(
    None,
    "Memory limit of a device for --placement=auto: weights with gradients and"
    " two slots, and activations.",
    minimum=1,
  )
  # A path or MeasuredCosts.
  measured_costs: Any = _option(
    None,
    "Path of a file written by MeasuredCosts.save. The placement auto and the"
    " schedule auto then use its measured seconds instead of estimates.",
  )
  verify_placement: bool = _option(
    True,
    "Check that the first step ran each op on its planned device.",
  )
  logical_gpu_bytes: options.Bytes | None = _option(
    None,
    "Memory of each logical GPU. If the mesh needs more GPUs than this machine"
    " has, each GPU is divided into logical GPUs; without this option, that is"
    " an error.",
    minimum=_LEAST_GPU_BYTES,
  )

  def check_mesh(self) -> None:
    """Raises if the axes are malformed."""
    object.__setattr__(self, "devices", tuple(self.devices))
    parse_axes(self.mesh)

  def axis_size(self, axis: str) -> int:
    """Returns the size of an axis; 1 if the mesh does not have it."""
    return parse_axes(self.mesh).get(axis, 1)

  def check_placement(self, num_stages: int, unused: Sequence[str]) -> None:
    """Raises if what is said of the placement does not fit together.

    Args:
      num_stages: The stages of the model.
      unused: The options that are for automatic placement only.
    """
    if isinstance(self.placement, tuple | list):
      check_rules(self.placement, num_stages)
    if placement_lib.is_strategy(self.placement):
      return
    for name in unused:
      if getattr(self, name) is not None:
        raise ValueError(
          f"{name} is for placement={placement_lib.names_of_strategies()} "
          "only, but another placement is given; leave one of them out"
        )


def parse_axes(spec: str) -> Mapping[str, int]:
  """Parses the text of a mesh.

  Args:
    spec: Comma-separated `axis:size` pairs, such as "data:2,stage:3".

  Returns:
    The size of each axis, in the order of the text.

  Raises:
    ValueError: If the text is malformed, names an unknown axis or the same
      axis twice, or has a size below 1, or the product of the sizes is above
      `MAX_SIZE`.
  """
  axes: dict[str, int] = {}
  for part in spec.split(","):
    name, colon, size = (piece.strip() for piece in part.partition(":"))
    if not name or not colon or not size.removeprefix("-").isdecimal():
      raise ValueError(f"mesh {spec!r} is malformed at {part!r}; {_SPEC_HELP}")
    if name not in AXES:
      raise ValueError(
        f"mesh {spec!r} has an unknown axis {name!r}; the axes are "
        + ", ".join(AXES)
      )
    if name in axes:
      raise ValueError(
        f"mesh {spec!r} names axis {name!r} twice; name each axis once"
      )
    if int(size) < 1:
      raise ValueError(
        f"mesh {spec!r} gives axis {name!r} the size {size}; "
        "a size is at least 1"
      )
    axes[name] = int(size)
  positions = math.prod(axes.values())
  if positions > MAX_SIZE:
    raise ValueError(
      f"mesh {spec!r} has {positions} positions, more than the {MAX_SIZE} that "
      "a mesh may have; use a smaller one"
    )
  return MappingProxyType(axes)


def check_rules(rules: Sequence[Rule], num_stages: int) -> None:
  """Raises if a rule can be seen to be wrong without a graph.

  Args:
    rules: Pairs of a regular expression and a stage.
    num_stages: The size of the mesh's stage axis.

  Raises:
    ValueError: If there is no rule, a rule is no such pair, an expression is
      malformed, or a stage is outside of the mesh.
  """
  if not rules:
    raise ValueError(
      'placement=() has no rule; give at least one, or placement="auto"'
    )
  for rule in rules:
    if not isinstance(rule, tuple | list) or len(rule) != 2:
      raise ValueError(
        f"placement rule {rule!r} is malformed; write (expression, stage), "
        'such as ("encoder/layer_[0-5]/", 0)'
      )
    expression, stage = rule
    try:
      re.compile(expression)
    except (re.error, TypeError) as error:
      raise ValueError(
        f"placement rule {rule!r} has a malformed expression ({error}); use "
        "the syntax of Python's re module"
      ) from error
    if type(stage) is not int or not 0 <= stage < num_stages:
      raise ValueError(
        f"placement rule {rule!r} names stage {stage!r}, which is outside of "
        f"the mesh; its stages are 0 to {num_stages - 1}"
      )
