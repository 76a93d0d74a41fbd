"""What the compare command runs: a user's model, plain and sharded."""

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any

from estimator_mp.cli import commands, compare_flags, user_program
from estimator_mp.comparison.compare import compare
from estimator_mp.comparison.comparison import Comparison
from estimator_mp.config.sharding_config import ShardingConfig
from model_fns import datasets
from model_fns.recipes import images

import tensorflow as tf

_NOT_EQUAL = 1


def compare_options(
  options: compare_flags.CompareOptions,
) -> Comparison:
  """Returns the comparison that options ask for.

  Args:
    options: What is to be compared.

  Raises:
    ValueError: Something does not fit; the text is one line and says what
      would be right.
  """
  compared = functools.partial(
    compare,
    config=ShardingConfig.of(options.sharding),
    steps=options.steps,
    tolerance=options.tolerance,
    run_config=tf.estimator.RunConfig(tf_random_seed=options.seed),
    checkpoint=options.checkpoint,
    restart_each_step=options.restart_each_step,
  )
  if options.model_fn is None or options.input_fn is None:
    dataset = datasets.load("digits", None)
    return compared(
      images.plain_model_fn(options.model, dataset.num_classes, options.seed),
      dataset.train_input_fn(options.batch_size, options.seed),
    )
  user_program.show_tensorflow(options, options.model_fn, options.input_fn)
  model_fn = user_program.load_function("model_fn", options.model_fn)
  input_fn = user_program.load_function("input_fn", options.input_fn)
  return compared(
    user_program.with_one_line_errors(
      model_fn, f"--model_fn={options.model_fn}", "check --params"
    ),
    _with_one_line_errors(input_fn, f"--input_fn={options.input_fn}"),
    params=commands.parse_params(options.params),
  )


def _with_one_line_errors(
  input_fn: Callable[..., Any], what: str
) -> Callable[..., Any]:
  @functools.wraps(input_fn)
  def wrapped(*args: Any, **kwargs: Any) -> Any:
    try:
      return input_fn(*args, **kwargs)
    except Exception as error:
      raise user_program.error_of_user(what, error) from error

  return wrapped


def run_command(options: compare_flags.CompareOptions) -> int:
  """Prints a comparison, or says what is wrong in one line.

  Args:
    options: What is to be compared.

  Returns:
    The exit code: 0 if all is equal; 1 if something is not; 2 if an option or
    the model is wrong.
  """
  tf.get_logger().setLevel("FATAL")
  if not sys.warnoptions:
    warnings.simplefilter("ignore")
  try:
    compared = compare_options(options)
  except ValueError as error:
    return commands.complain("compare", error)
  print(compared.text())
  return 0 if compared.ok else _NOT_EQUAL
