"""Ends: ops that are executed once read the tensors of all slices.

JOIN   the rows of all slices, side by side
SUM    their shares added up; gradients of variables per replica first
"""

from collections.abc import Sequence

from compat.private import graph_edits
from estimator_mp.collectives import sparse
from estimator_mp.graph import gradient as gradient_lib
from estimator_mp.graph import op_types
from estimator_mp.graph.clones import Clones
from estimator_mp.graph.ledger import Ledger, Role
from estimator_mp.lower.accumulation import Accumulation
from estimator_mp.lower.replicas import Replicas
from estimator_mp.lower.slicing import bridges as bridges_lib
from estimator_mp.lower.slicing import runs as runs_lib
from estimator_mp.lower.slicing.runs import Run
from estimator_mp.lower.slicing.slices import Slices
from estimator_mp.plan.bridge import Bridge, Kind
from estimator_mp.plan.gradient_sums import GradientSum

import tensorflow as tf


class Ends:
  """Makes whole tensors of the tensors that slices make.

  Attributes:
    sums: How gradients were summed over replicas, sum by sum.
  """

  def __init__(
    self,
    slices: Slices,
    clones: Clones,
    replicas: Replicas,
    ledger: Ledger,
    alone: Accumulation,
  ):
    """Starts when there are all slices.

    Args:
      slices: How the batch is cut.
      clones: All slices but the first.
      replicas: The replicas of the model.
      ledger: The ledger of the ops that lowering makes in the graph.
      alone: Adds up gradients that are part of no segment.
    """
    self.sums: list[tuple[GradientSum, ...]] = []
    self._slices = slices
    self._clones = clones
    self._replicas = replicas
    self._ledger = ledger
    self._alone = alone

  def fill(
    self,
    bridges: Sequence[Bridge],
    runs: Sequence[Run],
  ) -> dict[int, list[tf.Tensor]]:
    """Lets ops executed once read the tensors that all slices make.

    Args:
      bridges: All bridges.
      runs: The segments, of which there are all slices.

    Returns:
      The sums of gradients, and what else was joined, by the requests for
      which that was.
    """
    found: dict[int, list[tf.Tensor]] = {}
    number_of = {x.op: i for i, run in enumerate(runs) for x in run.gradients}
    # Gradients that are added up at once wait for no other sum.
    together: dict[tuple[int, int], list[Bridge]] = {}
    indices = {x.together.op for x in bridges if x.together is not None}
    for position, bridge in enumerate(bridges):
      if bridge.op in indices or bridge.kind not in (Kind.JOIN, Kind.SUM):
        continue
      if bridge.of is not None:
        alone = -1 - position
        key = (bridge.request or 0, number_of.get(bridge.op, alone))
        together.setdefault(key, []).append(bridge)
        continue
      is_sum = bridge.kind is Kind.SUM
      whole = self._sum(bridge) if is_sum else self._join(bridge)
      self._replace_whole(bridge, whole)
      if bridge.request is not None:
        found.setdefault(bridge.request, []).append(whole)
    for (request, _), group in together.items():
      sums = self._sum_gradients(group, runs)
      found.setdefault(request, []).extend(sums)
    return found

  def _sum(self, bridge: Bridge) -> tf.Tensor:
    copies = [bridge.source, *self._clones.of(bridge.source)]
    with bridges_lib.outside(bridge.op.device):
      return tf.add_n(copies)

  def _join(self, bridge: Bridge) -> tf.Tensor:
    copies = [bridge.source, *self._clones.of(bridge.source)]
    rank = bridge.output.shape.rank
    with bridges_lib.outside(bridge.op.device):
      joined = self._slices.join(copies, bridge.rows, rank)
    joined.set_shape(bridge.output.shape)
    return joined

  def _sum_gradients(
    self, bridges: Sequence[Bridge], runs: Sequence[Run]
  ) -> list[tf.Tensor]:
    """Adds up gradients, those of each replica first."""
    place = {op: i for run in runs for i, op in enumerate(run.ops)}
    dense = {x.op for x in bridges if x.together is None}
    with (
      bridges_lib.outside(""),
      tf.compat.v1.name_scope(None),
      tf.compat.v1.name_scope("aggregate"),
    ):
      with self._ledger.creating(Role.PASS):
        known: dict[tf.Operation, Sequence[gradient_lib.Gradient]] = {}
        for run in runs:
          own = [x for x in run.gradients if x.op in dense]
          known |= run.totals(own) if own else {}
        parts: list[Sequence[gradient_lib.Gradient]] = []
        for bridge in bridges:
          if bridge.together is not None:
            parts.append(self._rows_of_replicas(bridge))
          elif bridge.op in known:
            parts.append(known[bridge.op])
          else:  # A constant, or no part of a step.
            parts.append(self._alone.totals(bridge.source, {}))
      planned = self._replicas.plan_sums(
        [_variable_of(x.of.op) for x in bridges if x.of is not None],
        parts,
        [place.get(x.source.op, 0) for x in bridges],
      )
      sums = self._replicas.sum(parts, planned)
    self.sums.append(planned)
    for bridge, total in zip(bridges, sums, strict=True):
      if bridge.together is None:
        self._replace_whole(bridge, total)
      else:
        self._replace_whole(bridge, total.values)
        self._replace_whole(bridge.together, total.indices)
    return runs_lib.flat(sums)

  def _rows_of_replicas(self, bridge: Bridge) -> list[tf.IndexedSlices]:
    """Returns the rows of a sparse gradient that each replica's slices list."""
    assert bridge.together is not None
    values, indices = (
      [x.source, *self._clones.of(x.source)] for x in (bridge, bridge.together)
    )
    found = []
    for replica in range(self._replicas.count):
      count = self._slices.count // self._replicas.count
      own = slice(replica * count, (replica + 1) * count)
      rows = [
        tf.IndexedSlices(*x, bridge.dense_shape)
        for x in zip(values[own], indices[own], strict=True)
      ]
      found.append(sparse.sum_on(rows[0].values.device, rows))
    return found

  def _replace_whole(self, bridge: Bridge, whole: tf.Tensor) -> None:
    """Lets what reads a bridge, or fetches it, read the whole batch's value."""
    bridges_lib.replace(bridge.output, whole)
    if not whole.shape.is_compatible_with(bridge.source.shape):
      # An input keeps the sizes that it had: those of a slice.
      with bridges_lib.outside(bridge.op.device):
        shape = [None] * whole.shape.rank
        whole = tf.compat.v1.placeholder_with_default(whole, shape)
    graph_edits.replace_input(bridge.op, 0, whole)


def _variable_of(op: tf.Operation) -> tf.Operation:
  """Returns the variable that slices read, or what else they do."""
  while op.type in op_types.WHOLE_READS and op.inputs:
    op = op.inputs[0].op
  return op
