"""two_tower: a retrieval model on a generated log of interactions."""

import model_fns
from model_fns import sharded
from model_fns.datasets import interactions
from model_fns.recipes import recipe as recipe_lib
from model_fns.retrieval.towers import Tower

import tensorflow as tf

_K = 10
_TEMPERATURE = 0.2
_SERVED = "user_id"


def recipe(request: recipe_lib.Request) -> recipe_lib.Recipe:
  """Returns the recipe.

  Args:
    request: The request of the train command.

  Raises:
    ValueError: If the batch size does not fit the log.
  """
  log = interactions.load()
  return recipe_lib.Recipe(
    data=(
      f"{log.name}: {len(log.users):,} interactions to train and"
      f" {len(log.test_users):,} held out, {log.num_users:,} users,"
      f" {log.num_items:,} items; the best possible recall@{_K} is"
      f" {log.best_recall(_K):.4f}"
    ),
    train_input_fn=log.train_input_fn(request.batch_size, request.seed),
    eval_input_fn=log.test_input_fn(request.batch_size),
    serving_input_receiver_fn=_serving_input_receiver_fn,
    make_model_fn=lambda config: _model_fn(request, log, config),
    figure=f"recall_at_{_K}",
    baseline=lambda: recipe_lib.Baseline(
      f"the {_K} items that are most popular", log.recall_of_popularity(_K)
    ),
  )


def _model_fn(
  request: recipe_lib.Request,
  log: interactions.Interactions,
  config: sharded.Config,
) -> sharded.ModelFn:
  return model_fns.two_tower(
    query=Tower({"user_id": log.num_users}),
    item=Tower({"item_id": log.num_items}, ("item_fields",)),
    num_items=log.num_items,
    temperature=_TEMPERATURE,
    catalogue=log.catalogue,
    recall_at=(_K,),
    config=config,
    optimizer=request.make_optimizer,
  )


def _serving_input_receiver_fn() -> tf.estimator.export.ServingInputReceiver:
  """Makes the input of the query encoder."""
  users = tf.compat.v1.placeholder(tf.int64, [None], name=_SERVED)
  inputs = {_SERVED: users}
  return tf.estimator.export.ServingInputReceiver(inputs, inputs)
