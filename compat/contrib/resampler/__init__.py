"""Names of tf.contrib.resampler."""

from compat.contrib import absent
from compat.contrib.resampler.sampling import resampler

__getattr__ = absent.getter(__name__)

__all__ = ["resampler"]
