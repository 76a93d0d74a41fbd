"""Control edges: those that ops are to have, laid over those of the graph."""

from collections.abc import Iterable

from estimator_mp.graph import traversal

import tensorflow as tf


class ControlEdges:
  """Planned control dependencies of ops.

  Attributes:
    kept: The control inputs of the ops that are to lose some.
  """

  def __init__(self) -> None:
    """Starts with those of the graph."""
    self.kept: dict[tf.Operation, list[tf.Operation]] = {}

  def of(self, op: tf.Operation) -> list[tf.Operation]:
    """Returns what an op waits for."""
    kept = self.kept.get(op)
    return traversal.control_inputs(op) if kept is None else kept

  def sources(self, op: tf.Operation) -> list[tf.Operation]:
    """Returns what an op reads from or waits for; see `traversal.sources`."""
    return [*traversal.inputs(op), *self.of(op)]

  def keep(self, op: tf.Operation, waits: Iterable[tf.Operation]) -> None:
    """Plans that an op waits for these alone."""
    self.kept[op] = [*waits]


# Those of the graph.
OF_THE_GRAPH = ControlEdges()
