"""`numpy` with the names that programs of TensorFlow 1 use.

NumPy 1.20 to 2.5 took names away, `np.int` and `np.float_` the first of them.
Where its release notes say what has the same meaning today, the program finds
that under the old name. Any other name that has gone is NumPy's own error,
which says what to use. Tested on NumPy 1.26.4 and 2.5.5, against 1.18.5, with
which TensorFlow 1.15 ran.
"""

import functools
import math
import pickle
import types
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

# Were Python's own. NumPy 1.24 has none of them, and 2.0 `bool` and `long` of
# another meaning.
BUILTINS: Mapping[str, type] = {
  "bool": bool,
  "complex": complex,
  "float": float,
  "int": int,
  "long": int,
  "object": object,
  "str": str,
  "unicode": str,
}

# By the old name: today's, below `numpy`. In the order of the releases without.
RENAMED: Mapping[str, str] = {
  "bool8": "bool_",  # 1.24
  "bytes0": "bytes_",
  "int0": "intp",
  "object0": "object_",
  "str0": "str_",
  "uint0": "uintp",
  "void0": "void",
  "typeDict": "sctypeDict",  # 1.25
  "AxisError": "exceptions.AxisError",  # 2.0
  "ComplexWarning": "exceptions.ComplexWarning",
  "DataSource": "lib.npyio.DataSource",
  "Inf": "inf",
  "Infinity": "inf",
  "NAN": "nan",
  "ModuleDeprecationWarning": "exceptions.ModuleDeprecationWarning",
  "NaN": "nan",
  "PINF": "inf",
  "RankWarning": "exceptions.RankWarning",
  "TooHardError": "exceptions.TooHardError",
  "VisibleDeprecationWarning": "exceptions.VisibleDeprecationWarning",
  "add_docstring": "lib.add_docstring",
  "add_newdoc": "lib.add_newdoc",
  "alltrue": "all",
  "byte_bounds": "lib.array_utils.byte_bounds",
  "cfloat": "complex128",
  "clongfloat": "clongdouble",
  "compare_chararrays": "char.compare_chararrays",
  "complex_": "complex128",
  "cumproduct": "cumprod",
  "float_": "float64",
  "format_parser": "rec.format_parser",
  "infty": "inf",
  "issubsctype": "issubdtype",
  "longcomplex": "clongdouble",
  "longfloat": "longdouble",
  "mat": "asmatrix",
  "product": "prod",
  "round_": "round",
  "singlecomplex": "complex64",
  "sometrue": "any",
  "string_": "bytes_",
  "tracemalloc_domain": "lib.tracemalloc_domain",
  "unicode_": "str_",
  "trapz": "trapezoid",  # 2.4
  "chararray": "char.chararray",  # 2.5
  "row_stack": "vstack",
}


def asscalar(a: Any) -> Any:
  """Returns the Python number in an array of one element."""
  return np.asarray(a).item()


def asfarray(a: Any, dtype: Any = np.float64) -> Any:
  """Returns an array of floats: of `dtype`, or of float64 if that has none."""
  is_inexact = np.issubdtype(dtype, np.inexact)
  return np.asarray(a, dtype if is_inexact else np.float64)


class _Casts(dict[Any, Callable[[Any], Any]]):
  """`np.cast[dtype](x)`."""

  def __missing__(self, dtype: Any) -> Callable[[Any], Any]:
    return functools.partial(np.asarray, dtype=dtype)


def in1d(ar1: Any, ar2: Any, *args: Any, **kwargs: Any) -> Any:
  """Returns a flat array: which elements of `ar1` are in `ar2`; see np.isin."""
  return np.isin(np.ravel(ar1), ar2, *args, **kwargs)


def issubclass_(arg1: Any, arg2: Any) -> bool:
  """Returns what issubclass does, and False for what is no class."""
  return isinstance(arg1, type) and issubclass(arg1, arg2)


# What is not there under any name, as it was.
FORMER: Mapping[str, Any] = {
  "alen": lambda a: len(np.atleast_1d(a)),  # 1.23
  "asscalar": asscalar,  # 1.23
  "loads": pickle.loads,  # 1.23
  "math": math,  # 1.25
  "warnings": warnings,  # 1.25
  "NINF": -math.inf,  # 2.0
  "NZERO": -0.0,
  "PZERO": 0.0,
  "asfarray": asfarray,
  "cast": _Casts(),
  "fastCopyAndTranspose": lambda a: np.asarray(a).T.copy(),
  "issubclass_": issubclass_,
  "msort": lambda a: np.sort(a, axis=0),
  "sctype2char": lambda sctype: np.dtype(sctype).char,
  "sctypes": {
    "int": [np.int8, np.int16, np.int32, np.int64],
    "uint": [np.uint8, np.uint16, np.uint32, np.uint64],
    "float": [np.float16, np.float32, np.float64, np.longdouble],
    "complex": [np.complex64, np.complex128, np.clongdouble],
    "others": [bool, object, bytes, str, np.void],
  },
  "in1d": in1d,  # 2.4
}


def array(object: Any, *args: Any, copy: Any = True, **kwargs: Any) -> Any:
  """Is np.array, and copy=False "no copy unless it takes one".

  NumPy 2 calls that copy=None.
  """
  return np.array(object, *args, copy=copy or None, **kwargs)


# What has the same name and does something else.
CHANGED: Mapping[str, Any] = {
  **BUILTINS,
  **({"array": array} if np.__version__ >= "2" else {}),
}

# A star import hid no more of Python's names than `all`, `any`, `divmod` and
# `sum`. NumPy 2 would hide these, too.
_NOT_FOR_STAR = {*BUILTINS, "abs", "max", "min", "pow", "round"}


class NumpyView(types.ModuleType):
  """Looks like the numpy that a program of TensorFlow 1 was written for.

  An attribute set on it is set on numpy, for all modules to see: programs
  replaced `np.load` so.
  """

  def __init__(self) -> None:
    """Makes the view of numpy."""
    super().__init__(np.__name__, np.__doc__)
    vars(self).update(
      {name: getattr(np, name) for name in ("__file__", "__path__", "__spec__")}
    )
    vars(self).update(CHANGED)

  def __getattr__(self, name: str) -> Any:
    if name == "__all__":
      return sorted({*np.__all__, *RENAMED, *FORMER} - _NOT_FOR_STAR)
    try:
      return getattr(np, name)
    except AttributeError:
      if name in FORMER:
        return FORMER[name]
      if name not in RENAMED:
        raise
    found: Any = np
    for part in RENAMED[name].split("."):
      found = getattr(found, part)
    return found

  def __setattr__(self, name: str, value: Any) -> None:
    vars(self).pop(name, None)
    setattr(np, name, value)

  def __delattr__(self, name: str) -> None:
    delattr(np, name)

  def __dir__(self) -> list[str]:
    return sorted({*dir(np), *BUILTINS, *RENAMED, *FORMER})
