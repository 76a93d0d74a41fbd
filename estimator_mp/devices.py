"""Device names: their canonical form, and which devices a machine has.

A mesh is made of device names. Two spellings of one device ("/cpu:1" and
"/device:CPU:1") have to compare equal, so every name is brought into one form
before anything else looks at it.
"""

import functools
import math
import os
from collections.abc import Mapping, Sequence

from estimator_mp.cluster import layout
from estimator_mp.cluster import tasks as tasks_lib

import tensorflow as tf

# Of how many devices an error lists all.
_MAX_NAMES = 8
_LOCAL_JOBS = (None, "localhost")


def canonical_device(name: str) -> str:
  """Returns the one canonical spelling of a device name.

  Args:
    name: A TensorFlow device name with a type and an index: "cpu:1", "/gpu:0",
      "/device:CPU:1", "/job:worker/task:1/gpu:0".

  Returns:
    The name as TensorFlow writes it, such as "/device:CPU:1" or
    "/job:worker/task:1/device:GPU:0".

  Raises:
    ValueError: If the name is no device name, or has no type or no index.
  """
  text = name.strip()
  if not text.startswith("/"):
    text = "/" + text
  try:
    spec = tf.compat.v1.DeviceSpec.from_string(text)
  except ValueError:
    spec = None
  if spec is None or spec.device_type is None or spec.device_index is None:
    raise ValueError(
      f"{name!r} is not a device; give its type and index, such as /cpu:1, "
      "/gpu:0 or /job:worker/task:1/gpu:0"
    )
  if spec.job == "localhost":
    # "localhost" is what TensorFlow calls the job of a run without a cluster.
    spec = spec.replace(job=None, replica=None, task=None)
  elif spec.replica == 0:
    # TensorFlow numbers replicas of jobs, and has one of each.
    spec = spec.replace(replica=None)
  return str(spec.to_string())


@functools.cache
def full_device(name: str) -> str | None:
  """Returns a device's canonical name; None if the name leaves some open."""
  spec = tf.compat.v1.DeviceSpec.from_string(name)
  if None in (spec.device_type, spec.device_index):
    return None
  return canonical_device(name)


def device_type(name: str) -> str:
  """Returns "CPU", "GPU", ... for a device name that has a type."""
  return str(tf.compat.v1.DeviceSpec.from_string(name).device_type)


def host_of(name: str) -> str:
  """Returns the CPU device of the task that a device belongs to.

  Args:
    name: A canonical device name.

  Returns:
    "/device:CPU:0", with the job, replica and task of `name` if it has them.
  """
  spec = tf.compat.v1.DeviceSpec.from_string(name)
  host = spec.replace(device_type="CPU", device_index=0)
  return str(host.to_string())


def is_local(name: str) -> bool:
  """Whether a canonical device name belongs to this process, not a cluster."""
  return tf.compat.v1.DeviceSpec.from_string(name).job in _LOCAL_JOBS


def task_of(name: str) -> str:
  """Returns the task of a canonical device name, as "/job:worker/task:1".

  Args:
    name: A canonical device name.

  Returns:
    An empty text for a device of this process.
  """
  spec = tf.compat.v1.DeviceSpec.from_string(name)
  return str(spec.replace(device_type=None, device_index=None).to_string())


def with_task(names: Sequence[str]) -> tuple[str, ...]:
  """Returns device names with this process's task, if there are servers.

  With parameter servers in TF_CONFIG each worker has a mesh of its own devices,
  in a session that sees those of the servers, too.

  Args:
    names: Canonical device names.
  """
  cluster = tasks_lib.from_environment()
  if cluster is None or not (cluster.is_between_graph and cluster.mesh_tasks):
    return tuple(names)
  task = tf.compat.v1.DeviceSpec.from_string(cluster.task.device_prefix)
  specs = map(tf.compat.v1.DeviceSpec.from_string, names)
  return tuple(str(task.make_merged_spec(x).to_string()) for x in specs)


def logical_gpus() -> list[list[float]]:
  """Returns the megabytes of the logical GPUs of each GPU of this machine.

  They are those of `tf.config.set_logical_device_configuration`; none of a GPU
  that the program has not divided.
  """
  return [
    [
      x.memory_limit
      for x in tf.config.get_logical_device_configuration(gpu) or ()
    ]
    for gpu in tf.config.list_physical_devices("GPU")
  ]


def num_local_gpus() -> int:
  """Returns how many GPUs TensorFlow has on this machine, logical ones too."""
  return sum(len(limits) or 1 for limits in logical_gpus())


def num_local_devices() -> int:
  """Returns how many devices this machine has: GPUs, or else cores."""
  return num_local_gpus() or os.cpu_count() or 1


def discover_devices(axes: Mapping[str, int]) -> tuple[str, ...]:
  """Returns devices for a mesh: GPUs, or else virtual CPUs.

  They are those of this machine, or of all tasks that hold the mesh if
  TF_CONFIG names a cluster. Tasks are taken to have as many GPUs as this one.

  TensorFlow can split one CPU into any number of devices
  (`ConfigProto.device_count`, which `estimator_mp.run_config` sets), so a mesh
  of any size can be built and tested on a machine without GPUs.

  Args:
    axes: The size of each axis.

  Returns:
    Canonical device names.

  Raises:
    ValueError: If there are GPUs, but too few, or TF_CONFIG is malformed.
  """
  cluster = tasks_lib.from_environment()
  tasks = cluster.mesh_tasks if cluster is not None else ()
  gpus = num_local_gpus()
  if tasks:
    kind = "GPU" if gpus else "CPU"
    return layout.device_names(axes, tasks, kind, gpus or None)
  count = math.prod(axes.values())
  if not gpus:
    return tuple(f"/device:CPU:{i}" for i in range(count))
  if gpus < count:
    cpus = [f"/cpu:{i}" for i in range(count)]
    if count > _MAX_NAMES:
      cpus[2:-1] = ["..."]
    raise ValueError(
      f"the mesh needs {count} devices, but this machine has {gpus} GPU(s); "
      "use a smaller mesh, or make several of a GPU by "
      "tf.config.set_logical_device_configuration, or name the devices "
      f"yourself: devices={','.join(cpus)}"
    )
  return tuple(f"/device:GPU:{i}" for i in range(count))


def check_local_devices_exist(devices: Sequence[str]) -> None:
  """Raises if a device of this process can never exist.

  CPUs always can, because their number is a setting. Devices of other tasks
  are not checked: only the cluster knows them.

  Args:
    devices: Canonical device names.

  Raises:
    ValueError: If a GPU index is out of range, or the type is neither CPU nor
      GPU.
  """
  num_gpus = num_local_gpus()
  for device in filter(is_local, devices):
    kind = device_type(device)
    index = tf.compat.v1.DeviceSpec.from_string(device).device_index
    if kind not in ("CPU", "GPU"):
      raise ValueError(
        f"device {device} has type {kind}; a mesh is made of CPU or GPU devices"
      )
    if kind == "GPU" and index >= num_gpus:
      raise ValueError(
        f"device {device} does not exist: this machine has {num_gpus} GPU(s); "
        f"name devices that exist, such as /cpu:{index}, or leave devices out"
      )


def num_virtual_cpus(devices: Sequence[str]) -> int:
  """Returns how many CPU devices a session needs to hold all of `devices`.

  Args:
    devices: Canonical device names.

  Returns:
    One more than the highest local CPU index, and at least 1.
  """
  specs = [
    tf.compat.v1.DeviceSpec.from_string(name)
    for name in devices
    if is_local(name)
  ]
  cpus = [spec.device_index for spec in specs if spec.device_type == "CPU"]
  return max(cpus, default=0) + 1
