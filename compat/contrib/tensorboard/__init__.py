"""tf.contrib.tensorboard, of which plugins.projector is used."""

from compat.contrib import absent

__path__: list[str] = __path__
__getattr__ = absent.getter(__name__, ("plugins",))
