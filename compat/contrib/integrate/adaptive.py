"""Integration with steps that keep the error small.

Dormand and Prince, "A family of embedded Runge-Kutta formulae", 1980. Between
the steps the solution is a polynomial: Shampine, "Some practical Runge-Kutta
formulas", 1986.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from compat.contrib.integrate import checks

import tensorflow as tf

# Of each further evaluation: when in the step it is, and the weights of the
# derivatives before it. The last one is that at the end of the step.
_STAGES: Sequence[tuple[float, Sequence[float]]] = (
  (1 / 5, [1 / 5]),
  (3 / 10, [3 / 40, 9 / 40]),
  (4 / 5, [44 / 45, -56 / 15, 32 / 9]),
  (8 / 9, [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729]),
  (1, [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656]),
  (1, [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84]),
)
_OF_FIFTH_ORDER = (*_STAGES[-1][1], 0)
_OF_FOURTH_ORDER = (
  1951 / 21600,
  0,
  22642 / 50085,
  451 / 720,
  -12231 / 42400,
  649 / 6300,
  1 / 60,
)
_ERROR = [
  fourth - fifth
  for fourth, fifth in zip(_OF_FOURTH_ORDER, _OF_FIFTH_ORDER, strict=True)
]
# Shampine's weights of the solution in the middle of the step.
_MIDDLE = (
  6025192743 / 30085553152 / 2,
  0,
  51252292925 / 65400821598 / 2,
  -2691868925 / 45128329728 / 2,
  187940372067 / 1594534317056 / 2,
  -1776094331 / 19743644256 / 2,
  11237099 / 235043384 / 2,
)


class _Progress(NamedTuple):
  """What is known after a step.

  Attributes:
    y: the state at its end.
    slope: the derivative there.
    start: when it began.
    end: when it ended, which is when it began if it was rejected.
    size: of the next step.
    polynomial: five coefficients of the solution in it, the highest first.
  """

  y: tf.Tensor
  slope: tf.Tensor
  start: tf.Tensor
  end: tf.Tensor
  size: tf.Tensor
  polynomial: Sequence[tf.Tensor]


class _Tried(NamedTuple):
  """All steps that were tried, as tf.TensorArrays.

  Attributes:
    ends: when each ended, or would have ended.
    errors: of each, as parts of what is allowed.
  """

  ends: Any
  errors: Any

  def with_step(self, end: tf.Tensor, error: tf.Tensor) -> "_Tried":
    """Returns these steps and one more."""
    return _Tried(
      self.ends.write(self.ends.size(), end),
      self.errors.write(self.errors.size(), error),
    )


class _Solver:
  """Makes the steps of one problem."""

  def __init__(
    self,
    func: checks.Derivative,
    rtol: tf.Tensor,
    atol: tf.Tensor,
    dtype: tf.DType,
    first_step: Any = None,
    safety: Any = 0.9,
    ifactor: Any = 10.0,
    dfactor: Any = 0.2,
    max_num_steps: Any = 1000,
  ):
    """Makes the solver.

    Args:
      func: dy/dt, of the state and the time.
      rtol: the error that is allowed, as a part of the state.
      atol: the error that is allowed besides.
      dtype: of the times.
      first_step: its size; None is 1.
      safety: by how much a step is smaller than what the error allows.
      ifactor: how many times as large as a step the next one may be.
      dfactor: what part of a step the next one is at least.
      max_num_steps: how many there may be between two times.
    """

    def number(value: Any) -> tf.Tensor:
      return tf.convert_to_tensor(value, dtype)

    self._func = func
    self._rtol = rtol
    self._atol = atol
    self.first_step = number(1.0 if first_step is None else first_step)
    self._safety = number(safety)
    self._ifactor = number(ifactor)
    self._dfactor = number(dfactor)
    self._max_num_steps = tf.convert_to_tensor(max_num_steps, tf.int32)

  def begin(self, y0: tf.Tensor, time: tf.Tensor) -> _Progress:
    """Returns what is known before the first step."""
    slope = self._func(y0, time)
    return _Progress(y0, slope, time, time, self.first_step, [y0] * 5)

  def reach(
    self, time: tf.Tensor, progress: _Progress, tried: _Tried
  ) -> tuple[_Progress, _Tried]:
    """Makes steps until one ends at a time, or later."""

    def step(
      progress: _Progress, tried: _Tried, count: tf.Tensor
    ) -> tuple[_Progress, _Tried, tf.Tensor]:
      end = progress.end + progress.size
      with tf.control_dependencies(self._assertions(progress, count)):
        progress, error = self._step(progress)
      return progress, tried.with_step(end, error), count + 1

    progress, tried, _ = tf.compat.v1.while_loop(
      lambda progress, *_: time > progress.end, step, (progress, tried, 0)
    )
    return progress, tried

  def _assertions(
    self, progress: _Progress, count: tf.Tensor
  ) -> list[tf.Operation]:
    check = tf.debugging.Assert
    size = progress.size
    is_finite = tf.reduce_all(tf.math.is_finite(tf.abs(progress.y)))
    return [
      check(progress.end + size > progress.end, ["underflow in dt", size]),
      check(count < self._max_num_steps, ["max_num_steps exceeded", count]),
      check(is_finite, ["non-finite values in state y", progress.y]),
    ]

  def _step(self, before: _Progress) -> tuple[_Progress, tf.Tensor]:
    """Tries a step; returns what is known then, and its error."""
    y, start, size = before.y, before.end, before.size
    step = tf.cast(size, y.dtype)
    slopes = [before.slope]
    reached = y
    for place, weights in _STAGES:
      reached = y + _weighted_sum(step, weights, slopes)
      slopes.append(self._func(reached, start + place * size))
    error = self._relative(_weighted_sum(step, _ERROR, slopes), y, reached)

    def accepted() -> tuple[Any, ...]:
      middle = y + _weighted_sum(step, _MIDDLE, slopes)
      fit = _polynomial(y, middle, reached, slopes[0], slopes[-1], step)
      return (reached, slopes[-1], start + size, *fit)

    def rejected() -> tuple[Any, ...]:
      return (y, before.slope, tf.identity(start), *before.polynomial)

    y, slope, end, *fit = tf.compat.v1.cond(error <= 1, accepted, rejected)
    return _Progress(y, slope, start, end, self._next(size, error), fit), error

  def _relative(
    self, error: tf.Tensor, y: tf.Tensor, reached: tf.Tensor
  ) -> tf.Tensor:
    """Returns an error as a part of what is allowed, on the average."""
    largest = tf.maximum(tf.abs(y), tf.abs(reached))
    allowed = self._atol + self._rtol * largest
    parts = _abs_square(error) / _abs_square(allowed)
    return tf.sqrt(tf.reduce_mean(parts))

  def _next(self, size: tf.Tensor, error: tf.Tensor) -> tf.Tensor:
    """Returns the size of a step of which the error is what is allowed."""
    error = tf.cast(error, size.dtype)
    # By as much smaller as the error is larger, which may be 0.
    factor = tf.pow(error, tf.constant(1 / 5, size.dtype)) / self._safety
    return size / tf.maximum(
      1 / self._ifactor, tf.minimum(factor, 1 / self._dfactor)
    )


def _weighted_sum(
  step: tf.Tensor, weights: Sequence[float], slopes: Sequence[tf.Tensor]
) -> tf.Tensor:
  return tf.add_n(
    [
      (step * weight) * slope
      for weight, slope in zip(weights, slopes, strict=True)
      if weight
    ]
  )


def _abs_square(x: tf.Tensor) -> tf.Tensor:
  if x.dtype.is_complex:
    return tf.square(tf.math.real(x)) + tf.square(tf.math.imag(x))
  return tf.square(x)


def _polynomial(
  first: tf.Tensor,
  middle: tf.Tensor,
  last: tf.Tensor,
  first_slope: tf.Tensor,
  last_slope: tf.Tensor,
  step: tf.Tensor,
) -> tuple[tf.Tensor, ...]:
  """Returns coefficients, the highest first, of the solution in a step.

  It runs from 0 to 1 there; the solution is known at the ends and in the
  middle, its derivative at the ends.
  """
  up, down = step * first_slope, step * last_slope
  return (
    -2 * up + 2 * down - 8 * first - 8 * last + 16 * middle,
    5 * up - 3 * down + 18 * first + 14 * last - 32 * middle,
    -4 * up + down - 11 * first - 5 * last + 16 * middle,
    up,
    first,
  )


def _interpolated(progress: _Progress, time: tf.Tensor) -> tf.Tensor:
  """Returns the solution at a time in the last step."""
  start, end = progress.start, progress.end
  found = tf.zeros_like(progress.y)
  place = tf.cast((time - start) / (end - start), progress.y.dtype)
  for coefficient in progress.polynomial:
    found = found * place + coefficient
  return found


def odeint(
  func: checks.Derivative,
  y0: Any,
  t: Any,
  rtol: Any = 1e-6,
  atol: Any = 1e-12,
  method: str | None = None,
  options: Mapping[str, Any] | None = None,
  full_output: bool = False,
  name: str | None = None,
) -> Any:
  """Integrates dy/dt = func(y, t) with an error that is as small as is asked.

  Args:
    func: dy/dt, of the state and the time.
    y0: the state [...] at the first time, of floats or complex numbers.
    t: increasing times [times].
    rtol: the error that is allowed in a step, as a part of the state.
    atol: the error that is allowed besides.
    method: "dopri5" or None, which is the same.
    options: only with a method: "first_step", 1.0, the size of the first step;
      "safety", 0.9, by how much steps are smaller than the error allows;
      "ifactor", 10.0, and "dfactor", 0.2, how many times as large as a step the
      next one is at most, and at least; "max_num_steps", 1000, between times.
    full_output: whether to return how it was done, too.
    name: of the operations.

  Returns:
    The states [times, ...]; with full_output also "num_func_evals", and of each
    step "integrate_points", its end, and "error_ratio", its error as a part of
    what was allowed; above 1 it was made again.

  Raises:
    TypeError: if `y0` or `t` is not of floats, or for an unknown option.
    ValueError: for another method, or options without one.
  """
  if method not in (None, "dopri5"):
    raise ValueError(f"method={method!r} must be 'dopri5'.")
  if options is not None and method is None:
    raise ValueError(
      f"options={options!r} are those of a method; give method='dopri5', too."
    )
  with tf.compat.v1.name_scope(name, "odeint", [y0, t, rtol, atol]):
    y0, t = checks.problem(y0, t)
    dtype = tf.abs(y0).dtype
    solver = _Solver(
      func,
      tf.convert_to_tensor(rtol, dtype, name="rtol"),
      tf.convert_to_tensor(atol, dtype, name="atol"),
      t.dtype,
      **(options or {}),
    )
    with tf.control_dependencies([checks.increasing(t)]):
      y0 = tf.identity(y0)
    states, tried = _integrate(solver, y0, t, dtype)
    states.set_shape(t.shape.concatenate(y0.shape))
    if not full_output:
      return states
    ends = tried.ends.stack()
    return states, {
      "num_func_evals": 6 * tf.size(ends) + 1,
      "integrate_points": ends,
      "error_ratio": tried.errors.stack(),
    }


def _integrate(
  solver: _Solver, y0: tf.Tensor, t: tf.Tensor, error_dtype: tf.DType
) -> tuple[tf.Tensor, _Tried]:
  """Returns the states at all times, and the steps."""
  count = tf.size(t)

  def to_next(
    states: tf.TensorArray, progress: _Progress, tried: _Tried, place: tf.Tensor
  ) -> tuple[Any, ...]:
    progress, tried = solver.reach(t[place], progress, tried)
    found = _interpolated(progress, t[place])
    return states.write(place, found), progress, tried, place + 1

  tried = _Tried(
    tf.TensorArray(t.dtype, 0, dynamic_size=True),
    tf.TensorArray(error_dtype, 0, dynamic_size=True),
  )
  states = tf.TensorArray(y0.dtype, count).write(0, y0)
  states, _, tried, _ = tf.compat.v1.while_loop(
    lambda *state: state[3] < count,
    to_next,
    (states, solver.begin(y0, t[0]), tried, 1),
  )
  return states.stack(), tried
