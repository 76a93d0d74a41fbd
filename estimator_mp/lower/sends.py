"""Sends: a placed graph is changed so that its devices send each other less."""

from collections.abc import Iterable, Sequence

from compat.private import graph_edits
from estimator_mp.graph import definitions, feeds
from estimator_mp.placement import half_sends, transfers

import tensorflow as tf


def reduce_transfers(savings: transfers.Savings) -> None:
  """Makes the default graph send less and compute the same.

  Args:
    savings: How; no session has run the graph yet.
  """
  with (
    tf.compat.v1.name_scope(None),
    tf.control_dependencies(None),
    tf.compat.v1.name_scope("estimator_mp/"),
  ):
    for shared in savings.shared_values:
      _redirect(shared.readers, shared.value)
    _copy_constants(savings.copied_constants)
    for stacked in savings.stacked_scalars:
      _stack_where_made(stacked)
    for joined in savings.joined_waits:
      _wait_once(joined)


def send_in_half(
  sends: Sequence[half_sends.HalfSend], dtype: tf.DType
) -> dict[tf.Operation, int]:
  """Casts the activations, and their gradients, that stages send.

  Args:
    sends: The activations that are sent.
    dtype: The dtype that they are sent in.

  Returns:
    The stages of the ops that were made.
  """
  stages: dict[tf.Operation, int] = {}
  narrow: dict[str, tf.Tensor] = {}
  with (
    tf.compat.v1.name_scope(None),
    tf.control_dependencies(None),
    tf.compat.v1.name_scope("estimator_mp/send/"),
  ):
    for send in sends:
      name = send.tensor.name
      if name not in narrow:
        narrow[name] = tf.cast(send.tensor, dtype)
        stages[narrow[name].op] = send.source
      wide = tf.cast(narrow[name], send.tensor.dtype)
      stages[wide.op] = send.destination
      _redirect(send.readers, wide)
  return stages


def _redirect(readers: Iterable[transfers.Reader], tensor: tf.Tensor) -> None:
  """Makes ops read a tensor."""
  for reader in readers:
    graph_edits.replace_input(reader.op, reader.index, tensor)


def _copy_constants(constants: Sequence[transfers.CopiedConstant]) -> None:
  """Gives devices copies of constants."""
  copies = definitions.Definitions(tf.compat.v1.get_default_graph())
  names: list[str] = []
  for copied in constants:
    feeds.prevent_feeding(copied.constant)
    attributes = copies.original(copied.constant).attr
    with copies.on(copied.device):
      name = copies.add(
        "Const",
        f"estimator_mp/{copied.constant.name}",
        value=attributes["value"],
        dtype=attributes["dtype"],
      )
    names.append(definitions.op_name(name))
  ops = copies.import_into_graph()
  for copied, name in zip(constants, names, strict=True):
    _redirect(copied.readers, ops[name].outputs[0])


def _stack_where_made(stacked: transfers.StackedScalars) -> None:
  """Stacks scalars of another device there, before they are sent."""
  op = stacked.op
  with tf.compat.v1.device(stacked.device):
    together = tf.stack([op.inputs[index] for index in stacked.indices])
  with tf.compat.v1.device(op.device):
    apart = tf.unstack(together)
  for index, scalar in zip(stacked.indices, apart, strict=True):
    graph_edits.replace_input(op, index, scalar)


def _wait_once(joined: transfers.JoinedWait) -> None:
  """Lets ops wait for one no-op in place of several ops."""
  join = joined.join
  if join is None:
    with (
      tf.compat.v1.device(joined.device),
      tf.control_dependencies(joined.stands_for),
    ):
      join = tf.no_op("all_done")
  for op in joined.waiting:
    others = [x for x in op.control_inputs if x not in joined.stands_for]
    graph_edits.set_control_inputs(op, [*others, join])
