"""The pipeline: micro-batches follow the first one through the graph.

    model_fn builds everything on micro-batch 0
    model_fn asks for gradients  -> of the loss times micro-batch 0's part of
                                    the batch; then the slice is cloned, and
                                    model_fn gets the sum over micro-batches
    model_fn returns             -> what is left of the graph (loss, summaries,
                                    batch statistics) reads means over
                                    micro-batches; the schedule becomes control
                                    dependencies

GPipe (Huang et al., 2019) and PipeDream (Narayanan et al., 2019) cut models by
hand; here the graph says what a micro-batch needs.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from compat import private_graph
from estimator_mp import accumulation as accumulation_lib
from estimator_mp import clones as clones_lib
from estimator_mp import (
  collective_order,
  graph_slice,
  joining,
  ordering,
  sum_terms,
  summed_gradients,
  updates,
)
from estimator_mp import micro_batches as micro_batches_lib
from estimator_mp import recompute as recompute_lib
from estimator_mp import replicas as replicas_lib
from estimator_mp import schedule as schedule_lib
from estimator_mp.schedule import Cell

import tensorflow as tf


class Pipeline:
  """The micro-batches of one graph.

  Attributes:
    requests: What each request for gradients sums over replicas.
  """

  def __init__(
    self,
    batches: micro_batches_lib.MicroBatches,
    schedule: schedule_lib.Schedule,
    replicas: replicas_lib.Replicas,
    loss_reduction: str,
    recompute: str,
    batch_norm: str,
  ):
    """Starts before model_fn is called on the first micro-batch.

    Args:
      batches: The micro-batches of features and labels, those of replica 0
        first.
      schedule: In which order each replica's pass the stages.
      replicas: The replicas of the model.
      loss_reduction: "mean" or "sum": how a loss is made of its examples'.
      recompute: "never", "always" or "except_last": which activations are
        computed again for the backward pass.
      batch_norm: "deferred" or "per_micro_batch": how often moving averages
        and other variables are updated from the features.
    """
    self.requests: list[tuple[summed_gradients.SummedGradient, ...]] = []
    self._is_mean = loss_reduction == "mean"
    # Of each replica, M; micro-batch m of replica r is number r * M + m.
    self._count = schedule.num_micro_batches
    self._batches = batches
    self._schedule = schedule
    self._replicas = replicas
    self._clones = clones_lib.Clones(replicas.homes(self._count))
    first, *others = (
      tf.nest.flatten(inputs, expand_composites=True)
      for inputs in batches.inputs
    )
    roots = []
    for index, root in enumerate(first):
      copies = [other[index] for other in others]
      if root is not None and root is not copies[0]:
        self._clones.pair(root, copies)
        roots.append(root)
    self._finder = graph_slice.SliceFinder(roots)
    self._batch_norm = batch_norm
    self._recompute_mode = recompute
    # GPipe's last micro-batch goes back as soon as it has come.
    self._keeps_last = recompute == "except_last" and schedule.name == "gpipe"
    self._recomputation = recompute_lib.Recomputation(self._finder.differs)
    self._joiner = joining.Joiner(self._clones, batches, roots)
    self._done: dict[tf.Operation, None] = {}  # In order.
    self._backward: set[tf.Operation] = set()
    self._slices: list[list[tf.Operation]] = [[]]
    self._own: set[tf.Operation] = set()
    self._accumulated: set[tf.Operation] = set()
    self._sums = [self._new_accumulation()]  # Of each slice.

  def is_copy(self, op: tf.Operation) -> bool:
    """Whether an op belongs to a further micro-batch.

    Args:
      op: An op.
    """
    return self._clones.is_copy(op) or self._replicas.is_copy(op)

  def add(self, ops: Sequence[tf.Operation]) -> None:
    """Hears of what was built.

    Args:
      ops: New ops that are no copies, in the order of the graph.
    """
    self._finder.add([op for op in ops if op not in self._own])

  def seeds(
    self, targets: Sequence[tf.Tensor], sources: Sequence[Any], seeds: Any
  ) -> Any:
    """Returns where the gradients of a request start (`grad_ys`).

    A mean over the batch is the sum of the micro-batches' means, each times
    its share of the batch; so a loss starts with that share instead of 1.

    Args:
      targets: What gradients are asked of.
      sources: With respect to what.
      seeds: What model_fn itself starts with; None for ones.
    """
    if not any(map(self._is_shared, sources)):
      return seeds
    if not self._is_mean:
      for target in filter(self._finder.differs, targets):
        self._count_shared_terms_once(target)
    given = (
      tf.nest.flatten(seeds) if seeds is not None else [None] * len(targets)
    )
    return [
      self._seed(target, seed)
      for target, seed in zip(targets, given, strict=True)
    ]

  def _count_shared_terms_once(self, loss: tf.Tensor) -> None:
    """Makes further micro-batches leave out, say, a penalty on weights."""
    terms = sum_terms.sum_terms(loss, self._finder.differs)
    for tensor in terms.sums:
      self._joiner.add_sum(tensor)
    for op, index in terms.shared:
      term = op.inputs[index]
      with tf.compat.v1.device(op.device), tf.control_dependencies(None):
        first = tf.ones([], term.dtype)
        zero = tf.zeros([], term.dtype)
        once = term * first
      self._clones.pair(first, [zero] * self._clones.count)
      self._finder.add_root(first)
      private_graph.replace_input(op, index, once)

  def _seed(self, target: tf.Tensor, seed: Any) -> tf.Tensor:
    # The gradient of a vector is that of its sum, over all examples.
    is_sum = self._finder.differs(target) and (
      not self._is_mean or target.shape.rank != 0
    )
    parts = self._batches.factors if is_sum else self._batches.shares
    first, *others = (tf.cast(part, target.dtype) for part in parts)
    if tf.is_tensor(parts[0]):
      self._clones.pair(first, others)
      self._finder.add_root(first)
    return first * (tf.ones_like(target) if seed is None else seed)

  def _is_shared(self, source: Any) -> bool:
    """Whether a source is the same for all micro-batches, as variables are."""
    tensor = getattr(source, "handle", source)
    return not tf.is_tensor(tensor) or not self._finder.differs(tensor)

  def aggregate(
    self,
    targets: Sequence[tf.Tensor],
    sources: Sequence[Any],
    gradients: Sequence[Any],
    made: Sequence[tf.Operation],
    stages: Mapping[tf.Operation, int],
  ) -> list[Any]:
    """Returns gradients of the whole batch.

    Args:
      targets: What gradients were asked of.
      sources: With respect to what.
      gradients: Those of the first micro-batch: a tensor, `IndexedSlices` or
        None for each source.
      made: The ops that were made for them; they are placed.
      stages: The stages of ops.

    Returns:
      For each variable the sum over micro-batches. The gradient with respect
      to something of one micro-batch stays as it is: it is part of the model.
    """
    wanted = [
      gradient
      for source, gradient in zip(sources, gradients, strict=True)
      if gradient is not None and self._is_shared(source)
    ]
    if not wanted:
      return list(gradients)
    self._backward.update(made)
    num_late = len(self._finder.late)
    parts = tf.nest.flatten(wanted, expand_composites=True)
    wanted_ops = [*(t.op for t in targets), *(p.op for p in parts)]
    self._recompute(wanted_ops, stages)
    found = self._extend(wanted_ops)
    self._undo_last_recomputation()
    if found.reads_joined:
      self._slices.append([])
      self._sums.append(self._new_accumulation())
    self._slices[-1] += found.ops
    graph = tf.compat.v1.get_default_graph()
    num_ops = len(graph.get_operations())
    results = list(gradients)
    with tf.control_dependencies(None), tf.compat.v1.name_scope("aggregate"):
      totals = {
        index: self._totals(source, gradient, stages)
        for index, (source, gradient) in enumerate(
          zip(sources, gradients, strict=True)
        )
        if gradient is not None and self._is_shared(source)
      }
      self._accumulated.update(graph.get_operations()[num_ops:])
      sums = self._replicas.sum(list(totals.values()))
      self.requests.append(summed_gradients.describe([*totals.values()], sums))
    for index, gradient in zip(totals, sums, strict=True):
      results[index] = gradient
    joins = graph.get_operations()[num_ops:]
    self._own.update(joins)
    self._finder.add_shared(joins)
    self._wait_for(self._finder.late[num_late:], results)
    return results

  def _recompute(
    self,
    targets: Sequence[tf.Operation],
    stages: Mapping[tf.Operation, int],
  ) -> None:
    """Lets the first micro-batch's backward pass compute activations again."""
    if self._recompute_mode == "never":
      return
    found = self._finder.find(targets, set(self._done))
    ops = [*self._done, *found.ops]
    cells = self._cells(ops, stages)
    last_stage = self._schedule.num_stages - 1
    # On 1f1b's last stage each backward pass follows its forward pass.
    is_free = self._recompute_mode == "except_last" and not self._keeps_last
    skipped = frozenset([last_stage] if is_free else [])
    made = self._recomputation.add(ops, cells, skipped)
    self._own.update(made)
    self._backward.update(made)
    self._finder.add(made)

  def _undo_last_recomputation(self) -> None:
    """Lets each round's last backward pass read its forward pass."""
    for number in range(len(self._batches.inputs)):
      if self._keeps_activations(number % self._count):
        for (op, index), tensor in self._recomputation.redirected.items():
          reader = self._op(number, op)
          if reader is not None:
            kept = self._copies(tensor)[number]
            private_graph.replace_input(reader, index, kept)

  def _keeps_activations(self, micro_batch: int) -> bool:
    """Whether a micro-batch goes back as soon as it has come."""
    of_round = self._count // self._schedule.num_rounds
    return self._keeps_last and micro_batch % of_round == of_round - 1

  def _cells(
    self, ops: Sequence[tf.Operation], stages: Mapping[tf.Operation, int]
  ) -> dict[tf.Operation, tuple[int, schedule_lib.Phase]]:
    """Returns the stages and phases of the cells of ops."""
    known = self._recomputation.copies
    of_ops = {op: stages[op] for op in ops if op in stages}
    of_ops |= {op: known[op] for op in ops if op in known}
    return ordering.cells_of_ops(ops, self._backward, of_ops)

  def _extend(self, targets: Sequence[tf.Operation]) -> graph_slice.FoundSlice:
    """Clones what leads to targets and is not cloned yet."""
    found = self._finder.find(targets, set(self._done))
    self._replicas.mirror(found.shared)
    self._clones.add(found.ops)
    self._done.update(dict.fromkeys(found.ops))
    return found

  def _totals(
    self, source: Any, gradient: Any, stages: Mapping[tf.Operation, int]
  ) -> replicas_lib.ReplicaGradients:
    """Returns the gradients of each replica."""
    values = getattr(gradient, "values", gradient)
    return replicas_lib.ReplicaGradients(
      getattr(source, "handle", source).op,
      self._sums[-1].totals(gradient, stages),
      self._finder.place(values.op),
    )

  def _copies(self, tensor: tf.Tensor) -> list[tf.Tensor]:
    return [tensor, *self._clones.of(tensor)]

  def _wait_for(
    self, late: Sequence[tf.Operation], results: Sequence[Any]
  ) -> None:
    """Makes gradients wait for the updates that their ops had waited for."""
    tensors = tf.nest.flatten(results, expand_composites=True)
    if late and tensors:
      private_graph.add_control_inputs(tensors[0].op, late)

  def finish(
    self,
    spec: tf.estimator.EstimatorSpec,
    stages: dict[tf.Operation, int],
  ) -> tuple[tf.estimator.EstimatorSpec, list[dict[str, Cell]]]:
    """Joins what the rest of the graph reads, and orders the cells.

    Args:
      spec: What model_fn returned.
      stages: The stages of ops.

    Returns:
      The spec of the whole batch, and for each replica the cells of its ops,
      by their names.
    """
    graph = tf.compat.v1.get_default_graph()
    ops = [op for op in graph.get_operations() if not self.is_copy(op)]
    scalars = [
      tensor
      for op in ops
      if op.type == "ScalarSummary"
      for tensor in op.inputs
      if self._finder.differs(tensor)
    ]
    self._extend([tensor.op for tensor in (*scalars, spec.loss)])
    if not self._is_mean:
      self._joiner.add_sum(spec.loss)
    loss = self._joiner.join(spec.loss)
    if self._batch_norm == "per_micro_batch":
      known = self._done.keys() | self._own
      self._own.update(
        updates.repeat_updates(ops, known, self._finder, self._clones)
      )
    others = [op for op in ops if op not in self._done and op not in self._own]
    self._joiner.rejoin(others, list(self._done))
    cells = self._order(stages)
    of_replicas = self._done.keys() | self._clones.all_ops | self._accumulated
    spec = self._replicas.keep_equal(spec, of_replicas)
    collective_order.order_collectives(collective_order.collectives_of(graph))
    return spec._replace(loss=loss), cells

  def _order(self, stages: dict[tf.Operation, int]) -> list[dict[str, Cell]]:
    """Orders the cells of each slice; returns each replica's cells of ops."""
    cells: list[dict[str, Cell]] = [{} for _ in range(self._replicas.count)]
    for ops, accumulation in zip(self._slices, self._sums, strict=True):
      of_slice = self._cells(ops, stages)
      for replica, of_replica in enumerate(cells):
        op_of = functools.partial(self._op_of_replica, replica)
        ordering.order_cells(
          self._schedule,
          of_slice,
          stages | self._recomputation.copies,
          op_of,
          accumulation.sums_of_replica(replica),
        )
        for op, (stage, phase) in of_slice.items():
          for micro_batch in range(self._count):
            copy = op_of(micro_batch, op)
            if copy is not None:
              of_replica[copy.name] = Cell(stage, micro_batch, phase)
    return cells

  def _op_of_replica(
    self, replica: int, micro_batch: int, op: tf.Operation
  ) -> tf.Operation | None:
    return self._op(replica * self._count + micro_batch, op)

  def _op(self, number: int, op: tf.Operation) -> tf.Operation | None:
    """Returns a micro-batch's op; None if it has none that is needed."""
    is_copy = op in self._recomputation.copies
    if is_copy and self._keeps_activations(number % self._count):
      return None
    return op if number == 0 else self._clones.op(number - 1, op)

  def _new_accumulation(self) -> accumulation_lib.Accumulation:
    return accumulation_lib.Accumulation(self._clones, self._schedule)
