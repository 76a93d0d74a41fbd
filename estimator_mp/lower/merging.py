"""Merging: what the rest of the graph reads of slices.

The slice is cloned for each micro-batch and replica; a summary, a counter, the
moving averages of batch normalisation or the loss that the Estimator reports
are there once. They read the whole batch's value (see `merges`), made here.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence

from compat.private import graph_edits, graph_reads
from estimator_mp import devices as devices_lib
from estimator_mp.capture import micro_batches
from estimator_mp.graph import clones as clones_lib
from estimator_mp.graph import op_types
from estimator_mp.pipeline import example_axes, merges
from estimator_mp.pipeline.merges import Merge
from estimator_mp.plan import outputs

import numpy as np
import tensorflow as tf


class NoMergeError(ValueError):
  """The whole batch's value of a tensor cannot be made of slices."""


class Merger:
  """Makes the whole batch's values, each of them once."""

  def __init__(
    self,
    clones: clones_lib.Clones,
    batches: micro_batches.MicroBatches,
    axes: example_axes.ExampleAxes,
    rules: merges.MergeRules,
  ):
    """Starts with nothing merged.

    Args:
      clones: What stands for a tensor in the further slices.
      batches: The slices of the inputs.
      axes: Where tensors have their examples.
      rules: How tensors are merged.
    """
    self._clones = clones
    self._batches = batches
    self._axes = axes
    self._rules = rules
    self._merged: dict[tuple[str, Merge], tf.Tensor] = {}
    self._statistics: dict[str, tf.Tensor] = {}
    self._ops: dict[tuple[str, bool], tf.Operation] = {}
    self._size: tf.Tensor | None = None
    self._inputs: dict[str, tf.Tensor] = {}
    self._sources: dict[str, tf.Tensor] = {}
    for entry in batches.cut:
      first, whole = (
        tf.nest.flatten(x, expand_composites=True)
        for x in (entry.slices[0], entry.whole)
      )
      self._inputs |= {x.name: y for x, y in zip(first, whole, strict=True)}

  @property
  def merges(self) -> dict[str, Merge]:
    """How tensors of the first slice were merged, by their names."""
    return {name: how for name, how in self._merged}

  def stand_for(self, tensor: tf.Tensor, source: tf.Tensor) -> None:
    """Says that the whole batch's values of two tensors are the same.

    Args:
      tensor: A tensor of the first slice.
      source: What it was made of.
    """
    self._sources[tensor.name] = source

  def merge(self, tensor: tf.Tensor, how: Merge | None = None) -> tf.Tensor:
    """Returns the whole batch's value of a tensor.

    Args:
      tensor: A tensor of the first slice, or one that all slices share.
      how: How, if not as the graph tells.

    Raises:
      NoMergeError: If it cannot be made.
    """
    tensor = self._sources.get(tensor.name, tensor)
    if how in (None, Merge.CONCAT) and tensor.name in self._inputs:
      return self._inputs[tensor.name]
    if tensor not in self._clones:
      return tensor
    how = self._rules.of(tensor) if how is None else how
    key = (tensor.name, how)
    if key not in self._merged:
      if how is Merge.AGAIN:
        merged = self._again(tensor)
      elif how is Merge.FIRST:
        merged = tensor
      else:
        with outside(tensor.device, tensor.dtype):
          merged = self._combined(tensor, how)
      self._merged[key] = merged
    return self._merged[key]

  def _combined(self, tensor: tf.Tensor, how: Merge) -> tf.Tensor:
    """Returns what the slices' tensors make together."""
    copies = [tensor, *self._clones.of(tensor)]
    if how is Merge.MEAN:
      return _weighted_sum(copies, self._batches.mean_weights)
    if how in (Merge.SUM, Merge.COUNT):
      return _weighted_sum(copies, self._batches.sum_weights)
    if how is Merge.CONCAT:
      return self._concatenated(tensor, copies)
    reductions = {
      Merge.MAX: tf.reduce_max,
      Merge.MIN: tf.reduce_min,
      Merge.ALL: tf.reduce_all,
      Merge.ANY: tf.reduce_any,
    }
    if how not in reductions:
      raise NoMergeError(f"{tensor.name} is {how.value}")
    return reductions[how](tf.stack(copies), 0)

  def _concatenated(
    self, tensor: tf.Tensor, copies: Sequence[tf.Tensor]
  ) -> tf.Tensor:
    """Returns the slices' examples, one after another."""
    layout = self._axes.of(tensor)
    axis = layout.axis or 0
    if not tf.is_tensor(self._batches.sum_weights[0]):
      return tf.concat(copies, axis)
    # Slices without examples come last, and have a stand-in, which is no part
    # of the batch.
    if layout.axis is not None:
      sizes = [-1] * tensor.shape.rank
      sizes[axis] = layout.per_example * self._num_examples()
      begin = [0] * tensor.shape.rank
      return tf.slice(tf.concat(copies, axis), begin, tf.stack(sizes))
    pieces = []
    for copy, weight in zip(copies, self._batches.sum_weights, strict=True):
      size = tf.shape(copy)[axis] * tf.cast(weight, tf.int32)
      pieces.append(tf.gather(copy, tf.range(size), axis=axis))
    return tf.concat(pieces, axis)

  def _again(self, tensor: tf.Tensor) -> tf.Tensor:
    """Returns what the op of a tensor makes of the merged inputs."""
    op = tensor.op
    if op.op_def.is_stateful or graph_reads.outermost_loop(op) is not None:
      raise NoMergeError(f"{tensor.name} is made by {op.type}, which has state")
    if op.type.startswith(op_types.LARGE_WORK):
      raise NoMergeError(f"{tensor.name} is made by {op.type}")
    return self._redone(tensor, [self.merge(x) for x in op.inputs], False)

  def statistic(self, tensor: tf.Tensor) -> tf.Tensor:
    """Returns the whole batch's value of what the model's inputs make.

    Unlike `merge` it waits for no slice, so slices can wait for it.

    Args:
      tensor: A tensor for which `MergeRules.is_statistic`.

    Raises:
      NoMergeError: If it cannot be made.
    """
    if tensor.name in self._inputs:
      return self._inputs[tensor.name]
    if self._rules.is_size_of_slice(tensor):
      raise NoMergeError(f"{tensor.name} was built for the size of a slice")
    if self._rules.of(tensor) is Merge.FIRST:
      return tensor
    if tensor.name not in self._statistics:
      op = tensor.op
      made = self._of_shape(tensor)
      if made is None:
        inputs = [self.statistic(x) for x in op.inputs]
        made = self._redone(tensor, inputs, True)
      self._statistics[tensor.name] = made
    return self._statistics[tensor.name]

  def _of_shape(self, tensor: tf.Tensor) -> tf.Tensor | None:
    """Returns what an op makes of the shape that a tensor has in the whole."""
    op = tensor.op
    if op.type not in ("OnesLike", "Shape", "Size", "ZerosLike"):
      return None
    if self._rules.is_statistic(op.inputs[0]):
      return None
    with outside(tensor.device, tensor.dtype):
      shape = self._whole_shape(op.inputs[0])
      if op.type == "Shape":
        return tf.cast(shape, tensor.dtype)
      if op.type == "Size":
        return tf.cast(tf.reduce_prod(shape), tensor.dtype)
      return tf.fill(shape, tf.cast(int(op.type == "OnesLike"), tensor.dtype))

  def _whole_shape(self, tensor: tf.Tensor) -> tf.Tensor:
    layout = self._axes.of(tensor)
    sizes: list[int | tf.Tensor | None] = (
      [None] if tensor.shape.rank is None else tensor.shape.as_list()
    )
    if layout.axis is not None:
      sizes[layout.axis] = layout.per_example * self._num_examples()
    if None in sizes or layout.kind not in (
      example_axes.Kind.NONE,
      example_axes.Kind.ROWS,
    ):
      raise NoMergeError(f"{tensor.name} has no shape that the graph knows")
    return tf.stack(sizes)

  def _num_examples(self) -> tf.Tensor:
    """Returns the number of examples of the whole batch."""
    if self._size is None:
      whole = self._batches.whole
      size = whole.checked if whole.known is None else whole.known
      self._size = tf.cast(size, tf.int32)
    return self._size

  def _redone(
    self, tensor: tf.Tensor, inputs: Sequence[tf.Tensor], is_statistic: bool
  ) -> tf.Tensor:
    """Returns a tensor as its op makes it of other inputs."""
    op = tensor.op
    if op.type in op_types.MERGES:
      raise NoMergeError(
        f"{tensor.name} is of control flow of TensorFlow 1, as tf.where is not"
      )
    key = (op.name, is_statistic)
    if key not in self._ops:
      with outside(op.device):
        inputs = _with_larger_constants(op, inputs)
      try:
        self._ops[key] = _with_inputs(op, inputs)
      except ValueError as error:
        raise NoMergeError(
          f"{tensor.name} was built for the size of a slice"
        ) from error
    made = self._ops[key].outputs[op.outputs.index(tensor)]
    is_small = self._axes.of(tensor).kind is example_axes.Kind.NONE
    if is_small and not tensor.shape.is_compatible_with(made.shape):
      raise NoMergeError(f"{tensor.name} was built for the size of a slice")
    return made


def merge_outputs(
  merger: Merger, plan: outputs.Outputs, batches: micro_batches.MicroBatches
) -> None:
  """Makes ops read the whole batch's values instead of the first slice's.

  Args:
    merger: Makes the values.
    plan: Which ops, and how.
    batches: The slices of the inputs.

  Raises:
    ValueError: If a variable is updated from what cannot be merged.
  """
  for op in plan.summed:
    constant = op.inputs[1]
    with tf.compat.v1.device(op.device), tf.control_dependencies(None):
      whole = constant * tf.cast(len(batches.inputs), constant.dtype)
    graph_edits.replace_input(op, 1, whole)
  wholes = [_whole_of(merger, read, batches.size) for read in plan.reads]
  left = []
  for read, found in zip(plan.reads, wholes, strict=True):
    if found is None:
      left.append(read.op.name)
    else:
      fit = fitting(found, read.tensor)
      graph_edits.replace_input(read.op, read.index, fit)
  if left:
    tf.compat.v1.logging.warning(
      "%s see%s the first micro-batch only: the whole batch's value of what "
      "is read cannot be made of slices",
      ", ".join([*left[:3], *(["..."] if left[3:] else [])]),
      "" if left[1:] else "s",
    )


def _whole_of(
  merger: Merger, read: outputs.Output, size: int | None
) -> tf.Tensor | None:
  """Returns what an op is to read; None if nobody minds that it cannot."""
  tensor = read.tensor
  try:
    whole = merger.merge(tensor)
  except NoMergeError as error:
    if read.said is not None:
      return merger.merge(tensor, read.said)
    if read.changed:
      raise ValueError(outputs.unknown_update(read, error)) from error
    return None
  if read.is_fixed and not tensor.shape.is_compatible_with(whole.shape):
    if read.changed and read.said is not Merge.FIRST:
      raise ValueError(outputs.fixed_update(read, size))
    return None
  return whole


@contextlib.contextmanager
def outside(device: str, dtype: tf.DType | None = None) -> Iterator[None]:
  """Makes ops on a device, outside of all scopes and dependencies.

  Args:
    device: The device.
    dtype: That of what is made; texts are made in a host's memory.
  """
  if dtype == tf.string and device:
    device = devices_lib.host_of(device)
  with (
    tf.compat.v1.name_scope(None),
    tf.control_dependencies(None),
    tf.compat.v1.name_scope("estimator_mp/merge"),
    tf.compat.v1.device(None),
    tf.compat.v1.device(device),
  ):
    yield


def fitting(whole: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
  """Returns the whole batch's value as readers of a slice's may read it.

  Where the graph knows the size of a slice, TensorFlow lets nobody read a
  larger tensor instead; so the size is hidden.

  Args:
    whole: That value.
    tensor: The slice's.
  """
  if tensor.shape.is_compatible_with(whole.shape):
    return whole
  sizes = [
    size if size == other else None
    for size, other in zip(
      whole.shape.as_list(), tensor.shape.as_list(), strict=True
    )
  ]
  with outside(whole.device, whole.dtype):
    return tf.compat.v1.placeholder_with_default(whole, sizes)


def _weighted_sum(
  copies: Sequence[tf.Tensor], weights: Sequence[float | tf.Tensor]
) -> tf.Tensor:
  if not tf.is_tensor(weights[0]):
    total = tf.add_n(list(copies))
    if weights[0] == 1:
      return total
    return total * tf.constant(weights[0], total.dtype)
  return tf.add_n(
    [
      copy * tf.cast(weight, copy.dtype)
      for copy, weight in zip(copies, weights, strict=True)
    ]
  )


def _with_larger_constants(
  op: tf.Operation, inputs: Sequence[tf.Tensor]
) -> list[tf.Tensor]:
  """Returns inputs with constants as large as what they go with.

  `tf.zeros_like` makes a constant of the size of a slice if the graph knows it.

  Args:
    op: An op.
    inputs: What it is to read instead.
  """
  shapes = {
    tuple(old.shape.as_list()): new
    for old, new in zip(op.inputs, inputs, strict=True)
    if old is not new and old.shape.is_fully_defined()
  }
  found = list(inputs)
  for index, tensor in enumerate(inputs):
    if tensor is not op.inputs[index] or not tensor.shape.rank:
      continue
    other = shapes.get(tuple(tensor.shape.as_list()))
    value = tf.get_static_value(tensor) if other is not None else None
    if value is not None and value.size and np.all(value == value.flat[0]):
      found[index] = tf.fill(
        tf.shape(other), tf.constant(value.flat[0], tensor.dtype)
      )
  return found


def _with_inputs(op: tf.Operation, inputs: Iterable[tf.Tensor]) -> tf.Operation:
  """Returns an op like another, but for its inputs, beside it."""
  definition = tf.compat.v1.GraphDef()
  definition.versions.CopyFrom(op.graph.graph_def_versions)
  node = definition.node.add()
  node.CopyFrom(op.node_def)
  node.device = ""
  node.attr.pop("_class", None)
  del node.input[:]
  names = [f"input_{index}" for index in range(len(op.inputs))]
  node.input.extend(names)
  with outside(""):
    (made,) = tf.graph_util.import_graph_def(
      definition, dict(zip(names, inputs, strict=True)), [op.name], name="again"
    )
  if op.device:
    graph_edits.set_device(made, op.device)
  return made
