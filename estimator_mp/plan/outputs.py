"""Outputs: what is there once for the whole batch, and reads of slices.

A counter, a metric, the moving averages of batch normalisation, a summary: they
are no part of any slice, and read the whole batch's value of what the first
slice has. How it is made the graph tells, or the user, for updates of
variables; what nobody tells is an error, or for a summary a warning.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence

from estimator_mp.graph import shapes, traversal
from estimator_mp.graph import variables as variables_lib
from estimator_mp.pipeline import effects
from estimator_mp.pipeline.merges import Merge
from estimator_mp.plan.slice_planner import SlicePlanner

import numpy as np
import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Output:
  """An input of an op that is to read the whole batch's value.

  Attributes:
    op: The op.
    index: Which of its inputs.
    changed: The names of the variables that it leads to, or of ops that have
      another effect; empty if it has none.
    said: How the user says that the value is made where the graph does not.
    is_fixed: Whether the op leads to what was built for the size of a slice.
  """

  op: tf.Operation
  index: int
  changed: tuple[str, ...]
  said: Merge | None
  is_fixed: bool

  @property
  def tensor(self) -> tf.Tensor:
    """What the op reads: a tensor of the first slice."""
    return self.op.inputs[self.index]


@dataclasses.dataclass(frozen=True)
class Outputs:
  """What is changed about the ops that are there once.

  Attributes:
    reads: What reads the whole batch's values.
    summed: Writes of variables whose constants count once for each slice.
  """

  reads: tuple[Output, ...]
  summed: tuple[tf.Operation, ...]


def plan_outputs(
  planner: SlicePlanner,
  readers: Sequence[tf.Operation],
  ends: Sequence[tf.Operation],
  is_repeated: Callable[[tf.Tensor], bool],
  slice_size: int | None,
  state_updates: Iterable[tuple[str, str]],
) -> Outputs:
  """Decides what the rest of the graph reads of slices.

  Args:
    planner: Says what slices are.
    readers: The ops that are there once, in the order of the graph.
    ends: What a training step runs.
    is_repeated: Whether each slice has a tensor of its own for one.
    slice_size: The examples of each slice, if the graph knows.
    state_updates: How the user says that what is written to variables is
      merged: expressions for their names, and "mean", "sum", "concat" or
      "first".

  Raises:
    ValueError: If a variable is changed by a constant that may be the size of a
      slice, and the user does not say.
  """
  words = [(name, Merge[how.upper()]) for name, how in state_updates]
  # What slices wait for cannot wait for them, if it reads the size of one.
  reads = [
    (op, index)
    for op in readers
    if op not in planner.shared
    for index, tensor in enumerate(op.inputs)
    if is_repeated(tensor)
  ]
  planner.axes.add([op.inputs[index] for op, index in reads])
  needed = effects.leading_to_effects(readers, ends)
  summed = _sums_of_constants(
    [op for op in readers if op in needed], slice_size, words
  )
  fixed: set[tf.Operation] = set()
  if slice_size is not None:  # Only then can the size be in constants.
    fixed = _built_for_slice(planner, readers, is_repeated)
  return Outputs(
    tuple(
      Output(
        op,
        index,
        tuple(needed.get(op, ())),
        _said(words, needed.get(op, ())),
        op in fixed,
      )
      for op, index in reads
    ),
    tuple(summed),
  )


def _sums_of_constants(
  ops: Iterable[tf.Operation],
  slice_size: int | None,
  words: Sequence[tuple[str, Merge]],
) -> list[tf.Operation]:
  """Asks the user what a constant is that a variable is changed by.

  Where the graph knows the size of a slice, `tf.shape` is a constant.
  """
  found = []
  size = slice_size or 1
  for op in ops if size > 1 else ():
    if not op.type.startswith("Assign") or len(op.inputs) < 2:
      continue
    value = shapes.evaluate(op.inputs[1], shapes.static_shape)
    if value is None or not np.any(value) or np.any(np.mod(value, size)):
      continue
    name = variables_lib.variable_of(op.inputs[0]).name
    how = _said(words, [name])
    if how is None:
      raise ValueError(
        f"{name} is changed by the constant {value}, which may be the number "
        f"of examples that model_fn saw ({size}, a part of the batch); let "
        "input_fn leave the size of a batch open, or say "
        f'state_updates=[("^{name}$", "sum")] if it is, or "first" if it is '
        "not"
      )
    if how is Merge.SUM:
      found.append(op)
  return found


def _built_for_slice(
  planner: SlicePlanner,
  readers: Sequence[tf.Operation],
  is_repeated: Callable[[tf.Tensor], bool],
) -> set[tf.Operation]:
  """Returns ops that lead to what cannot work for another size of a batch."""
  ends = [
    op
    for op in readers
    if any(planner.differs(x) for x in op.inputs)
    and not any(planner.differs(x) for x in op.outputs if x.consumers())
  ]
  known = [x for op in readers for x in op.inputs if is_repeated(x)]
  if planner.axes.fits_any_size(ends, known):
    return set()
  bad = [op for op in ends if not planner.axes.fits_any_size([op], known)]
  return set(traversal.ancestors(bad, within=readers))


def _said(
  words: Iterable[tuple[str, Merge]], variables: Iterable[str]
) -> Merge | None:
  """Returns how the user wants updates of variables to be merged."""
  for expression, merge in words:
    if any(re.search(expression, name) for name in variables):
      return merge
  return None


def unknown_update(output: Output, error: Exception) -> str:
  """Returns the text of an error.

  Args:
    output: What changes a variable.
    error: Why the whole batch's value cannot be made.
  """
  name = output.changed[0]
  return (
    f"{name} is updated from the batch, but the whole batch's value is not "
    f"known of micro-batches and replicas: {error}; say how to make it, such "
    f'as state_updates=[("^{name}$", "mean")] or "sum", "concat" or '
    '"first", or use num_micro_batches=1 and no data axis'
  )


def fixed_update(output: Output, size: int | None) -> str:
  """Returns the text of an error.

  Args:
    output: What changes a variable.
    size: The examples of a slice.
  """
  name = output.changed[0]
  return (
    f"{name} is updated from the batch, but what reads {output.tensor.name} "
    f"was built for {size} examples, a part of the batch; let input_fn leave "
    "the size of a batch open (no drop_remainder), or say "
    f'state_updates=[("^{name}$", "first")] to update it from the first '
    "part alone, or use num_micro_batches=1 and no data axis"
  )
