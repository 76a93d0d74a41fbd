"""How `fit(x, y)` of tf.contrib.learn reads arrays and iterators.

Batches are drawn as 1.15 draws them: of a permutation by
numpy.random.RandomState(42) when training, in order otherwise. They are a data
set, where 1.15 feeds placeholders.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf


def _array(values: Any) -> Any:
  """An array of a list, tuple, or a pandas or dask object."""
  if hasattr(values, "compute"):  # Of dask.
    values = values.compute()
  if hasattr(values, "to_numpy"):  # Of pandas.
    values = values.to_numpy()
  array = np.asarray(values)
  return array.astype(object) if array.dtype.kind in "SU" else array


def _arrays(values: Any) -> Any:
  if isinstance(values, Mapping):
    return {key: _array(one) for key, one in values.items()}
  return _array(values)


def _spec(array: Any) -> tf.TensorSpec:
  dtype = tf.string if array.dtype.kind == "O" else array.dtype
  return tf.TensorSpec([None, *array.shape[1:]], dtype)


def _of_arrays(
  arrays: Any, batch_size: int | None, shuffle: bool, epochs: int | None
) -> Iterator[Any]:
  """Batches of arrays, all of the same length."""
  count = len(tf.nest.flatten(arrays)[0])
  random = np.random.RandomState(42)
  size = batch_size or count
  for _ in itertools.count() if epochs is None else range(epochs):
    order = random.permutation(count) if shuffle else np.arange(count)
    for start in range(0, count, size):
      chosen = order[start : start + size]
      yield tf.nest.map_structure(lambda one, at=chosen: one[at], arrays)


def _of_iterators(examples: Iterator[Any], batch_size: int) -> Iterator[Any]:
  """Batches of an iterator's examples, the last one of what is left."""
  while batch := [*itertools.islice(examples, batch_size)]:
    yield tf.nest.map_structure(lambda *some: np.stack(some), *batch)


def input_fn(
  x: Any, y: Any, batch_size: int | None, shuffle: bool, epochs: int | None
) -> Callable[[], tf.data.Dataset]:
  """Returns an input_fn of x and y.

  Args:
    x: features: an array, arrays by name, or an iterator over examples.
    y: labels, the same, or None.
    batch_size: how many examples a batch has; None is all, and one of an
      iterator.
    shuffle: whether arrays are permuted, anew for each epoch.
    epochs: how often arrays are read; None is without end.

  Raises:
    ValueError: if x and y are arrays of different lengths.
  """
  if hasattr(x, "__next__"):
    examples: Iterator[Any] = map(_arrays, x)
    if y is not None:
      examples = zip(examples, map(_arrays, y), strict=False)
    first = next(examples)
    spec = tf.nest.map_structure(lambda one: _spec(one[np.newaxis]), first)
    rest = itertools.chain([first], examples)
    return _of_batches(lambda: _of_iterators(rest, batch_size or 1), spec)
  arrays = _arrays(x) if y is None else (_arrays(x), _arrays(y))
  lengths = {len(one) for one in tf.nest.flatten(arrays)}
  if len(lengths) > 1:
    raise ValueError(
      f"x and y have {' and '.join(map(str, sorted(lengths)))} examples; give "
      "each example a label."
    )
  return _of_batches(
    lambda: _of_arrays(arrays, batch_size, shuffle, epochs),
    tf.nest.map_structure(_spec, arrays),
  )


def _of_batches(
  batches: Callable[[], Iterator[Any]], spec: Any
) -> Callable[[], tf.data.Dataset]:
  # An iterator of the program is read no further than a step needs.
  options = tf.data.Options()
  options.autotune.enabled = False
  options.experimental_optimization.apply_default_optimizations = False

  def of_data() -> tf.data.Dataset:
    data = tf.data.Dataset.from_generator(batches, output_signature=spec)
    return data.with_options(options)

  return of_data
