"""The graph of a step: all facts of it, before any decision.

Planning and lowering both read it besides a plan: the ops that a step runs, its
inputs and outputs, sizes, loops, and dependencies.
"""

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from compat.private import graph_reads, op_registry
from estimator_mp.analysis.symbolic_shapes import (
  EXAMPLES,
  MEASURES,
  SymbolicShapes,
)
from estimator_mp.capture import examples as examples_lib
from estimator_mp.graph import batch_inputs, frames, op_types, traversal
from estimator_mp.graph.frames import Frames
from estimator_mp.sizes.polynomials import Polynomial

import numpy as np
import tensorflow as tf

Fetch: TypeAlias = tf.Tensor | tf.Operation


class StepGraph:
  """The finished graph of model_fn, as far as a step runs it.

  Attributes:
    graph: The graph.
    inputs: Features and labels with a dimension of examples.
    fetches: The fetches of a step: the loss and the train op, or results.
    examples: The examples of the batch.
    ops: The ops of a step, each after those that it reads.
    frames: The loops that ops are in.
    shapes: The sizes of tensors.
    of_examples: The tensors of the inputs.
    depends: The ops that depend on these.
    of_inputs: Those that depend on inputs alone, on no state and no draw.
    updates: Ops that depend on gradients, and no gradient on them.
  """

  def __init__(
    self,
    inputs: Sequence[batch_inputs.Input],
    fetches: Sequence[Fetch],
    examples: examples_lib.Examples,
    earlier: Collection[tf.Operation],
    gradients: Collection[tf.Operation],
    is_per_example: Callable[[tf.Operation], bool],
    num_examples: int | None = None,
  ):
    """Reads the graph.

    Args:
      inputs: Features and labels with a dimension of examples.
      fetches: The fetches of a step.
      examples: The examples of the batch.
      earlier: The ops from before model_fn was called, and checks.
      gradients: Ops in the place of ops of gradients, such as inlined ones.
      is_per_example: Whether the user says that an op computes each example by
        itself.
      num_examples: The number of examples, as if the graph knew it.
    """
    self.graph = fetches[0].graph
    self.inputs = inputs
    self.fetches = fetches
    self.examples = examples
    every = self.graph.get_operations()
    live = traversal.ops_run_with(*fetches)
    self.frames = Frames(every)
    self.ops = frames.in_order([op for op in every if op in live], self.frames)
    self.shapes = SymbolicShapes(
      inputs, self.frames, is_per_example, num_examples
    )
    self.shapes.add(self.ops)
    self.of_examples: list[tf.Tensor] = tf.nest.flatten(
      [x.value for x in inputs], expand_composites=True
    )
    self._earlier = earlier
    self._gradients = gradients
    self.of_inputs = self._find_of_inputs()
    starts = [tensor.op for tensor in self.of_examples]
    self.depends = set(traversal.descendants(starts, every))
    self.updates = self._find_updates()

  @property
  def dense(self) -> list[batch_inputs.Input]:
    """The inputs that slices are cut of."""
    composites = batch_inputs.COMPOSITES
    return [x for x in self.inputs if not isinstance(x.value, composites)]

  @property
  def measured(self) -> tuple[tf.Tensor, int] | None:
    """An input, and its dimension of examples; None without inputs."""
    return next(((x.value, x.axis) for x in self.dense), None)

  def of_model(self) -> list[tf.Operation]:
    """Returns the ops of the graph that are not of the input."""
    of_input = traversal.ops_run_with(*self.of_examples).union(self._earlier)
    return [op for op in self.graph.get_operations() if op not in of_input]

  def _find_updates(self) -> set[tf.Operation]:
    gradients = [
      op
      for op in self.ops
      if op in self._gradients or graph_reads.is_of_gradient(op)
    ]
    behind = traversal.descendants(gradients, self.ops)
    before = set(traversal.ancestors(gradients, self.ops))
    return {op for op in behind if op not in before and op.type != "AddN"}

  def _find_of_inputs(self) -> set[tf.Operation]:
    """Returns ops that depend on inputs alone.

    Sizes of a model's tensors are those, too, if they follow from sizes of
    inputs: the number of losses, say, waits for no loss.
    """
    of_inputs = set(traversal.ops_run_with(*self.of_examples))
    for op in self.ops:
      is_stateful = op_registry.definition_of(op).is_stateful
      has_state = is_stateful and op.type != "Assert"
      if has_state or op.type in op_types.RANDOM:
        continue
      if all(x in of_inputs for x in traversal.sources(op)) or (
        op.type in MEASURES and self._is_of_sizes(op, of_inputs)
      ):
        of_inputs.add(op)
    return of_inputs

  def _is_of_sizes(
    self, op: tf.Operation, of_inputs: Collection[tf.Operation]
  ) -> bool:
    """Whether sizes follow from those of tensors that inputs alone make."""
    awaited = all(x in of_inputs for x in op.control_inputs)
    if not awaited or self.frames.loop(op) is not None:
      return False
    if any(map(self.shapes.is_container, op.inputs)):
      return False  # An op that is not of inputs reads no list of slices.
    values = [self.shapes.value(tensor) for tensor in op.outputs]
    if any(value is None for value in values):
      return False
    sizes = [size for value in values for size in np.ravel(value)]
    symbols = {
      symbol
      for size in sizes
      if isinstance(size, Polynomial)
      for symbol in size.symbols - {EXAMPLES}
    }
    origins = [self.shapes.origins[symbol].tensor for symbol in symbols]
    return all(
      traversal.tensor_of_name(self.graph, name).op in of_inputs
      for name in origins
    )
