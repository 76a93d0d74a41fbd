"""A limit of memory, and settings for processes that have one.

malloc keeps freed blocks of up to 32 MiB, in as many arenas as eight times the
cores. With `RETURNS_AT_ONCE` in its environment a process holds little more
than TensorFlow's tensors (mallopt(3) in the Linux manual). The kernel clears
new memory, which takes time.

Linux counts the stacks of threads as data (RLIMIT_DATA in setrlimit(2)), those
that are only reserved, too. The server of a task has a hundred threads that
wait, and use a few pages of 8 MiB each.
"""

import ctypes
import resource
from types import MappingProxyType

RETURNS_AT_ONCE = MappingProxyType(
  {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
  }
)

# The stacks of macOS for all threads but the first, with the same TensorFlow.
_STACK_BYTES = 512 << 10
# More than a pthread_attr_t has anywhere.
_ATTRIBUTES_BYTES = 256


def reserve_small_stacks() -> None:
  """Gives new threads of this process small stacks, if they count as its data.

  Threads that run already, the first one among them, keep theirs.
  """
  limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
  libc = ctypes.CDLL(None)
  if limit == resource.RLIM_INFINITY or not hasattr(
    libc, "pthread_setattr_default_np"
  ):
    return
  attributes = ctypes.create_string_buffer(_ATTRIBUTES_BYTES)
  libc.pthread_attr_init(attributes)
  libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(_STACK_BYTES))
  libc.pthread_setattr_default_np(attributes)
