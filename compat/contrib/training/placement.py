"""Which parameter server gets a variable; for replica_device_setter."""

import hashlib
from collections.abc import Callable

import tensorflow as tf


class RandomStrategy:
  """Places a variable by a hash of its name."""

  def __init__(self, num_ps_tasks: int, seed: int = 0):
    """Makes the strategy.

    Args:
      num_ps_tasks: how many parameter servers there are.
      seed: another one gives another placement.
    """
    self._num_tasks = num_ps_tasks
    self._seed = seed

  def __call__(self, op: tf.Operation) -> int:
    """Returns the number of the parameter server for an op."""
    key = f"{op.name}_{self._seed}".encode()
    digest = hashlib.md5(key, usedforsecurity=False).hexdigest()
    return int(digest, 16) % self._num_tasks


class GreedyLoadBalancingStrategy:
  """Places each variable where the load is least, in order of creation."""

  def __init__(self, num_tasks: int, load_fn: Callable[[tf.Operation], float]):
    """Makes the strategy.

    Args:
      num_tasks: how many parameter servers there are.
      load_fn: returns the load of an op, such as `byte_size_load_fn`.
    """
    self._load_fn = load_fn
    self._loads = [0.0] * num_tasks

  def __call__(self, op: tf.Operation) -> int:
    """Returns the number of the parameter server for an op."""
    task = self._loads.index(min(self._loads))
    self._loads[task] += self._load_fn(op)
    return task


def byte_size_load_fn(op: tf.Operation) -> int:
  """Returns the bytes of an op's only output.

  Args:
    op: as a rule a variable.

  Raises:
    ValueError: if it has another number of outputs, or the shape is unknown.
  """
  if len(op.outputs) != 1:
    raise ValueError(
      f"{op.name} has {len(op.outputs)} outputs; byte_size_load_fn is for ops "
      "with one."
    )
  output = op.outputs[0]
  # A resource is a handle; the variable's shape and dtype are attributes.
  shape, dtype = output.shape, output.dtype
  if op.type == "VarHandleOp":
    shape = tf.TensorShape(op.get_attr("shape"))
    dtype = op.get_attr("dtype")
  if not shape.is_fully_defined():
    raise ValueError(
      f"{op.name} is of the shape {shape}; byte_size_load_fn needs all of it."
    )
  elements: int = shape.num_elements()
  return elements * int(tf.dtypes.as_dtype(dtype).size)
