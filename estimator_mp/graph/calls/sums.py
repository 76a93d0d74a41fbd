"""Sums of lists of tensors, one call for each list that is added."""

from collections.abc import Sequence

from compat.private import graph_edits
from estimator_mp.graph.calls import contraction

import tensorflow as tf


def add_up(
  lists: Sequence[Sequence[tf.Tensor]], device: str
) -> tuple[list[tf.Tensor], list[tf.Operation]]:
  """Returns the sums of the first, second, ... tensors of lists.

  Lists are added one after the other.

  Args:
    lists: At least two, all as long, with the same dtypes.
    device: The device that adds.

  Returns:
    The sums, and the call that adds each list but the first.
  """
  first, second, *_ = lists
  with tf.Graph().as_default(), tf.device(device):
    pairs = [
      [tf.compat.v1.placeholder(x.dtype, x.shape) for x in pair]
      for pair in zip(first, second, strict=True)
    ]
    totals = [tf.add(*pair) for pair in pairs]
  order: list[str] = []

  def refer(tensor: tf.Tensor) -> str:
    order.append(tensor.name)
    return str(tensor.name)

  adds = [total.op for total in totals]
  call = contraction.call_of(
    "sum", device, adds, [op.node_def for op in adds], totals, refer
  )
  place = {
    x.name: (index, side)
    for index, pair in enumerate(pairs)
    for side, x in enumerate(pair)
  }
  definition = tf.compat.v1.GraphDef()
  definition.versions.CopyFrom(
    tf.compat.v1.get_default_graph().graph_def_versions
  )
  function = call.on(lambda x: x)
  outside = {x.name: x for x in first}
  before = [x.name for x in first]
  for number, added in enumerate(lists[1:], 1):
    outside |= {x.name: x for x in added}
    node = definition.node.add()
    node.CopyFrom(call.node)
    node.name = f"sum_{number}"
    node.attr["f"].func.name = function.signature.name
    del node.input[:]
    for name in order:
      index, side = place[name]
      node.input.append(added[index].name if side else before[index])
    before = [f"{node.name}:{index}" for index in range(len(first))]
  library = tf.compat.v1.GraphDef().library
  library.function.append(function)
  contraction.define(library)
  with (
    tf.compat.v1.name_scope(None),
    tf.compat.v1.device(None),
    tf.control_dependencies(None),
  ):
    made = graph_edits.import_ops(definition, outside, "aggregate/sums")
  calls = [made[node.name] for node in definition.node]
  return list(calls[-1].outputs), calls
