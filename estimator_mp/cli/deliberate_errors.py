"""Errors that this project raises on purpose, with their fix.

Its own classes are for that alone. A ValueError is on purpose if a `raise` of
this project raised it. A mistake of this project's can be a ValueError, too,
such as that of `int("x")` or `a, b = [1]`: there Python raises it, at another
instruction. It is for developers of the code, and needs its traceback.
"""

import dis
import types

_OURS = frozenset(["compat", "estimator_mp", "model_fns"])
_RAISE = dis.opmap["RAISE_VARARGS"]


def package(module: str) -> str:
  """Returns the package of a module.

  Args:
    module: The module's whole name.
  """
  return module.partition(".")[0]


def raised_in(error: BaseException) -> str:
  """Returns the package whose code raised an error; nothing if none did.

  Args:
    error: The error, as it was caught.
  """
  innermost = _innermost(error.__traceback__)
  if innermost is None:
    return ""
  return package(innermost.tb_frame.f_globals.get("__name__", ""))


def is_deliberate(error: BaseException) -> bool:
  """Whether this project raised an error on purpose, with its fix.

  Args:
    error: The error, as it was caught.
  """
  if package(type(error).__module__) in _OURS:
    return True
  innermost = _innermost(error.__traceback__)
  if not isinstance(error, ValueError) or innermost is None:
    return False
  code = innermost.tb_frame.f_code.co_code
  return raised_in(error) in _OURS and code[innermost.tb_lasti] == _RAISE


def _innermost(
  traceback: types.TracebackType | None,
) -> types.TracebackType | None:
  """Returns the last entry of a traceback: where the error was raised."""
  while traceback is not None and traceback.tb_next is not None:
    traceback = traceback.tb_next
  return traceback
