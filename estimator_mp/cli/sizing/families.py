"""Families: the models of the catalogue, and examples that they train on."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TypeAlias

from estimator_mp.cli.sizing import catalogue
from estimator_mp.comparison import inspect_model
from model_fns.transformers.moe import moe
from model_fns.transformers.transformer import transformer

import numpy as np
import numpy.typing as npt
import tensorflow as tf

Arrays: TypeAlias = dict[str, npt.NDArray[np.generic]]
ModelFn: TypeAlias = Callable[..., tf.estimator.EstimatorSpec]
_SEED = 1


@dataclasses.dataclass(frozen=True)
class Model:
  """A model of a family.

  Attributes:
    family: The name of the family.
    sizes: All its sizes.
    free_size: The size that is free.
  """

  family: str
  sizes: Mapping[str, int]
  free_size: int

  def empty(self) -> "Model":
    """Returns a model of the same ops that has next to no tensors."""
    sizes = {**self.sizes, **catalogue.FAMILIES[self.family].empty}
    return Model(self.family, sizes, self.free_size)

  def model_fn(self) -> ModelFn:
    """Returns its model_fn, for one device."""
    return _MAKERS[self.family](self.free_size, **self.sizes)

  def examples(self, batch_size: int) -> tuple[Arrays, npt.NDArray[np.generic]]:
    """Returns sequences of random tokens, and each token's successor.

    Args:
      batch_size: How many examples it has.
    """
    shape = [batch_size, self.sizes["sequence_length"] + 1]
    tokens = np.random.RandomState(_SEED).randint(
      self.sizes["vocabulary_size"], size=shape, dtype=np.int32
    )
    return {"tokens": tokens[:, :-1]}, tokens[:, 1:]

  def specs(
    self, batch_size: int
  ) -> tuple[inspect_model.InputSpec, inspect_model.InputSpec]:
    """Returns what a batch of examples is like; see `examples`.

    Args:
      batch_size: How many examples it has.
    """
    features, labels = self.examples(batch_size)
    return {name: _spec(x) for name, x in features.items()}, _spec(labels)


def _spec(array: npt.NDArray[np.generic]) -> tf.TensorSpec:
  return tf.TensorSpec(array.shape, array.dtype)


_MAKERS: Mapping[str, Callable[..., ModelFn]] = {
  "transformer": transformer,
  "moe": moe,
}
