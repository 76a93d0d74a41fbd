"""Runs a graph of slice 0 once for each slice, with bridges done by hand.

A bridge passes slice 0's value on. Here it gets what it stands for: NumPy cuts,
joins and adds what the slices make, bridge by bridge. So a test of slice 0
needs no clones to compare it with the plain graph.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from estimator_mp.graph import traversal
from estimator_mp.lower.slicing import bridges as bridges_lib
from estimator_mp.lower.slicing.slices import Slice
from estimator_mp.plan.batch_plan import BY_SLICE, Rows
from estimator_mp.plan.bridge import Bridge, Kind

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def run(
  fetches: Any,
  bridges: bridges_lib.Bridges,
  of_slice: Slice,
  sizes: Sequence[int],
  feed: Mapping[tf.Tensor, Any],
) -> list[Any]:
  """Returns what each slice makes.

  Args:
    fetches: Tensors of slice 0, or such as are made once.
    bridges: The bridges of the graph.
    of_slice: Slice 0.
    sizes: How many examples each slice has; 0 of one that has the last example
      of the batch as a stand-in.
    feed: The whole batch.
  """
  feeds: list[dict[tf.Tensor, Any]] = []
  for size in sizes:
    feeds.append(dict(feed))
    if isinstance(of_slice.examples, tf.Tensor):
      feeds[-1][of_slice.examples] = max(size, 1)
    if of_slice.weight is not None:
      feeds[-1][of_slice.weight] = float(size > 0)
  config = v1.ConfigProto()  # Nothing runs twice.
  config.graph_options.rewrite_options.disable_meta_optimizer = True
  with v1.Session(config=config) as session:
    flat = tf.nest.flatten(fetches)
    for bridge in _in_order(bridges, [x.op for x in flat]):
      made = [session.run(bridge.source, x) for x in feeds]
      for one, value in zip(feeds, _values(bridge, made, sizes), strict=True):
        one[bridge.output] = value
    return [session.run(fetches, x) for x in feeds]


def _in_order(
  bridges: bridges_lib.Bridges, ops: Sequence[tf.Operation]
) -> list[Bridge]:
  """Returns the bridges that lead to ops, each after what it reads."""
  needed = traversal.in_order(traversal.ops_run_with(*ops))
  return [bridges.all[op.name] for op in needed if op.name in bridges.all]


def _values(
  bridge: Bridge, made: Sequence[Any], sizes: Sequence[int]
) -> Sequence[Any]:
  """Returns what a bridge stands for in each slice."""
  if bridge.kind is Kind.CUT:
    assert bridge.rows is not None
    pieces = _cut(made[0], bridge.rows, sizes)
    if bridge.request is None:
      return pieces
    # A stand-in has no gradient.
    return [x * (size > 0) for x, size in zip(pieces, sizes, strict=True)]
  if bridge.kind is Kind.JOIN:
    whole = np.concatenate(
      [
        x
        for x, size in zip(made, sizes, strict=True)
        if size or bridge.rows == BY_SLICE
      ],
      0 if bridge.rows is None else bridge.rows.axis,
    )
  else:
    whole = sum(made) if bridge.kind is Kind.SUM else made[0]
  return [whole] * len(sizes)


def _cut(whole: Any, rows: Rows, sizes: Sequence[int]) -> list[Any]:
  if rows == BY_SLICE:
    return [*np.split(whole, len(sizes))]
  assert rows.per_example is not None
  ends = np.cumsum(sizes)
  places = [
    [*range(end - size, end)] if size else [end - 1]
    for size, end in zip(sizes, ends, strict=True)
  ]
  each = [
    [row * rows.per_example + i for row in own for i in range(rows.per_example)]
    for own in places
  ]
  return [np.take(whole, own, rows.axis) for own in each]
