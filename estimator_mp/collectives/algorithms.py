"""The all-reduce algorithms: a row for each, and a module of this folder.

To add one, write its module, with

- `all_reduce(tensors, devices)`, which makes the ops: from a tensor on each of
  several canonical devices to the sum on each, and
- `traffic(num_elements, itemsize, devices)`, the bytes that each device sends
  to each other, unless TensorFlow's own op sends,

and add its row to `ALGORITHMS`. The words of the option `aggregation`, what
"auto" takes, the checks of devices and dtypes, and the plan of what replicas
send follow from the row.

Options need the names before there is time to import TensorFlow. So nothing
here does, and modules are imported when they are first needed.
"""

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType, ModuleType

# Up to here a tensor's way costs more time than its bytes: some 100
# microseconds per message between tasks, at 10 gigabits a second.
SMALL_BYTES = 128 * 1024

# The devices up to which one of them can serve all others one by one.
_FEW_DEVICES = 4


@dataclasses.dataclass(frozen=True)
class Case:
  """What "auto" chooses by.

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
    """Whether steps cost more than bytes.

    What is unknown counts as large: a large tensor loses more by the wrong
    choice.
    """
    return self.num_bytes is not None and self.num_bytes < SMALL_BYTES


@dataclasses.dataclass(frozen=True)
class Algorithm:
  """A way of summing what several devices have, on each of them.

  Attributes:
    name: What users call it.
    module: The module of this folder that has its functions.
    suits: Whether "auto" may take it.
    device_type: The only type of devices that it works on, such as "GPU"; None
      for any.
    needs_one_type: Whether all devices need the same type.
    needs_one_task: Whether all devices need to be of one task.
    dtypes: The names of the dtypes that it adds; empty for all.
    is_sent_by_op: Whether TensorFlow's own op sends, which is no send of the
      graph: there is no formula for what it sends.
  """

  name: str
  module: str
  suits: Callable[[Case], bool]
  device_type: str | None = None
  needs_one_type: bool = False
  needs_one_task: bool = False
  dtypes: tuple[str, ...] = ()
  is_sent_by_op: bool = False

  def load(self) -> ModuleType:
    """Returns the module, with `all_reduce` and perhaps `traffic`."""
    return importlib.import_module(f"{__package__}.{self.module}")


# In the order in which users read them; "auto" takes the last one that suits.
_ROWS = (
  # One device adds all, and sends the sum to all: 2 steps, and the fewest ops,
  # none of which cuts or joins tensors. Devices of one task with CPUs share one
  # memory, where sending is free: with 4 CPU devices on 2 cores and 4 megabytes
  # of float32 it took 0.5 ms, `tree` 0.9, `hierarchical` 1.5, `ring` 1.8,
  # `collective` 3.4.
  Algorithm("copy", "reduce_to_one", suits=lambda case: True),
  # Each link carries 2 (n - 1) / n of a tensor, in 2 (n - 1) steps. Between
  # tasks a large tensor costs time per byte on the busiest link. So it does
  # between GPUs, which have NCCL, but for dtypes that it does not add.
  Algorithm(
    "ring",
    "ring",
    suits=lambda case: (
      not case.is_small
      and case.num_devices > 1
      and (
        case.num_tasks == case.num_devices
        or (case.num_tasks == 1 and case.is_on_gpus)
      )
    ),
  ),
  # Sums go up a binary tree, and the total comes down: 2 log2(n) steps. Between
  # tasks a small tensor costs time per step, not per byte. `copy` has fewer
  # steps, unless there are so many devices that one cannot serve all.
  Algorithm(
    "tree",
    "tree",
    suits=lambda case: (
      case.is_small and case.num_tasks > 1 and case.num_devices > _FEW_DEVICES
    ),
  ),
  # Each task adds, and a device of each goes on in a ring. If tasks have
  # several devices, it sends no more between them than `ring`, in fewer steps,
  # and whatever the order of devices.
  Algorithm(
    "hierarchical",
    "hierarchical",
    suits=lambda case: (
      not case.is_small and 1 < case.num_tasks < case.num_devices
    ),
  ),
  # TensorFlow's own ring, `CollectiveReduceV2`.
  Algorithm(
    "collective",
    "collective",
    suits=lambda case: False,
    needs_one_type=True,
    is_sent_by_op=True,
  ),
  # NVIDIA's, `NcclAllReduce`, which knows the links of a task's GPUs. For a
  # small tensor it costs more to start than is saved.
  Algorithm(
    "nccl",
    "nccl",
    suits=lambda case: not case.is_small and case.num_devices > 1,
    device_type="GPU",
    needs_one_task=True,
    dtypes=("float16", "float32", "float64"),
    is_sent_by_op=True,
  ),
)

ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType(
  {row.name: row for row in _ROWS}
)
