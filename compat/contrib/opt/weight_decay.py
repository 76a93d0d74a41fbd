"""Weight decay beside the gradient, and AdamW and SGDW with it.

Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019.
"""

from collections.abc import Iterable
from typing import Any

from compat.private.contrib.optimizers import value_of

import tensorflow as tf

v1 = tf.compat.v1
_Adam: Any = v1.train.AdamOptimizer
_Momentum: Any = v1.train.MomentumOptimizer


class DecoupledWeightDecayExtension:
  """Lets an optimizer's variables decay by a factor at every step.

  Write it before the optimizer:

      class AdagradW(DecoupledWeightDecayExtension, AdagradOptimizer):
        ...

  A variable loses `weight_decay` times itself when its gradient is known, and
  then gets the optimizer's update. The learning rate is no part of it: a
  schedule has to be applied to both. Of a sparse gradient only its rows decay.
  """

  def __init__(self, weight_decay: Any, **kwargs: Any):
    """Makes the optimizer.

    Args:
      weight_decay: a number, tensor or function.
      **kwargs: those of the optimizer.
    """
    self._weight_decay = weight_decay
    self._weight_decay_tensor: Any = None
    # The ids of the variables to decay; all without any.
    self._ids_with_weight_decay: set[int] = set()
    super().__init__(**kwargs)

  def minimize(
    self,
    loss: Any,
    global_step: Any = None,
    var_list: Any = None,
    gate_gradients: int = v1.train.Optimizer.GATE_OP,
    aggregation_method: Any = None,
    colocate_gradients_with_ops: bool = False,
    name: str | None = None,
    grad_loss: Any = None,
    decay_var_list: Iterable[Any] | None = None,
  ) -> Any:
    """As tf.compat.v1.train.Optimizer.minimize, with one argument more.

    Args:
      loss: what to minimize.
      global_step: a variable to add 1 to.
      var_list: the variables to train; all trainable ones by default.
      gate_gradients: GATE_NONE, GATE_OP or GATE_GRAPH.
      aggregation_method: how gradients are added up.
      colocate_gradients_with_ops: whether they lie where the ops do.
      name: of the op.
      grad_loss: the gradient of the loss.
      decay_var_list: has no effect, as in TensorFlow 1.15, where all trained
        variables decay; `apply_gradients` is what heeds it.

    Returns:
      The op that trains.
    """
    if decay_var_list is not None:
      tf.get_logger().warning(
        "minimize(decay_var_list=...) lets all variables decay, as in "
        "TensorFlow 1.15; give the list to apply_gradients instead."
      )
    return super().minimize(  # type: ignore[misc]
      loss,
      global_step=global_step,
      var_list=var_list,
      gate_gradients=gate_gradients,
      aggregation_method=aggregation_method,
      colocate_gradients_with_ops=colocate_gradients_with_ops,
      name=name,
      grad_loss=grad_loss,
    )

  def apply_gradients(
    self,
    grads_and_vars: Any,
    global_step: Any = None,
    name: str | None = None,
    decay_var_list: Iterable[Any] | None = None,
  ) -> Any:
    """As tf.compat.v1.train.Optimizer.apply_gradients, with one more.

    Args:
      grads_and_vars: pairs, as compute_gradients returns them.
      global_step: a variable to add 1 to.
      name: of the op.
      decay_var_list: the variables to decay; all by default.

    Returns:
      The op that trains.
    """
    self._ids_with_weight_decay = {
      id(variable) for variable in decay_var_list or ()
    }
    return super().apply_gradients(  # type: ignore[misc]
      grads_and_vars, global_step=global_step, name=name
    )

  def _prepare(self) -> None:
    self._weight_decay_tensor = tf.convert_to_tensor(
      value_of(self._weight_decay), name="weight_decay"
    )
    super()._prepare()  # type: ignore[misc]

  def _has_weight_decay(self, variable: Any) -> bool:
    return (
      not self._ids_with_weight_decay
      or id(variable) in self._ids_with_weight_decay
    )

  def _weight_decay_op(self, gradient: tf.Tensor, variable: Any) -> Any:
    """The op to wait for before the update."""
    if not self._has_weight_decay(variable):
      return tf.no_op()
    # Whoever reads the variable for this step has done so by then.
    with tf.control_dependencies([gradient]):
      factor = tf.cast(self._weight_decay_tensor, gradient.dtype)
      return tf.group(v1.assign_sub(variable, factor * variable))

  def _weight_decay_of_rows(
    self, rows: tf.Tensor, indices: tf.Tensor, variable: Any
  ) -> Any:
    if not self._has_weight_decay(variable):
      return tf.no_op()
    with tf.control_dependencies([rows]):
      factor = tf.cast(self._weight_decay_tensor, rows.dtype)
      lost = factor * tf.gather(variable, indices)
      return tf.group(v1.scatter_sub(variable, indices, lost))

  def _apply_dense(self, grad: tf.Tensor, var: Any) -> Any:
    with tf.control_dependencies([self._weight_decay_op(grad, var)]):
      return super()._apply_dense(grad, var)  # type: ignore[misc]

  def _resource_apply_dense(self, grad: tf.Tensor, handle: Any) -> Any:
    with tf.control_dependencies([self._weight_decay_op(grad, handle)]):
      return super()._resource_apply_dense(  # type: ignore[misc]
        grad, handle
      )

  def _apply_sparse(self, grad: Any, var: Any) -> Any:
    decay = self._weight_decay_of_rows(grad.values, grad.indices, var)
    with tf.control_dependencies([decay]):
      return super()._apply_sparse(grad, var)  # type: ignore[misc]

  def _resource_apply_sparse(
    self, grad: tf.Tensor, handle: Any, indices: tf.Tensor
  ) -> Any:
    decay = self._weight_decay_of_rows(grad, indices, handle)
    with tf.control_dependencies([decay]):
      return super()._resource_apply_sparse(  # type: ignore[misc]
        grad, handle, indices
      )


def extend_with_decoupled_weight_decay(base_optimizer: Any) -> Any:
  """Returns a class of optimizers whose variables decay.

  Args:
    base_optimizer: a class of tf.compat.v1.train.Optimizer. The new class takes
      `weight_decay` before its arguments.
  """

  class OptimizerWithDecoupledWeightDecay(
    DecoupledWeightDecayExtension, base_optimizer
  ):
    """The optimizer, with weight decay beside its gradient."""

    def __init__(self, weight_decay: Any, *args: Any, **kwargs: Any):
      # The extension takes arguments by name only, as 1.15's.
      super().__init__(weight_decay, *args, **kwargs)

  return OptimizerWithDecoupledWeightDecay


class AdamWOptimizer(DecoupledWeightDecayExtension, _Adam):
  """Adam with weight decay beside the gradient."""

  def __init__(
    self,
    weight_decay: Any,
    learning_rate: Any = 0.001,
    beta1: Any = 0.9,
    beta2: Any = 0.999,
    epsilon: Any = 1e-8,
    use_locking: bool = False,
    name: str = "AdamW",
  ):
    """Makes the optimizer.

    Args:
      weight_decay: what part of itself a variable loses at each step.
      learning_rate: a number, tensor or function.
      beta1: how much of the first moment stays at each step.
      beta2: how much of the second moment stays at each step.
      epsilon: added to the root of the second moment.
      use_locking: whether updates lock their variables.
      name: of the slots' variables.
    """
    super().__init__(
      weight_decay,
      learning_rate=learning_rate,
      beta1=beta1,
      beta2=beta2,
      epsilon=epsilon,
      use_locking=use_locking,
      name=name,
    )


class MomentumWOptimizer(DecoupledWeightDecayExtension, _Momentum):
  """Momentum with weight decay beside the gradient, SGDW."""

  def __init__(
    self,
    weight_decay: Any,
    learning_rate: Any,
    momentum: Any,
    use_locking: bool = False,
    name: str = "MomentumW",
    use_nesterov: bool = False,
  ):
    """Makes the optimizer.

    Args:
      weight_decay: what part of itself a variable loses at each step.
      learning_rate: a number, tensor or function.
      momentum: a number, tensor or function.
      use_locking: whether updates lock their variables.
      name: of the slots' variables.
      use_nesterov: whether the momentum is Nesterov's.
    """
    super().__init__(
      weight_decay,
      learning_rate=learning_rate,
      momentum=momentum,
      use_locking=use_locking,
      name=name,
      use_nesterov=use_nesterov,
    )
