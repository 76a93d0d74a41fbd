"""Input pieces: the batches of replicas whose input_fn gives each its own.

An Estimator hands model_fn one batch. If every task reads its own part of the
data, that batch is the concat of those that the replicas' tasks have read:

    task 0    batch of replica 0 --.
    task 1    batch of replica 1 --+-- concat: features of the whole batch
    task 2    batch of replica 2 --'

An op that reads the concat gets all examples, from all tasks. The replicas'
slices are cut from the pieces instead, each where it was read; then nobody
reads the concat, a session leaves it out, and no batch goes from task to task.
"""

import dataclasses
import weakref
from collections.abc import Sequence
from typing import Any

from estimator_mp.capture import nested_inputs
from estimator_mp.config.sharding_options import BatchAxis
from estimator_mp.graph import batch_inputs

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class _Piece:
  """A piece, without a reference to its graph.

  Attributes:
    names: The names of its tensors.
    spec: The type that they are the components of, such as a sparse tensor.
  """

  names: tuple[str, ...]
  spec: tf.TypeSpec


@dataclasses.dataclass(frozen=True)
class _Joined:
  """An input that was joined.

  Attributes:
    axis: The axis of its examples.
    pieces: The pieces that it was made of.
  """

  axis: int
  pieces: tuple[_Piece, ...]


# By the names of the tensors of the whole.
_joined: weakref.WeakKeyDictionary[tf.Graph, dict[tuple[str, ...], _Joined]] = (
  weakref.WeakKeyDictionary()
)


def join(batches: Sequence[Any], batch_axis: Sequence[BatchAxis] = ()) -> Any:
  """Returns one batch of several, and remembers these.

  Args:
    batches: Features and labels of each replica, all nested in the same way, in
      the order of the replicas.
    batch_axis: As for `micro_batches.inputs_with_examples`.

  Returns:
    The same structure, with the examples of all batches in their order.

  Raises:
    ValueError: If something in a batch has no examples.
  """
  leaves = [nested_inputs.leaves(batch) for batch in batches]
  with tf.compat.v1.name_scope("estimator_mp/input"):
    wholes = [
      _join_input(pieces[0][0], [piece for _, piece in pieces], batch_axis)
      for pieces in zip(*leaves, strict=True)
    ]
  return nested_inputs.rebuilt(batches[0], iter(wholes))


def _join_input(
  name: str, pieces: Sequence[Any], batch_axis: Sequence[BatchAxis]
) -> Any:
  """Returns the concat of an input's pieces."""
  axis = nested_inputs.axis_of(name, pieces[0], batch_axis)
  if axis is None:
    raise ValueError(
      f"{name} holds no examples, but input_fn gives each of {len(pieces)} "
      "replicas one of its own, and the whole batch has only one; let model_fn "
      "make it, or leave input_context out of input_fn's arguments"
    )
  if isinstance(pieces[0], tf.SparseTensor):
    whole = tf.sparse.concat(axis, pieces, expand_nonconcat_dims=True)
  else:
    whole = tf.concat(pieces, axis)
  graph = tf.compat.v1.get_default_graph()
  _joined.setdefault(graph, {})[_names(whole)] = _Joined(
    axis,
    tuple(_Piece(_names(x), tf.type_spec_from_value(x)) for x in pieces),
  )
  return whole


def pieces_of(entry: batch_inputs.Input) -> tuple[Any, ...] | None:
  """Returns the pieces that an input was joined of.

  Args:
    entry: One of the features or labels of the default graph.

  Returns:
    The pieces; None if it is nothing that `join` made, or has its examples on
    another axis.
  """
  graph = tf.compat.v1.get_default_graph()
  joined = _joined.get(graph, {}).get(_names(entry.value))
  if joined is None or joined.axis != entry.axis:
    return None
  return tuple(_tensor(piece, graph) for piece in joined.pieces)


def _names(value: Any) -> tuple[str, ...]:
  """Returns the names of the components of a tensor, whatever its class."""
  parts = tf.nest.flatten(value, expand_composites=True)
  return tuple(part.name for part in parts)


def _tensor(piece: _Piece, graph: tf.Graph) -> Any:
  """Returns a piece."""
  parts = [graph.get_tensor_by_name(name) for name in piece.names]
  return tf.nest.pack_sequence_as(piece.spec, parts, expand_composites=True)
