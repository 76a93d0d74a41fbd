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
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from compat.private import graph_edits
from estimator_mp import mesh as mesh_lib
from estimator_mp.capture import micro_batches as micro_batches_lib
from estimator_mp.config import schedule as schedule_lib
from estimator_mp.config.schedule import Cell
from estimator_mp.graph import clones as clones_lib
from estimator_mp.graph import gradient as gradient_lib
from estimator_mp.graph import shapes, traversal
from estimator_mp.graph import variables as variables_lib
from estimator_mp.lower import accumulation as accumulation_lib
from estimator_mp.lower import merging, ordering
from estimator_mp.lower import micro_batch_updates as lower_updates
from estimator_mp.lower import recompute as recompute_lib
from estimator_mp.lower import replicas as replicas_lib
from estimator_mp.pipeline import cells as cells_lib
from estimator_mp.pipeline import (
  effects,
  example_axes,
  merges,
  micro_batch_updates,
  recomputation,
  slices,
)
from estimator_mp.pipeline.example_axes import Kind
from estimator_mp.pipeline.merges import Merge
from estimator_mp.plan import collective_order, gradient_sums, sharding_plan

import numpy as np
import tensorflow as tf

# What the user may say of a loss, if the graph does not.
_WORDS = {"auto": None, "mean": Merge.MEAN, "sum": Merge.SUM}


class Pipeline:
  """The micro-batches of one graph.

  Attributes:
    requests: What each request for gradients sums over replicas.
  """

  def __init__(
    self,
    mesh: mesh_lib.Mesh,
    batches: micro_batches_lib.MicroBatches,
    schedule: schedule_lib.Schedule,
    replicas: replicas_lib.Replicas,
    loss_reduction: str,
    recompute: str,
    batch_norm: str,
    state_updates: Sequence[tuple[str, str]] = (),
  ):
    """Starts before model_fn is called on the first micro-batch.

    Args:
      mesh: The devices.
      batches: The micro-batches of features and labels, those of replica 0
        first.
      schedule: In which order each replica's pass the stages.
      replicas: The replicas of the model.
      loss_reduction: "mean" or "sum": how a loss is made of its examples',
        where the graph does not tell; "auto" if it always has to.
      recompute: "never", "always" or "except_last": which activations are
        computed again for the backward pass.
      batch_norm: "deferred" or "per_micro_batch": how often moving averages
        and other variables are updated from the features.
      state_updates: How what is written to variables is merged where the graph
        does not tell: expressions for names, and "mean", "sum", "concat" or
        "first".
    """
    self._state_updates = [
      (expression, Merge[how.upper()]) for expression, how in state_updates
    ]
    graph = tf.compat.v1.get_default_graph()
    self._before = set(graph.get_operations())
    self.requests: list[tuple[gradient_sums.GradientSum, ...]] = []
    self._word = _WORDS[loss_reduction]
    # Of each replica, M; micro-batch m of replica r is number r * M + m.
    self._count = schedule.num_micro_batches
    self._mesh = mesh
    self._batches = batches
    self._schedule = schedule
    self._replicas = replicas
    self._clones = clones_lib.Clones(replicas.homes(self._count))
    roots = []
    for entry in batches.cut:
      parts = (tf.nest.flatten(x, expand_composites=True) for x in entry.slices)
      for root, *copies in zip(*parts, strict=True):
        self._clones.pair(root, copies)
        roots.append(root)
    self._finder = slices.SliceFinder(roots)
    self._axes = example_axes.ExampleAxes(
      batches.cut, self._finder.differs, batches.size
    )
    self._rules = merges.MergeRules(
      self._axes,
      self._finder.differs,
      batches.size,
      len(batches.inputs),
    )
    self._merger = merging.Merger(
      self._clones, batches, self._axes, self._rules
    )
    self._batch_norm = batch_norm
    self._policy = recomputation.make_policy(recompute, schedule)
    self._recomputer = recompute_lib.Recomputer()
    self._done: dict[tf.Operation, None] = {}  # In order.
    self._backward: set[tf.Operation] = set()
    # The updates that ops of slices waited for, and no longer do, in order.
    self._late: dict[tf.Operation, None] = {}
    self._slices: list[list[tf.Operation]] = [[]]
    self._own: set[tf.Operation] = set()
    self._shared: set[tf.Operation] = set()
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

  def grad_ys(
    self, targets: Sequence[tf.Tensor], given: Any
  ) -> list[tf.Tensor]:
    """Returns what the chain rule starts with, for each target.

    A mean over the batch is the sum of the micro-batches' means, each times
    its share of the batch; so its gradient starts with that share instead of 1.

    Args:
      targets: What gradients are asked of.
      given: What model_fn itself starts with; None for ones.

    Raises:
      ValueError: If a target is no mean and no sum over examples, and the user
        does not say which it is to be taken for.
    """
    none = [None] * len(targets)
    grad_ys = none if given is None else tf.nest.flatten(given)
    found = []
    for target, grad_y in zip(targets, grad_ys, strict=True):
      is_sum = self._is_sum(target)
      parts = self._batches.factors if is_sum else self._batches.shares
      part = self._of_slice(parts, target.dtype)
      found.append(part * (tf.ones_like(target) if grad_y is None else grad_y))
    return found

  def _of_slice(
    self, parts: Sequence[float | tf.Tensor], dtype: tf.DType
  ) -> tf.Tensor:
    """Returns the first slice's part; other slices get theirs as clones."""
    first, *others = (tf.cast(part, dtype) for part in parts)
    if tf.is_tensor(parts[0]):
      self._clones.pair(first, others)
      self._finder.add_root(first)
      self._axes.add_scalar(first)
    return first

  def say_sums(self, tensors: Iterable[tf.Tensor]) -> None:
    """Says that slices' tensors add up to those of the whole batch.

    Args:
      tensors: Gradients of the first slice.
    """
    self._rules.keep({tensor.name: Merge.SUM for tensor in tensors})

  def _is_sum(self, target: tf.Tensor) -> bool:
    """Whether slices' gradients of a target add up, each with weight 1."""
    if not self._finder.differs(target):
      return False
    kept = self._rules.kept(target)
    if kept is not None:
      return kept in merges.SUMS
    layout = self._axes.of(target)
    if layout.kind in (Kind.ROWS, Kind.MIXED, Kind.PARTS):
      return True  # The gradient of a vector is that of its sum.
    terms = self._rules.terms(target, self._word)
    if terms.asked and self._word is None:
      raise ValueError(_unknown_loss(target, terms.asked[0]))
    try:
      statistics = [self._merger.statistic(t.tensor) for t in terms.statistics]
    except merging.NoMergeError as error:
      raise ValueError(_unknown_loss(target, target)) from error
    for term, whole in zip(terms.statistics, statistics, strict=True):
      fitting = merging.fitting(whole, term.tensor)
      graph_edits.replace_input(term.op, term.index, fitting)
    for term in terms.sums:
      self._weigh(term)
    for tensor in (*terms.asked, *terms.by_slice):
      self._rules.say(tensor.name, terms.merges[tensor.name])
    self._rules.keep(terms.merges)
    return terms.merges[target.name] in merges.SUMS

  def _weigh(self, term: merges.Term) -> None:
    """Makes a slice's sum over examples as large as the whole batch's."""
    weights = [
      tf.math.divide_no_nan(1.0, share) if tf.is_tensor(share) else 1.0 / share
      for share in self._batches.shares
    ]
    with tf.compat.v1.device(term.op.device), tf.control_dependencies(None):
      scale = self._of_slice(weights, term.tensor.dtype)
      weighted = term.tensor * scale
    self._rules.keep({weighted.name: Merge.MEAN})
    self._merger.stand_for(weighted, term.tensor)
    graph_edits.replace_input(term.op, term.index, weighted)

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
    self._check_sources(sources, gradients)
    wanted = [
      gradient
      for source, gradient in zip(sources, gradients, strict=True)
      if gradient is not None and self._is_shared(source)
    ]
    if not wanted:
      return list(gradients)
    self._backward.update(made)
    already_late = set(self._late)
    parts = tf.nest.flatten(wanted, expand_composites=True)
    wanted_ops = [*(t.op for t in targets), *(p.op for p in parts)]
    self._recompute(wanted_ops, stages)
    found = self._extend(wanted_ops)
    numbers = range(len(self._batches.inputs))
    self._recomputer.keep(
      self._clones, [n for n in numbers if n % self._count in self._policy.kept]
    )
    if found.reads_joined:
      self._slices.append([])
      self._sums.append(self._new_accumulation())
    self._slices[-1] += found.ops
    graph = tf.compat.v1.get_default_graph()
    num_ops = len(graph.get_operations())
    results = list(gradients)
    with tf.control_dependencies(None), tf.compat.v1.name_scope("aggregate"):
      parts = {
        index: self._sums[-1].totals(gradient, stages)
        for index, (source, gradient) in enumerate(
          zip(sources, gradients, strict=True)
        )
        if gradient is not None and self._is_shared(source)
      }
      self._accumulated.update(graph.get_operations()[num_ops:])
      planned = self._replicas.plan_sums(
        [getattr(sources[i], "handle", sources[i]).op for i in parts],
        [*parts.values()],
        [self._place(gradients[i]) for i in parts],
      )
      self.requests.append(planned)
      sums = self._replicas.sum([*parts.values()], planned)
    for index, gradient in zip(parts, sums, strict=True):
      results[index] = gradient
    joins = graph.get_operations()[num_ops:]
    self._own.update(joins)
    self._finder.add_shared(joins)
    late = [update for update in self._late if update not in already_late]
    ordering.wait_for_updates(results, late)
    return results

  def _check_sources(
    self, sources: Sequence[Any], gradients: Sequence[Any]
  ) -> None:
    """Raises if a source is made of all examples, but no variable."""
    for source, gradient in zip(sources, gradients, strict=True):
      if gradient is None or self._is_shared(source):
        continue
      if self._axes.of(source).kind is Kind.NONE:
        raise ValueError(
          f"the gradient with respect to {source.name} is asked for, which is "
          f"made of all examples of the batch (shape {source.shape}): slices "
          "of the batch cannot compute it; ask for that of a variable, or of "
          "a tensor with a dimension of examples, or use num_micro_batches=1 "
          "and no data axis"
        )

  def _recompute(
    self,
    targets: Sequence[tf.Operation],
    stages: Mapping[tf.Operation, int],
  ) -> None:
    """Lets the first micro-batch's backward pass compute activations again."""
    if not self._policy.stages:
      return
    ops = [*self._done, *self._find(targets).ops]
    plan = recomputation.plan_recomputation(
      ops,
      self._passes(ops, stages),
      self._policy.stages,
      self._finder.differs,
      self._recomputer.copies,
    )
    made = self._recomputer.compute_again(plan)
    self._own.update(made)
    self._backward.update(made)
    self._finder.add(made)

  def _passes(
    self, ops: Sequence[tf.Operation], stages: Mapping[tf.Operation, int]
  ) -> dict[tf.Operation, cells_lib.Pass]:
    """Returns the passes that ops are part of."""
    known = self._recomputer.copies
    of_ops = {op: stages[op] for op in ops if op in stages}
    of_ops |= {op: known[op] for op in ops if op in known}
    return cells_lib.passes_of_ops(ops, self._backward, of_ops)

  def _find(self, targets: Sequence[tf.Operation]) -> slices.FoundSlice:
    """Returns what leads to targets and is not cloned yet, free of waits."""
    found = self._finder.find(targets, set(self._done))
    ordering.stop_waiting(found.late)
    for updates in found.late.values():
      self._late.update(dict.fromkeys(updates))
    return found

  def _extend(self, targets: Sequence[tf.Operation]) -> slices.FoundSlice:
    """Clones what leads to targets and is not cloned yet."""
    found = self._find(targets)
    self._replicas.mirror(found.shared)
    self._shared.update(found.shared)
    self._clones.add(found.ops)
    self._done.update(dict.fromkeys(found.ops))
    return found

  def _place(self, gradient: gradient_lib.Gradient) -> int:
    """Returns when the backward pass makes a gradient."""
    return self._finder.place(getattr(gradient, "values", gradient).op)

  def _copies(self, tensor: tf.Tensor) -> list[tf.Tensor]:
    return [tensor, *self._clones.of(tensor)]

  def finish(
    self,
    spec: tf.estimator.EstimatorSpec,
    stages: dict[tf.Operation, int],
  ) -> tuple[tf.estimator.EstimatorSpec, sharding_plan.PipelinePlan]:
    """Joins what the rest of the graph reads, and orders the cells.

    Args:
      spec: What model_fn returned.
      stages: The stages of ops.

    Returns:
      The spec of the whole batch, and how its micro-batches run.
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
    loss = self._merger.merge(spec.loss)
    if self._batch_norm == "per_micro_batch":
      known = self._done.keys() | self._own
      updates = micro_batch_updates.plan_micro_batch_updates(
        ops, known, self._finder.differs, self._clones.__contains__
      )
      lower_updates.repeat_for_micro_batches(updates, self._clones)
      self._own.update(updates.ops)
    others = self._readers(ops)
    train_op = getattr(spec.train_op, "op", spec.train_op)
    self._merge_inputs(others, [train_op, spec.loss.op])
    cells = self._order(stages)
    of_replicas = self._done.keys() | self._clones.all_ops | self._accumulated
    spec = self._replicas.keep_equal(spec, of_replicas)
    ordering.order_collectives(collective_order.collectives_of(graph))
    plan = sharding_plan.PipelinePlan(
      self._mesh,
      self._schedule,
      tuple(cells),
      self._merger.merges,
      {op.name: stage for op, stage in self._recomputer.copies.items()},
    )
    return spec._replace(loss=loss), plan

  @property
  def mirrors(self) -> Mapping[str, tuple[str, ...]]:
    """The names of variables' mirrors, by the names of the variables."""
    return self._replicas.mirrors

  @property
  def zero_shards(self) -> Mapping[str, int]:
    """The replica that updates each variable, by the variable's name."""
    return self._replicas.zero_shards

  def _readers(self, ops: Sequence[tf.Operation]) -> list[tf.Operation]:
    """Returns what model_fn made that is there once for the whole batch."""
    found = [
      op
      for op in ops
      if op not in self._before
      and op not in self._own
      and op not in self._backward
    ]
    # What they read of a backward pass belongs to the slice, too.
    self._extend(
      [t.op for op in found for t in op.inputs if t.op in self._backward]
    )
    return [op for op in found if op not in self._done]

  def _merge_inputs(
    self, readers: Sequence[tf.Operation], ends: Sequence[tf.Operation]
  ) -> None:
    """Makes ops read the whole batch's values instead of the first slice's."""
    # What slices wait for cannot wait for them, if it reads the size of one.
    reads = [
      (op, index)
      for op in readers
      if op not in self._shared
      for index, tensor in enumerate(op.inputs)
      if tensor in self._clones
    ]
    self._axes.add([op.inputs[index] for op, index in reads])
    needed = effects.leading_to_effects(readers, ends)
    self._sum_constants([op for op in readers if op in needed])
    built_for_slice = self._built_for_slice(readers)
    found: list[tuple[tf.Operation, int, tf.Tensor]] = []
    left: list[str] = []
    for op, index in reads:
      tensor = op.inputs[index]
      how = self._said_of_updates(needed.get(op, ()))
      try:
        whole = self._merger.merge(tensor)
        if op in built_for_slice and _is_larger(whole, tensor):
          if op in needed and how is not Merge.FIRST:
            raise ValueError(
              _fixed_update(needed[op], tensor, self._batches.size)
            )
          left.append(op.name)
          continue
      except merging.NoMergeError as error:
        if how is not None:
          whole = self._merger.merge(tensor, how)
        elif op in needed:
          raise ValueError(_unknown_update(needed[op], error)) from error
        else:
          left.append(op.name)
          continue
      found.append((op, index, whole))
    for op, index, whole in found:
      fitting = merging.fitting(whole, op.inputs[index])
      graph_edits.replace_input(op, index, fitting)
    if left:
      tf.compat.v1.logging.warning(
        "%s see%s the first micro-batch only: the whole batch's value of what "
        "is read cannot be made of slices",
        ", ".join([*left[:3], *(["..."] if left[3:] else [])]),
        "" if left[1:] else "s",
      )

  def _sum_constants(self, ops: Iterable[tf.Operation]) -> None:
    """Asks the user what a constant is that a variable is changed by.

    Where the graph knows the size of a slice, `tf.shape` is a constant.
    """
    size = self._batches.size or 1
    for op in ops if size > 1 else ():
      if not op.type.startswith("Assign") or len(op.inputs) < 2:
        continue
      tensor = op.inputs[1]
      value = shapes.evaluate(tensor, shapes.static_shape)
      if value is None or not np.any(value) or np.any(np.mod(value, size)):
        continue
      name = variables_lib.variable_of(op.inputs[0]).name
      how = self._said_of_updates([name])
      if how is None:
        raise ValueError(_constant_update(name, value, size))
      if how is Merge.SUM:
        with tf.compat.v1.device(op.device), tf.control_dependencies(None):
          whole = tensor * tf.cast(len(self._batches.inputs), tensor.dtype)
        graph_edits.replace_input(op, 1, whole)

  def _built_for_slice(
    self, readers: Sequence[tf.Operation]
  ) -> set[tf.Operation]:
    """Returns ops that lead to what cannot work for another size of a batch.

    Only where the graph knows the size can it be in constants.
    """
    if self._batches.size is None:
      return set()
    ends = [
      op
      for op in readers
      if any(self._finder.differs(x) for x in op.inputs)
      and not any(self._finder.differs(x) for x in op.outputs if x.consumers())
    ]
    known = [x for op in readers for x in op.inputs if x in self._clones]
    if self._axes.fits_any_size(ends, known):
      return set()
    bad = [op for op in ends if not self._axes.fits_any_size([op], known)]
    return set(traversal.ancestors(bad, readers))

  def _said_of_updates(self, variables: Sequence[str]) -> Merge | None:
    """Returns how the user wants updates of variables to be merged."""
    for expression, merge in self._state_updates:
      if any(re.search(expression, name) for name in variables):
        return merge
    return None

  def _order(self, stages: dict[tf.Operation, int]) -> list[dict[str, Cell]]:
    """Orders the cells of each slice; returns each replica's cells of ops."""
    cells: list[dict[str, Cell]] = [{} for _ in range(self._replicas.count)]
    for ops, accumulation in zip(self._slices, self._sums, strict=True):
      passes = self._passes(ops, stages)
      ends = cells_lib.ends_of_passes(
        self._schedule, passes, stages | self._recomputer.copies
      )
      for replica, of_replica in enumerate(cells):
        op_of = functools.partial(self._op_of_replica, replica)
        ordering.order_cells(
          self._schedule, ends, op_of, accumulation.sums_of_replica(replica)
        )
        for op, (stage, phase) in passes.items():
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
    is_copy = op in self._recomputer.copies
    if is_copy and number % self._count in self._policy.kept:
      return None
    return op if number == 0 else self._clones.op(number - 1, op)

  def _new_accumulation(self) -> accumulation_lib.Accumulation:
    return accumulation_lib.Accumulation(self._clones, self._schedule)


def _unknown_loss(target: tf.Tensor, unknown: tf.Tensor) -> str:
  """Returns the text of an error."""
  return (
    f"the gradient of {target.name} is asked for, but {unknown.name} "
    f"({unknown.op.type}, shape {unknown.shape}) is neither a mean nor a sum "
    'over the examples of the batch; say loss_reduction="mean" or "sum" to '
    "take it for the mean or sum of those of micro-batches and replicas, or "
    "use num_micro_batches=1 and no data axis"
  )


def _unknown_update(names: Sequence[str], error: merging.NoMergeError) -> str:
  """Returns the text of an error."""
  return (
    f"{names[0]} is updated from the batch, but the whole batch's value is not "
    f"known of micro-batches and replicas: {error}; say how to make it, such "
    f'as state_updates=[("^{names[0]}$", "mean")] or "sum", "concat" or '
    '"first", or use num_micro_batches=1 and no data axis'
  )


def _fixed_update(
  names: Sequence[str], tensor: tf.Tensor, size: int | None
) -> str:
  """Returns the text of an error."""
  return (
    f"{names[0]} is updated from the batch, but what reads {tensor.name} was "
    f"built for {size} examples, a part of the batch; let input_fn leave the "
    "size of a batch open (no drop_remainder), or say "
    f'state_updates=[("^{names[0]}$", "first")] to update it from the first '
    "part alone, or use num_micro_batches=1 and no data axis"
  )


def _is_larger(whole: tf.Tensor, tensor: tf.Tensor) -> bool:
  """Whether the whole batch's value has another shape than a slice's."""
  return not tensor.shape.is_compatible_with(whole.shape)


def _constant_update(name: str, value: Any, size: int) -> str:
  """Returns the text of an error."""
  return (
    f"{name} is changed by the constant {value}, which may be the number of "
    f"examples that model_fn saw ({size}, a part of the batch); let input_fn "
    f'leave the size of a batch open, or say state_updates=[("^{name}$", '
    '"sum")] if it is, or "first" if it is not'
  )
