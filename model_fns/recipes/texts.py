"""transformer and moe: language models of bytes."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import model_fns
from model_fns import sharded
from model_fns.datasets import dataset, text
from model_fns.recipes import recipe as recipe_lib

_LENGTH = 64
_SAMPLE_LENGTH = 16
_SIZES: Mapping[str, Any] = {
  "hidden_size": 128,
  "num_heads": 4,
  # The sampled tokens have room, too.
  "sequence_length": 2 * _LENGTH,
  "vocabulary_size": text.VOCABULARY,
}
_EXPERTS = 8


def recipe(request: recipe_lib.Request) -> recipe_lib.Recipe:
  """Returns the recipe of a language model.

  Args:
    request: The request of the train command.

  Raises:
    ValueError: If the data cannot be used, or the batch size does not fit.
  """
  data = _load(request)
  return recipe_lib.Recipe(
    data=(
      f"{data.name}: {len(data.train):,} bytes to train and"
      f" {len(data.test):,} held out, in windows of {data.length}"
    ),
    train_input_fn=data.train_input_fn(request.batch_size, request.seed),
    eval_input_fn=data.test_input_fn(request.batch_size),
    serving_input_receiver_fn=data.serving_input_receiver_fn,
    make_model_fn=functools.partial(_MODELS[request.model], request),
    figure="perplexity",
    baseline=functools.partial(_baseline, data),
    loss="cross_entropy",
    less_is_better=True,
  )


def _load(request: recipe_lib.Request) -> text.Text:
  if request.dataset == "text":
    return text.files(request.data_dir, _LENGTH)
  if request.data_dir is not None:
    raise dataset.DatasetError(
      f"data_dir={request.data_dir} does not fit dataset=python_docs, which "
      "every Python has; leave --data_dir out, or use --dataset=text"
    )
  return text.python_docs(_LENGTH)


def _transformer(
  request: recipe_lib.Request, config: sharded.Config
) -> sharded.ModelFn:
  return model_fns.transformer(
    num_layers=4,
    **_SIZES,
    sample_length=_SAMPLE_LENGTH,
    temperature=0.7,
    sample_seed=request.seed,
    config=config,
    optimizer=request.make_optimizer,
  )


def _moe(
  request: recipe_lib.Request, config: sharded.Config
) -> sharded.ModelFn:
  return model_fns.moe(
    num_layers=2,
    **_SIZES,
    num_experts=_EXPERTS,
    sample_length=_SAMPLE_LENGTH,
    temperature=0.7,
    sample_seed=request.seed,
    config=config,
    optimizer=request.make_optimizer,
  )


_MODELS: Mapping[str, Callable[..., sharded.ModelFn]] = {
  "transformer": _transformer,
  "moe": _moe,
}


def _baseline(data: text.Text) -> recipe_lib.Baseline:
  """Returns how well a byte is guessed from the one before it."""
  unigrams = data.unigram_perplexity()
  return recipe_lib.Baseline(
    f"pairs of bytes (single bytes: {unigrams:.4f})", data.bigram_perplexity()
  )
