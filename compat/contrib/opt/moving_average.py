"""An optimizer that averages the variables, and saves the averages."""

from collections.abc import Iterable, Mapping
from typing import Any

from compat.private.contrib.optimizers import saved_name

import tensorflow as tf

v1 = tf.compat.v1
_Optimizer: Any = v1.train.Optimizer


class MovingAverageOptimizer(_Optimizer):
  """Trains as another optimizer, and keeps moving averages of the variables.

  `swapping_saver` writes each average under the name of its variable, so that
  whoever reads the checkpoint with a plain Saver gets the averages.
  """

  def __init__(
    self,
    opt: Any,
    average_decay: float = 0.9999,
    num_updates: Any = None,
    sequential_update: bool = True,
  ):
    """Makes the optimizer.

    Args:
      opt: the optimizer that trains.
      average_decay: how much of an average stays at each step.
      num_updates: the steps done; the decay is lower for the first ones then,
        as tf.train.ExponentialMovingAverage says.
      sequential_update: whether averages are of the updated variables, and not
        of whichever values are there at that time.
    """
    super().__init__(False, "MovingAverage")
    self._optimizer = opt
    self._average = v1.train.ExponentialMovingAverage(
      average_decay, num_updates=num_updates
    )
    # What each variable's average is saved as.
    self._averages: dict[str, str] | None = None
    self._sequential_update = sequential_update

  def get_slot(self, *args: Any, **kwargs: Any) -> Any:
    """Returns a slot of the optimizer that trains."""
    return self._optimizer.get_slot(*args, **kwargs)

  def get_slot_names(self) -> list[str]:
    """Returns the names of the slots of the optimizer that trains."""
    names: list[str] = self._optimizer.get_slot_names()
    return names

  def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
    """Returns what the optimizer that trains does."""
    return self._optimizer.compute_gradients(*args, **kwargs)

  def apply_gradients(
    self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
  ) -> Any:
    """As tf.compat.v1.train.Optimizer's, and updates the averages.

    Args:
      grads_and_vars: pairs, as compute_gradients returns them.
      global_step: a variable to add 1 to.
      name: of the op.

    Returns:
      The op that trains.
    """
    grads_and_vars = list(grads_and_vars)
    variables = [one for slope, one in grads_and_vars if slope is not None]
    train_op = self._optimizer.apply_gradients(
      grads_and_vars, global_step=global_step, name=name
    )
    waits_for = [train_op] if self._sequential_update else []
    with tf.control_dependencies(waits_for):
      averaged = self._average.apply(variables)
    self._averages = {
      saved_name(variable): saved_name(self._average.average(variable))
      for variable in variables
    }
    return tf.group(train_op, averaged, name="train_with_avg")

  def swapping_saver(
    self, var_list: Any = None, name: str = "swapping_saver", **kwargs: Any
  ) -> Any:
    """Returns a Saver that writes averages in place of their variables.

    It writes each variable under the name of its average, too, so that training
    goes on from what this Saver restores.

    Args:
      var_list: what to save, as tf.compat.v1.train.Saver takes it; all global
        variables by default.
      name: of the ops.
      **kwargs: those of tf.compat.v1.train.Saver.

    Raises:
      RuntimeError: if nothing was minimized before.
      ValueError: if an average or its variable alone is in the list.
    """
    if self._averages is None:
      raise RuntimeError(
        "swapping_saver() has no averages yet; call minimize() or "
        "apply_gradients() before."
      )
    if var_list is None:
      var_list = v1.global_variables()
    saved = _by_name(var_list)
    swapped = dict(saved)
    for variable, average in self._averages.items():
      if variable not in saved and average not in saved:
        continue
      for one, other in ((variable, average), (average, variable)):
        if other not in saved:
          raise ValueError(
            f"var_list has {one!r} and not {other!r}; a swapping saver needs "
            "a variable and its average, or neither."
          )
        swapped[one] = saved[other]
    return v1.train.Saver(swapped, name=name, **kwargs)


def _by_name(var_list: Iterable[Any] | Mapping[str, Any]) -> dict[str, Any]:
  """Returns variables by what they are saved as, parts of one in a list."""
  if isinstance(var_list, Mapping):
    return dict(var_list)
  found: dict[str, Any] = {}
  variables: list[Any] = list(var_list)
  for variable in variables:
    name = saved_name(variable)
    if name == variable.op.name:
      found[name] = variable
    else:
      found.setdefault(name, []).append(variable)
  return found
