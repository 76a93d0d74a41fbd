"""Names of tf.contrib.sparsemax."""

from compat.contrib import absent
from compat.contrib.sparsemax.simplex import sparsemax, sparsemax_loss

__getattr__ = absent.getter(__name__)

__all__ = ["sparsemax", "sparsemax_loss"]
