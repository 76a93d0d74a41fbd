"""Logical GPUs: several devices of one GPU, each with a part of its memory.

TensorFlow calls them virtual or logical devices. They let a mesh be tried on a
machine with fewer GPUs than it needs. Their ops take turns on the GPU, so they
are for checks, and for models whose stages leave it idle; they add no speed of
their own.

TensorFlow numbers them through all GPUs, those of the first one first, and
makes them once in a process: later sessions have the same ones, and so has its
eager runtime.
"""

from collections.abc import Sequence
from typing import Any

from estimator_mp import amounts

import tensorflow as tf

_MEGABYTE = 2**20


def shares(
  num_needed: int,
  num_gpus: int,
  num_bytes: int,
  memory: Sequence[int] | None,
) -> tuple[int, ...]:
  """Returns how many logical GPUs each GPU of this machine is to be.

  Args:
    num_needed: How many there are to be; more than `num_gpus`.
    num_gpus: How many GPUs this machine has; at least one.
    num_bytes: The memory of each logical one.
    memory: The bytes of each GPU; None if they are not known, so that nothing
      is checked.

  Raises:
    ValueError: If a GPU has too little memory.
  """
  least, longer = divmod(num_needed, num_gpus)
  counts = tuple(least + (gpu < longer) for gpu in range(num_gpus))
  for gpu, (count, has) in enumerate(
    zip(counts, memory or (), strict=bool(memory))
  ):
    if count * num_bytes > has:
      raise ValueError(
        f"logical_gpu_bytes={num_bytes} is too much for "
        f"{amounts.counted(count, 'logical GPU')} on GPU {gpu}, which has "
        f"{has} bytes; use at most {has // count}, or a smaller mesh"
      )
  return counts


def set_up(gpu_options: Any, counts: Sequence[int], num_bytes: int) -> None:
  """Lets sessions make logical GPUs.

  Args:
    gpu_options: The `gpu_options` of their ConfigProto, which are changed.
    counts: The result of `shares`.
    num_bytes: The memory of each logical GPU.

  Raises:
    ValueError: If the options already say how GPUs are used.
  """
  limits = [[num_bytes / _MEGABYTE] * count for count in counts]
  made = [
    [*x.memory_limit_mb] for x in gpu_options.experimental.virtual_devices
  ]
  if made == limits:
    return  # By the same configuration.
  fraction = gpu_options.per_process_gpu_memory_fraction
  wrong = [
    f"gpu_options.{name}={value!r}"
    for name, value in (
      ("per_process_gpu_memory_fraction", fraction),
      ("visible_device_list", gpu_options.visible_device_list),
      ("experimental.virtual_devices", made),
    )
    if value
  ]
  if wrong:
    raise ValueError(
      f"session_config has {wrong[0]}, and logical_gpu_bytes={num_bytes} "
      "divides the GPUs in another way; leave one of them out"
    )
  for limit in limits:
    gpu_options.experimental.virtual_devices.add(memory_limit_mb=limit)


def set_up_eager_runtime(counts: Sequence[int], num_bytes: int) -> None:
  """Lets TensorFlow's eager runtime make the same logical GPUs as sessions.

  It shares their memory, and starts with the first `tf.cond` of a graph, such
  as that of an Estimator's training: with a whole GPU for each, were it not set
  up, nothing would be left for all logical ones but the first.

  Args:
    counts: The result of `shares`.
    num_bytes: The memory of each logical GPU.

  Raises:
    ValueError: If it has started with others.
  """
  made = tf.config.LogicalDeviceConfiguration(num_bytes / _MEGABYTE)
  gpus = tf.config.list_physical_devices("GPU")
  for gpu, num_made in zip(gpus, counts, strict=False):
    try:
      tf.config.set_logical_device_configuration(gpu, [made] * num_made)
    except RuntimeError as error:
      raise ValueError(
        f"logical_gpu_bytes={num_bytes} makes {num_made} of {gpu.name}, but "
        "this process has started its GPUs in another way, by an eager op or "
        "the first tf.cond of a graph; call run_config before these, or start "
        "a new process"
      ) from error


def count(gpu_options: Any) -> int | None:
  """Returns how many GPUs a session has by its own settings.

  Args:
    gpu_options: The `gpu_options` of its ConfigProto.

  Returns:
    None if these do not say: those of this machine.
  """
  made = gpu_options.experimental.virtual_devices
  return sum(len(x.memory_limit_mb) or 1 for x in made) or None
