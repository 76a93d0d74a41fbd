"""tf.contrib.tensorboard.plugins; `trace` is refused."""

from compat.contrib import absent

__path__: list[str] = __path__
__getattr__ = absent.getter(__name__, ("projector",))
