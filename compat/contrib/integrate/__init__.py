"""Names of tf.contrib.integrate."""

from compat.contrib import absent
from compat.contrib.integrate.adaptive import odeint
from compat.contrib.integrate.fixed import odeint_fixed

__getattr__ = absent.getter(__name__)

__all__ = ["odeint", "odeint_fixed"]
