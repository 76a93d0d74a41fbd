"""The compare command: a user's model, plain and sharded."""

import functools
from collections.abc import Callable
from typing import Any

from compat.private import estimators
from estimator_mp.cli import (
  compare_flags,
  first_training,
  user_program,
)
from estimator_mp.comparison.compare import compare
from estimator_mp.comparison.comparison import Comparison
from estimator_mp.config.sharding_config import ShardingConfig
from model_fns import datasets
from model_fns.recipes import images

import tensorflow as tf

_NOT_EQUAL = 1


def run_command(options: compare_flags.CompareOptions) -> int:
  """Prints a comparison.

  Args:
    options: The options of the command.

  Returns:
    The exit code: 0 if all is equal; 1 if something is not.

  Raises:
    ValueError: Something does not fit; the text is one line with its fix.
  """
  comparison = _compared(options)
  print(comparison.text())
  return 0 if comparison.ok else _NOT_EQUAL


def _compared(options: compare_flags.CompareOptions) -> Comparison:
  seed = 1 if options.seed is None else options.seed
  compare_models = functools.partial(
    compare,
    config=ShardingConfig.of(options),
    steps=options.steps,
    tolerance=options.tolerance,
    run_config=tf.estimator.RunConfig(tf_random_seed=seed),
    checkpoint=options.checkpoint,
    restart_each_step=options.restart_each_step,
  )
  if options.program:
    user_program.show_tensorflow(options)

    def compare_estimator(
      estimator: Any, input_fn: Callable[..., Any]
    ) -> Comparison:
      run_config = estimator.config
      if options.seed is not None or run_config.tf_random_seed is None:
        run_config = run_config.replace(tf_random_seed=seed)
      return compare_models(
        estimators.training_model_fn(estimator),
        estimators.training_input_fn(estimator, input_fn),
        run_config=run_config,
      )

    return first_training.act_at_training(options.program, compare_estimator)
  if options.model_fn is None or options.input_fn is None:
    dataset = datasets.load("digits", None)
    return compare_models(
      images.plain_model_fn(options.model, dataset.num_classes, seed),
      dataset.train_input_fn(options.batch_size, seed),
    )
  user_program.show_tensorflow(options, options.model_fn, options.input_fn)
  return compare_models(
    user_program.load_function(
      "model_fn", options.model_fn, "check --params, and what --input_fn gives"
    ),
    user_program.load_function("input_fn", options.input_fn),
    params=options.params,
  )
