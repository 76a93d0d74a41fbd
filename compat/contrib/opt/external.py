"""Optimizers outside of TensorFlow, such as SciPy's, run from a session."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


class ExternalOptimizerInterface:
  """Lets an algorithm outside of TensorFlow find the values of variables.

  A subclass has a method `_minimize`.
  """

  def __init__(
    self,
    loss: Any,
    var_list: Sequence[Any] | None = None,
    equalities: Sequence[Any] | None = None,
    inequalities: Sequence[Any] | None = None,
    var_to_bounds: Mapping[Any, tuple[Any, Any]] | None = None,
    **optimizer_kwargs: Any,
  ):
    """Makes the ops that the algorithm needs.

    Args:
      loss: what to minimize, a scalar.
      var_list: the variables; all trainable ones by default.
      equalities: scalars that have to be 0.
      inequalities: scalars that have to be at least 0.
      var_to_bounds: by variable, the lowest and highest values, of its shape
        or one that becomes it; None for no bound.
      **optimizer_kwargs: for `_minimize`.
    """
    self.optimizer_kwargs = optimizer_kwargs
    self._loss = loss
    self._equalities = list(equalities or ())
    self._inequalities = list(inequalities or ())
    self._vars = list(
      v1.trainable_variables() if var_list is None else var_list
    )
    self._sizes = [_size(variable) for variable in self._vars]
    self._bounds = self._packed_bounds(var_to_bounds)
    self._packed_values = _packed(self._vars)
    self._loss_and_slope = (loss, self._slope(loss))
    self._slopes_of_equalities = [*map(self._slope, self._equalities)]
    self._slopes_of_inequalities = [*map(self._slope, self._inequalities)]
    self._new_values = [
      v1.placeholder(variable.dtype.base_dtype, variable.shape)
      for variable in self._vars
    ]
    self._assignments = [
      v1.assign(variable, value)
      for variable, value in zip(self._vars, self._new_values, strict=True)
    ]

  def _packed_bounds(
    self, var_to_bounds: Mapping[Any, tuple[Any, Any]] | None
  ) -> list[tuple[float, float]] | None:
    if var_to_bounds is None:
      return None
    given = {variable.ref(): pair for variable, pair in var_to_bounds.items()}
    bounds: list[tuple[float, float]] = []
    for variable in self._vars:
      shape = variable.shape.as_list()
      low, high = given.get(variable.ref(), (-np.inf, np.inf))
      low = np.broadcast_to(-np.inf if low is None else low, shape)
      high = np.broadcast_to(np.inf if high is None else high, shape)
      bounds += zip(low.ravel(), high.ravel(), strict=True)
    return bounds

  def _slope(self, value: Any) -> tf.Tensor:
    """The gradient of a scalar by all variables, in one vector."""
    slopes = tf.gradients(value, self._vars)
    return _packed(
      tf.zeros_like(variable) if slope is None else slope
      for slope, variable in zip(slopes, self._vars, strict=True)
    )

  def minimize(
    self,
    session: Any = None,
    feed_dict: Mapping[Any, Any] | None = None,
    fetches: Sequence[Any] | None = None,
    step_callback: Callable[..., Any] | None = None,
    loss_callback: Callable[..., Any] | None = None,
    **run_kwargs: Any,
  ) -> None:
    """Finds the values, and sets the variables to them.

    Args:
      session: a session; the default one by default.
      feed_dict: for each run of the session.
      fetches: what is run, too, with the loss, for loss_callback.
      step_callback: called at each step with the values of all variables in one
        vector.
      loss_callback: called whenever the loss is run, with the fetches.
      **run_kwargs: for each run of the session.
    """
    session = session or v1.get_default_session()
    fetches = list(fetches or ())

    def call(loss: Any, slope: Any, *fetched: Any) -> tuple[Any, Any]:
      if loss_callback is not None:
        loss_callback(*fetched)
      return loss, _as_float64(slope)

    def function_of_values(
      tensors: Sequence[Any], then: Callable[..., Any]
    ) -> Callable[[Any], Any]:
      def function(values: Any) -> Any:
        self._assign(session, values)
        return then(*session.run(list(tensors), feed_dict, **run_kwargs))

      return function

    def functions_of_values(tensors: Sequence[Any]) -> list[Any]:
      return [function_of_values([one], _as_float64) for one in tensors]

    first = session.run(self._packed_values, feed_dict, **run_kwargs)
    found = self._minimize(
      initial_val=_as_float64(first),
      loss_grad_func=function_of_values(
        [*self._loss_and_slope, *fetches], call
      ),
      equality_funcs=functions_of_values(self._equalities),
      equality_grad_funcs=functions_of_values(self._slopes_of_equalities),
      inequality_funcs=functions_of_values(self._inequalities),
      inequality_grad_funcs=functions_of_values(self._slopes_of_inequalities),
      packed_bounds=self._bounds,
      step_callback=step_callback,
      optimizer_kwargs=self.optimizer_kwargs,
    )
    self._assign(session, found)

  def _assign(self, session: Any, values: Any) -> None:
    """Sets the variables; a resource is not read through what feeds it."""
    feeds = dict(zip(self._new_values, self._parts(values), strict=True))
    session.run([one.op for one in self._assignments], feeds)

  def _parts(self, values: Any) -> list[Any]:
    """Splits a vector into arrays like the variables."""
    parts = np.split(np.asarray(values), np.cumsum(self._sizes)[:-1])
    return [
      part.reshape(variable.shape.as_list())
      for part, variable in zip(parts, self._vars, strict=True)
    ]

  def _minimize(
    self,
    initial_val: Any,
    loss_grad_func: Any,
    equality_funcs: Any,
    equality_grad_funcs: Any,
    inequality_funcs: Any,
    inequality_grad_funcs: Any,
    packed_bounds: Any,
    step_callback: Any,
    optimizer_kwargs: Any,
  ) -> Any:
    """Returns the values of all variables in one vector.

    Args:
      initial_val: a vector.
      loss_grad_func: takes one, and returns the loss and its gradient.
      equality_funcs: functions of a vector.
      equality_grad_funcs: their gradients.
      inequality_funcs: functions of a vector.
      inequality_grad_funcs: their gradients.
      packed_bounds: pairs of the lowest and highest values, or None.
      step_callback: as of `minimize`.
      optimizer_kwargs: those of the constructor.
    """
    raise NotImplementedError(
      f"{type(self).__name__} has no _minimize(); use ScipyOptimizerInterface, "
      "or write one."
    )


class ScipyOptimizerInterface(ExternalOptimizerInterface):
  """Minimizes by scipy.optimize.minimize.

  Without `method` it is L-BFGS-B, which heeds no equalities and inequalities:
  SLSQP does. Other arguments, such as `options`, are SciPy's.
  """

  def _minimize(
    self,
    initial_val: Any,
    loss_grad_func: Any,
    equality_funcs: Any,
    equality_grad_funcs: Any,
    inequality_funcs: Any,
    inequality_grad_funcs: Any,
    packed_bounds: Any,
    step_callback: Any,
    optimizer_kwargs: Any,
  ) -> Any:
    try:
      from scipy import optimize
    except ModuleNotFoundError as error:
      raise ImportError(
        "ScipyOptimizerInterface needs SciPy: pip install scipy"
      ) from error
    arguments = {"method": "L-BFGS-B", **optimizer_kwargs}
    for name in ("fun", "x0", "jac", "bounds", "constraints", "callback"):
      if name in optimizer_kwargs:
        raise ValueError(
          f"{name!r} is what ScipyOptimizerInterface gives to SciPy itself; "
          "leave it out."
        )
    constraints = [
      {"type": kind, "fun": function, "jac": slope}
      for kind, functions, slopes in (
        ("eq", equality_funcs, equality_grad_funcs),
        ("ineq", inequality_funcs, inequality_grad_funcs),
      )
      for function, slope in zip(functions, slopes, strict=True)
    ]
    result = optimize.minimize(
      loss_grad_func,
      initial_val,
      jac=True,
      bounds=packed_bounds,
      constraints=constraints,
      callback=step_callback,
      **arguments,
    )
    tf.get_logger().info(
      "Optimization ended with %r after %s iterations: the loss is %s.",
      result.message,
      getattr(result, "nit", "unknown"),
      result.fun,
    )
    return result.x


def _as_float64(value: Any) -> Any:
  return np.asarray(value, np.float64)


def _size(variable: Any) -> int:
  size = variable.shape.num_elements()
  if size is None:
    raise ValueError(
      f"{variable.name} has the shape {variable.shape}; an external optimizer "
      "needs variables of known shapes."
    )
  return int(size)


def _packed(tensors: Any) -> tf.Tensor:
  """Returns all elements of tensors in one vector."""
  return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)
