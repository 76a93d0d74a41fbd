"""Device names: their canonical form, and which devices a machine has.

A mesh is made of device names. Two spellings of one device ("/cpu:1" and
"/device:CPU:1") have to compare equal, so every name is brought into one form
before anything else looks at it.
"""

from collections.abc import Sequence

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
  return str(spec.to_string())


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


def num_local_gpus() -> int:
  """Returns how many GPUs TensorFlow sees on this machine."""
  return len(tf.config.list_physical_devices("GPU"))


def discover_devices(count: int) -> tuple[str, ...]:
  """Returns `count` devices of this machine: GPUs, or else virtual CPUs.

  TensorFlow can split one CPU into any number of devices
  (`ConfigProto.device_count`, which `estimator_mp.run_config` sets), so a mesh
  of any size can be built and tested on a machine without GPUs.

  Args:
    count: How many devices are wanted, at least 1.

  Returns:
    Canonical device names.

  Raises:
    ValueError: If the machine has GPUs, but fewer than `count`.
  """
  gpus = num_local_gpus()
  if not gpus:
    return tuple(f"/device:CPU:{i}" for i in range(count))
  if gpus < count:
    names = [f"/cpu:{i}" for i in range(count)]
    if count > _MAX_NAMES:
      names[2:-1] = ["..."]
    cpus = ",".join(names)
    raise ValueError(
      f"the mesh needs {count} devices, but this machine has {gpus} GPU(s); "
      f"use a smaller mesh or name the devices yourself: devices={cpus}"
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
  for device in filter(is_local, devices):
    kind = device_type(device)
    index = tf.compat.v1.DeviceSpec.from_string(device).device_index
    if kind not in ("CPU", "GPU"):
      raise ValueError(
        f"device {device} has type {kind}; a mesh is made of CPU or GPU devices"
      )
    if kind == "GPU" and index >= num_local_gpus():
      raise ValueError(
        f"device {device} does not exist: this machine has "
        f"{num_local_gpus()} GPU(s); name devices that exist, such as "
        f"/cpu:{index}, or leave devices out"
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
