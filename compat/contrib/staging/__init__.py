"""Names of tf.contrib.staging."""

from compat.contrib import packages
from compat.private import kept_names

__path__: list[str] = __path__
__getattr__ = packages.getter(__name__, kept_names.PLACES["staging"])
