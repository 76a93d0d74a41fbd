"""The memory of GPUs, before TensorFlow takes it.

TensorFlow tells what a GPU has when it has taken it for this process, and then
it cannot be divided anew. NVIDIA's driver tells without that.
"""

import ctypes

_DRIVER = "libcuda.so.1"
_SUCCESS = 0


def bytes_of_gpus() -> tuple[int, ...] | None:
  """Returns the bytes of the GPUs that this process sees, in their order.

  Returns:
    None if there is no driver, or it does not say.
  """
  try:
    driver = ctypes.CDLL(_DRIVER)
    count = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.pointer(count)):
      return None
    found = []
    for index in range(count.value):
      device, size = ctypes.c_int(), ctypes.c_size_t()
      failed = driver.cuDeviceGet(ctypes.pointer(device), index)
      failed |= driver.cuDeviceTotalMem_v2(ctypes.pointer(size), device)
      if failed != _SUCCESS:
        return None
      found.append(size.value)
  except (AttributeError, OSError):
    return None
  return tuple(found)
