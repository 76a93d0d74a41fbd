"""All-reduce algorithms: one row each, with the cases that it suits.

To add one, write its module in `estimator_mp.collectives`, with

- `all_reduce(tensors, devices)`, which makes the ops: from a tensor on each of
  several canonical devices to the sum on each, and
- `traffic(num_elements, itemsize, devices)`, the bytes that each device sends
  to each other, unless TensorFlow's own op sends,

and add its row to `ALGORITHMS`. The words of the option `aggregation`, the
choice of "auto", the checks of devices and dtypes, and the planned transfers of
replicas follow from the row.

Nothing here needs TensorFlow but the checks: options are read before it is
imported.
"""

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType, ModuleType

# Up to here the latency of a message costs more time than its bytes: some 100
# microseconds between tasks, at 10 gigabits a second.
SMALL_BYTES = 128 * 1024

# The devices up to which one of them can serve all others one by one.
_FEW_DEVICES = 4


@dataclasses.dataclass(frozen=True)
class Case:
  """The criteria of "auto".

  Attributes:
    num_bytes: The bytes of one tensor; None if the graph does not know.
    num_devices: How many devices have one.
    num_tasks: How many tasks these devices are of.
    is_on_gpus: Whether all of them are GPUs.
  """

  num_bytes: int | None
  num_devices: int
  num_tasks: int
  is_on_gpus: bool

  @property
  def is_small(self) -> bool:
    """Whether messages cost more than bytes.

    An unknown size counts as large: a large tensor loses more by the wrong
    choice.
    """
    return self.num_bytes is not None and self.num_bytes < SMALL_BYTES


@dataclasses.dataclass(frozen=True)
class Algorithm:
  """An algorithm that sums tensors of several devices, on each of them.

  Attributes:
    module: The module of `estimator_mp.collectives` that has its functions.
    suits: Whether "auto" may take it.
    device_type: The only type of devices that it works on, such as "GPU"; None
      for any.
    needs_one_type: Whether all devices need the same type.
    needs_one_task: Whether all devices need to be of one task.
    dtypes: The names of the dtypes that it adds; empty for all.
    is_sent_by_op: Whether an op of TensorFlow sends, and not the graph: there
      is no formula for its traffic.
  """

  module: str
  suits: Callable[[Case], bool]
  device_type: str | None = None
  needs_one_type: bool = False
  needs_one_task: bool = False
  dtypes: tuple[str, ...] = ()
  is_sent_by_op: bool = False

  def load(self) -> ModuleType:
    """Returns the module, with `all_reduce` and perhaps `traffic`."""
    return importlib.import_module(f"estimator_mp.collectives.{self.module}")


def _suits_ring(case: Case) -> bool:
  # GPUs of one task are left to it by dtypes that NCCL does not add.
  is_ring = case.num_tasks == case.num_devices or (
    case.num_tasks == 1 and case.is_on_gpus
  )
  return is_ring and case.num_devices > 1 and not case.is_small


# "auto" takes the last one that suits.
ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType(
  {
    # The fewest ops, none of which cuts or joins tensors. Devices of one task
    # with CPUs share one memory, where sending is free: with 4 CPU devices on 2
    # cores and 4 megabytes of float32 it took 0.5 ms, `tree` 0.9,
    # `hierarchical` 1.5, `ring` 1.8, `collective` 3.4.
    "copy": Algorithm(
      "reduce_to_one",
      suits=lambda case: True,
    ),
    # Between tasks a large tensor costs time per byte on the busiest link.
    "ring": Algorithm(
      "ring",
      suits=_suits_ring,
    ),
    # Between tasks a small tensor costs time per step, not per byte. `copy` has
    # fewer steps, unless there are so many devices that one cannot serve all.
    "tree": Algorithm(
      "tree",
      suits=lambda case: (
        case.is_small and case.num_tasks > 1 and case.num_devices > _FEW_DEVICES
      ),
    ),
    # If tasks have several devices, it sends no more between them than `ring`,
    # in fewer steps, and in any order of devices.
    "hierarchical": Algorithm(
      "hierarchical",
      suits=lambda case: (
        not case.is_small and 1 < case.num_tasks < case.num_devices
      ),
    ),
    "collective": Algorithm(
      "collective",
      suits=lambda case: False,
      needs_one_type=True,
      is_sent_by_op=True,
    ),
    # It knows the links of a task's GPUs. For a small tensor it costs more to
    # start than is saved.
    "nccl": Algorithm(
      "nccl",
      suits=lambda case: not case.is_small and case.num_devices > 1,
      device_type="GPU",
      needs_one_task=True,
      dtypes=("float16", "float32", "float64"),
      is_sent_by_op=True,
    ),
  }
)


def choose_algorithm(
  num_bytes: int | None, devices: Sequence[str], dtype: str = "float32"
) -> str:
  """Returns the algorithm that "auto" stands for.

  Real links were not measured: `SMALL_BYTES` has the assumption.

  Args:
    num_bytes: The bytes of one tensor; None if the graph does not know.
    devices: The devices, with type and index.
    dtype: The name of the tensors' dtype.

  Returns:
    One of `ALGORITHMS`: the last one whose row says that it suits.
  """
  from estimator_mp import devices as devices_lib  # It imports TensorFlow.

  names = [devices_lib.canonical_device(device) for device in devices]
  case = Case(
    num_bytes,
    num_devices=len(names),
    num_tasks=len({devices_lib.host_of(name) for name in names}),
    is_on_gpus={devices_lib.device_type(name) for name in names} == {"GPU"},
  )
  suiting = [
    name
    for name, algorithm in ALGORITHMS.items()
    if algorithm.suits(case) and not _misfit(algorithm, names, dtype)
  ]
  return suiting[-1]


def check_algorithm(
  name: str, devices: Sequence[str], dtype: str = "float32"
) -> None:
  """Raises if an algorithm cannot add tensors.

  Args:
    name: One of `ALGORITHMS`.
    devices: The canonical devices of the tensors.
    dtype: The name of their dtype.

  Raises:
    ValueError: If its ops cannot run on such devices, or do not take the dtype.
  """
  misfit = _misfit(ALGORITHMS[name], devices, dtype)
  if misfit:
    raise ValueError(f"algorithm {name!r} {misfit}")


def _misfit(
  algorithm: Algorithm, devices: Sequence[str], dtype: str
) -> str | None:
  """Returns why an algorithm cannot add tensors, with a fix; None if it can."""
  from estimator_mp import devices as devices_lib  # It imports TensorFlow.

  types = {devices_lib.device_type(device): device for device in devices}
  for device in devices:
    if algorithm.device_type not in (None, devices_lib.device_type(device)):
      return (
        f"cannot run on {device}, which is not a {algorithm.device_type}; use "
        "algorithm='copy', or 'auto', which chooses by the devices"
      )
  if algorithm.needs_one_type and len(types) > 1:
    return (
      f"needs devices of one type, but {' and '.join(types.values())} differ; "
      "use algorithm='copy'"
    )
  hosts = sorted({devices_lib.host_of(device) for device in devices})
  if algorithm.needs_one_task and len(hosts) > 1:
    return (
      f"works inside one task, but the devices are of {len(hosts)} tasks, with "
      f"the hosts {', '.join(hosts)}; use algorithm='hierarchical'"
    )
  if algorithm.dtypes and dtype not in algorithm.dtypes:
    return (
      f"has no {dtype}, only {', '.join(algorithm.dtypes)}; use "
      "algorithm='ring'"
    )
  return None
