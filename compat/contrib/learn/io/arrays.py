"""Arrays, of numpy, pandas and dask, and generators as input."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

_inputs = tf.compat.v1.estimator.inputs

_NUMBERS = "iufb"


def _is_frame(data: Any) -> bool:
  return hasattr(data, "columns") and hasattr(data, "to_numpy")


def _is_series(data: Any) -> bool:
  return hasattr(data, "to_numpy") and not hasattr(data, "columns")


def _check_numbers(frame: Any) -> None:
  bad = [
    f"{name} ({dtype})"
    for name, dtype in frame.dtypes.items()
    if dtype.kind not in _NUMBERS
  ]
  if bad:
    raise ValueError(
      f"Columns must have the type int, float or bool; not {', '.join(bad)}."
    )


def extract_pandas_data(data: Any) -> Any:
  """Returns the numbers of a pandas.DataFrame; anything else as it is.

  Args:
    data: features.

  Raises:
    ValueError: if a column has no numbers.
  """
  if not _is_frame(data):
    return data
  _check_numbers(data)
  return data.to_numpy().astype(float)


def extract_pandas_matrix(data: Any) -> Any:
  """Returns the values of a pandas.DataFrame; anything else as it is."""
  return data.to_numpy() if _is_frame(data) else data


def extract_pandas_labels(labels: Any) -> Any:
  """Returns the numbers of the one column of pandas; else labels as they are.

  Args:
    labels: a pandas.DataFrame of one column, or a pandas.Series.

  Raises:
    ValueError: if there are several columns, or no numbers.
  """
  if _is_frame(labels):
    if len(labels.columns) > 1:
      raise ValueError(f"Labels must be one column, not {len(labels.columns)}.")
    _check_numbers(labels)
    return labels.to_numpy()
  return labels


def extract_dask_data(data: Any) -> Any:
  """Returns a dask frame as one of pandas; anything else as it is."""
  return data.compute() if hasattr(data, "compute") else data


def extract_dask_labels(labels: Any) -> Any:
  """Returns the one column of dask as one of pandas; else labels as they are.

  Args:
    labels: a dask frame of one column, or a dask series.

  Raises:
    ValueError: if there are several columns.
  """
  if not hasattr(labels, "compute"):
    return labels
  columns = getattr(labels, "columns", ())
  if len(columns) > 1:
    raise ValueError(f"Labels must be one column, not {len(columns)}.")
  return labels.compute()


def numpy_input_fn(
  x: Mapping[str, Any],
  y: Any = None,
  batch_size: int = 128,
  num_epochs: int | None = 1,
  shuffle: bool = True,
  queue_capacity: int = 1000,
  num_threads: int = 1,
) -> Callable[[], Any]:
  """Returns tf.estimator.inputs.numpy_input_fn of these arguments."""
  return _inputs.numpy_input_fn(  # type: ignore[no-any-return]
    x, y, batch_size, num_epochs, shuffle, queue_capacity, num_threads
  )


def pandas_input_fn(
  x: Any,
  y: Any = None,
  batch_size: int = 128,
  num_epochs: int | None = 1,
  shuffle: bool = True,
  queue_capacity: int = 1000,
  num_threads: int = 1,
  target_column: str = "target",
) -> Callable[[], Any]:
  """Returns tf.estimator.inputs.pandas_input_fn of these arguments."""
  return _inputs.pandas_input_fn(  # type: ignore[no-any-return]
    x,
    y,
    batch_size,
    num_epochs,
    shuffle,
    queue_capacity,
    num_threads,
    target_column,
  )


def generator_input_fn(
  x: Callable[[], Iterator[Mapping[str, Any]]],
  target_key: Any = None,
  batch_size: int = 128,
  num_epochs: int | None = 1,
  shuffle: bool = True,
  queue_capacity: int = 1000,
  num_threads: int = 1,
  pad_value: Any = None,
) -> Callable[[], Any]:
  """Returns an input_fn over the examples that a generator gives.

  Args:
    x: makes the generator; each example is a dictionary of arrays.
    target_key: the keys of the labels, one or several; None is no labels.
    batch_size: how many examples make a batch; the last may be smaller.
    num_epochs: how often the generator is made; None is without end.
    shuffle: whether examples are shuffled, within queue_capacity.
    queue_capacity: how many examples are held.
    num_threads: is not used; one thread reads.
    pad_value: pads arrays of different lengths; None wants them equal.
  """
  del num_threads
  if not callable(x):
    raise TypeError(f"x={x!r} must be a function that makes a generator.")
  first = next(x())
  if not isinstance(first, Mapping):
    raise TypeError(
      f"The generator gives {type(first).__name__}; it must give dictionaries."
    )
  examples = {key: np.asarray(value) for key, value in first.items()}
  keys = [target_key] if isinstance(target_key, str) else list(target_key or [])
  for key in keys:
    if key not in examples:
      raise KeyError(f"target_key={key!r} is none of {', '.join(examples)}.")
  types = {key: tf.as_dtype(one.dtype) for key, one in examples.items()}
  shapes = {
    key: one.shape if pad_value is None else (None,) * one.ndim
    for key, one in examples.items()
  }

  def input_fn() -> Any:
    dataset = tf.data.Dataset.from_generator(x, types, shapes)
    dataset = dataset.repeat(num_epochs)
    if shuffle:
      dataset = dataset.shuffle(queue_capacity)
    if pad_value is None:
      dataset = dataset.batch(batch_size)
    else:
      pads = {key: tf.cast(pad_value, dtype) for key, dtype in types.items()}
      dataset = dataset.padded_batch(batch_size, shapes, pads)
    iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
    tf.compat.v1.add_to_collection(
      tf.compat.v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer
    )
    features = iterator.get_next()
    if not keys:
      return features
    labels = {key: features.pop(key) for key in keys}
    return features, labels[keys[0]] if isinstance(target_key, str) else labels

  return input_fn
