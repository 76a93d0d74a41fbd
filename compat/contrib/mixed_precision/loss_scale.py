"""Scales of losses, and the optimizer that uses one."""

import abc
from collections.abc import Iterable
from typing import Any

import tensorflow as tf


class LossScaleManager(abc.ABC):
  """Knows what to multiply a loss with."""

  @abc.abstractmethod
  def get_loss_scale(self) -> Any:
    """Returns the scale, a scalar of float32."""

  @abc.abstractmethod
  def update_loss_scale(self, finite_grads: Any) -> Any:
    """Returns the op that changes the scale after a step.

    Args:
      finite_grads: whether all gradients of the step were finite.
    """


class FixedLossScaleManager(LossScaleManager):
  """A scale that does not change."""

  def __init__(self, loss_scale: float):
    """Makes the manager.

    Args:
      loss_scale: 1 or more.

    Raises:
      ValueError: if it is less.
    """
    if loss_scale < 1:
      raise ValueError(f"loss_scale={loss_scale} must be 1 or more.")
    self._loss_scale = tf.cast(loss_scale, tf.float32)

  def get_loss_scale(self) -> Any:
    """Returns the scale."""
    return self._loss_scale

  def update_loss_scale(self, finite_grads: Any) -> Any:
    """Returns an op that does nothing."""
    del finite_grads
    return tf.no_op()


class ExponentialUpdateLossScaleManager(LossScaleManager):
  """A scale that grows after finite steps and shrinks after others."""

  def __init__(
    self,
    init_loss_scale: float,
    incr_every_n_steps: int,
    decr_every_n_nan_or_inf: int = 2,
    incr_ratio: float = 2,
    decr_ratio: float = 0.8,
  ):
    """Makes the manager, and its variables.

    Args:
      init_loss_scale: the scale to begin with.
      incr_every_n_steps: after so many finite steps in a row the scale is
        multiplied with incr_ratio.
      decr_every_n_nan_or_inf: after so many steps that are not finite the scale
        is multiplied with decr_ratio, if 1 or more is left.
      incr_ratio: more than 1.
      decr_ratio: less than 1.
    """
    self._incr_every_n_steps = incr_every_n_steps
    self._decr_every_n_nan_or_inf = decr_every_n_nan_or_inf
    self._incr_ratio = incr_ratio
    self._decr_ratio = decr_ratio
    self._loss_scale = _variable("loss_scale", init_loss_scale, tf.float32)
    self._num_good_steps = _variable("good_steps", 0, tf.int32)
    self._num_bad_steps = _variable("bad_steps", 0, tf.int32)

  def get_loss_scale(self) -> Any:
    """Returns the scale."""
    return self._loss_scale

  def update_loss_scale(self, finite_grads: Any) -> Any:
    """Returns the op that counts the step, and changes the scale."""
    scale, good, bad = (
      tf.convert_to_tensor(one)
      for one in (self._loss_scale, self._num_good_steps, self._num_bad_steps)
    )
    zero = tf.zeros([], tf.int32)
    good_after = tf.where(finite_grads, good + 1, zero)
    bad_after = tf.where(finite_grads, bad, bad + 1)
    grows = tf.logical_and(finite_grads, good_after >= self._incr_every_n_steps)
    shrinks = tf.logical_and(
      tf.logical_not(finite_grads), bad_after >= self._decr_every_n_nan_or_inf
    )
    larger = scale * self._incr_ratio
    larger = tf.where(tf.math.is_finite(larger), larger, scale)
    smaller = tf.maximum(1.0, scale * self._decr_ratio)
    changes = tf.logical_or(grows, shrinks)
    with tf.control_dependencies([scale, good, bad]):
      return tf.group(
        self._loss_scale.assign(
          tf.where(grows, larger, tf.where(shrinks, smaller, scale))
        ),
        self._num_good_steps.assign(tf.where(changes, zero, good_after)),
        self._num_bad_steps.assign(tf.where(changes, zero, bad_after)),
      )


def _variable(name: str, value: Any, dtype: Any) -> Any:
  return tf.compat.v1.get_variable(
    name,
    dtype=dtype,
    initializer=tf.constant(value, dtype),
    trainable=False,
    use_resource=True,
  )


class LossScaleOptimizer(tf.compat.v1.train.Optimizer):
  """Scales the loss, not the gradients; skips steps that overflow."""

  def __init__(self, opt: Any, loss_scale_manager: LossScaleManager):
    """Wraps an optimizer.

    Args:
      opt: a tf.compat.v1.train.Optimizer, which makes the steps.
      loss_scale_manager: knows the scale.

    Raises:
      ValueError: if opt is none.
    """
    if not isinstance(opt, tf.compat.v1.train.Optimizer):
      raise ValueError(f"opt={opt!r} must be a tf.compat.v1.train.Optimizer.")
    super().__init__(use_locking=False, name="LossScaleOptimizer")
    self._opt = opt
    self._loss_scale_manager = loss_scale_manager

  def compute_gradients(
    self,
    loss: Any,
    var_list: Any = None,
    gate_gradients: int = tf.compat.v1.train.Optimizer.GATE_OP,
    aggregation_method: Any = None,
    colocate_gradients_with_ops: bool = False,
    grad_loss: Any = None,
  ) -> Any:
    """Returns gradients, computed of the scaled loss, and their variables."""
    scale = self._loss_scale_manager.get_loss_scale()
    if callable(loss):
      function = loss

      def scaled() -> Any:
        value = function()
        return value * tf.cast(scale, value.dtype)

      loss = scaled
    else:
      loss = loss * tf.cast(scale, loss.dtype.base_dtype)
    found = self._opt.compute_gradients(
      loss,
      var_list,
      gate_gradients=gate_gradients,
      aggregation_method=aggregation_method,
      colocate_gradients_with_ops=colocate_gradients_with_ops,
      grad_loss=grad_loss,
    )
    return [(_divided(one, scale), variable) for one, variable in found]

  def apply_gradients(
    self,
    grads_and_vars: Iterable[tuple[Any, Any]],
    global_step: Any = None,
    name: str | None = None,
  ) -> Any:
    """Makes a step if all gradients are finite, and changes the scale."""
    pairs = list(grads_and_vars)
    finite = tf.reduce_all(
      [
        tf.reduce_all(tf.math.is_finite(_values(one)))
        for one, _ in pairs
        if one is not None
      ]
    )

    def step() -> Any:
      return tf.group(self._opt.apply_gradients(pairs, global_step, name))

    stepped = tf.cond(finite, step, tf.no_op)
    update = self._loss_scale_manager.update_loss_scale(finite)
    return tf.group(stepped, update)


def _values(gradient: Any) -> Any:
  return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _divided(gradient: Any, scale: Any) -> Any:
  if gradient is None:
    return None
  factor = tf.math.reciprocal(tf.cast(scale, gradient.dtype.base_dtype))
  if isinstance(gradient, tf.IndexedSlices):
    return tf.IndexedSlices(
      gradient.values * factor, gradient.indices, gradient.dense_shape
    )
  return gradient * factor
