"""Iterators, savers and functions of tf.contrib.eager."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf


class Iterator:
  """Iterates over a data set, eagerly."""

  def __init__(self, dataset: tf.data.Dataset):
    """Makes the iterator.

    Args:
      dataset: a tf.data.Dataset.

    Raises:
      RuntimeError: in graph mode.
      TypeError: if dataset is none.
    """
    if not tf.executing_eagerly():
      raise RuntimeError(
        "tf.contrib.eager.Iterator is for eager execution. In a graph, use "
        "tf.compat.v1.data.make_one_shot_iterator."
      )
    if not isinstance(dataset, tf.compat.v1.data.Dataset | tf.data.Dataset):
      raise TypeError(f"dataset={dataset!r} must be a tf.data.Dataset.")
    self._iterator = iter(dataset)

  def __iter__(self) -> "Iterator":
    return self

  def __next__(self) -> Any:
    return next(self._iterator)

  def next(self) -> Any:
    """Returns the next element.

    Raises:
      StopIteration: at the end.
    """
    return next(self)

  def get_next(self, name: str | None = None) -> Any:
    """Returns the next element.

    Args:
      name: is not used.

    Raises:
      OutOfRangeError: at the end.
    """
    del name
    try:
      return next(self)
    except StopIteration as error:
      raise tf.errors.OutOfRangeError(None, None, "End of sequence") from error

  @property
  def output_classes(self) -> Any:
    """The classes of an element's parts."""
    return tf.nest.map_structure(
      lambda spec: spec.value_type, self._iterator.element_spec
    )

  @property
  def output_shapes(self) -> Any:
    """The shapes of an element's parts."""
    return tf.nest.map_structure(
      lambda spec: spec.shape, self._iterator.element_spec
    )

  @property
  def output_types(self) -> Any:
    """The types of an element's parts."""
    return tf.nest.map_structure(
      lambda spec: spec.dtype, self._iterator.element_spec
    )


class Saver:
  """Saves and restores variables by their names, eagerly."""

  def __init__(self, var_list: Any):
    """Makes the saver.

    Args:
      var_list: variables, or variables by name.
    """
    if not isinstance(var_list, Mapping):
      var_list = {_name(variable): variable for variable in var_list}
    self._saver = tf.compat.v1.train.Saver(dict(var_list))

  def save(self, file_prefix: str, global_step: Any = None) -> str:
    """Saves the variables; returns the path of the checkpoint.

    Args:
      file_prefix: the path, without the step.
      global_step: the step, if the path is to have it.
    """
    if global_step is not None:
      global_step = int(global_step)
    path: str = self._saver.save(None, file_prefix, global_step=global_step)
    return path

  def restore(self, file_prefix: str) -> None:
    """Restores the variables.

    Args:
      file_prefix: the path of the checkpoint.
    """
    self._saver.restore(None, file_prefix)


def _name(variable: Any) -> str:
  return str(variable.name).partition(":")[0]


def get_optimizer_variables(optimizer: Any) -> Any:
  """Returns the variables of a tf.train.Optimizer."""
  found = optimizer.variables
  return found() if callable(found) else found


def list_devices() -> list[str]:
  """Returns the names of the devices."""
  return [
    f"/job:localhost/replica:0/task:0{device.name}"
    for device in tf.config.list_logical_devices()
  ]


def defun(
  func: Callable[..., Any] | None = None,
  input_signature: Sequence[Any] | None = None,
  autograph: bool = True,
  experimental_autograph_options: Any = None,
  experimental_relax_shapes: bool = False,
) -> Any:
  """Compiles a function into graphs, as tf.function does.

  Args:
    func: the function; without it, a decorator is returned.
    input_signature: of the arguments.
    autograph: whether loops and conditions of Python become the graph's.
    experimental_autograph_options: for that.
    experimental_relax_shapes: whether one graph serves several shapes.
  """

  def compiled(function: Callable[..., Any]) -> Any:
    return tf.function(
      function,
      input_signature=input_signature,
      autograph=autograph,
      reduce_retracing=experimental_relax_shapes,
      experimental_autograph_options=experimental_autograph_options,
    )

  return compiled if func is None else compiled(func)
