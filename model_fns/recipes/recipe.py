"""A recipe: a model, its data, and its measure of quality."""

import dataclasses
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from model_fns import sharded
from model_fns.recipes import catalogue

import tensorflow as tf

InputFn: TypeAlias = Callable[[], tf.data.Dataset]

_MOMENTUM = 0.9


class RecipeError(ValueError):
  """A recipe cannot be made as asked; the text says what would be right."""


@dataclasses.dataclass(frozen=True)
class Request:
  """The request to a recipe; the fields are the train command's flags.

  Attributes:
    model: The recipe's name.
    dataset: The data set's name.
    data_dir: Where its files are; None for where it has them itself.
    batch_size: Examples of a training step.
    train_steps: The steps after which training ends, for what changes with
      them, such as a learning rate.
    learning_rate: That of the optimizer.
    optimizer: One of `catalogue.OPTIMIZERS`.
    seed: Fixes the initial values and the order of the examples.
  """

  model: str
  dataset: str
  data_dir: str | None
  batch_size: int
  train_steps: int
  learning_rate: float
  optimizer: str
  seed: int

  def make_optimizer(self) -> tf.compat.v1.train.Optimizer:
    """Returns the optimizer that is asked for, unless that is the model's own.

    It is made in the current graph.
    """
    optimizers = tf.compat.v1.train
    rate = self.learning_rate
    if self.optimizer == "momentum":
      return optimizers.MomentumOptimizer(rate, _MOMENTUM)
    made = {
      "adagrad": optimizers.AdagradOptimizer,
      "adam": optimizers.AdamOptimizer,
      "rmsprop": optimizers.RMSPropOptimizer,
      "sgd": optimizers.GradientDescentOptimizer,
    }
    return made[self.optimizer](rate)


@dataclasses.dataclass(frozen=True)
class Baseline:
  """The quality of a simple model on the same data.

  Attributes:
    name: The name of the model, such as "logistic regression".
    value: Its figure on the held-out data.
  """

  name: str
  value: float


@dataclasses.dataclass(frozen=True)
class Recipe:
  """A model with its data, ready to be trained on any mesh.

  Attributes:
    data: The data in a line, for people: its name, its size, the held-out part.
    train_input_fn: Endless batches of the training data; every one is full.
    eval_input_fn: The held-out data, each example once.
    serving_input_receiver_fn: Makes the inputs of an exported model.
    make_model_fn: Returns the model_fn for a mesh, or for one device if that
      is None.
    figure: The metric of an evaluation that says how good the model is.
    baseline: Returns what something plain achieves there, by the same figure.
    loss: The metric of an evaluation that is the loss.
    less_is_better: Whether a smaller figure is better, as of a perplexity.
  """

  data: str
  train_input_fn: InputFn
  eval_input_fn: InputFn
  serving_input_receiver_fn: Callable[
    [], tf.estimator.export.ServingInputReceiver
  ]
  make_model_fn: Callable[[sharded.Config], sharded.ModelFn]
  figure: str
  baseline: Callable[[], Baseline]
  loss: str = "loss"
  less_is_better: bool = False

  def outcome(self, metrics: Mapping[str, Any]) -> str:
    """Returns what an evaluation found, in a few words.

    Args:
      metrics: The metrics that the evaluation returned.
    """
    return (
      f"{self.figure} {metrics[self.figure]:.4f}, loss {metrics[self.loss]:.4f}"
    )

  def is_better(self, value: float, other: float) -> bool:
    """Whether a value of the figure is better than another.

    Args:
      value: The one.
      other: The other.
    """
    return value < other if self.less_is_better else value > other


def check_scikit_learn() -> None:
  """Raises if there is no scikit-learn, which trains the baselines of some.

  Raises:
    RecipeError: If it is not installed.
  """
  if importlib.util.find_spec("sklearn") is None:
    raise RecipeError(
      "the baseline of this model, a logistic regression, needs scikit-learn; "
      "pip install 'estimator-mp[train]'"
    )


def make(request: Request) -> Recipe:
  """Returns the recipe that is asked for, once its data has been checked.

  Args:
    request: The request of the train command.

  Raises:
    ValueError: If something does not fit: the name, the data, the batch size.
      The text is one line and says what would be right.
  """
  entry = catalogue.ENTRIES.get(request.model)
  if entry is None:
    raise RecipeError(
      f"model={request.model} is not known; use one of: "
      f"{', '.join(catalogue.ENTRIES)}"
    )
  if request.dataset not in entry.datasets:
    raise RecipeError(
      f"dataset={request.dataset} does not fit model={request.model}; use "
      f"{' or '.join(entry.datasets)}"
    )
  if request.optimizer == catalogue.OWN and not entry.has_own_optimizer:
    others = (name for name in catalogue.OPTIMIZERS if name != catalogue.OWN)
    raise RecipeError(
      f"model={request.model} has no optimizer of its own; use one of "
      f"{', '.join(others)}"
    )
  home = importlib.import_module(f"{__package__}.{entry.home}")
  made: Recipe = home.recipe(request)
  return made
