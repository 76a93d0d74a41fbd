"""dlrm, wide_deep and deepfm, on generated clicks or on Criteo's format."""

import functools
import itertools
from collections.abc import Callable, Mapping

import model_fns
from model_fns import sharded
from model_fns.datasets import click_log, clicks, criteo, dataset
from model_fns.recipes import catalogue
from model_fns.recipes import recipe as recipe_lib

import tensorflow as tf

_EMBEDDING_SIZE = 8
_CROSS_ROWS = 50_000
# Large, because the gradient of what few of 512 examples have is small.
_RATE_OF_FTRL = 1.0
# Criteo has 325 pairs of categories: of these the first ones are crossed.
_MOST_CROSSES = 6
# The baseline has its examples in memory.
_MOST_EXAMPLES = 200_000
_BATCH_OF_PASS = 10_000


def recipe(request: recipe_lib.Request) -> recipe_lib.Recipe:
  """Returns the recipe of a model of clicks.

  Args:
    request: The request of the train command.

  Raises:
    ValueError: If the data cannot be used, or the batch size does not fit.
  """
  recipe_lib.check_scikit_learn()
  log = _load(request)
  return recipe_lib.Recipe(
    data=_description(log),
    train_input_fn=log.train_input_fn(request.batch_size, request.seed),
    eval_input_fn=log.test_input_fn(request.batch_size),
    serving_input_receiver_fn=log.serving_input_receiver_fn,
    make_model_fn=functools.partial(_MODELS[request.model], request, log),
    figure="auc",
    baseline=lambda: _baseline(log),
    loss="logloss",
  )


def _load(request: recipe_lib.Request) -> click_log.ClickLog:
  if request.dataset == "criteo":
    return criteo.load(request.data_dir)
  if request.data_dir is not None:
    raise dataset.DatasetError(
      f"data_dir={request.data_dir} does not fit dataset=clicks, which is"
      " generated; leave --data_dir out, or use --dataset=criteo"
    )
  return clicks.load()


def _description(log: click_log.ClickLog) -> str:
  text = f"{log.name}, {log.num_dense} numbers and {len(log.tables)} categories"
  if log.best_auc is None:
    return text
  return f"{text}; the best possible auc is {log.best_auc:.4f}"


def _of_one_optimizer(
  factory: Callable[..., sharded.ModelFn],
  request: recipe_lib.Request,
  log: click_log.ClickLog,
  config: sharded.Config,
) -> sharded.ModelFn:
  return factory(
    log.tables,
    log.num_dense,
    embedding_size=_EMBEDDING_SIZE,
    config=config,
    optimizer=request.make_optimizer,
  )


def _wide_deep(
  request: recipe_lib.Request,
  log: click_log.ClickLog,
  config: sharded.Config,
) -> sharded.ModelFn:
  """Ftrl for the wide part always; for the deep one, Adagrad if it is own."""
  pairs = itertools.combinations(log.tables, 2)
  rate = request.learning_rate

  def make_optimizer() -> tf.compat.v1.train.Optimizer:
    if request.optimizer == catalogue.OWN:
      return tf.compat.v1.train.AdagradOptimizer(rate)
    return request.make_optimizer()

  return model_fns.wide_deep(
    log.tables,
    log.num_dense,
    crosses=dict.fromkeys(itertools.islice(pairs, _MOST_CROSSES), _CROSS_ROWS),
    embedding_size=_EMBEDDING_SIZE,
    config=config,
    wide_optimizer=lambda: tf.compat.v1.train.FtrlOptimizer(_RATE_OF_FTRL),
    optimizer=make_optimizer,
  )


_MODELS: Mapping[str, Callable[..., sharded.ModelFn]] = {
  "dlrm": functools.partial(_of_one_optimizer, model_fns.dlrm),
  "deepfm": functools.partial(_of_one_optimizer, model_fns.deepfm),
  "wide_deep": _wide_deep,
}


def _baseline(log: click_log.ClickLog) -> recipe_lib.Baseline:
  """Returns the AUC of logistic regression, of at most so many examples."""
  num_batches = _MOST_EXAMPLES // _BATCH_OF_PASS
  # It imports scikit-learn.
  from model_fns.recipes import hashed_regression

  auc = hashed_regression.held_out_auc(
    lambda: log.train_pass(_BATCH_OF_PASS).take(num_batches),
    lambda: log.test_batches(_BATCH_OF_PASS).take(num_batches),
  )
  return recipe_lib.Baseline("logistic regression on hashed features", auc)
