"""Sinks a graph of a test, and compares it with the plain one.

    check(test, lambda x, w: tf.matmul(x, w), {"x": x, "w": w},
          {"w": Split(1, (3, 2))})

feeds `x` and the parts of `w` through placeholders, and compares values and
gradients with those of the plain graph.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from estimator_mp import devices
from estimator_mp.graph import ledger
from estimator_mp.lower.splitting import operands, part_ops
from estimator_mp.model_axis import inference
from estimator_mp.model_axis.decisions import Shard, Table
from estimator_mp.model_axis.rules import table as table_lib
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
    inferred: What became of its ops; None for the plain graph.
    devices: The device of each op that was made for parts, by its name.
  """

  values: list[np.ndarray]
  gradients: dict[str, np.ndarray | None]
  inferred: inference.Inferred | None = None
  devices: Mapping[str, str] = dataclasses.field(default_factory=dict)


def check(
  test: Any,
  build: Callable[..., Any],
  feeds: Mapping[str, np.ndarray],
  splits: Mapping[str, Shard],
  unknown: Mapping[str, Sequence[int]] = {},
  rtol: float = 1e-6,
  atol: float = 1e-6,
  table: Table = table_lib.TABLE,
  gathers: int | None = 0,
  order: int = 1,
) -> Results:
  """Asserts that a sunk graph gives what the plain one gives.

  Args:
    test: The test.
    build: Makes a tensor, or several, of tensors that are named as in `feeds`.
    feeds: What is fed.
    splits: How some of these are split.
    unknown: The dimensions that the graph does not know, by name.
    rtol: As in `np.testing.assert_allclose`.
    atol: As there; times the largest entry.
    table: The rules.
    gathers: How many tensors are read whole although they are split; None if
      that does not matter.
    order: Of the derivatives that are compared: gradients, or gradients of
      those, of which TensorFlow has some that are known to be 0.

  Returns:
    What the sunk graph gave.
  """
  plain = run(build, feeds, {}, unknown, table, order)
  sunk = run(build, feeds, splits, unknown, table, order)
  assert_same(test, sunk, plain, rtol, atol, order)
  if gathers is not None and sunk.inferred is not None:
    test.assertLen(sunk.inferred.gathers, gathers, sunk.inferred.gathers)
  return sunk


def assert_same(
  test: Any,
  sunk: Results,
  plain: Results,
  rtol: float,
  atol: float,
  order: int = 1,
) -> None:
  """Asserts that a graph gave what the plain one gave; see `check`."""
  for ours, theirs in zip(sunk.values, plain.values, strict=True):
    _assert_close(ours, theirs, rtol, atol, "value")
  for name, theirs in plain.gradients.items():
    ours = sunk.gradients[name]
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
  splits: Mapping[str, Shard],
  unknown: Mapping[str, Sequence[int]] = {},
  table: Table = table_lib.TABLE,
  order: int = 1,
) -> Results:
  """Returns what a graph gives, sunk if something is split; see `check`."""
  with tf.Graph().as_default() as graph, v1.device("/device:CPU:0"):
    inputs, feed = {}, {}
    of_graph = ledger.Ledger(graph)
    maker = operands.Operands(table, lambda op: names, of_graph)
    names = [f"/device:CPU:{i}" for i in range(4)]
    for name, value in feeds.items():
      shape = [
        None if axis in unknown.get(name, ()) else size
        for axis, size in enumerate(value.shape)
      ]
      inputs[name] = v1.placeholder(value.dtype, shape, name)
      split = splits.get(name)
      if split is None:
        feed[inputs[name]] = value
        continue
      names = names[: len(split.sizes)]
      pieces = np.split(value, split.offsets[1:], split.axis)
      parts = []
      for i, piece in enumerate(pieces):
        shape[split.axis] = piece.shape[split.axis]
        with v1.device(names[i]):
          parts.append(v1.placeholder(value.dtype, shape, f"{name}_{i}"))
        feed[parts[-1]] = piece
      maker.add(inputs[name], split, parts)
    start = len(graph.get_operations())
    outputs = tf.nest.flatten(build(**inputs))
    ops = graph.get_operations()[start:]
    inferred = None
    if splits:
      known = {inputs[name].name: split for name, split in splits.items()}
      inferred = inference.Inference(ops, table).infer({}, known)
      part_ops.PartOps(maker).apply(ops, inferred)
    made = {op.name: op.device for op in graph.get_operations()[start:]}
    wholes = [maker.whole(x) for x in outputs]
    sources = {
      name: maker.parts.get(tensor.name, [tensor])
      for name, tensor in inputs.items()
      if tensor.dtype.is_floating
    }
    gradients: dict[str, Any] = {}
    targets = wholes
    for _ in range(order):
      gradients = _gradients(targets, sources, splits)
      targets = [x for x in gradients.values() if x is not None]
    config = session_configs.config(device_count={"CPU": 4})
    devices.check_local_devices_exist(names)
    with v1.Session(config=config) as session:
      fetched = {k: v for k, v in gradients.items() if v is not None}
      values, found = session.run([wholes, fetched], feed)
    return Results(values, {k: found.get(k) for k in gradients}, inferred, made)


def _gradients(targets, sources, splits):
  """Returns the gradients with respect to whole tensors, by their names."""
  # A weight for each entry, so that no gradient is a constant.
  targets = [
    tf.reduce_sum(x * tf.cos(_numbers(x)))
    for x in targets
    if x.dtype.is_floating
  ]
  gradients = {}
  for name, tensors in sources.items():
    found = v1.gradients(targets, tensors) if targets else [None]
    if found[0] is None:
      gradients[name] = None
    else:
      axis = splits[name].axis if name in splits else 0
      dense = [tf.convert_to_tensor(x) for x in found]
      gradients[name] = dense[0] if len(dense) == 1 else tf.concat(dense, axis)
  return gradients


def _numbers(x):
  """Returns the number of each entry."""
  numbers = tf.range(tf.size(x, out_type=tf.int32))
  return tf.cast(tf.reshape(numbers, tf.shape(x)), x.dtype)
