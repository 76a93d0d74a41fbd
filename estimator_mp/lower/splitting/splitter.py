"""The splitter: variables, and what is computed from them, in parts."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from compat.private import graph_edits
from estimator_mp.graph import ledger as ledger_lib
from estimator_mp.graph import op_types
from estimator_mp.lower.splitting import gradients as gradients_lib
from estimator_mp.lower.splitting import operands, outputs, part_ops, shards
from estimator_mp.lower.splitting.gradients import Sources
from estimator_mp.model_axis.rules.table import TABLE
from estimator_mp.model_axis.split_plan import SplitPlan
from estimator_mp.plan import split_planner

import tensorflow as tf


class Unsplit:
  """What stands for a `Splitter` on a mesh that splits no variable."""

  summary: SplitPlan | None = None

  def split(
    self,
    new: Sequence[tf.Operation],
    targets: Collection[tf.Operation] | None = None,
  ) -> Sequence[tf.Operation]:
    """Leaves ops as they are."""
    return ()

  def is_replaced(self, op: tf.Operation) -> bool:
    """Returns that it is not."""
    return False

  def whole(self, tensor: tf.Tensor) -> tf.Tensor:
    """Returns the tensor."""
    return tensor

  def expand(self, sources: list[Any]) -> Sources:
    """Returns the sources."""
    return Sources.of(sources)

  def read_wholes(self, gradients: Sequence[tf.Operation]) -> bool:
    """Leaves ops as they are."""
    return False

  def without_lookups(
    self, sources: Sources, gradients: Sequence[Any]
  ) -> tuple[Sources, list[Any]]:
    """Returns both."""
    return sources, list(gradients)

  def contract(self, sources: Sources, gradients: Sequence[Any]) -> list[Any]:
    """Returns the gradients."""
    return list(gradients)

  def split_late(self) -> None:
    """Splits nothing."""

  def split_now(self) -> None:
    """Splits nothing."""

  def finish(
    self, spec: tf.estimator.EstimatorSpec
  ) -> tf.estimator.EstimatorSpec:
    """Returns the spec."""
    return spec


class Splitter:
  """Splits the variables of one graph, and what is computed from them."""

  def __init__(
    self,
    planner: split_planner.SplitPlanner,
    devices_of: Callable[[tf.Operation], Sequence[str]],
    ledger: ledger_lib.Ledger,
  ):
    """Starts with nothing split.

    Args:
      planner: Decides what is.
      devices_of: Returns the devices of the parts of an op of the model.
      ledger: Says for which op of the model something was made.
    """
    self._planner = planner
    self._num_seen = 0  # Ops, when model_fn had returned.
    self._tensors = operands.Operands(TABLE, devices_of, ledger)
    self._ops = part_ops.PartOps(self._tensors)
    self._shards = shards.Shards(self._tensors, self._ops.writes)
    self._gradients = gradients_lib.Gradients(
      self._tensors, self._ops.tables, planner.add
    )

  @property
  def summary(self) -> SplitPlan:
    """What is split, and what that sends."""
    return self._planner.summary

  def split(
    self,
    new: Sequence[tf.Operation],
    targets: Collection[tf.Operation] | None = None,
  ) -> list[tf.Operation]:
    """Splits what is to be split of the ops that were made.

    Args:
      new: The ops that were made since the last time, in their order.
      targets: The ops whose gradients are asked for; None if none are.

    Returns:
      The variables that are split from now on, and their shards.

    Raises:
      ValueError: If a rule of the user's does not suit a variable, or something
        would be gathered that must not be.
    """
    found = self._planner.plan(new, targets)
    made = list(found.variables)
    for variable in found.variables:
      split = self._planner.splits[variable.name]
      made += self._shards.make(variable, split)
    self._ops.apply(found.ops, found.inferred)
    return made

  def is_replaced(self, op: tf.Operation) -> bool:
    """Whether parts are there in place of an op, which does not run.

    Args:
      op: An op of the model.
    """
    return self._ops.is_replaced(op)

  def whole(self, tensor: tf.Tensor) -> tf.Tensor:
    """Returns what holds a whole tensor of the model.

    Args:
      tensor: A tensor that model_fn made.
    """
    return self._tensors.whole(tensor)

  def read_wholes(self, gradients: Sequence[tf.Operation]) -> bool:
    """Lets ops of gradients find what is split, as far as they look for it.

    Args:
      gradients: The ops that a request has made.

    Returns:
      Whether other ops were made for them.

    Raises:
      ValueError: If one works on a variable that is split, but to read it.
    """
    return self._ops.read_wholes(gradients)

  def finish(
    self, spec: tf.estimator.EstimatorSpec
  ) -> tf.estimator.EstimatorSpec:
    """Lets the graph's collections have shards in place of variables.

    Args:
      spec: What model_fn returned.

    Returns:
      The spec, with whole tensors in place of those that are split.

    Raises:
      ValueError: If a rule of the user's has met no variable in training; other
        graphs may lack some.
    """
    self._planner.leave_the_rest()
    if spec.mode == tf.estimator.ModeKeys.TRAIN:
      self._planner.check()
    self._shards.replace_in_collections()
    graph = tf.compat.v1.get_default_graph()
    self._num_seen = len(graph.get_operations())
    return outputs.with_wholes(spec, self.whole)

  def expand(self, sources: list[Any]) -> Sources:
    """Returns shards in place of variables, and parts in place of tensors.

    Args:
      sources: With respect to what model_fn asks for gradients.
    """
    return self._gradients.expand(sources)

  def without_lookups(
    self, sources: Sources, gradients: Sequence[Any]
  ) -> tuple[Sources, list[Any]]:
    """Returns gradients of tables in place of those of what was looked up.

    Args:
      sources: What `expand` returned.
      gradients: One for each of its tensors.

    Returns:
      Sources in which a table that is only looked up is whole, and gradients
      with respect to their tensors.
    """
    return self._gradients.without_lookups(sources, gradients)

  def contract(self, sources: Sources, gradients: Sequence[Any]) -> list[Any]:
    """Returns the gradients that model_fn gets: concats of those of shards.

    Args:
      sources: What `without_lookups` returned.
      gradients: One for each of its tensors: a tensor, `IndexedSlices` or None.
    """
    return self._gradients.contract(sources, gradients)

  def split_late(self) -> None:
    """Splits what hooks and Savers make, before a session is made.

    A Saver reads and writes a table whole that is split by turns: a slice of a
    checkpoint holds consecutive rows.
    """
    graph = tf.compat.v1.get_default_graph()
    graph_edits.before_finalization(graph, lambda: self._split_late(graph))

  def split_now(self) -> None:
    """Splits what was made since `finish`, such as the Saver of an export.

    A graph that is exported is not finalized before.
    """
    self._split_late(tf.compat.v1.get_default_graph())

  def _split_late(self, graph: tf.Graph) -> None:
    late = graph.get_operations()[self._num_seen :]
    with graph.as_default():
      self.split([op for op in late if not op_types.is_variable(op)])
      for op in graph.get_operations():
        if op.outputs and not op.outputs[0].consumers():
          self._ops.let_be_fetched(op)
