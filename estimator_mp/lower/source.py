"""The source of parts: a finished graph, and how its ops are executed."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from estimator_mp.analysis.symbolic_shapes import SymbolicShapes
from estimator_mp.capture.examples import UNCHECKED, Examples
from estimator_mp.graph.frames import Frames
from estimator_mp.pipeline.batched_gradients import BatchedGradient
from estimator_mp.propagate.layouts import Layouts

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Source:
  """A graph whose ops are made for the parts of an axis.

  Attributes:
    graph: The finished graph of model_fn.
    shapes: The sizes of its tensors.
    layouts: Their layouts over the parts.
    frames: The loops that ops are in.
    measured: An input, and its dimension of examples; None if no input has any.
    of_inputs: Ops that depend on inputs alone: a reader of a whole result reads
      the plain op.
    examples: The examples of the batch, or of those of replicas, if steps check
      their number; else it is that of `measured`.
    batched: By the names of sums of slices, the gradients that several slices
      make at once.
    mirror_of: Returns a replica's mirror of a tensor that is computed once.
    order_of: Returns the order in which a replica's slices, counted from 0,
      make an op's results, and in which these are added up; None for that of
      their numbers.
  """

  graph: tf.Graph
  shapes: SymbolicShapes
  layouts: Layouts
  frames: Frames
  measured: tuple[tf.Tensor, int] | None
  of_inputs: frozenset[tf.Operation] = frozenset()
  examples: Examples = UNCHECKED
  batched: Mapping[str, BatchedGradient] = dataclasses.field(
    default_factory=dict
  )
  mirror_of: Callable[[tf.Tensor, int], tf.Tensor] = lambda tensor, _: tensor
  order_of: Callable[[tf.Operation], Sequence[int]] | None = None
