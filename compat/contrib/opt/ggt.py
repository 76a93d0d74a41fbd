"""Full-matrix preconditioning by the last gradients.

Agarwal et al., "The Case for Full-Matrix Adaptive Regularization", 2018.
"""

from typing import Any

from compat.private.contrib.optimizers import (
  DenseHook,
  make_non_slot,
  non_slot,
  value_of,
)

import tensorflow as tf

v1 = tf.compat.v1
_Optimizer: Any = v1.train.Optimizer


class GGTOptimizer(DenseHook, _Optimizer):
  """Preconditions the gradient of all variables by its last averages.

  It takes dense gradients only.
  """

  def __init__(
    self,
    learning_rate: Any = 0.001,
    beta1: Any = 0.9,
    use_locking: bool = False,
    name: str = "GGT",
    window: int = 10,
    eps: Any = 0.0001,
    svd_eps: Any = 1e-6,
    sigma_eps: Any = 0.01,
  ):
    """Makes the optimizer.

    Args:
      learning_rate: a number, tensor or function, as all but window.
      beta1: how much of the average stays at each step.
      use_locking: not used.
      name: of the ops.
      window: how many averages precondition.
      eps: the smallest singular value whose complement is scaled.
      svd_eps: added to the diagonal before the decomposition.
      sigma_eps: added to the singular values.
    """
    super().__init__(use_locking, name)
    self._arguments = (learning_rate, beta1, eps, svd_eps, sigma_eps)
    self._values: Any = None
    self._window = window
    self._gradients: list[tuple[Any, tf.Tensor]] = []

  def _create_slots(self, var_list: list[Any]) -> None:
    size = sum(variable.shape.num_elements() for variable in var_list)
    first = min(var_list, key=lambda variable: variable.name)
    for name, initial in (
      ("global_step", 0.0),
      ("grad_buffer", tf.zeros([self._window, size])),
      ("moment1", tf.zeros([size])),
      ("flat_grad", tf.zeros([size])),
    ):
      make_non_slot(self, initial, name, first)

  def _prepare(self) -> None:
    self._values = [
      tf.convert_to_tensor(value_of(argument)) for argument in self._arguments
    ]
    self._gradients = []

  def update(self, gradient: tf.Tensor, variable: Any) -> tf.Operation:
    """Notes the gradient; all variables are updated at once, in the end."""
    self._gradients.append((variable, gradient))
    return tf.no_op()

  def _finish(self, update_ops: list[Any], name_scope: str) -> Any:
    rate, beta1, *_ = self._values
    step, buffer, moment, flat = (
      non_slot(self, name)
      for name in ("global_step", "grad_buffer", "moment1", "flat_grad")
    )
    pairs = sorted(self._gradients, key=lambda pair: str(pair[0].name))
    gradient = tf.concat([tf.reshape(slope, [-1]) for _, slope in pairs], 0)
    number = step + 1
    average = beta1 * moment + (1 - beta1) * gradient
    # The place of this step's average in the buffer.
    row = tf.cast(number - 1, tf.int32) % self._window
    is_row = tf.equal(tf.range(self._window), row)[:, tf.newaxis]
    averages = tf.where(is_row, average[tf.newaxis], buffer)
    change = rate * self._precondition(average, averages, number)
    changes = tf.split(change, [tf.size(slope) for _, slope in pairs])
    with tf.control_dependencies([change]):
      updates = [
        v1.assign_sub(variable, tf.reshape(part, variable.shape))
        for (variable, _), part in zip(pairs, changes, strict=True)
      ]
      updates += [
        v1.assign(step, number),
        v1.assign(buffer, averages),
        v1.assign(moment, average),
        v1.assign(flat, gradient),
      ]
    return tf.group(*update_ops, *updates, name=name_scope)

  def _precondition(
    self, average: tf.Tensor, averages: tf.Tensor, number: tf.Tensor
  ) -> tf.Tensor:
    """Returns the step, for a learning rate of 1."""
    _, _, eps, svd_eps, sigma_eps = self._values
    m = tf.transpose(averages)
    m /= tf.sqrt(tf.minimum(number, float(self._window)))
    gram = tf.matmul(m, m, transpose_a=True)
    sigma, u, _ = tf.linalg.svd(gram + svd_eps * tf.eye(self._window))
    roots = tf.sqrt(sigma)
    basis = tf.matmul(m, u)
    along = tf.linalg.matvec(basis, average, transpose_a=True)
    inside = tf.linalg.matvec(basis, along * (roots + sigma_eps) ** -3)
    smallest = tf.reduce_min(roots)
    outside = (average - tf.linalg.matvec(basis, along / sigma)) / smallest
    return tf.where(smallest > eps, inside + outside, inside)
