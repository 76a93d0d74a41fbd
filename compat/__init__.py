"""tf.estimator on every TensorFlow from 2.15 on.

`import compat; compat.install()` gives TensorFlow 2.16 and later the
`tf.estimator` that they lost, from the tensorflow-estimator 2.15.0 wheel.
Importing this package does not import TensorFlow, and
`compat.install_when_imported()` leaves that to the program.
"""

from compat.errors import CompatError
from compat.installation import install, install_when_imported

__all__ = ["CompatError", "install", "install_when_imported"]
