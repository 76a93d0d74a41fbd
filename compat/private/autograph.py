"""AutoGraph: its errors, and the code that it converts.

Tested on TensorFlow 2.15.1 and 2.21.0.

- `ag_pass_through` on an exception keeps AutoGraph from putting its own frames
  into the message.
- `config.CONVERSION_RULES` says which packages it leaves as they are.
"""

import functools
import importlib
from typing import Any


def without_frames(error: Exception) -> Exception:
  """Returns an error whose message stays as it is within AutoGraph.

  Args:
    error: The error; it is marked.
  """
  vars(error)["ag_pass_through"] = True
  return error


@functools.cache  # Once is enough.
def leave_as_it_is(package: str) -> None:
  """Keeps AutoGraph from converting a package's functions, as TensorFlow's.

  Args:
    package: its name, "compat".
  """
  config: Any = importlib.import_module(
    "tensorflow.python.autograph.core.config"
  )
  rule = config.DoNotConvert(package)
  config.CONVERSION_RULES = (rule, *config.CONVERSION_RULES)
