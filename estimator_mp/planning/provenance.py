"""Provenance: decisions of passes on ops, which ops that they make inherit."""

import dataclasses

from compat.private import graph_reads

import tensorflow as tf


@dataclasses.dataclass
class Provenance:
  """The facts of the ops of a graph that several passes rewrite.

  Attributes:
    marks: The ops that mark a gradient to be summed over processes; whether
      they mark rows.
    stages: The stages of ops.
    backward: The ops that come after the forward pass.
    parts: The numbers of ops, and of variables, on the axis that variables are
      split over.
    of_gradients: The ops that were made in the place of ops of gradients.
  """

  marks: dict[tf.Operation, bool]
  stages: dict[tf.Operation, int] = dataclasses.field(default_factory=dict)
  backward: set[tf.Operation] = dataclasses.field(default_factory=set)
  parts: dict[tf.Operation, int] = dataclasses.field(default_factory=dict)
  of_gradients: set[tf.Operation] = dataclasses.field(default_factory=set)

  def inherit(
    self, op: tf.Operation, original: tf.Operation, part: int | None = None
  ) -> None:
    """Lets an op have all that is known of another one.

    Args:
      op: The op.
      original: The op for which it was made.
      part: The number of its own, if it is one of several parts.
    """
    if part is None:
      part = self.parts.get(original)
    if part is not None:
      self.parts[op] = part
    if original in self.stages:
      self.stages[op] = self.stages[original]
    if original in self.backward:
      self.backward.add(op)
    if original in self.of_gradients or graph_reads.is_of_gradient(original):
      self.of_gradients.add(op)
    if original in self.marks and op.type == original.type:
      self.marks[op] = self.marks[original]
