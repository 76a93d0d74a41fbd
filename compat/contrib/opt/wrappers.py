"""Optimizers around another one: clipped variables, no stale gradients."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1
_Optimizer: Any = v1.train.Optimizer


class _Wrapper(_Optimizer):
  """An optimizer that leaves gradients and slots to another one."""

  def __init__(self, opt: Any, use_locking: bool, name: str):
    super().__init__(use_locking, name)
    self._optimizer = opt
    self._locks = use_locking

  def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
    """Returns what the other optimizer does."""
    return self._optimizer.compute_gradients(*args, **kwargs)

  def get_slot(self, *args: Any, **kwargs: Any) -> Any:
    """Returns a slot of the other optimizer."""
    return self._optimizer.get_slot(*args, **kwargs)

  def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
    """Returns the names of the other optimizer's slots."""
    return self._optimizer.get_slot_names(*args, **kwargs)


class VariableClippingOptimizer(_Wrapper):
  """Scales variables down to a norm after each update by another optimizer."""

  def __init__(
    self,
    opt: Any,
    vars_to_clip_dims: Mapping[Any, Sequence[int]],
    max_norm: float,
    use_locking: bool = False,
    colocate_clip_ops_with_vars: bool = False,
    name: str = "VariableClipping",
  ):
    """Makes the optimizer.

    Args:
      opt: the optimizer that trains.
      vars_to_clip_dims: by variable, the dimensions that the norm is of. Of a
        sparse gradient only its rows are clipped, if 0 is not among them; a row
        that it has twice loses its surplus twice, as in TensorFlow 1.15.
      max_norm: the highest norm.
      use_locking: whether clipping locks the variables.
      colocate_clip_ops_with_vars: whether it is done where they lie.
      name: of the ops.
    """
    super().__init__(opt, use_locking, name)
    self._scope = name
    self._dims = {
      variable.ref(): list(dims) for variable, dims in vars_to_clip_dims.items()
    }
    self._max_norm = max_norm
    self._colocates = colocate_clip_ops_with_vars

  def apply_gradients(
    self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
  ) -> Any:
    """As tf.compat.v1.train.Optimizer's, and clips the variables.

    Args:
      grads_and_vars: pairs, as compute_gradients returns them.
      global_step: a variable to add 1 to.
      name: of the op.

    Returns:
      The op that trains.
    """
    grads_and_vars = list(grads_and_vars)
    with tf.name_scope(name or self._scope) as scope:
      updated = self._optimizer.apply_gradients(
        grads_and_vars, global_step=global_step
      )
      with tf.control_dependencies([updated]):
        clipped = [
          self._clip(gradient, variable)
          for gradient, variable in grads_and_vars
          if gradient is not None and variable.ref() in self._dims
        ]
      return tf.group(updated, *clipped, name=scope)

  def _clip(self, gradient: Any, variable: Any) -> Any:
    dims = self._dims[variable.ref()]
    beside = (
      v1.colocate_with(variable)
      if self._colocates
      else contextlib.nullcontext()
    )
    with beside:
      if isinstance(gradient, tf.IndexedSlices) and 0 not in dims:
        rows = tf.gather(variable, gradient.indices)
        surplus = rows - tf.clip_by_norm(rows, self._max_norm, dims)
        return v1.scatter_sub(
          variable, gradient.indices, surplus, use_locking=self._locks
        )
      whole = tf.convert_to_tensor(variable)
      return v1.assign(
        variable,
        tf.clip_by_norm(whole, self._max_norm, dims),
        use_locking=self._locks,
      )


class DropStaleGradientOptimizer(_Wrapper):
  """Leaves out updates while which others have made too many steps.

  The variable "stale_counter" counts them.
  """

  def __init__(
    self,
    opt: Any,
    staleness: int,
    use_locking: bool = False,
    name: str = "DropStaleGradient",
  ):
    """Makes the optimizer.

    Args:
      opt: the optimizer that trains.
      staleness: how many steps others may have made since the gradients of a
        step were begun.
      use_locking: not used.
      name: of the optimizer.
    """
    super().__init__(opt, use_locking, name)
    self._staleness = staleness
    self._begun_at: Any = None

  def compute_gradients(self, loss: Any, *args: Any, **kwargs: Any) -> Any:
    """Notes the global step, then returns what the other optimizer does.

    Args:
      loss: what to minimize.
      *args: of the other optimizer's method.
      **kwargs: of the other optimizer's method.
    """
    with v1.colocate_with(loss):
      # A copy: a reference would tell of later steps.
      self._begun_at = v1.train.get_global_step() + 0
    with tf.control_dependencies([self._begun_at]):
      loss = tf.identity(loss)
    return self._optimizer.compute_gradients(loss, *args, **kwargs)

  def apply_gradients(
    self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
  ) -> Any:
    """As tf.compat.v1.train.Optimizer's, if the gradients are not stale.

    Args:
      grads_and_vars: pairs, as compute_gradients returns them.
      global_step: the variable that all workers add 1 to.
      name: of the op.

    Returns:
      The op that trains.
    """
    grads_and_vars = list(grads_and_vars)
    known = [
      getattr(gradient, "values", gradient)
      for gradient, _ in grads_and_vars
      if gradient is not None
    ]
    with v1.colocate_with(global_step):
      dropped = v1.get_variable(
        "stale_counter", [], initializer=v1.zeros_initializer(), trainable=False
      )
    with tf.control_dependencies(known), v1.colocate_with(global_step):
      staleness = tf.reshape(global_step - self._begun_at, [])

    def train() -> tf.Tensor:
      updated = self._optimizer.apply_gradients(
        grads_and_vars, global_step=global_step, name=name
      )
      with tf.control_dependencies([updated]):
        return tf.constant(0.0)

    is_stale = v1.cond(
      staleness <= self._staleness, train, lambda: tf.constant(1.0)
    )
    share = dropped / tf.cast(global_step + 1, tf.float32)
    v1.summary.scalar("Gradient staleness percentage", share)
    return v1.assign_add(dropped, is_stale)
