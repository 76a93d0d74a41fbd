"""tf.contrib.tensorboard.plugins: `projector`."""

from compat.contrib import absent

__getattr__ = absent.getter(__name__, ("projector",))

__all__ = ["projector"]
