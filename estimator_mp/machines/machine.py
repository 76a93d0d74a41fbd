"""A machine: the rates of its devices, and of the links between them.

Devices are the leaves of a tree: those of a host are joined by one link, hosts
of a rack by the next, and so on. A tensor that goes to another device passes
the link of the smallest group that has both.
"""

import dataclasses
import difflib
import importlib.resources
import json
import math
import os
import sys
from collections.abc import Mapping
from typing import Any

from estimator_mp import json_values

if sys.version_info >= (3, 11):
  import tomllib
else:
  import tomli as tomllib

_ENDING = ".toml"
# The rate of a dtype that a file does not name.
_DEFAULT_DTYPE = "float32"


@dataclasses.dataclass(frozen=True)
class Device:
  """One device.

  Attributes:
    kind: "GPU", "CPU" or "TPU".
    flops: Floating-point operations per second of large products, by dtype.
    memory_bytes: Its memory.
    memory_bandwidth: Bytes per second that it reads and writes.
    launch_seconds: The time between two ops that do nothing.
    efficiency: The part of `flops` that products of a model reach.
    strided_bandwidth: Bytes per second of a matrix that a product reads by its
      columns, with one core; None for `memory_bandwidth`.
    cores: How many cores the devices of a host share, as virtual devices of a
      CPU do: most ops use all of them. 0 if each device has its own.
  """

  kind: str
  flops: Mapping[str, float]
  memory_bytes: float
  memory_bandwidth: float
  launch_seconds: float
  efficiency: float = 1.0
  strided_bandwidth: float | None = None
  cores: int = 0

  def seconds(
    self,
    flops: float,
    num_bytes: float,
    dtype: str = _DEFAULT_DTYPE,
    launches: int = 1,
    strided_bytes: float = 0.0,
  ) -> float:
    """Returns how long an op takes, by the roofline model.

    That is the time of its operations or of its memory traffic, whichever is
    longer (Williams et al., 2009, doi:10.1145/1498765.1498785).

    Args:
      flops: Its floating-point operations.
      num_bytes: The bytes that it reads and writes.
      dtype: Its dtype; one without a rate has that of float32.
      launches: How many ops it consists of.
      strided_bytes: Those of the bytes that are columns of a matrix.
    """
    rate = self.flops.get(dtype) or self.flops[_DEFAULT_DTYPE]
    seconds = max(
      flops / (rate * self.efficiency), num_bytes / self.memory_bandwidth
    )
    seconds += self.strided_seconds(strided_bytes)
    return launches * self.launch_seconds + seconds

  def strided_seconds(self, num_bytes: float) -> float:
    """Returns how much longer it takes to read columns of a matrix.

    Args:
      num_bytes: The bytes of these.
    """
    if self.strided_bandwidth is None:
      return 0.0
    return num_bytes / self.strided_bandwidth


@dataclasses.dataclass(frozen=True)
class Link:
  """The link between the devices of a group.

  Attributes:
    level: Its name, such as "host" or "cluster".
    devices: The devices of a group: consecutive ones of a mesh.
    bandwidth: Bytes per second that one device sends, and gets at the same
      time.
    latency: Seconds until the first byte arrives.
    shared: How many devices have this bandwidth together, such as those of a
      host with one network card.
    overlaps: Whether devices compute while they send.
  """

  level: str
  devices: int
  bandwidth: float
  latency: float
  shared: int = 1
  overlaps: bool = True

  def seconds(self, num_bytes: float, senders: int = 1) -> float:
    """Returns how long a transfer takes.

    Args:
      num_bytes: What one device sends.
      senders: How many devices of a group send at the same time.
    """
    crowd = min(senders, self.shared)
    return self.latency + crowd * num_bytes / self.bandwidth


@dataclasses.dataclass(frozen=True)
class Machine:
  """Devices and links.

  Attributes:
    name: Its name.
    device: What each device is.
    links: The links, from the smallest group of devices to the largest.
    source: Where the figures are from.
  """

  name: str
  device: Device
  links: tuple[Link, ...] = ()
  source: str = ""

  def link(self, first: int, last: int) -> Link:
    """Returns the link of the smallest group that has both of two devices.

    Args:
      first: The number of a device.
      last: The number of another one.

    Raises:
      ValueError: If no link joins them.
    """
    for link in self.links:
      if first // link.devices == last // link.devices:
        return link
    most = max((x.devices for x in self.links), default=1)
    raise ValueError(
      f"machine {self.name!r} has no link between devices {first} and {last}: "
      f"its links join {most} device(s); add a [[links]] table with devices = "
      f"{max(first, last) + 1} or more"
    )

  @property
  def host_size(self) -> int:
    """The devices of a host: of the smallest group."""
    return self.links[0].devices if self.links else 1


def load(name: str) -> Machine:
  """Returns a machine.

  Args:
    name: The path of a file, or the name of a machine that comes with the
      package; see `names`.

  Raises:
    ValueError: If there is none, or its file is malformed; the message is one
      line.
  """
  text = None
  if name in names():
    folder = importlib.resources.files(__package__)
    text = folder.joinpath(name + _ENDING).read_text("utf-8")
  elif name.endswith(_ENDING) or os.path.exists(name):
    try:
      with open(name, encoding="utf-8") as file:
        text = file.read()
    except (OSError, UnicodeDecodeError) as error:
      raise ValueError(
        f"machine={name!r} cannot be read ({error.args[-1]}); give the path of "
        "a TOML file, or one of " + ", ".join(names())
      ) from error
  if text is None:
    raise ValueError(
      f"machine={name!r} is unknown; give the path of a TOML file, or one of "
      + ", ".join(names())
    )
  try:
    return parse(text)
  except ValueError as error:
    raise ValueError(f"machine={name!r}: {error}") from error


def names() -> tuple[str, ...]:
  """Returns the names of the machines that come with the package."""
  files = importlib.resources.files(__package__).iterdir()
  return tuple(
    sorted(
      x.name.removesuffix(_ENDING) for x in files if x.name.endswith(_ENDING)
    )
  )


def parse(text: str) -> Machine:
  """Returns the machine that a TOML text describes.

  Args:
    text: The text: the fields of `Machine`.

  Raises:
    ValueError: If it is malformed; the message says where.
  """
  values = tomllib.loads(text)
  links = values.get("links", [])
  if not isinstance(links, list):
    raise ValueError("links is no list; begin each with a line [[links]]")
  _check_keys(Machine, values, "the file")
  _check_keys(Device, values.get("device"), "device")
  for i, link in enumerate(links):
    _check_keys(Link, link, f"links[{i}]")
  machine: Machine = json_values.load(Machine, values, "the file")
  _check(machine)
  return machine


def to_toml(machine: Machine) -> str:
  """Returns the text of which `parse` makes a machine again.

  Args:
    machine: The machine.
  """
  values = json_values.dump(Machine, machine)
  device, links = values.pop("device"), values.pop("links")
  flops = device.pop("flops")
  tables = [("", values), ("\n[device]", device), ("\n[device.flops]", flops)]
  lines = []
  for heading, table in tables + [("\n[[links]]", link) for link in links]:
    lines += [heading] if heading else []
    # Numbers, words and texts are written as in JSON.
    lines += [
      f"{name} = {json.dumps(value, ensure_ascii=False)}"
      for name, value in table.items()
      if value is not None
    ]
  return "\n".join(lines) + "\n"


def _check_keys(kind: Any, values: Any, name: str) -> None:
  """Raises if a table has a key that is no field."""
  fields = [x.name for x in dataclasses.fields(kind)]
  for key in values if isinstance(values, dict) else ():
    if key not in fields:
      close = difflib.get_close_matches(key, fields, n=1) or fields
      raise ValueError(
        f"{name} has an unknown key {key!r}; use {', '.join(close)}"
      )


def _check(machine: Machine) -> None:
  """Raises if a figure is not possible."""
  device = machine.device
  if _DEFAULT_DTYPE not in device.flops:
    raise ValueError(f"device.flops has no {_DEFAULT_DTYPE!r}")
  positive = {
    **{f"device.flops.{x}": y for x, y in device.flops.items()},
    "device.memory_bytes": device.memory_bytes,
    "device.memory_bandwidth": device.memory_bandwidth,
    "device.efficiency": device.efficiency,
  }
  for name in ("strided_bandwidth",):
    if (value := getattr(device, name)) is not None:
      positive[f"device.{name}"] = value
  least = {
    "device.launch_seconds": device.launch_seconds,
    "device.cores": device.cores,
  }
  before = 1
  for i, link in enumerate(machine.links):
    positive[f"links[{i}].bandwidth"] = link.bandwidth
    positive[f"links[{i}].shared"] = link.shared
    least[f"links[{i}].latency"] = link.latency
    if link.devices <= before:
      raise ValueError(
        f"links[{i}].devices is {link.devices}, but a link joins more devices "
        f"than the one before it, {before}"
      )
    before = link.devices
  for name, value in (positive | least).items():
    if not (0 <= value < math.inf) or (name in positive and not value):
      raise ValueError(f"{name} is {value}; give a positive number")
