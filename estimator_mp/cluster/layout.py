"""Layout: the task of each position of a mesh.

Devices that send most are nearest. The parts of one layer (`model` axis)
exchange activations within a layer, stages (`stage` axis) once in a
micro-batch, and replicas (`data` axis) their gradients once in a step. So the
positions are dealt to the tasks with the model axis varying fastest and the
data axis slowest, in any order of the axes in the mesh's text: each task gets
neighbours, and replicas span tasks first. Megatron-LM lays its ranks out in
this order, too (Narayanan et al., 2021, arXiv:2104.04473).

    mesh data:2,stage:2 over two tasks      chief 0        worker 0
      data 0    stage 0, stage 1            cpu:0, cpu:1
      data 1    stage 0, stage 1                           cpu:0, cpu:1
"""

import itertools
import math
from collections.abc import Mapping, Sequence

from estimator_mp.cluster.tasks import Task

# From the axis that sends least to the one that sends most.
_BY_DISTANCE = ("data", "stage", "model")


def device_names(
  axes: Mapping[str, int],
  tasks: Sequence[Task],
  kind: str = "CPU",
  per_task: int | None = None,
) -> tuple[str, ...]:
  """Returns the devices of a mesh, in its order: the last axis fastest.

  Tasks get equally many positions; the last ones one less if that does not
  divide.

  Args:
    axes: The size of each axis, in the mesh's order.
    tasks: The tasks that hold it, nearest neighbours beside each other.
    kind: The type of the devices, "CPU" or "GPU".
    per_task: The most devices that a task has; None for any number.

  Raises:
    ValueError: If there are fewer positions than tasks, or a task has too few
      devices.
  """
  size = math.prod(axes.values())
  names = ", ".join(map(str, tasks))
  text = ",".join(f"{axis}:{count}" for axis, count in axes.items())
  if size < len(tasks):
    raise ValueError(
      f"mesh {text} has {size} device(s), but the cluster has {len(tasks)} "
      f"tasks ({names}), and some would have nothing to do; start {size} "
      "task(s), or use a larger mesh"
    )
  most = math.ceil(size / len(tasks))
  if per_task is not None and most > per_task:
    raise ValueError(
      f"mesh {text} needs {most} {kind}s in each of {len(tasks)} tasks "
      f"({names}), but this machine has {per_task}; start more tasks, or use a "
      "smaller mesh"
    )
  least, longer = divmod(size, len(tasks))
  devices = [
    f"{task.device_prefix}/device:{kind}:{index}"
    for number, task in enumerate(tasks)
    for index in range(least + (number < longer))
  ]
  # The positions of a mesh, near ones beside each other.
  by_distance = sorted(axes, key=_BY_DISTANCE.index)
  positions = itertools.product(*(range(axes[axis]) for axis in by_distance))
  by_position = {
    tuple(position[by_distance.index(axis)] for axis in axes): device
    for position, device in zip(positions, devices, strict=True)
  }
  # Tuples in the mesh's order of axes sort as its last axis varies fastest.
  return tuple(by_position[key] for key in sorted(by_position))
