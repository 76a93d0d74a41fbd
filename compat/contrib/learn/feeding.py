"""How `fit(x, y)` of tf.contrib.learn feeds arrays and iterators.

Batches are drawn as 1.15 draws them: of a permutation by
numpy.random.RandomState(42) when training, in order otherwise.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

FeedFn = Callable[[], dict[Any, Any]]


def _array(values: Any) -> Any:
  """An array of a list, tuple, or a pandas or dask object."""
  if hasattr(values, "compute"):  # Of dask.
    values = values.compute()
  if hasattr(values, "to_numpy"):  # Of pandas.
    values = values.to_numpy()
  return np.asarray(values)


def _arrays(values: Any) -> Any:
  if isinstance(values, Mapping):
    return {key: _array(one) for key, one in values.items()}
  return _array(values)


def _each(values: Any, function: Callable[[Any, str], Any], name: str) -> Any:
  """Calls a function with each array and its name."""
  if isinstance(values, dict):
    return {key: function(one, f"{name}_{key}") for key, one in values.items()}
  return function(values, name)


def _placeholder(array: Any, name: str) -> Any:
  dtype = tf.string if array.dtype.kind in "OSU" else array.dtype
  shape = [None, *array.shape[1:]]
  return tf.compat.v1.placeholder(dtype, shape, name=name)


def _pairs(placeholders: Any, arrays: Any) -> Iterator[tuple[Any, Any]]:
  if isinstance(placeholders, dict):
    yield from ((placeholders[key], arrays[key]) for key in placeholders)
  else:
    yield placeholders, arrays


def _length(values: Any) -> int:
  first = next(iter(values.values())) if isinstance(values, dict) else values
  return len(first)


class ArrayFeeder:
  """Feeds batches of arrays."""

  def __init__(
    self,
    x: Any,
    y: Any,
    batch_size: int | None,
    shuffle: bool,
    epochs: int | None,
  ):
    """Makes the feeder.

    Args:
      x: features: an array or arrays by name, the first axis is the examples.
      y: labels, the same, or None.
      batch_size: how many examples to feed; None is all.
      shuffle: whether batches are of a permutation, a new one each epoch.
      epochs: how often each example is fed; None is without end.
    """
    self._x = _arrays(x)
    self._y = None if y is None else _arrays(y)
    self._count = _length(self._x)
    if self._y is not None and _length(self._y) != self._count:
      raise ValueError(
        f"x has {self._count} examples, and y has {_length(self._y)}."
      )
    self._batch_size = batch_size or self._count
    self._shuffle = shuffle
    self._epochs = epochs
    self._random = np.random.RandomState(42)
    self._indices = self._order()
    self._offset = 0
    self._epoch = 0

  def _order(self) -> Any:
    if self._shuffle:
      return self._random.permutation(self._count)
    return np.arange(self._count)

  def placeholders(self) -> tuple[Any, Any]:
    """Makes and returns the placeholders of features and labels."""
    self._features = _each(self._x, _placeholder, "input")
    self._labels = (
      None if self._y is None else _each(self._y, _placeholder, "output")
    )
    return self._features, self._labels

  def feed(self) -> dict[Any, Any]:
    """Returns the values of the placeholders for one step.

    Raises:
      StopIteration: after the last epoch.
    """
    if self._epochs is not None and self._epoch >= self._epochs:
      raise StopIteration
    end = min(self._count, self._offset + self._batch_size)
    chosen = self._indices[self._offset : end]
    self._offset = end
    if end == self._count:
      self._indices = self._order()
      self._offset = 0
      self._epoch += 1
    fed = {hold: one[chosen] for hold, one in _pairs(self._features, self._x)}
    if self._labels is not None:
      fed.update(
        {hold: one[chosen] for hold, one in _pairs(self._labels, self._y)}
      )
    return fed


class IteratorFeeder:
  """Feeds batches of what iterators give, example by example."""

  def __init__(self, x: Iterator[Any], y: Any, batch_size: int | None):
    """Makes the feeder.

    Args:
      x: gives features, an array or arrays by name.
      y: gives labels, or None.
      batch_size: how many examples to feed; None is one.
    """
    self._batch_size = batch_size or 1
    self._x = iter(x)
    self._y = None if y is None else iter(y)

  def placeholders(self) -> tuple[Any, Any]:
    """Makes and returns the placeholders of features and labels."""
    first, self._x = _peeked(self._x)
    self._features = _each(_batch([first]), _placeholder, "input")
    self._labels = None
    if self._y is not None:
      first, self._y = _peeked(self._y)
      self._labels = _each(_batch([first]), _placeholder, "output")
    return self._features, self._labels

  def feed(self) -> dict[Any, Any]:
    """Returns the values of the placeholders for one step.

    Raises:
      StopIteration: when the iterators are at their end.
    """
    examples = list(itertools.islice(self._x, self._batch_size))
    if not examples:
      raise StopIteration
    fed = dict(_pairs(self._features, _batch(examples)))
    if self._y is not None:
      labels = list(itertools.islice(self._y, len(examples)))
      fed.update(_pairs(self._labels, _batch(labels)))
    return fed


def _peeked(values: Iterator[Any]) -> tuple[Any, Iterator[Any]]:
  first = next(values)
  return first, itertools.chain([first], values)


def _batch(examples: list[Any]) -> Any:
  if isinstance(examples[0], Mapping):
    return {
      key: np.stack([_array(one[key]) for one in examples])
      for key in examples[0]
    }
  return np.stack([_array(one) for one in examples])


def feeder(
  x: Any, y: Any, batch_size: int | None, shuffle: bool, epochs: int | None
) -> ArrayFeeder | IteratorFeeder:
  """Returns what feeds x and y.

  Args:
    x: features: arrays, or an iterator over examples.
    y: labels, or None.
    batch_size: how many examples to feed.
    shuffle: whether arrays are permuted.
    epochs: how often arrays are fed; None is without end.
  """
  if hasattr(x, "__next__"):
    return IteratorFeeder(x, y, batch_size)
  return ArrayFeeder(x, y, batch_size, shuffle, epochs)


def input_fn_and_hook(
  fed: ArrayFeeder | IteratorFeeder,
) -> tuple[Callable[[], tuple[Any, Any]], Any]:
  """Returns the input_fn, and the hook that feeds what it makes.

  Args:
    fed: gives the batches.
  """
  return fed.placeholders, tf.compat.v1.train.FeedFnHook(fed.feed)
