"""Names of tf.contrib.tfprof, which is tf.compat.v1.profiler now.

`ProfileContext` traces the steps between `trace_steps` into profile_dir, for
TensorBoard.
"""

from typing import Any

from compat.contrib import absent

import tensorflow as tf

__path__: list[str] = __path__
__getattr__ = absent.getter(__name__, ("model_analyzer",))


class ProfileContext:
  """Profiles what runs within `with`, for TensorBoard."""

  def __init__(
    self,
    profile_dir: str,
    trace_steps: Any = None,
    dump_steps: Any = None,
    enabled: bool = True,
    debug: bool = False,
  ):
    """Makes the context.

    Args:
      profile_dir: where the profile is written.
      trace_steps: is not used: every step is in the profile.
      dump_steps: is not used: one profile is written, at the end.
      enabled: whether to profile.
      debug: is not used.
    """
    del trace_steps, dump_steps, debug
    self._profile_dir = profile_dir
    self._enabled = enabled

  def __enter__(self) -> "ProfileContext":
    if self._enabled:
      tf.profiler.experimental.start(self._profile_dir)
    return self

  def __exit__(self, *error: Any) -> None:
    if self._enabled:
      tf.profiler.experimental.stop()
