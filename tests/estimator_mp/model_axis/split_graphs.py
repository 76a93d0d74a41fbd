"""Splits a graph of a test, and compares it with the plain one.

    check(test, lambda x, w: tf.matmul(x, w), {"x": x, "w": w},
          {"w": VariableSplit(1, (3, 2))})

feeds `x`, makes a variable of `w` that is split so, and compares values and
gradients with those of the plain graph.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from estimator_mp import devices, model_partitioner
from estimator_mp.propagate.splits import VariableSplit
from tests.estimator_mp import session_configs

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class Results:
  """What a graph gave.

  Attributes:
    values: The values of its outputs.
    gradients: Those with respect to the floats that were fed, by name; None
      where there is none.
    num_gathers: How many tensors are read whole that are split; None for the
      plain graph.
    split: The names of what was split.
  """

  values: list[np.ndarray]
  gradients: dict[str, np.ndarray | None]
  num_gathers: int | None = None
  split: Sequence[str] = ()


def check(
  test: Any,
  build: Callable[..., Any],
  feeds: Mapping[str, np.ndarray],
  splits: Mapping[str, VariableSplit],
  unknown: Mapping[str, Sequence[int]] = {},
  rtol: float = 1e-6,
  atol: float = 1e-6,
  gathers: int | None = 0,
  order: int = 1,
) -> Results:
  """Asserts that a split graph gives what the plain one gives.

  Args:
    test: The test.
    build: Makes a tensor, or several, of tensors that are named as in `feeds`.
    feeds: What is fed.
    splits: How some of these are split.
    unknown: The dimensions that the graph does not know, by name.
    rtol: As in `np.testing.assert_allclose`.
    atol: As there; times the largest entry.
    gathers: How many tensors are read whole although they are split; None if
      that does not matter.
    order: Of the derivatives that are compared: gradients, or gradients of
      those, of which TensorFlow has some that are known to be 0.

  Returns:
    What the split graph gave.
  """
  plain = run(build, feeds, {}, unknown, order)
  split = run(build, feeds, splits, unknown, order)
  assert_same(test, split, plain, rtol, atol, order)
  if gathers is not None:
    test.assertEqual(split.num_gathers, gathers)
    test.assertCountEqual(split.split, splits)
  return split


def assert_same(
  test: Any,
  split: Results,
  plain: Results,
  rtol: float,
  atol: float,
  order: int = 1,
) -> None:
  """Asserts that a graph gave what the plain one gave; see `check`."""
  for ours, theirs in zip(split.values, plain.values, strict=True):
    _assert_close(ours, theirs, rtol, atol, "value")
  for name, theirs in plain.gradients.items():
    ours = split.gradients[name]
    if order == 1:
      test.assertEqual(ours is None, theirs is None, name)
    elif ours is None and theirs is not None:
      ours = np.zeros_like(theirs)
    if ours is not None and theirs is not None:
      _assert_close(ours, theirs, rtol, atol, name)


def _assert_close(ours, theirs, rtol, atol, name):
  scale = (
    np.max(np.abs(theirs)) if theirs.size and theirs.dtype.kind == "f" else 1
  )
  np.testing.assert_allclose(ours, theirs, rtol, atol * scale, err_msg=name)


def run(
  build: Callable[..., Any],
  feeds: Mapping[str, np.ndarray],
  splits: Mapping[str, VariableSplit],
  unknown: Mapping[str, Sequence[int]] = {},
  order: int = 1,
) -> Results:
  """Returns what a graph gives, split if something is to be; see `check`."""
  with tf.Graph().as_default():
    inputs, feed = {}, {}
    variables: dict[tf.Operation, VariableSplit] = {}
    for name, value in feeds.items():
      shape = [
        None if axis in unknown.get(name, ()) else size
        for axis, size in enumerate(value.shape)
      ]
      if name not in splits:
        inputs[name] = v1.placeholder(value.dtype, shape, name)
        feed[inputs[name]] = value
        continue
      variable = v1.get_variable(name, initializer=value, use_resource=True)
      variables[variable.op] = splits[name]
      read = variable.read_value()
      if None in shape:
        read = v1.placeholder_with_default(read, shape)
      inputs[name] = read
    outputs = tf.nest.flatten(build(**inputs))
    sources = {k: x for k, x in inputs.items() if x.dtype.is_floating}
    gradients: dict[str, Any] = {}
    targets = outputs
    for _ in range(order):
      gradients = _gradients(targets, sources)
      targets = [x for x in gradients.values() if x is not None]
    known = {k: x for k, x in gradients.items() if x is not None}
    fetches: Sequence[tf.Tensor] = [*outputs, *known.values()]
    num_gathers, split = None, []
    if variables:
      count = len(next(iter(splits.values())).sizes)
      names = [f"/device:CPU:{i}" for i in range(count)]
      devices.check_local_devices_exist(names)
      made = model_partitioner.ModelPartitioner([], count, lambda op: names)
      found = made.split(fetches, variables)
      fetches = found.fetches
      num_gathers = len({x.tensor for x in found.plan.gathers})
      split = [x.name for x in found.plan.variables]
    initialize = v1.global_variables_initializer()
    config = session_configs.config(device_count={"CPU": 4})
    with v1.Session(config=config) as session:
      session.run(initialize)
      values = session.run([*fetches], feed)
    own = dict(zip(known, values[len(outputs) :], strict=True))
    return Results(
      values[: len(outputs)],
      {k: own.get(k) for k in gradients},
      num_gathers,
      split,
    )


def _gradients(targets, sources):
  """Returns the gradients with respect to tensors, by their names."""
  # A weight for each entry, so that no gradient is a constant.
  targets = [
    tf.reduce_sum(x * tf.cos(_numbers(x)))
    for x in targets
    if x.dtype.is_floating
  ]
  if not targets:
    return dict.fromkeys(sources)
  found = v1.gradients(targets, [*sources.values()])
  return {
    name: None if x is None else tf.convert_to_tensor(x)
    for name, x in zip(sources, found, strict=True)
  }


def _numbers(x):
  """Returns the number of each entry."""
  numbers = tf.range(tf.size(x, out_type=tf.int32))
  return tf.cast(tf.reshape(numbers, tf.shape(x)), x.dtype)
