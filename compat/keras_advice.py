"""TensorFlow's advice to use tf.keras instead, which no program gets here.

Estimator warns of each of its classes that it will be removed, and tf.layers of
each of its functions: forty lines before the first step, in which what matters
is lost. A program that asks for tf.estimator has read them.
"""

import logging
import os
import sys
import warnings

_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_INSTEAD_OF_ESTIMATOR = "Use tf.keras instead."
_INSTEAD_OF_LAYERS = r"`[\w.]+` is deprecated .*Please use `?(tf\.keras|layer)"


def withhold_before_import() -> None:
  """Leaves out what TensorFlow's C++ code says if all is well.

  The program's, or the user's, own TF_CPP_MIN_LOG_LEVEL stands.
  """
  os.environ.setdefault(_LOG_LEVEL, "1")


def withhold() -> None:
  """Leaves out warnings that end in that advice, and no others.

  Python's own -W stands.
  """
  logging.getLogger("tensorflow").addFilter(_is_something_else)
  if not sys.warnoptions:
    warnings.filterwarnings("ignore", _INSTEAD_OF_LAYERS, UserWarning)


def _is_something_else(record: logging.LogRecord) -> bool:
  return not record.getMessage().endswith(_INSTEAD_OF_ESTIMATOR)
