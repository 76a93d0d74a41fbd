"""Lowering: the passes over a graph whose first slice of the batch is built.

    at each tensor of the whole batch that model_fn asks for
      join                 a place for the examples of all slices
    at each request for gradients
      grad_ys              the loss counts as its slice is a part of the batch
      recompute            the backward pass computes activations again
      schedule             "auto" finds an order for what the passes cost
      mirror, clone        further micro-batches and replicas, up to each join
      accumulate, reduce   gradients of micro-batches, then of replicas
    when model_fn has returned
      clone                what else is wanted of each slice
      merge                the rest of the graph reads the whole batch
      order                the cells of each device, and collectives
      update               each replica keeps its variables equal

GPipe (Huang et al., 2019) and PipeDream (Narayanan et al., 2019) cut models by
hand; here the graph says what a micro-batch needs (`SlicePlanner`).
"""

import dataclasses
import functools
from collections.abc import (
  Callable,
  Collection,
  Hashable,
  Iterable,
  Mapping,
  Sequence,
)
from types import MappingProxyType
from typing import Any

from compat.private import graph_edits
from estimator_mp import mesh as mesh_lib
from estimator_mp.capture.micro_batches import MicroBatches
from estimator_mp.config import placement as placement_lib
from estimator_mp.config import sharding_config
from estimator_mp.config.schedules.orders import AUTO
from estimator_mp.config.schedules.schedule import Cell, Phase, Schedule
from estimator_mp.graph import clones as clones_lib
from estimator_mp.graph import gradient as gradient_lib
from estimator_mp.graph.calls import grouping
from estimator_mp.lower import accumulation as accumulation_lib
from estimator_mp.lower import joining, merging, ordering, recompute
from estimator_mp.lower import micro_batch_updates as lower_updates
from estimator_mp.lower import replicas as replicas_lib
from estimator_mp.pipeline import (
  auto_schedule,
  gradient_rows,
  merges,
  micro_batch_updates,
  slices,
  statistics,
  weight_products,
)
from estimator_mp.pipeline import cells as cells_lib
from estimator_mp.pipeline.merges import Merge
from estimator_mp.plan import (
  collective_order,
  gradient_sums,
  losses,
  outputs,
  phase_costs,
  sharding_plan,
  slice_planner,
)

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class _Run:
  """What passes the stages at a time.

  A request for gradients that depends on sums of earlier ones begins another.

  Attributes:
    ops: The ops of the first slice.
    accumulation: The sums of gradients.
    gradients: Of which tensors of theirs each gradient of a variable is made:
      itself, or what several micro-batches multiply at once.
  """

  ops: list[tf.Operation]
  accumulation: accumulation_lib.Accumulation
  gradients: list[Any] = dataclasses.field(default_factory=list)


class Lowering:
  """Makes one graph work on all slices of the batch."""

  def __init__(
    self,
    config: sharding_config.ShardingConfig,
    mesh: mesh_lib.Mesh,
    schedule: Schedule,
    batches: MicroBatches,
  ):
    """Starts before model_fn is called on the first slice.

    Args:
      config: How the model is sharded.
      mesh: The devices.
      schedule: In which order each replica's micro-batches pass the stages.
      batches: The slices of features and labels, those of replica 0 first:
        micro-batch m of M of replica r is number r * M + m.
    """
    self._config = config
    self._mesh = mesh
    self._schedule = schedule
    self._batches = batches
    self._count = schedule.num_micro_batches
    self._planner = slice_planner.SlicePlanner(
      batches, schedule, config.loss_reduction, config.recompute
    )
    self._replicas = replicas_lib.Replicas(config, mesh)
    self._clones = clones_lib.Clones(self._replicas.homes(self._count))
    for entry in batches.cut:
      parts = (tf.nest.flatten(x, expand_composites=True) for x in entry.slices)
      for first, *others in zip(*parts, strict=True):
        self._clones.pair(first, others)
    self._merger = merging.Merger(
      self._clones, batches, self._planner.axes, self._planner.rules
    )
    self._recomputer = recompute.Recomputer()
    self._runs = [self._new_run()]
    self._accumulated: set[tf.Operation] = set()
    self._warned_of: set[tf.Operation] = set()
    # By the names of the variables.
    self._unknown_rows: dict[str, tf.IndexedSlices] = {}
    self._sums: list[tuple[gradient_sums.GradientSum, ...]] = []
    self._joined: dict[str, joining.Joined] = {}
    self._open: dict[str, joining.Joined] = {}  # Those without clones yet.
    # Of each replica, by the names of ops.
    self._cells: list[dict[str, Cell]] = [
      {} for _ in range(self._replicas.count)
    ]

  def is_copy(self, op: tf.Operation) -> bool:
    """Whether an op belongs to another slice than the first.

    Args:
      op: An op.
    """
    return self._clones.is_copy(op) or self._replicas.is_copy(op)

  def add(self, ops: Iterable[tf.Operation]) -> None:
    """Hears of what was built.

    Args:
      ops: New ops that are no copies, in the order of the graph.
    """
    self._planner.add(ops)

  def spread(self, variables: Iterable[tf.Operation]) -> None:
    """Hears of variables that are there once, on whichever replica's device.

    Args:
      variables: Shards of tables, and what they are shards of.
    """
    self._replicas.spread(variables)

  def say_sums(self, tensors: Iterable[tf.Tensor]) -> None:
    """Hears that slices' tensors add up to those of the whole batch.

    Args:
      tensors: Gradients of the first slice.
    """
    self._planner.rules.keep({tensor.name: Merge.SUM for tensor in tensors})

  def is_input(self, tensor: tf.Tensor) -> bool:
    """Whether a tensor is an input of the first slice.

    Args:
      tensor: A tensor of the model.
    """
    return self._planner.axes.is_input(tensor)

  def join(self, tensor: tf.Tensor) -> tf.Tensor:
    """Returns a tensor for the examples of all slices.

    Args:
      tensor: That of the first slice.

    Raises:
      ValueError: If it can have no examples.
    """
    entry = joining.join(tensor, self._batches)
    self._joined[entry.whole.name] = self._open[entry.whole.name] = entry
    self._planner.add_whole(entry.whole, entry.ops)
    return entry.whole

  def share(self, whole: tf.Tensor, gradient: Any) -> tf.Tensor:
    """Returns the first slice's rows of a gradient, for clones to have theirs.

    Args:
      whole: What `join` returned.
      gradient: That with respect to it.
    """
    entry = self._joined[whole.name]
    shares = joining.share(entry, gradient, self._clones, self._batches)
    self._planner.add_sums(shares.ops)
    first, *others = shares.tensors
    self._clones.pair(first, others)
    self._planner.add_share(first)
    return first

  def _close_joins(self, stages: Mapping[tf.Operation, int]) -> None:
    """Clones what leads to joins, in their order: a forward pass each."""
    for name, entry in [*self._open.items()]:
      joining.check(entry, self._planner.axes)
      found = self._clone([entry.part.op])
      if found.reads_sums:
        self._runs.append(self._new_run())
      self._runs[-1].ops.extend(found.ops)
      joining.fill(entry, self._clones)
      del self._open[name]

  def grad_ys(
    self, targets: Sequence[tf.Tensor], given: Any
  ) -> list[tf.Tensor]:
    """Returns what the chain rule starts with, for each target.

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
    self._read_whole_statistics(targets)
    for target, grad_y in zip(targets, grad_ys, strict=True):
      if self._is_once(targets):
        found.append(tf.ones_like(target) if grad_y is None else grad_y)
        continue
      plan = self._planner.plan_loss(target)
      if plan.terms is not None:
        self._prepare_loss(target, plan.terms)
      weights = (
        self._batches.sum_weights if plan.is_sum else self._batches.mean_weights
      )
      weight = self._weight(weights, target.dtype)
      one = tf.ones_like(target) if grad_y is None else grad_y
      found.append(weight * one)
    return found

  def _is_once(self, targets: Sequence[tf.Tensor]) -> bool:
    """Whether targets are there once, for the examples of all slices."""
    return bool(self._joined) and not any(map(self._planner.differs, targets))

  def _read_whole_statistics(self, targets: Sequence[tf.Tensor]) -> None:
    """Lets examples read what the whole batch's inputs make."""
    found = self._planner.statistics(targets)
    own = [op for op in found.own.values() if op not in self._warned_of]
    if own:
      self._warned_of.update(own)
      tf.compat.v1.logging.warning(statistics.has_its_own(own))
    for term in found.whole:
      try:
        whole = self._merger.statistic(term.tensor)
      except merging.NoMergeError as error:
        text = statistics.no_statistic(term, str(error))
        raise ValueError(text) from error
      fitting = merging.fitting(whole, term.tensor)
      graph_edits.replace_input(term.op, term.index, fitting)

  def _prepare_loss(self, target: tf.Tensor, terms: merges.Terms) -> None:
    """Makes a loss linear in its slices' terms."""
    rules = self._planner.rules
    try:
      statistics = [self._merger.statistic(t.tensor) for t in terms.statistics]
    except merging.NoMergeError as error:
      raise ValueError(losses.unknown_loss(target, target)) from error
    for term, whole in zip(terms.statistics, statistics, strict=True):
      fitting = merging.fitting(whole, term.tensor)
      graph_edits.replace_input(term.op, term.index, fitting)
    for term in terms.sums:
      self._weigh(term)
    for tensor in (*terms.asked, *terms.by_slice):
      rules.say(tensor.name, terms.merges[tensor.name])
    rules.keep(terms.merges)

  def _weigh(self, term: merges.Term) -> None:
    """Makes a slice's sum over examples as large as the whole batch's."""
    weights = [
      tf.math.divide_no_nan(1.0, x) if tf.is_tensor(x) else 1.0 / x
      for x in self._batches.mean_weights
    ]
    with tf.compat.v1.device(term.op.device), tf.control_dependencies(None):
      scale = self._weight(weights, term.tensor.dtype)
      weighted = term.tensor * scale
    self._planner.rules.keep({weighted.name: Merge.MEAN})
    self._merger.stand_for(weighted, term.tensor)
    graph_edits.replace_input(term.op, term.index, weighted)

  def _weight(
    self, weights: Sequence[float | tf.Tensor], dtype: tf.DType
  ) -> tf.Tensor:
    """Returns the first slice's weight; other slices get theirs as clones."""
    first, *others = (tf.cast(weight, dtype) for weight in weights)
    if tf.is_tensor(weights[0]):
      self._clones.pair(first, others)
      self._planner.add_weight(first)
    return first

  def add_gradients(
    self, made: Sequence[tf.Operation], grad_ys: Iterable[tf.Tensor]
  ) -> None:
    """Hears of the gradients of the first slice.

    Args:
      made: The ops of the first slice's gradients.
      grad_ys: What the chain rule started with.

    Raises:
      ValueError: If those of slices do not add up, by a rule of the program.
    """
    self._planner.add_gradients(made, grad_ys)

  def aggregate(
    self,
    targets: Sequence[tf.Tensor],
    sources: Sequence[Any],
    gradients: Sequence[Any],
    made: Collection[tf.Operation],
    stages: Mapping[tf.Operation, int],
  ) -> list[Any]:
    """Returns gradients of the whole batch.

    Args:
      targets: What gradients were asked of.
      sources: With respect to what.
      gradients: Those of the first slice: a tensor, `IndexedSlices` or None for
        each source.
      made: The ops that were made for them; they are placed.
      stages: The stages of ops.

    Returns:
      For each variable the sum over slices. The gradient with respect to
      something of one slice stays as it is: it is part of the model.
    """
    self._planner.check_sources(sources, gradients)
    self._close_joins(stages)
    wanted = {
      index: gradient
      for index, (source, gradient) in enumerate(
        zip(sources, gradients, strict=True)
      )
      if gradient is not None and self._planner.is_shared(source)
    }
    if not wanted:
      return list(gradients)
    self._planner.backward.update(made)
    if self._schedule.splits_backward:
      ordering.open_gates(made, made, stages)
    products: dict[int, weight_products.WeightProduct] = {}
    if not self._is_once(targets):
      products = self._plan_products(sources, wanted, made, stages)
      self._open_gates(products.values(), made, stages)
    # What each micro-batch makes of them.
    made_of = {
      index: [*products[index].op.inputs] if index in products else gradient
      for index, gradient in wanted.items()
    }
    parts = tf.nest.flatten([*made_of.values()], expand_composites=True)
    ends = [*(t.op for t in targets), *(p.op for p in parts)]
    late = self._recompute(ends, stages)
    self._plan_schedule(targets, [*wanted.values()], stages)
    if self._config.cells == "functions":
      ends += self._read_of_rows(wanted.values())
    found = self._clone(
      ends, functools.partial(self._groups, [*made_of.values()], stages)
    )
    late += self._planner.new_late(found)
    self._recomputer.keep(
      self._clones,
      [
        number
        for number in range(len(self._batches.inputs))
        if number % self._count in self._planner.policy.kept
      ],
    )
    if found.reads_sums:
      self._runs.append(self._new_run())
    self._runs[-1].ops.extend(found.ops)
    if self._is_once(targets):
      results = self._sum_of_one(sources, gradients, list(wanted))
    else:
      results = self._reduce(sources, gradients, made_of, stages, products)
    ordering.wait_for_updates(results, late)
    return results

  def _read_of_rows(
    self, gradients: Iterable[gradient_lib.Gradient]
  ) -> list[tf.Operation]:
    """Returns what is read of sparse gradients, lookup by lookup."""
    found = []
    for gradient in gradients:
      if isinstance(gradient, tf.IndexedSlices):
        for group in self._planner.groups_of(gradient):
          found.append(group.values.op)
          for rows in group.rows:
            found.append(rows.indices.op)
            if rows.origin.keys is not None:
              found.append(rows.origin.keys.op)
            if rows.origin.partition is not None:
              found.append(rows.origin.partition[0].inputs[1].op)
    return found

  def _plan_products(
    self,
    sources: Sequence[Any],
    wanted: Mapping[int, gradient_lib.Gradient],
    made: Collection[tf.Operation],
    stages: Mapping[tf.Operation, int],
  ) -> dict[int, weight_products.WeightProduct]:
    """Returns the gradients that several micro-batches make at once.

    They do not where activations are computed again, as these would be kept; or
    where an update may come before a read, as of variables of TensorFlow 1.
    """
    mode = self._config.weight_gradients
    if mode == "each" or self._planner.policy.stages:
      return {}
    found = {}
    of_round = self._count // self._schedule.num_rounds
    for index, gradient in wanted.items():
      if (
        isinstance(gradient, tf.Tensor)
        and self._planner.differs(gradient)
        and hasattr(sources[index], "handle")
      ):
        product = weight_products.plan_product(
          gradient, mode, of_round, made, stages
        )
        if product is not None and all(
          map(self._planner.differs, product.op.inputs)
        ):
          found[index] = product
    return found

  def _open_gates(
    self,
    products: Iterable[weight_products.WeightProduct],
    made: Collection[tf.Operation],
    stages: Mapping[tf.Operation, int],
  ) -> None:
    """Lets other gradients of an op not wait for that of each micro-batch."""
    late = {product.op for product in products}
    waiting = [
      op
      for op in made
      if any(not late.isdisjoint(x.control_inputs) for x in op.control_inputs)
    ]
    ordering.open_gates(waiting, made, stages)

  def _plan_schedule(
    self,
    targets: Sequence[tf.Tensor],
    gradients: Sequence[gradient_lib.Gradient],
    stages: Mapping[tf.Operation, int],
  ) -> None:
    """Finds the fastest order for what the first gradients cost, if asked to.

    Args:
      targets: What they were asked of.
      gradients: Those of variables.
      stages: The stages of ops.
    """
    if self._schedule.name != AUTO or self._accumulated:
      return
    parts = tf.nest.flatten(gradients, expand_composites=True)
    found = self._planner.find([x.op for x in (*targets, *parts)])
    passes = self._planner.passes(
      found.ops, stages, self._recomputer.copies, gradients
    )
    costs = phase_costs.phase_costs(
      passes,
      self._schedule.num_stages,
      self._config.measured_seconds,
      len(self._batches.inputs),
    )
    self._schedule = auto_schedule.fastest(self._schedule, costs)
    self._runs = [
      dataclasses.replace(run, accumulation=self._new_run().accumulation)
      for run in self._runs
    ]

  def _reduce(
    self,
    sources: Sequence[Any],
    gradients: Sequence[Any],
    made_of: Mapping[int, Any],
    stages: Mapping[tf.Operation, int],
    products: Mapping[int, weight_products.WeightProduct],
  ) -> list[Any]:
    """Adds up the slices' gradients, those of each replica first.

    Args:
      sources: What gradients are with respect to.
      gradients: Those of the first slice.
      made_of: Of which tensors of a slice those of variables are made.
      stages: The stages of ops.
      products: The gradients that several micro-batches make at once.

    Returns:
      The gradients, those of variables of the whole batch.
    """
    graph = tf.compat.v1.get_default_graph()
    num_ops = len(graph.get_operations())
    with tf.control_dependencies(None), tf.compat.v1.name_scope("aggregate"):
      self._runs[-1].gradients.extend(made_of.values())
      passes = self._passes(self._runs[-1], stages)
      turns = self._turns(passes, stages)
      others = [gradients[index] for index in made_of if index not in products]
      sums_of_others = iter(self._parts(others, *turns))
      parts = [
        self._parts_of_product(products[index], passes, stages)
        if index in products
        else next(sums_of_others)
        for index in made_of
      ]
      self._accumulated.update(graph.get_operations()[num_ops:])
      planned = self._replicas.plan_sums(
        [getattr(sources[i], "handle", sources[i]).op for i in made_of],
        parts,
        [self._planner.age(gradients[i]) for i in made_of],
      )
      sums = self._replicas.sum(parts, planned)
    self._sums.append(planned)
    self._planner.add_sums(graph.get_operations()[num_ops:])
    results = list(gradients)
    for index, gradient in zip(made_of, sums, strict=True):
      results[index] = gradient
      if isinstance(gradient, tf.IndexedSlices) and gradient_rows.are_unknown(
        self._planner.groups_of(gradients[index])
      ):
        variable = getattr(sources[index], "handle", sources[index]).op.name
        self._unknown_rows[variable] = gradient
    return results

  def _sum_of_one(
    self,
    sources: Sequence[Any],
    gradients: Sequence[Any],
    wanted: Sequence[int],
  ) -> list[Any]:
    """Returns gradients that are there once, as sums that replicas share."""
    graph = tf.compat.v1.get_default_graph()
    num_ops = len(graph.get_operations())
    with tf.control_dependencies(None), tf.compat.v1.name_scope("aggregate"):
      planned = self._replicas.plan_sums(
        [getattr(sources[i], "handle", sources[i]).op for i in wanted],
        [[gradients[i]] * self._replicas.count for i in wanted],
        [self._planner.age(gradients[i]) for i in wanted],
      )
      sums = self._replicas.sum([[gradients[i]] for i in wanted], planned)
    self._sums.append(planned)
    self._planner.add_sums(graph.get_operations()[num_ops:])
    results = list(gradients)
    for index, gradient in zip(wanted, sums, strict=True):
      results[index] = gradient
    return results

  def check_rows(self) -> None:
    """Raises if it matters which rows a gradient lists, and that is not known.

    Raises:
      ValueError: With what reads them, now that model_fn has returned.
    """
    for variable, gradient in self._unknown_rows.items():
      reader = gradient_rows.reader_of_list(gradient.values)
      if reader is not None:
        raise ValueError(gradient_rows.unknown_rows(variable, gradient, reader))

  def _parts(
    self,
    gradients: Sequence[gradient_lib.Gradient],
    passes: Mapping[tf.Operation, cells_lib.Pass],
    elsewhere: Collection[tf.Operation],
  ) -> list[Sequence[gradient_lib.Part]]:
    """Returns the sums of gradients over the slices of each replica."""
    accumulation = self._runs[-1].accumulation
    known: dict[str, list[tf.Tensor]] = {}
    if self._config.cells == "functions":
      dense = [x for x in gradients if not isinstance(x, tf.IndexedSlices)]
      known = accumulation.totals_by_calls(dense, passes, elsewhere)
    found: list[Sequence[gradient_lib.Part]] = []
    for gradient in gradients:
      if isinstance(gradient, tf.IndexedSlices):
        groups = self._planner.groups_of(gradient)
        found.append(
          accumulation.totals_of_rows(
            groups, gradient.dense_shape, passes, elsewhere
          )
        )
      elif gradient.name in known:
        found.append(known[gradient.name])
      else:
        found.append(accumulation.totals(gradient, passes, elsewhere))
    return found

  def _parts_of_product(
    self,
    product: weight_products.WeightProduct,
    passes: Mapping[tf.Operation, cells_lib.Pass],
    stages: Mapping[tf.Operation, int],
  ) -> Sequence[gradient_lib.Part]:
    """Returns the sum of a gradient over the slices of each replica."""
    of_pass = weight_products.pass_of_product(
      product.op, passes, stages, self._schedule
    )
    accumulation = self._runs[-1].accumulation
    return accumulation.totals_of_products(product, of_pass)

  def _turns(
    self,
    passes: Mapping[tf.Operation, cells_lib.Pass],
    stages: Mapping[tf.Operation, int],
  ) -> tuple[Mapping[tf.Operation, cells_lib.Pass], Collection[tf.Operation]]:
    """Returns in which pass gradients are, and which ops on other devices.

    Args:
      passes: The passes of ops.
      stages: The stages where ops are placed.
    """
    elsewhere = {
      op
      for op, of_op in passes.items()
      if op in stages
      and self._schedule.device_of(stages[op])
      != self._schedule.device_of(of_op.stage)
    }
    turns = {
      op: cells_lib.Pass(stage, Phase.BACKWARD) for op, stage in stages.items()
    }
    for op, (stage, phase) in passes.items():
      turns[op] = cells_lib.Pass(stage, max(phase, Phase.BACKWARD))
    return turns, elsewhere

  def _passes(
    self, run: _Run, stages: Mapping[tf.Operation, int]
  ) -> dict[tf.Operation, cells_lib.Pass]:
    """Returns the passes that the ops of a run are part of."""
    return self._planner.passes(
      run.ops,
      stages,
      self._recomputer.copies,
      run.gradients if self._schedule.splits_backward else (),
    )

  def _recompute(
    self,
    ends: Sequence[tf.Operation],
    stages: Mapping[tf.Operation, int],
  ) -> list[tf.Operation]:
    """Lets the first slice's backward pass compute activations again.

    Returns:
      The updates that ops of the slice do not wait for any more.
    """
    if not self._planner.policy.stages:
      return []
    found = self._planner.find(ends)
    ordering.stop_waiting(found.late)
    plan = self._planner.plan_recomputation(
      found, stages, self._recomputer.copies
    )
    self._planner.add_recomputed(self._recomputer.compute_again(plan))
    return self._planner.new_late(found)

  def _groups(
    self,
    gradients: Sequence[Any],
    stages: Mapping[tf.Operation, int],
    ops: Sequence[tf.Operation],
  ) -> Mapping[tf.Operation, Hashable]:
    """Returns which ops of a slice clones compute by one call.

    Args:
      gradients: What those of variables are made of.
      stages: The stages of ops.
      ops: The ops.
    """
    if self._config.cells != "functions" or self._planner.policy.kept:
      return {}
    passes = self._planner.passes(
      ops,
      stages,
      self._recomputer.copies,
      gradients if self._schedule.splits_backward else (),
    )
    return grouping.groups_of(
      ops, {op: (of_op, op.device) for op, of_op in passes.items() if op.device}
    )

  def _clone(
    self,
    ends: Collection[tf.Operation],
    groups_of: Callable[
      [Sequence[tf.Operation]], Mapping[tf.Operation, Hashable]
    ] = lambda ops: {},
  ) -> slices.FoundSlice:
    """Clones what leads to ends and is not cloned yet."""
    found = self._planner.find(ends)
    ordering.stop_waiting(found.late)
    self._replicas.mirror(found.shared)
    self._clones.add(found.ops, groups_of(found.ops), frozenset(ends))
    self._planner.take(found)
    return found

  def finish(
    self,
    spec: tf.estimator.EstimatorSpec,
    stages: Mapping[tf.Operation, int],
  ) -> tf.estimator.EstimatorSpec:
    """Merges what the rest of the graph reads, and orders the cells.

    Args:
      spec: What model_fn returned.
      stages: The stages of ops.

    Returns:
      The spec of the whole batch.
    """
    graph = tf.compat.v1.get_default_graph()
    self._close_joins(stages)
    ops = [op for op in graph.get_operations() if not self.is_copy(op)]
    scalars = [
      tensor
      for op in ops
      if op.type == "ScalarSummary"
      for tensor in op.inputs
      if self._planner.differs(tensor)
    ]
    self._clone([tensor.op for tensor in (*scalars, spec.loss)])
    loss = self._merger.merge(spec.loss)
    self._update_per_micro_batch(ops)
    train_op = getattr(spec.train_op, "op", spec.train_op)
    self._merge_outputs(ops, [train_op, spec.loss.op])
    self._order(stages)
    forward = (
      self._planner.done.keys() | self._clones.all_ops | self._accumulated
    )
    spec = self._replicas.keep_equal(spec, forward)
    ordering.order_collectives(collective_order.collectives_of(graph))
    return spec._replace(loss=loss)

  @property
  def mirrors(self) -> Mapping[str, tuple[str, ...]]:
    """The names of variables' mirrors, by the names of the variables."""
    return self._replicas.mirrors

  def plan(
    self, placement: placement_lib.Placement, train_op: str | None
  ) -> sharding_plan.ShardingPlan:
    """Returns how the graph is sharded, once `finish` has returned.

    Args:
      placement: The stages of ops.
      train_op: As in `ShardingPlan`.
    """
    pipeline = sharding_plan.PipelinePlan(
      self._mesh,
      self._schedule,
      tuple(MappingProxyType(cells) for cells in self._cells),
      MappingProxyType(self._merger.merges),
      MappingProxyType(
        {op.name: stage for op, stage in self._recomputer.copies.items()}
      ),
    )
    return sharding_plan.ShardingPlan(
      placement,
      pipeline,
      tuple(self._sums),
      MappingProxyType(dict(self.mirrors)),
      MappingProxyType(dict(self._replicas.zero_shards)),
      train_op,
    )

  def _update_per_micro_batch(self, ops: Sequence[tf.Operation]) -> None:
    if self._config.batch_norm == "per_micro_batch":
      plan = micro_batch_updates.plan_micro_batch_updates(
        ops,
        self._planner.known(),
        self._planner.differs,
        self._clones.__contains__,
      )
      lower_updates.repeat_for_micro_batches(plan, self._clones)
      self._planner.add_own(plan.ops)

  def _merge_outputs(
    self, ops: Iterable[tf.Operation], ends: Sequence[tf.Operation]
  ) -> None:
    """Makes ops read the whole batch's values instead of the first slice's."""
    found = self._planner.readers(ops)
    # What they read of a backward pass belongs to the slice, too.
    backward = self._planner.backward
    self._clone([t.op for op in found for t in op.inputs if t.op in backward])
    plan = outputs.plan_outputs(
      self._planner,
      [op for op in found if op not in self._planner.done],
      ends,
      self._clones.__contains__,
      self._batches.size,
      self._config.state_updates,
    )
    merging.merge_outputs(self._merger, plan, self._batches)

  def _order(self, stages: Mapping[tf.Operation, int]) -> None:
    """Orders the cells of each run."""
    recomputed = self._recomputer.copies
    for run in self._runs:
      passes = self._passes(run, stages)
      ends = cells_lib.ends_of_passes(
        self._schedule, passes, {**stages, **recomputed}
      )
      for replica, of_replica in enumerate(self._cells):
        op_of = functools.partial(self._op, replica)
        sums = run.accumulation.sums_of_replica(replica)
        elsewhere = run.accumulation.sums_elsewhere(replica)
        ordering.order_cells(self._schedule, ends, op_of, sums, elsewhere)
        self._say_cells(of_replica, op_of, passes)

  def _say_cells(
    self,
    cells: dict[str, Cell],
    op_of: Callable[[int, tf.Operation], tf.Operation | None],
    passes: Mapping[tf.Operation, cells_lib.Pass],
  ) -> None:
    """Adds the cells of a replica's ops, by their names.

    Raises:
      ValueError: If clones compute two passes by one call: a later request for
        gradients has changed what a pass is.
    """
    ones: dict[str, tf.Operation] = {}
    for op, of_op in passes.items():
      one = ones.setdefault(self._clones.name_in_clones(op), op)
      if passes[one] != of_op:
        raise ValueError(
          f"{op.name} and {one.name} are one function of a cell, and a later "
          f"request for gradients needs {one.name} earlier; say "
          'cells="ops"'
        )
    for micro_batch in range(self._count):
      for op in ones.values() if micro_batch else passes:
        copy = op_of(micro_batch, op)
        if copy is not None:
          cells[copy.name] = Cell(
            passes[op].stage, micro_batch, passes[op].phase
          )

  def _op(
    self, replica: int, micro_batch: int, op: tf.Operation
  ) -> tf.Operation | None:
    """Returns a micro-batch's op; None if it has none that is needed."""
    is_recomputed = op in self._recomputer.copies
    if is_recomputed and micro_batch in self._planner.policy.kept:
      return None
    number = replica * self._count + micro_batch
    return op if number == 0 else self._clones.op(number - 1, op)

  def _new_run(self) -> _Run:
    return _Run([], accumulation_lib.Accumulation(self._clones, self._schedule))
