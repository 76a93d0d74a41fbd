"""The log of a run's events, which is shown where TensorFlow's is hidden.

Commands hide warnings of TensorFlow. A run that stands still, stops, or begins
from another checkpoint than the newest has to say so.
"""

import logging

LOG = logging.getLogger("tensorflow.run")
LOG.setLevel(logging.WARNING)


def show_messages_only() -> None:
  """Lets a command print the messages, without the name of the log."""
  if LOG.propagate:
    LOG.addHandler(logging.StreamHandler())
    LOG.propagate = False
