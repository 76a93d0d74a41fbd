"""The inspect command: the partition that a model_fn would get, and its costs.

  python -m estimator_mp.inspect --model_fn=my_model:model_fn \
      --features='ids:int32[?,128]' --labels='int32[?,1]' --mesh=stage:4

`--help` lists the flags. `inspection.inspect_model_fn` is the same for
programs.
"""

import dataclasses
import functools
import importlib
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

# TensorFlow reads this when it is imported. The user's own setting wins.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import estimator_mp
from estimator_mp import (
  command_flags,
  drawing,
  input_spec,
  inspection,
  run_record,
)
from estimator_mp import options as options_lib
from model_fns import cifar10_cnn

import tensorflow as tf
from absl import flags

_COMMAND = command_flags.Command(
  "inspect",
  "Shows how the layers of a model would be spread over several devices.",
  ("Model", options_lib.FLAGS_TITLE, "Output"),
)
# What a first step shows is nothing to inspect.
_SHARDING = (
  "mesh",
  "devices",
  "placement",
  "memory_limit",
  "measured_costs",
  "variables",
  "optimizer_state",
  "aggregation",
  "bucket_bytes",
  "chunk_bytes",
  "compression",
  "top_k_fraction",
  "sparse_as_dense",
)
_BAD_USE = 2
_EXAMPLE = "my_model:model_fn"


@dataclasses.dataclass(frozen=True)
class InspectOptions:
  """What is to be inspected. Paths are absolute.

  The fields are the flags of the same names, `define_flags` says what they
  mean; `config` is what the flags of sharding say.
  """

  model_fn: str | None
  features: str | None
  labels: str | None
  params: str | None
  out: str | None
  config: estimator_mp.ShardingConfig


def define_flags(flag_values: flags.FlagValues) -> None:
  """Defines the flags of the inspect command.

  Args:
    flag_values: Where to define them.
  """
  group = command_flags.Group("Model", flag_values)
  group.text(
    "model_fn",
    None,
    "The model_fn of your Estimator, as module:function; the module is looked"
    " for in this directory too. Without it: this project's cifar10_cnn.",
  )
  group.text(
    "features",
    None,
    "What your input_fn returns as features, as name:dtype[dimensions] with"
    " commas between: x:float32[?,10],ids:int32[?,128]. ? is the batch; without"
    " a name it is one tensor; 'sparse int64[?,50]' is a SparseTensor.",
  )
  group.text("labels", None, "The same for labels, such as int32[?,1].")
  group.text("params", None, 'The Estimator\'s params as JSON: {"units": 64}.')
  estimator_mp.define_sharding_flags(flag_values, _SHARDING, mesh="stage:3")
  group = command_flags.Group("Output", flag_values)
  group.text(
    "out",
    None,
    "Directory for placement.png, placement.svg, placement.dot and"
    " placement.json. Without it nothing is written.",
  )


def options_from_flags(flag_values: flags.FlagValues) -> InspectOptions:
  """Returns the options that parsed flags mean.

  Args:
    flag_values: The flags, parsed.

  Raises:
    ValueError: If a flag of sharding is wrong.
  """
  values: dict[str, Any] = {
    field.name: flag_values[field.name].value
    for field in dataclasses.fields(InspectOptions)
    if field.name != "config"
  }
  values["config"] = estimator_mp.ShardingConfig.from_flags(flag_values)
  command_flags.check_one_process(values["config"].aggregation)
  if values["out"] is not None:
    values["out"] = command_flags.absolute_path(values["out"])
  return InspectOptions(**values)


def inspect_options(options: InspectOptions) -> inspection.Inspection:
  """Returns the partition that the options ask for.

  Args:
    options: What is to be inspected.

  Raises:
    ValueError: Something does not fit; the text is one line and says what
      would be right.
  """
  if options.out is not None:
    run_record.make_writable("out", options.out)
  if options.model_fn is None:
    for name in ("features", "labels", "params"):
      if getattr(options, name) is not None:
        raise command_flags.FlagsError(
          f"--{name} is given without --model_fn; say which model it is for, "
          f"such as --model_fn={_EXAMPLE}"
        )
    return inspection.inspect_model_fn(
      _cifar10_cnn,
      input_spec.parse("image:float32[?,32,32,3]"),
      input_spec.parse("int32[?,1]"),
      options.config,
      model="cifar10_cnn",
    )
  if options.features is None:
    raise command_flags.FlagsError(
      f"--model_fn={options.model_fn} needs --features: what its input_fn "
      "returns, such as --features='x:float32[?,10]'"
    )
  features = _input_spec("features", options.features)
  labels = options.labels and _input_spec("labels", options.labels)
  params = None if options.params is None else _params(options.params)
  model_fn = _load_function(options.model_fn)
  return inspection.inspect_model_fn(
    _with_one_line_errors(model_fn, options.model_fn),
    features,
    labels or None,
    options.config,
    params,
    options.model_fn,
  )


def _params(text: str) -> dict[str, Any]:
  try:
    value = json.loads(text)
  except json.JSONDecodeError as error:
    raise command_flags.FlagsError(
      f'--params={text} is no JSON ({error}); write it like {{"units": 64}}'
    ) from error
  if not isinstance(value, dict):
    raise command_flags.FlagsError(
      f'--params={text} is no JSON object; write it like {{"units": 64}}'
    )
  return value


def _input_spec(flag: str, text: str) -> input_spec.InputSpec:
  try:
    return input_spec.parse(text)
  except ValueError as error:
    raise command_flags.FlagsError(f"--{flag}={text}: {error}") from error


def _load_function(name: str) -> Callable[..., Any]:
  """Returns the function that module:function names."""
  module_name, colon, function_name = name.partition(":")
  if not (module_name and colon and function_name):
    raise command_flags.FlagsError(
      f"--model_fn={name} is no module:function; write it like {_EXAMPLE}"
    )
  folder = command_flags.user_directory()
  if folder not in sys.path:
    sys.path.insert(0, folder)
  # The module may define and read flags of its own; these have the defaults.
  del sys.argv[1:]
  try:
    module = importlib.import_module(module_name)
  except ModuleNotFoundError as error:
    if not module_name.startswith(error.name or ":"):
      raise _error_of_user(f"importing {module_name}", error) from error
    raise command_flags.FlagsError(
      f"--model_fn={name}: there is no module {error.name} in {folder} or on "
      "PYTHONPATH; run the command where the module is"
    ) from error
  except (Exception, SystemExit) as error:
    raise _error_of_user(f"importing {module_name}", error) from error
  flags.FLAGS.mark_as_parsed()
  function = getattr(module, function_name, None)
  if not callable(function):
    state = "has no" if function is None else "has something else than a"
    names = [k for k, v in vars(module).items() if callable(v) and k[0] != "_"]
    raise command_flags.FlagsError(
      f"--model_fn={name}: module {module_name} {state} function "
      f"{function_name}; it has {', '.join(sorted(names)[:5]) or 'none'}"
    )
  return function


def _with_one_line_errors(
  model_fn: Callable[..., Any], name: str
) -> Callable[..., Any]:
  """Returns a model_fn whose own errors are told in one line."""

  @functools.wraps(model_fn)
  def wrapped(*args, **kwargs):
    try:
      spec = model_fn(*args, **kwargs)
    except Exception as error:
      frames = list(traceback.walk_tb(error.__traceback__))
      module = frames[-1][0].f_globals.get("__name__", "")
      if isinstance(error, ValueError) and module.startswith("estimator_mp."):
        raise  # It says itself what would be right.
      raise _error_of_user(
        f"--model_fn={name}", error, "check --features, --labels and --params"
      ) from error
    if not hasattr(spec, "loss"):
      raise inspection.InspectionError(
        f"--model_fn={name} returned {spec!r}; a model_fn returns an "
        "EstimatorSpec"
      )
    return spec

  return wrapped


def _error_of_user(
  what: str, error: BaseException, fix: str = "mend that first"
) -> inspection.InspectionError:
  """Returns an error in one line, with the user's line that raised it."""
  libraries = (os.path.dirname(tf.__file__), os.path.dirname(__file__))
  frames = [
    frame
    for frame in traceback.extract_tb(error.__traceback__)
    if not frame.filename.startswith((*libraries, "<frozen"))
    and f"{os.sep}site-packages{os.sep}" not in frame.filename
    and f"{os.sep}importlib{os.sep}" not in frame.filename
  ]
  where = (
    f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
  )
  reason = " ".join(str(error).split())
  return inspection.InspectionError(
    f"{what} raised {type(error).__name__}: {reason}{where}; {fix}"
  )


def _cifar10_cnn(features, labels, mode):
  """The train command's model, as a model_fn that knows of no mesh."""
  logits = features["image"]
  for layer in cifar10_cnn.layers(num_classes=10, seed=1):
    logits = layer(logits, training=mode == tf.estimator.ModeKeys.TRAIN)
  loss = tf.compat.v1.losses.sparse_softmax_cross_entropy(labels, logits)
  optimizer = tf.compat.v1.train.AdamOptimizer(0.001)
  step = tf.compat.v1.train.get_global_step()
  return tf.estimator.EstimatorSpec(
    mode, loss=loss, train_op=optimizer.minimize(loss, step)
  )


def write(inspected: inspection.Inspection, directory: str) -> list[str]:
  """Writes a partition into an existing folder; returns the paths.

  Args:
    inspected: The partition.
    directory: The folder.

  Raises:
    ValueError: If there is no matplotlib to draw with.
  """
  texts = {
    "placement.dot": drawing.dot(inspected),
    "placement.json": json.dumps(inspected.facts(), indent=1) + "\n",
  }
  try:
    paths = drawing.write_pictures(inspected, directory)
  except ModuleNotFoundError as error:
    raise inspection.InspectionError(
      f"--out={directory} needs {error.name} to draw; pip install matplotlib, "
      "or leave --out out"
    ) from error
  for name, text in texts.items():
    paths.append(os.path.join(directory, name))
    with open(paths[-1], "w", encoding="utf-8") as file:
      file.write(text)
  return paths


def run_command(options: InspectOptions) -> int:
  """Prints, and draws, a partition, or says what is wrong in one line.

  Args:
    options: What is to be inspected.

  Returns:
    The exit code: 0; 2 if an option or the model is wrong.
  """
  try:
    inspected = inspect_options(options)
    print(f"{inspected.model} on {inspected.mesh}\n\n{inspected.table()}")
    if options.out is not None:
      print("\n".join(["", *write(inspected, options.out)]))
  except ValueError as error:
    return _complain(error)
  return 0


def main(argv: list[str]) -> int:
  """Runs the command; returns its exit code.

  Args:
    argv: The command and its arguments.
  """
  # Flags of their own: the module of a model_fn may define the same names.
  flag_values = flags.FlagValues()
  define_flags(flag_values)
  try:
    command_flags.parse_flags(_COMMAND, argv, flag_values)
  except command_flags.FlagsError as error:
    return _complain(error)
  tf.get_logger().setLevel("FATAL")
  if not sys.warnoptions:
    warnings.simplefilter("ignore")
  try:
    options = options_from_flags(flag_values)
  except ValueError as error:
    return _complain(error)
  return run_command(options)


def _complain(error: object) -> int:
  print("inspect: " + " ".join(str(error).split()), file=sys.stderr)
  return _BAD_USE


def run_app() -> None:
  """Runs the command and exits."""
  sys.exit(main(list(sys.argv)))


if __name__ == "__main__":
  run_app()
