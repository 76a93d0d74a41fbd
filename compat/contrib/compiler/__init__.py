"""Names of tf.contrib.compiler: what XLA compiles."""

from compat.contrib import absent

__getattr__ = absent.getter(__name__, ("jit", "xla"))

__all__ = ["jit", "xla"]
