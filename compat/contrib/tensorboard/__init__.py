"""tf.contrib.tensorboard: its plugin that shows embeddings."""

from compat.contrib import absent

__getattr__ = absent.getter(__name__, ("plugins",))

__all__ = ["plugins"]
