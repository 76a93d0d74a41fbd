"""tf.contrib.bayesflow, of which 1.15 had monte_carlo only."""

from compat.contrib import absent

__path__: list[str] = __path__
__getattr__ = absent.getter(__name__, ("monte_carlo",))
