"""tf.contrib.learn.utils: serving inputs and exports.

`export_estimator` raises an error: its format, SessionBundle, is gone.
"""

from compat.contrib import absent
from compat.contrib.learn.model_fn import InputFnOps
from compat.contrib.learn.utils.input_fn_utils import (
  build_default_serving_input_fn,
  build_parsing_serving_input_fn,
)
from compat.contrib.learn.utils.saved_model_export_utils import (
  make_export_strategy,
)

__path__: list[str] = __path__
__getattr__ = absent.getter(
  __name__, ("gc", "input_fn_utils", "saved_model_export_utils")
)

__all__ = [
  "InputFnOps",
  "build_default_serving_input_fn",
  "build_parsing_serving_input_fn",
  "make_export_strategy",
]
