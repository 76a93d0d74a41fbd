"""Integration in steps that do not depend on the solution."""

from collections.abc import Callable
from typing import Any

from compat.contrib.integrate import checks

import tensorflow as tf


def _midpoint(
  func: checks.Derivative, y: tf.Tensor, t: tf.Tensor, dt: tf.Tensor
) -> tf.Tensor:
  step = tf.cast(dt, y.dtype)
  return step * func(y + func(y, t) * step / 2, t + dt / 2)


def _rk4(
  func: checks.Derivative, y: tf.Tensor, t: tf.Tensor, dt: tf.Tensor
) -> tf.Tensor:
  step = tf.cast(dt, y.dtype)
  first = func(y, t)
  second = func(y + step * first / 2, t + dt / 2)
  third = func(y + step * second / 2, t + dt / 2)
  fourth = func(y + step * third, t + dt)
  return (first + 2 * second + 2 * third + fourth) * (step / 6)


# Runge's method of 1895, and Kutta's of 1901.
_METHODS: dict[str, Callable[..., tf.Tensor]] = {
  "midpoint": _midpoint,
  "rk4": _rk4,
}


def odeint_fixed(
  func: checks.Derivative,
  y0: Any,
  t: Any,
  dt: Any = None,
  method: str = "rk4",
  name: str | None = None,
) -> tf.Tensor:
  """Integrates dy/dt = func(y, t) in steps of a fixed size.

  Args:
    func: dy/dt, of the state and the time.
    y0: the state [...] at the first time, of floats or complex numbers.
    t: increasing times [times].
    dt: the largest step, one or one for each interval [times - 1]; an interval
      has steps of equal size. None is one step for each interval.
    method: "midpoint" or "rk4", of second and of fourth order.
    name: of the operations.

  Returns:
    The states [times, ...].

  Raises:
    TypeError: if `y0`, `t` or `dt` is not of floats.
    ValueError: if `method`, or a shape, is another.
  """
  if method not in _METHODS:
    raise ValueError(f"method={method!r} must be one of {', '.join(_METHODS)}.")
  with tf.compat.v1.name_scope(name, "odeint_fixed", [y0, t, dt]):
    y0, t = checks.problem(y0, t)
    intervals = t[1:] - t[:-1]
    steps = _steps(intervals, dt)
    sizes = intervals / steps
    with tf.control_dependencies([checks.increasing(t)]):
      found = _integrate(
        lambda *at: _METHODS[method](func, *at),
        tf.identity(y0),
        t,
        sizes,
        tf.cast(steps, tf.int32),
      )
    found.set_shape(t.shape.concatenate(y0.shape))
    return found


def _steps(intervals: tf.Tensor, dt: Any) -> tf.Tensor:
  """Returns the whole number of steps of each interval, as floats."""
  if dt is None:
    return tf.ones_like(intervals)
  dt = tf.convert_to_tensor(dt, dtype_hint=tf.float64, name="dt")
  if not dt.dtype.is_floating:
    raise TypeError(f"dt is of {dt.dtype.name}; it must be of floats.")
  if dt.shape.rank == 1 and not dt.shape.is_compatible_with(intervals.shape):
    raise ValueError(
      f"dt has the shape {tuple(dt.shape)}; give one step, or one for each of "
      f"the {intervals.shape[0]} intervals of t."
    )
  return tf.math.ceil(intervals / dt)


def _integrate(
  advance: Callable[..., tf.Tensor],
  y0: tf.Tensor,
  t: tf.Tensor,
  sizes: tf.Tensor,
  steps: tf.Tensor,
) -> tf.Tensor:
  """Returns the states at all times.

  Args:
    advance: of a state, a time and a step, how the state changes.
    y0: the state at the first time.
    t: [times].
    sizes: of the steps in each interval [times - 1].
    steps: how many each interval has [times - 1].
  """
  count = tf.size(t)
  states = tf.TensorArray(y0.dtype, count).write(0, y0)

  def interval(
    states: tf.TensorArray, y: tf.Tensor, time: tf.Tensor, place: tf.Tensor
  ) -> tuple[Any, ...]:
    dt = sizes[place - 1]

    def step(
      y: tf.Tensor, time: tf.Tensor, made: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
      change = tf.cast(advance(y, time, dt), y.dtype)
      return y + change, time + dt, made + 1

    y, time, _ = tf.compat.v1.while_loop(
      lambda *state: state[2] < steps[place - 1], step, (y, time, 0)
    )
    return states.write(place, y), y, time, place + 1

  states, *_ = tf.compat.v1.while_loop(
    lambda *state: state[3] < count, interval, (states, y0, t[0], 1)
  )
  return states.stack()
