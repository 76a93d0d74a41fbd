"""A preconditioner for each dimension of a variable.

Gupta, Koren and Singer, "Shampoo: Preconditioned Stochastic Tensor
Optimization", 2018.
"""

from collections.abc import Callable
from typing import Any

from compat.private.contrib.optimizers import DenseHook, RowsHook, make_slot

import tensorflow as tf

v1 = tf.compat.v1
_Optimizer: Any = v1.train.Optimizer
# A number, or a function of the step that returns one.
Schedule = Any


class ShampooOptimizer(DenseHook, RowsHook, _Optimizer):
  """Adagrad with a matrix for each dimension of a variable.

  Slots are "gbar", the average gradient; by dimension "Gbar_0", "Gbar_1" and
  so on, the sums of its squares, a matrix or for large dimensions its diagonal;
  and "H_0" and so on, their powers, if they are not computed at every step.
  """

  def __init__(
    self,
    global_step: Any = 0,
    max_matrix_size: int = 768,
    gbar_decay: Schedule = 0.0,
    gbar_weight: Schedule = 1.0,
    mat_gbar_decay: Schedule = 1.0,
    mat_gbar_weight: Schedule = 1.0,
    learning_rate: Schedule = 1.0,
    svd_interval: Schedule = 1,
    precond_update_interval: Schedule = 1,
    epsilon: float = 1e-4,
    alpha: float = 0.5,
    use_iterative_root: bool = False,
    use_locking: bool = False,
    name: str = "Shampoo",
  ):
    """Makes the optimizer.

    Args:
      global_step: the variable of the steps done before.
      max_matrix_size: larger dimensions get the diagonal only.
      gbar_decay: how much of the average gradient stays at each step. This and
        the next five are numbers, or functions of the step.
      gbar_weight: what the gradient is multiplied by before it is added.
      mat_gbar_decay: how much of the squares stays at each step.
      mat_gbar_weight: what new squares are multiplied by.
      learning_rate: the learning rate.
      svd_interval: each how many steps powers are computed.
      precond_update_interval: each how many steps squares are added to
        matrices, a number.
      epsilon: added to the diagonals of the matrices.
      alpha: the power of all dimensions together, without its sign.
      use_iterative_root: not supported: powers come from singular values.
      use_locking: not used.
      name: of the slots' variables.

    Raises:
      ValueError: if use_iterative_root is set.
    """
    if use_iterative_root:
      raise ValueError(
        "use_iterative_root=True was for TPUs and is not supported; leave it "
        "out, and powers come from singular values."
      )
    super().__init__(use_locking, name)
    self._step = global_step
    self._max_size = max_matrix_size
    self._gbar_decay = gbar_decay
    self._gbar_weight = gbar_weight
    self._mat_decay = mat_gbar_decay
    self._mat_weight = mat_gbar_weight
    self._rate = learning_rate
    self._svd_interval = svd_interval
    self._update_interval = precond_update_interval
    self._epsilon = epsilon
    self._alpha = alpha

  def _at_step(self, schedule: Schedule) -> Any:
    return schedule(self._step + 1) if callable(schedule) else schedule

  def _create_slots(self, var_list: list[Any]) -> None:
    for variable in var_list:
      make_slot(self, variable, "gbar")
      dtype = variable.dtype.base_dtype
      for i, size in enumerate(variable.shape.as_list()):
        if size > self._max_size:
          make_slot(self, variable, f"Gbar_{i}", tf.zeros([size], dtype))
          continue
        if self._svd_interval != 1:
          make_slot(self, variable, f"H_{i}", tf.eye(size, dtype=dtype))
        zeros = tf.zeros([size, size], dtype)
        make_slot(self, variable, f"Gbar_{i}", zeros)

  def update(self, gradient: tf.Tensor, variable: Any) -> list[Any]:
    """Returns the update of a variable."""
    updates: list[Any] = []
    step = self._averaged(gradient, variable, updates)
    for i in range(variable.shape.rank):
      squares = self._squares(gradient, variable, i, updates)
      step = self._scaled(step, squares, variable, i, updates)
    return [*updates, v1.assign_sub(variable, self._rate_of(step) * step)]

  def update_rows(
    self, rows: tf.Tensor, indices: tf.Tensor, variable: Any
  ) -> list[Any]:
    """Returns the update of rows; of a few rows as of the whole variable."""
    size = variable.shape[0]
    if size <= self._max_size or self._gbar_decay != 0 or self._mat_decay != 1:
      shape = variable.shape.as_list()
      whole = tf.scatter_nd(indices[:, tf.newaxis], rows, shape)
      return self.update(whole, variable)
    if hasattr(variable, "handle"):
      raise NotImplementedError(
        f"ShampooOptimizer does not take the sparse gradient of {variable.name}"
        f", a resource of {size} rows, as TensorFlow 1.15 does; make it with "
        f"use_resource=False, or give max_matrix_size={size}."
      )
    updates: list[Any] = []
    step = self._at_step(self._gbar_weight) * rows
    squares = self._squares_of_rows(rows, indices, variable, updates)
    step = self._scaled(step, squares, variable, 0, updates)
    for i in range(1, variable.shape.rank):
      squares = self._squares(rows, variable, i, updates)
      step = self._scaled(step, squares, variable, i, updates)
    change = self._rate_of(step) * step
    return [*updates, v1.scatter_sub(variable, indices, change)]

  def _rate_of(self, step: tf.Tensor) -> tf.Tensor:
    return tf.cast(self._at_step(self._rate), step.dtype)

  def _scaled(
    self,
    step: tf.Tensor,
    squares: tf.Tensor,
    variable: Any,
    i: int,
    updates: list[Any],
  ) -> tf.Tensor:
    """Returns a step times the power of one dimension's squares.

    Args:
      step: its first dimension is the one; it comes back as the last.
      squares: the sums of squares of the dimension.
      variable: whose they are.
      i: which dimension of the variable.
      updates: gets ops that write slots.
    """
    rank = variable.shape.rank
    if squares.shape.rank == 2:
      power = self._power_of(squares, variable, i, updates)
      return tf.tensordot(step, power, [[0], [0]])
    # Where all squares are zero, so is the gradient.
    factors = tf.pow(tf.where(squares > 0, squares, 1), -self._alpha / rank)
    step *= tf.reshape(factors, [-1] + [1] * (rank - 1))
    return tf.transpose(step, [*range(1, rank), 0])

  def _averaged(
    self, gradient: tf.Tensor, variable: Any, updates: list[Any]
  ) -> tf.Tensor:
    weighted = self._at_step(self._gbar_weight) * gradient
    if self._gbar_decay == 0.0:
      return weighted
    slot = self.get_slot(variable, "gbar")
    average = self._at_step(self._gbar_decay) * slot + weighted
    updates.append(v1.assign(slot, average))
    return average

  def _squares(
    self, gradient: tf.Tensor, variable: Any, i: int, updates: list[Any]
  ) -> tf.Tensor:
    """Returns the sums of squares of one dimension, with this step's."""
    slot = self.get_slot(variable, f"Gbar_{i}")
    others = [j for j in range(gradient.shape.rank) if j != i]

    kept, weight = (
      self._at_step(self._mat_decay),
      self._at_step(self._mat_weight),
    )
    if slot.shape.rank == 1:
      new = tf.reduce_sum(gradient**2, others) / _divisor(variable, i)
      squares = kept * slot + weight * new
    else:
      interval = self._update_interval

      def added() -> tf.Tensor:
        new = tf.tensordot(gradient, gradient, [others, others])
        # For the steps that are left out, too.
        return kept * slot + weight * float(interval) * new

      squares = self._every(interval, added, slot)
    updates.append(v1.assign(slot, squares))
    return squares

  def _squares_of_rows(
    self, rows: tf.Tensor, indices: tf.Tensor, variable: Any, updates: list[Any]
  ) -> tf.Tensor:
    """As _squares of the first dimension, for some of its rows."""
    slot = self.get_slot(variable, "Gbar_0")

    new = tf.reduce_sum(rows**2, range(1, rows.shape.rank))
    new = self._at_step(self._mat_weight) * new
    squares = tf.gather(slot, indices) + new
    updates.append(v1.scatter_update(slot, indices, squares))
    return squares

  def _power_of(
    self, squares: tf.Tensor, variable: Any, i: int, updates: list[Any]
  ) -> tf.Tensor:
    def power() -> tf.Tensor:
      size = variable.shape[i]
      unit = tf.eye(size, dtype=squares.dtype)
      matrix = squares / float(size) + self._epsilon * unit
      return _power(matrix, self._alpha / variable.shape.rank)

    if self._svd_interval == 1:
      return power()
    slot = self.get_slot(variable, f"H_{i}")
    found = self._every(self._svd_interval, power, slot)
    updates.append(v1.assign(slot, found))
    return found

  def _every(
    self, interval: Schedule, make: Callable[[], tf.Tensor], kept: Any
  ) -> tf.Tensor:
    """Returns a new value at each so manieth step, else the kept one."""
    if interval == 1:
      return make()
    number = tf.cast(self._step, tf.int32) + 1
    due = tf.equal(number % tf.cast(self._at_step(interval), tf.int32), 0)
    return v1.cond(due, make, lambda: tf.identity(kept))


def _divisor(variable: Any, i: int) -> float:
  """Returns the number that 1.15 divides squares of a large dimension by."""
  return 1.0 if variable.shape.rank == 1 else float(variable.shape[i])


def _power(matrix: tf.Tensor, power: float) -> tf.Tensor:
  """Returns a positive definite matrix to the power of -power."""
  values, left, right = tf.linalg.svd(matrix)
  return tf.matmul(left * tf.pow(values, -power), right, transpose_b=True)
