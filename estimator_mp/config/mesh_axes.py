"""The axes of a mesh, and their sizes."""

import math
from collections.abc import Mapping
from types import MappingProxyType

AUTO = "auto"
AXES = ("data", "stage", "model")
# Each virtual device costs memory; no machine, and hardly a cluster, has more.
MAX_SIZE = 4096
_SPEC_HELP = "write axes as NAME:SIZE, such as stage:3 or data:2,stage:3"


def parse_axes(spec: str) -> Mapping[str, int]:
  """Parses the text of a mesh.

  Args:
    spec: Comma-separated `axis:size` pairs, such as "data:2,stage:3"; or
      "auto", whose axes are not known yet.

  Returns:
    The size of each axis, in the order of the text.

  Raises:
    ValueError: If the text is malformed, names an unknown axis or the same
      axis twice, or has a size below 1, or the product of the sizes is above
      `MAX_SIZE`.
  """
  axes: dict[str, int] = {}
  if spec == AUTO:
    return MappingProxyType(axes)
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
