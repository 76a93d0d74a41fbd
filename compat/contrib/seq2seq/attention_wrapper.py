"""A cell that attends: AttentionWrapper."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any

from compat.contrib.seq2seq.memory import AttentionMechanism

import tensorflow as tf


def hardmax(logits: Any, name: str | None = None) -> tf.Tensor:
  """Returns 1 at the largest logit of the last axis, and 0 elsewhere.

  Args:
    logits: of any rank; the first of equal ones counts as the largest.
    name: of the operations.
  """
  with tf.compat.v1.name_scope(name, "Hardmax", [logits]):
    logits = tf.convert_to_tensor(logits)
    depth = logits.shape[-1] or tf.shape(logits)[-1]
    return tf.one_hot(tf.argmax(logits, -1), depth, dtype=logits.dtype)


class AttentionWrapperState(
  collections.namedtuple(
    "AttentionWrapperState",
    (
      "cell_state",
      "attention",
      "time",
      "alignments",
      "alignment_history",
      "attention_state",
    ),
  )
):
  """The state of an AttentionWrapper.

  Attributes:
    cell_state: of the wrapped cell.
    attention: the attention of the step before [batch, size].
    time: how many steps were taken; a scalar.
    alignments: of the step before [batch, memory]; with several mechanisms, a
      tuple of them. So are the next two.
    alignment_history: a TensorArray of alignments, or ().
    attention_state: of the mechanism.
  """

  def clone(self, **kwargs: Any) -> AttentionWrapperState:
    """Returns this state, with other values in it.

    Args:
      **kwargs: by the field's name, of the same shapes.

    Raises:
      ValueError: if a shape is another one.
    """

    def checked(old: Any, new: Any) -> Any:
      if not (tf.is_tensor(old) and tf.is_tensor(new)):
        return new
      if isinstance(new, tf.TensorArray):
        return new
      if not old.shape.is_compatible_with(new.shape):
        raise ValueError(
          f"clone() was given a tensor of the shape {new.shape} for one of the "
          f"shape {old.shape} in the AttentionWrapperState."
        )
      return tf.ensure_shape(new, old.shape)

    after = self._replace(**kwargs)
    cloned: AttentionWrapperState = tf.nest.map_structure(checked, self, after)
    return cloned


def compute_attention(
  attention_mechanism: Any,
  cell_output: tf.Tensor,
  attention_state: Any,
  attention_layer: Any,
) -> tuple[tf.Tensor, tf.Tensor, Any]:
  """Returns what a mechanism reads.

  Args:
    attention_mechanism: gives alignments for (query, state).
    cell_output: the query [batch, size].
    attention_state: of the mechanism.
    attention_layer: makes the attention of [query, context], or None.

  Returns:
    The attention [batch, size], the alignments [batch, memory], and the next
    state of the mechanism.
  """
  alignments, state = attention_mechanism(cell_output, state=attention_state)
  weights = tf.expand_dims(alignments, 1)
  context = tf.squeeze(tf.matmul(weights, attention_mechanism.values), [1])
  if attention_layer is None:
    return context, alignments, state
  attention = attention_layer(tf.concat([cell_output, context], 1))
  return attention, alignments, state


def _concatenated(inputs: tf.Tensor, attention: tf.Tensor) -> tf.Tensor:
  return tf.concat([inputs, attention], -1)


class AttentionWrapper(tf.compat.v1.nn.rnn_cell.RNNCell):
  """A cell that reads its last attention, and makes the next one.

  The attention of Luong et al. is the output; `output_attention=False` gives
  the cell's own, as with Bahdanau et al.
  """

  def __init__(
    self,
    cell: Any,
    attention_mechanism: Any,
    attention_layer_size: Any = None,
    alignment_history: bool = False,
    cell_input_fn: Callable[[Any, Any], Any] | None = None,
    output_attention: bool = True,
    initial_cell_state: Any = None,
    name: str | None = None,
    attention_layer: Any = None,
    attention_fn: Callable[..., Any] | None = None,
    dtype: Any = None,
  ):
    """Wraps a cell.

    Args:
      cell: an RNNCell.
      attention_mechanism: an AttentionMechanism, or a list of them.
      attention_layer_size: the size of a dense layer without bias on the cell's
        output and the context, "attention_layer/kernel"; one for each of
        several mechanisms. By default the context is the attention.
      alignment_history: whether the state keeps the alignments of all steps.
      cell_input_fn: makes the cell's input of (input, attention); their
        concatenation by default.
      output_attention: whether the attention is the output, or the cell's.
      initial_cell_state: what zero_state() gives as the cell's state; its batch
        size is that of zero_state().
      name: of the layer.
      attention_layer: a layer, or one for each mechanism, instead of
        attention_layer_size.
      attention_fn: computes the attention; compute_attention by default.
      dtype: of the layer.

    Raises:
      TypeError: if the cell is no cell, a mechanism no mechanism, or
        cell_input_fn no function.
      ValueError: if there are other numbers of layers and of mechanisms, or
        both attention_layer_size and attention_layer.
    """
    super().__init__(name=name, dtype=dtype)
    check_cell(cell)
    self._is_multi = isinstance(attention_mechanism, (list, tuple))
    mechanisms = (
      tuple(attention_mechanism) if self._is_multi else (attention_mechanism,)
    )
    for one in mechanisms:
      if not isinstance(one, AttentionMechanism):
        raise TypeError(
          f"attention_mechanism has {one!r}, which is no AttentionMechanism."
        )
    if cell_input_fn is not None and not callable(cell_input_fn):
      raise TypeError(f"cell_input_fn={cell_input_fn!r} is no function.")
    self._cell = cell
    self._attention_mechanisms = mechanisms
    self._cell_input_fn = cell_input_fn or _concatenated
    self._attention_fn = attention_fn or compute_attention
    self._output_attention = output_attention
    self._alignment_history = alignment_history
    self._attention_layers = _attention_layers(
      attention_layer_size, attention_layer, mechanisms
    )
    self._attention_layer_size = self._size_of_attention()
    with tf.compat.v1.name_scope(name, "AttentionWrapperInit"):
      # A layer wraps the tuples that it is given, and this one is handed out.
      object.__setattr__(
        self, "_initial_cell_state", self._checked_initial(initial_cell_state)
      )

  def _size_of_attention(self) -> int:
    sizes = [one.values.shape[-1] for one in self._attention_mechanisms]
    if self._attention_layers is None:
      return sum(sizes)
    return sum(
      int(layer.compute_output_shape([None, self._cell.output_size + size])[-1])
      for layer, size in zip(self._attention_layers, sizes, strict=True)
    )

  def _checked_initial(self, state: Any) -> Any:
    if state is None:
      return None
    last = tf.nest.flatten(state)[-1]
    batch_size = last.shape[0] or tf.shape(last)[0]
    message = (
      f"The initial_cell_state of AttentionWrapper {self._base_name} has "
      "another batch size than the memory. With a BeamSearchDecoder, give both "
      "through tile_batch."
    )
    with tf.control_dependencies(self._batch_size_checks(batch_size, message)):
      return tf.nest.map_structure(tf.identity, state)

  def _batch_size_checks(self, batch_size: Any, message: str) -> list[Any]:
    checks = [
      tf.compat.v1.assert_equal(batch_size, one.batch_size, message=message)
      for one in self._attention_mechanisms
    ]
    return [one for one in checks if one is not None]

  def _item_or_tuple(self, items: Sequence[Any]) -> Any:
    return tuple(items) if self._is_multi else items[0]

  @property
  def output_size(self) -> Any:
    """The size of the attention, or that of the cell's output."""
    if self._output_attention:
      return self._attention_layer_size
    return self._cell.output_size

  @property
  def state_size(self) -> AttentionWrapperState:
    """An AttentionWrapperState of sizes."""
    sizes = [one.alignments_size for one in self._attention_mechanisms]
    return AttentionWrapperState(
      cell_state=self._cell.state_size,
      time=tf.TensorShape([]),
      attention=self._attention_layer_size,
      alignments=self._item_or_tuple(sizes),
      attention_state=self._item_or_tuple(
        [one.state_size for one in self._attention_mechanisms]
      ),
      alignment_history=self._item_or_tuple(
        sizes if self._alignment_history else [()] * len(sizes)
      ),
    )

  def zero_state(self, batch_size: Any, dtype: Any) -> AttentionWrapperState:
    """Returns the state before the first step.

    Args:
      batch_size: that of the memory: with a BeamSearchDecoder, after
        tile_batch.
      dtype: of the state.
    """
    mechanisms = self._attention_mechanisms
    batch_size = tf.compat.v1.dimension_value(batch_size)
    with tf.name_scope(type(self).__name__ + "ZeroState"):
      if self._initial_cell_state is not None:
        cell_state = self._initial_cell_state
      else:
        cell_state = self._cell.zero_state(batch_size, dtype)
      message = (
        f"zero_state() of AttentionWrapper {self._base_name} was called with "
        "another batch_size than the memory's. With a BeamSearchDecoder it is "
        "batch_size * beam_width, and the memory goes through tile_batch."
      )
      checks = self._batch_size_checks(batch_size, message)
      with tf.control_dependencies(checks):
        cell_state = tf.nest.map_structure(tf.identity, cell_state)
      alignments = [
        one.initial_alignments(batch_size, dtype) for one in mechanisms
      ]
      return AttentionWrapperState(
        cell_state=cell_state,
        time=tf.zeros([], tf.int32),
        attention=tf.zeros([batch_size, self._attention_layer_size], dtype),
        alignments=self._item_or_tuple(alignments),
        attention_state=self._item_or_tuple(
          [one.initial_state(batch_size, dtype) for one in mechanisms]
        ),
        alignment_history=self._item_or_tuple(
          [self._history(one, dtype) for one in alignments]
        ),
      )

  def _history(self, alignments: tf.Tensor, dtype: Any) -> Any:
    if not self._alignment_history:
      return ()
    return tf.TensorArray(
      dtype, 0, dynamic_size=True, element_shape=alignments.shape
    )

  def call(
    self, inputs: tf.Tensor, state: AttentionWrapperState
  ) -> tuple[tf.Tensor, AttentionWrapperState]:
    """Takes one step.

    Args:
      inputs: [batch, size].
      state: of the step before.

    Returns:
      The output and the next state.

    Raises:
      TypeError: if the state is no AttentionWrapperState.
    """
    if not isinstance(state, AttentionWrapperState):
      raise TypeError(
        f"state={state!r} must be an AttentionWrapperState, from zero_state()."
      )
    cell_output, cell_state = self._cell(
      self._cell_input_fn(inputs, state.attention), state.cell_state
    )
    batch_size = cell_output.shape[0] or tf.shape(cell_output)[0]
    message = (
      f"A step of AttentionWrapper {self.name} has another batch size than the "
      "memory. With a BeamSearchDecoder, give the memory through tile_batch."
    )
    with tf.control_dependencies(self._batch_size_checks(batch_size, message)):
      cell_output = tf.identity(cell_output, name="checked_cell_output")
    before, histories = state.attention_state, state.alignment_history
    if not self._is_multi:
      before, histories = [before], [histories]
    layers = self._attention_layers or [None] * len(self._attention_mechanisms)
    steps = [
      self._attention_fn(mechanism, cell_output, attention_state, layer)
      for mechanism, attention_state, layer in zip(
        self._attention_mechanisms, before, layers, strict=True
      )
    ]
    attentions, alignments, after = zip(*steps, strict=True)
    attention = tf.concat(attentions, 1)
    if self._alignment_history:
      histories = [
        history.write(state.time, now)
        for history, now in zip(histories, alignments, strict=True)
      ]
    next_state = AttentionWrapperState(
      cell_state=cell_state,
      time=state.time + 1,
      attention=attention,
      alignments=self._item_or_tuple(alignments),
      attention_state=self._item_or_tuple(after),
      alignment_history=self._item_or_tuple(histories),
    )
    return (attention if self._output_attention else cell_output), next_state


def _attention_layers(
  sizes: Any, layers: Any, mechanisms: Sequence[Any]
) -> tuple[Any, ...] | None:
  """Returns a layer for each mechanism, or None."""
  if sizes is not None and layers is not None:
    raise ValueError("Give attention_layer_size or attention_layer, not both.")
  given = sizes if sizes is not None else layers
  if given is None:
    return None
  all_given = tuple(given) if isinstance(given, (list, tuple)) else (given,)
  if len(all_given) != len(mechanisms):
    what = "attention_layer" if sizes is None else "attention_layer_size"
    raise ValueError(
      f"{what} has {len(all_given)} values for {len(mechanisms)} "
      "mechanisms; give one for each."
    )
  if sizes is None:
    return all_given
  return tuple(
    tf.compat.v1.layers.Dense(
      size, name="attention_layer", use_bias=False, dtype=mechanism.dtype
    )
    for size, mechanism in zip(all_given, mechanisms, strict=True)
  )


def check_cell(cell: Any) -> None:
  """Raises TypeError unless something can be used as an RNNCell.

  Args:
    cell: a cell, or not.
  """
  wanted = ("output_size", "state_size", "zero_state")
  missing = [name for name in wanted if not hasattr(cell, name)]
  if missing or not callable(cell):
    missing += [] if callable(cell) else ["__call__"]
    raise TypeError(
      f"cell={cell!r} is no RNNCell: it has no {', '.join(missing)}."
    )
