"""The log of what happens to a run, which is seen where TensorFlow's is hidden.

Commands hide warnings of TensorFlow. A run that stands still, stops, or begins
from something else than the newest checkpoint has to say so.
"""

import logging

LOG = logging.getLogger("tensorflow.run")
LOG.setLevel(logging.WARNING)


def show_messages_only() -> None:
  """Lets a command print what is logged, without the name of the log."""
  if LOG.propagate:
    LOG.addHandler(logging.StreamHandler())
    LOG.propagate = False
