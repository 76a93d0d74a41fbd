"""The user's own program: its functions, as module:function, and their input.

The inputs of a model_fn are written as text:

  x:float32[?,10],ids:int32[?,128]     features by name
  int32[?,1]                           one tensor, such as labels
  tags:sparse int64[?,50]              a SparseTensor

`?` is a dimension that the graph does not know, nearly always the batch.
"""

import functools
import importlib
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any, TypeAlias

import compat
from estimator_mp.cli import commands, failures, program_flags
from estimator_mp.cli.deliberate_errors import raised_in
from estimator_mp.config import options as options_lib

import tensorflow as tf
from absl import flags

Spec: TypeAlias = tf.TensorSpec | tf.SparseTensorSpec
# Of features or labels: one of them, or some by their names.
InputSpec: TypeAlias = Spec | dict[str, Spec]

_ENTRY = re.compile(
  r"(?:(?P<name>[^:,\[\]]+):)?\s*(?P<sparse>sparse\s+)?(?P<dtype>\w+)\s*"
  r"\[(?P<shape>[^\[\]]*)\]"
)
# One that is not between brackets.
_COMMA = re.compile(r",(?![^\[]*\])")
_EXAMPLE = "x:float32[?,10],ids:int32[?,128]"


def show_tensorflow(options: program_flags.ProgramOptions, *names: str) -> None:
  """Gives the user's program the TensorFlow that it asks for.

  Args:
    options: The options; a module that is their program belongs to it,
      even if it is installed.
    *names: Its functions, module:function; their packages belong to it, too.

  Raises:
    ValueError: If it is too late for that.
  """
  if options.program[:1] == ("-m",):
    names = (*names, options.program[1])
  packages = [name.partition(":")[0].partition(".")[0] for name in names]
  packages += filter(None, (options.v1_packages or "").split(","))
  try:
    compat.install(
      contrib=options.contrib,
      v1=options.v1,
      v1_packages=packages,
      v2_control_flow=options.v2_control_flow,
      resource_variables=options.resource_variables,
    )
  except compat.CompatError as error:
    raise commands.FlagsError(str(error)) from error


def load_function(
  flag: str, name: str, fix: str = "fix that first"
) -> Callable[..., Any]:
  """Returns the function that a flag names; its own errors are one line.

  Args:
    flag: The flag, without dashes.
    name: Its value, module:function; the module is looked for in the user's
      directory too.
    fix: The advice if it raises.

  Raises:
    ValueError: If there is no such function, or the module cannot be imported;
      in one line, with the user's line that raised.
  """
  module_name, _, function_name = name.partition(":")
  folder = options_lib.user_directory()
  if folder not in sys.path:
    sys.path.insert(0, folder)
  # The module may define and read flags of its own; these have the defaults.
  del sys.argv[1:]
  try:
    module = importlib.import_module(module_name)
  except ModuleNotFoundError as error:
    if not module_name.startswith(error.name or ":"):
      raise error_of_user(f"importing {module_name}", error) from error
    raise commands.FlagsError(
      f"--{flag}={name}: there is no module {error.name} in {folder} or on "
      "PYTHONPATH; run the command where the module is"
    ) from error
  except (Exception, SystemExit) as error:
    raise error_of_user(f"importing {module_name}", error) from error
  flags.FLAGS.mark_as_parsed()
  function = getattr(module, function_name, None)
  if not callable(function):
    state = "has no" if function is None else "has something else than a"
    names = [k for k, v in vars(module).items() if callable(v) and k[0] != "_"]
    raise commands.FlagsError(
      f"--{flag}={name}: module {module_name} {state} function "
      f"{function_name}; it has {', '.join(sorted(names)[:5]) or 'none'}"
    )

  @functools.wraps(function)
  def one_line_errors(*args: Any, **kwargs: Any) -> Any:
    try:
      result = function(*args, **kwargs)
    except Exception as error:
      if raised_in(error) == "estimator_mp":
        raise  # It has its fix, or is no error of the user's code.
      raise error_of_user(f"--{flag}={name}", error, fix) from error
    if flag == "model_fn" and not hasattr(result, "loss"):
      raise ValueError(
        f"--{flag}={name} returned {result!r}; a model_fn returns an "
        "EstimatorSpec"
      )
    return result

  return one_line_errors


def error_of_user(
  subject: str, error: BaseException, fix: str = "fix that first"
) -> ValueError:
  """Returns an error in one line, with the user's line that raised it.

  Args:
    subject: The function that raised it.
    error: The exception.
    fix: The advice.
  """
  frames = traceback.extract_tb(error.__traceback__)
  place = failures.users_line((x.filename, x.lineno or 0) for x in frames)
  reason = " ".join(str(error).split())
  return ValueError(
    f"{subject} raised {type(error).__name__}: {reason}{place}; {fix}"
  )


def input_spec(text: str) -> InputSpec:
  """Returns the specs in a text.

  Args:
    text: Entries `name:dtype[dimensions]` with commas between them, or one
      entry without a name.

  Raises:
    ValueError: If the text is malformed; it says where, and the right form.
  """
  specs: dict[str | None, Spec] = {}
  for entry in filter(None, map(str.strip, _COMMA.split(text))):
    match = _ENTRY.match(entry)
    if match is None:
      raise ValueError(
        f"{entry!r} is not name:dtype[dimensions]; write it like {_EXAMPLE}, "
        "with ? for the batch"
      )
    remainder = entry[match.end() :].strip()
    if remainder:
      raise ValueError(
        f"{remainder!r} follows {match[0]!r}; put a comma between entries, as "
        f"in {_EXAMPLE}"
      )
    name = match["name"] and match["name"].strip()
    if name in specs:
      raise ValueError(f"{name or match[0]!r} comes twice; give it once")
    specs[name] = _spec(match)
  if None not in specs:
    if not specs:
      raise ValueError(f"it is empty; write it like {_EXAMPLE}")
    return {name or "": spec for name, spec in specs.items()}
  if len(specs) > 1:
    raise ValueError(
      f"of several entries each needs a name; write them like {_EXAMPLE}"
    )
  return specs[None]


def input_fn_of_zeros(
  features: InputSpec, labels: InputSpec | None, batch_size: int
) -> Callable[[], Any]:
  """Returns an input_fn whose graph knows of a batch what specs do.

  Args:
    features: The features.
    labels: The labels; None for none.
    batch_size: What their unknown dimensions are.
  """

  def zeros(spec: tf.TensorSpec | None) -> tf.Tensor | None:
    if spec is None:
      return None
    sizes = [batch_size if x is None else x for x in spec.shape]
    return tf.compat.v1.placeholder_with_default(
      tf.zeros(sizes, spec.dtype), spec.shape
    )

  def input_fn() -> Any:
    specs = features, labels
    flat = tf.nest.flatten(specs, expand_composites=True)
    return tf.nest.pack_sequence_as(
      specs, [*map(zeros, flat)], expand_composites=True
    )

  return input_fn


def _spec(match: re.Match[str]) -> Spec:
  """Returns the spec of one entry."""
  try:
    dtype = tf.dtypes.as_dtype(match["dtype"])
  except TypeError as error:
    raise ValueError(
      f"{match['dtype']!r} is not a dtype of TensorFlow; use one such as "
      "float32, int32, int64, bool or string"
    ) from error
  words = match["shape"].split(",") if match["shape"].strip() else []
  shape = [_dimension(word.strip(), match) for word in words]
  if match["sparse"]:
    return tf.SparseTensorSpec(shape, dtype)
  return tf.TensorSpec(shape, dtype)


def _dimension(word: str, match: re.Match[str]) -> int | None:
  if word == "?":
    return None
  if not word.isdecimal() or int(word) < 1:
    raise ValueError(
      f"dimension {word!r} of {match[0]!r} is neither a positive number nor ?; "
      "use one of them"
    )
  return int(word)
