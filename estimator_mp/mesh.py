"""The mesh: devices arranged on named axes.

A mesh such as `data:2,stage:3` arranges six devices as a table of two rows
and three columns. The last axis varies fastest, so neighbouring devices are
neighbouring stages:

                stage 0   stage 1   stage 2
      data 0    cpu:0     cpu:1     cpu:2
      data 1    cpu:3     cpu:4     cpu:5

With a `model` axis each place of the table is several devices, which hold one
stage of one replica together: `stage:2,model:2` is cpu:0 and cpu:1 for stage 0,
cpu:2 and cpu:3 for stage 1. The first of them, the leader of the stage,
executes all ops that are not in parts.

Named axes over devices are the notation of Mesh-TensorFlow (Shazeer et al.,
2018, arXiv:1811.02084) and of GSPMD (Xu et al., 2021, arXiv:2105.04663).
"""

import contextlib
import contextvars
import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from estimator_mp import devices as devices_lib
from estimator_mp.config.mesh_axes import AUTO, AXES, parse_axes
from estimator_mp.graph import device_assignment

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Mesh:
  """Devices arranged on named axes. Make one with `Mesh.create`.

  Attributes:
    axes: The size of each axis, in order; the last one varies fastest.
    devices: Canonical device names, as many as the product of the sizes.
  """

  axes: Mapping[str, int] = dataclasses.field(hash=False)
  devices: tuple[str, ...]

  @classmethod
  def create(cls, spec: str, devices: Sequence[str] | None = None) -> "Mesh":
    """Returns a mesh, with its devices checked.

    Args:
      spec: Comma-separated `axis:size` pairs, such as "data:2,stage:3". The
        axes are `data` (replicas), `stage` (consecutive parts of the model)
        and `model` (parts of one layer), in any order.
      devices: Device names, as many as the product of the sizes, the last
        axis varying fastest. None or empty: this machine's GPUs if it has
        any, otherwise that many virtual CPU devices.

    Returns:
      The mesh.

    Raises:
      ValueError: If the text is malformed, the sizes do not multiply to the
        number of devices, a device occurs twice, a device cannot exist on
        this machine, or TF_CONFIG is malformed.
    """
    if spec == AUTO:  # All devices, of which the search takes some.
      count = len(devices or ()) or devices_lib.num_local_devices()
      if count == 1 and devices and devices[0].isdecimal():
        count, devices = int(devices[0]), ()
      spec = f"data:{count}"
    axes = parse_axes(spec)
    size = math.prod(axes.values())
    if not devices:
      return cls(axes, devices_lib.discover_devices(axes))
    names = devices_lib.with_task(
      [devices_lib.canonical_device(name) for name in devices]
    )
    if len(names) != size:
      product = " x ".join(str(n) for n in axes.values())
      raise ValueError(
        f"mesh {spec!r} needs {product} = {size} devices, but {len(names)} "
        f"were given ({', '.join(names)}); give {size} devices or change the "
        "mesh"
      )
    for i, name in enumerate(names):
      if name in names[:i]:
        raise ValueError(
          f"device {name} is given twice; each position of mesh {spec!r} "
          "needs a device of its own"
        )
    devices_lib.check_local_devices_exist(names)
    return cls(axes, names)

  def __str__(self) -> str:
    return ",".join(f"{name}:{size}" for name, size in self.axes.items())

  @property
  def size(self) -> int:
    """The number of devices."""
    return len(self.devices)

  @property
  def devices_by_stage(self) -> tuple[str, ...]:
    """Each device once: replica after replica, stage after stage.

    Those of one stage follow each other in the order of the `model` axis.
    """
    devices = (
      self.model_devices(data=replica, stage=stage)
      for replica in range(self.axis_size("data"))
      for stage in range(self.axis_size("stage"))
    )
    return tuple(dict.fromkeys(itertools.chain.from_iterable(devices)))

  def on_this_machine(self) -> "Mesh":
    """Returns a mesh of the same axes without devices of other tasks.

    It is the same mesh if it has none. Otherwise it is where an Estimator
    evaluates beside a cluster: this machine's GPUs, if they are as many as the
    mesh has devices, or virtual CPUs.
    """
    if all(devices_lib.is_local(name) for name in self.devices):
      return self
    numbers = {x: i for i, x in enumerate(dict.fromkeys(self.devices))}
    kind = "GPU" if devices_lib.num_local_gpus() >= len(numbers) else "CPU"
    devices = (f"/device:{kind}:{numbers[name]}" for name in self.devices)
    return Mesh(self.axes, tuple(devices))

  def with_virtual_stages(self, places: Sequence[int]) -> "Mesh":
    """Returns a mesh with more stages on the same devices.

    Args:
      places: For each of its stages, the stage of this mesh on whose device it
        is; with a `model` axis, on all devices of that stage.
    """
    axes = dict(self.axes) | {"stage": len(places)}
    positions = itertools.product(*(range(n) for n in axes.values()))
    devices = []
    for position in positions:
      named = dict(zip(axes, position, strict=True))
      named["stage"] = places[named["stage"]]
      devices.append(self.device(**named))
    return Mesh(MappingProxyType(axes), tuple(devices))

  def axis_size(self, axis: str) -> int:
    """Returns the size of an axis; 1 for an axis that the mesh does not have.

    Args:
      axis: One of `data`, `stage`, `model`.

    Raises:
      ValueError: If `axis` is none of these.
    """
    if axis not in AXES:
      raise ValueError(
        f"{axis!r} is not an axis; the axes are " + ", ".join(AXES)
      )
    return self.axes.get(axis, 1)

  def device(self, **position: int) -> str:
    """Returns the device at a position.

    Args:
      **position: A coordinate per axis, such as `data=1, stage=0`. Axes that
        are left out are at 0.

    Returns:
      Its canonical device name.

    Raises:
      ValueError: If a coordinate is out of range, or names an unknown axis.
    """
    for axis, coordinate in position.items():
      size = self.axis_size(axis)
      if not isinstance(coordinate, int) or not 0 <= coordinate < size:
        raise ValueError(
          f"{axis} {coordinate!r} is outside of mesh {self}, whose {axis} axis "
          f"goes from 0 to {size - 1}"
        )
    index = 0
    for axis, size in self.axes.items():
      index = index * size + position.get(axis, 0)
    return self.devices[index]

  def stage_devices(self, **position: int) -> tuple[str, ...]:
    """Returns the device of each stage; with a `model` axis, its leader.

    Args:
      **position: Coordinates on other axes, such as `data=1`; 0 if left out.

    Raises:
      ValueError: If the position is outside of the mesh.
    """
    stages = range(self.axis_size("stage"))
    return tuple(self.device(stage=k, **position) for k in stages)

  def model_devices(self, **position: int) -> tuple[str, ...]:
    """Returns the devices of a stage, in the order of the `model` axis.

    Args:
      **position: Coordinates on other axes, such as `stage=1, data=1`; 0 if
        left out.

    Returns:
      The leader, and those that hold further parts; one without such an axis.

    Raises:
      ValueError: If the position is outside of the mesh.
    """
    parts = range(self.axis_size("model"))
    return tuple(self.device(model=i, **position) for i in parts)

  @contextlib.contextmanager
  def at(self, **position: int) -> Iterator[None]:
    """Places the ops and variables made inside on the device at a position.

    Ops that run on hosts only (strings, datasets, lookup tables, summaries)
    go to the CPU of that device's task. A `tf.device` inside the block wins
    over the mesh's.

    Args:
      **position: As for `device`.

    Yields:
      None.

    Raises:
      ValueError: If the position is outside of the mesh.
      RuntimeError: If TensorFlow executes eagerly: there is no graph to
        place.
    """
    device = self.device(**position)
    if tf.executing_eagerly():
      raise RuntimeError(
        "a mesh places ops of a graph, but TensorFlow is executing eagerly; "
        "call this inside a model_fn or under tf.Graph().as_default()"
      )
    with tf.compat.v1.device(device_assignment.device_function(device)):
      yield

  def stage(
    self, stage: int, **position: int
  ) -> contextlib.AbstractContextManager[None]:
    """Places the ops and variables made inside on the device of a stage.

    Args:
      stage: The stage, from 0 to the size of the stage axis less 1.
      **position: Coordinates on other axes, such as `data=1`; 0 if left out.

    Returns:
      A context manager; see `at`.

    Raises:
      ValueError: On entering, if the position is outside of the mesh.
      RuntimeError: On entering, if TensorFlow executes eagerly.
    """
    return self.at(stage=stage, **position)

  def check_session_config(
    self, session_config: tf.compat.v1.ConfigProto | None
  ) -> None:
    """Raises if a session would lack one of the mesh's virtual CPU devices.

    Args:
      session_config: The session's configuration; None means TensorFlow's
        default, with one CPU device.

    Raises:
      ValueError: If there are too few CPU devices.
    """
    counts = session_config.device_count if session_config else {}
    has = counts.get("CPU", 1)
    needs = devices_lib.num_virtual_cpus(self.devices)
    if has < needs:
      raise ValueError(
        f"mesh {self} uses /device:CPU:{needs - 1}, but the session has "
        f"{has} CPU device(s); pass the Estimator "
        "config=estimator_mp.run_config(...), which sets "
        f'device_count={{"CPU": {needs}}}'
      )


class UnplacedMesh(Mesh):
  """A mesh that places nothing: for the plain run of a model_fn with marks."""

  @contextlib.contextmanager
  def at(self, **position: int) -> Iterator[None]:
    """Checks a position, and places nothing.

    Args:
      **position: As for `device`.

    Yields:
      None.

    Raises:
      ValueError: If the position is outside of the mesh.
    """
    self.device(**position)
    yield


_current: contextvars.ContextVar[Mesh | None] = contextvars.ContextVar(
  "estimator_mp.mesh", default=None
)


@contextlib.contextmanager
def current_mesh(mesh: Mesh) -> Iterator[None]:
  """Makes a mesh the one that `stage` means inside of the block.

  Args:
    mesh: The mesh.

  Yields:
    None.
  """
  token = _current.set(mesh)
  try:
    yield
  finally:
    _current.reset(token)


def get_mesh() -> Mesh | None:
  """Returns the mesh of the `shard_model_fn` that is calling a model_fn.

  For a model_fn that marks stages and has to know how many there are. None
  outside of a model_fn that is being sharded.
  """
  return _current.get()


def stage(stage: int) -> contextlib.AbstractContextManager[None]:
  """Places the ops and variables made inside on a stage of the current mesh.

  For use inside a model_fn that `shard_model_fn` shards: it assigns a part of
  the model to a stage. Ops outside of any block follow their inputs.

  Args:
    stage: The stage, from 0 to the size of the mesh's stage axis less 1.

  Returns:
    A context manager; see `Mesh.at`.

  Raises:
    RuntimeError: Outside of a model_fn that is being sharded.
    ValueError: On entering, if the mesh has no such stage.
  """
  mesh = get_mesh()
  if mesh is None:
    raise RuntimeError(
      f"estimator_mp.stage({stage}) has no mesh here; use it inside a model_fn "
      "given to shard_model_fn, or use mesh.stage"
    )
  return mesh.stage(stage)
