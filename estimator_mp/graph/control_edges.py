"""Control edges: those that ops are to have, laid over those of the graph."""

from collections.abc import Iterable

from estimator_mp.graph import traversal

import tensorflow as tf


class ControlEdges:
  """Planned control dependencies of ops.

  Attributes:
    replaced: The control inputs of ops that are to have others.
  """

  def __init__(self) -> None:
    """Starts with those of the graph."""
    self.replaced: dict[tf.Operation, list[tf.Operation]] = {}

  def of(self, op: tf.Operation) -> list[tf.Operation]:
    """Returns the control inputs of an op."""
    waits = self.replaced.get(op)
    return traversal.control_inputs(op) if waits is None else waits

  def sources(self, op: tf.Operation) -> list[tf.Operation]:
    """Returns the ops that one reads or waits for; see `traversal.sources`."""
    return [*traversal.inputs(op), *self.of(op)]

  def replace(self, op: tf.Operation, waits: Iterable[tf.Operation]) -> None:
    """Plans that an op waits for these alone."""
    self.replaced[op] = [*waits]


# Those of the graph.
OF_THE_GRAPH = ControlEdges()
