"""The log of a cluster's faults, which is seen where TensorFlow's is hidden.

The train command hides warnings of TensorFlow. A run that stands still has to
say why.
"""

import logging

LOG = logging.getLogger("tensorflow.cluster")
LOG.setLevel(logging.WARNING)


def show_messages_only() -> None:
  """Lets a command print what is logged, without the name of the log."""
  if LOG.propagate:
    LOG.addHandler(logging.StreamHandler())
    LOG.propagate = False
