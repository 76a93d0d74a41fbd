"""The splitter: variables, and what is computed from them, in parts."""

import functools
from collections.abc import Callable, Sequence

from compat.private import graph_edits
from estimator_mp.graph import ledger as ledger_lib
from estimator_mp.graph import op_types
from estimator_mp.lower import outputs
from estimator_mp.lower.splitting import gradients as gradients_lib
from estimator_mp.lower.splitting import operands, part_ops, shards
from estimator_mp.model_axis.rules.table import TABLE
from estimator_mp.model_axis.split_plan import SplitPass

import tensorflow as tf

# From new ops to what is split of them.
Plan = Callable[[Sequence[tf.Operation]], SplitPass]


class Splitter:
  """Splits the variables of one graph, and tensors computed from them.

  Attributes:
    gradients: The gradients that model_fn asks for, and those that it gets.
  """

  def __init__(
    self,
    devices_of: Callable[[tf.Operation], Sequence[str]],
    ledger: ledger_lib.Ledger,
  ):
    """Starts with nothing split.

    Args:
      devices_of: Returns the devices of the parts of an op of the model.
      ledger: Says for which op of the model something was made.
    """
    self._num_seen = 0  # Ops, when model_fn had returned.
    self._tensors = operands.Operands(TABLE, devices_of, ledger)
    self._ops = part_ops.PartOps(self._tensors)
    self._shards = shards.Shards(self._tensors, self._ops.writes)
    self.gradients = gradients_lib.Gradients(self._tensors, self._ops.tables)

  def split(self, plan: SplitPass) -> list[tf.Operation]:
    """Splits variables, and tensors computed from them.

    Args:
      plan: The split of the ops that were made since the last time.

    Returns:
      The variables that are split from now on, and their shards.
    """
    made = list(plan.variables)
    for variable, split in plan.variables.items():
      made += self._shards.make(variable, split)
    if self._tensors.parts:
      self._ops.apply(plan.ops, plan.inferred)
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
      spec: The spec that model_fn returned.

    Returns:
      The spec, with whole tensors in place of those that are split.
    """
    self._shards.replace_in_collections()
    graph = tf.compat.v1.get_default_graph()
    self._num_seen = len(graph.get_operations())
    return outputs.with_wholes(spec, self.whole, self._ops.to_run)

  def split_late(self, plan: Plan) -> None:
    """Splits what hooks and Savers make, before a session is made.

    A Saver reads and writes a table whole that is split by turns: a slice of a
    checkpoint holds consecutive rows.

    Args:
      plan: Decides what is split of new ops.
    """
    graph = tf.compat.v1.get_default_graph()
    if self._tensors.parts:
      late = functools.partial(self.split_now, plan, graph)
      graph_edits.before_finalization(graph, late)

  def split_now(self, plan: Plan, graph: tf.Graph | None = None) -> None:
    """Splits what was made since `finish`, such as the Saver of an export.

    A graph that is exported is not finalized before.

    Args:
      plan: Decides what is split of new ops.
      graph: The graph; None for the default one.
    """
    graph = graph or tf.compat.v1.get_default_graph()
    late = graph.get_operations()[self._num_seen :]
    if not self._tensors.parts:
      return
    with graph.as_default():
      self.split(plan([op for op in late if not op_types.is_variable(op)]))
      for op in graph.get_operations():
        if op.outputs and not op.outputs[0].consumers():
          self._ops.let_be_fetched(op)
