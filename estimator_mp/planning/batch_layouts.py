"""The layouts of a step over slices of its batch.

Inputs are the roots of the propagation. Ops on gradients, such as clipping,
read their sums, and so are no part of slices.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable

from estimator_mp.graph import op_types, random_ops
from estimator_mp.planning.step_graph import StepGraph
from estimator_mp.propagate.layouts import SLICE, Partition, Shard
from estimator_mp.propagate.propagation import Propagation, is_without_state
from estimator_mp.sizes import polynomials
from estimator_mp.sizes.polynomials import Polynomial, Size

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Options:
  """The user's options for slices.

  Attributes:
    is_per_example: Whether an op computes each example by itself.
    draws_per_slice: Whether slices draw random numbers of their own.
    norms_per_slice: Whether batch normalizations use the moments of a slice.
  """

  is_per_example: Callable[[tf.Operation], bool] = lambda op: False
  draws_per_slice: bool = False
  norms_per_slice: bool = False

  def with_per_example(self, ops: Collection[tf.Operation]) -> "Options":
    """Returns options with more ops that compute each example by itself."""
    return dataclasses.replace(
      self, is_per_example=lambda op: op in ops or self.is_per_example(op)
    )

  def draws(self, op: tf.Operation) -> bool:
    """Whether slices draw random numbers of their own in place of an op."""
    if not self.draws_per_slice:
      return False
    return random_ops.may_differ(op.node_def) or op.type in op_types.SEED_INPUTS


def over_slices(step: StepGraph, options: Options) -> Propagation:
  """Returns the layouts of a step that is cut into slices.

  Args:
    step: The graph of the step.
    options: The user's options for slices.
  """

  def may_be_in_parts(op: tf.Operation) -> bool:
    if _may_be_fed(step, op) or op in step.updates:
      return False
    return (
      is_without_state(op) or options.draws(op) or options.is_per_example(op)
    )

  # One example is in one slice, and each size of 1 could be of examples.
  is_cut = step.shapes.num_examples != 1
  return propagate(
    step, options, filter(may_be_in_parts, step.ops) if is_cut else ()
  )


def propagate(
  step: StepGraph, options: Options, able: Iterable[tf.Operation]
) -> Propagation:
  """Returns the layouts of a step over slices of its batch.

  Args:
    step: The graph of the step.
    options: The user's options for slices.
    able: Ops that slices may execute each for itself, if their rules say so.
  """
  shapes = step.shapes
  partition = Partition(shapes.num_examples, (polynomials.symbol(SLICE),))

  def starts(size: Size) -> Partition | None:
    if not isinstance(size, Polynomial) or not shapes.has_examples(size):
      return None
    return partition.of(size)

  def rows(tensor: tf.Tensor) -> Partition | None:
    shape = shapes.shape(tensor)
    if not shape or not shapes.has_examples(shape[0]):
      return None
    return partition.of(shape[0]) if tensor.op in step.depends else None

  roots = {x.value.name: Shard(x.axis, partition) for x in step.dense}
  for op in step.ops:
    # Slices are cut of its value, fed or not.
    if _may_be_fed(step, op):
      split = rows(op.outputs[0])
      if split is not None:
        roots[op.outputs[0].name] = Shard(0, split)
  layouts = Propagation(
    shapes,
    roots,
    frozenset(able),
    starts,
    rows,
    step.of_inputs,
    {x.name for x in step.fetches if isinstance(x, tf.Tensor)},
    step.frames,
    exchanged=() if options.norms_per_slice else ("n",),
    alone=("n",) if options.norms_per_slice else (),
    draws=lambda size: (
      partition if size == shapes.num_examples else starts(size)
    ),
  )
  layouts.run(step.ops)
  return layouts


def _may_be_fed(step: StepGraph, op: tf.Operation) -> bool:
  """Whether an op was made to be fed; in a loop it bounds rounds, say."""
  is_placeholder = op.type == "PlaceholderWithDefault"
  return is_placeholder and step.frames.loop(op) is None
