"""What each slice of the batch repeats, decided as model_fn goes on.

model_fn builds everything on the first slice: micro-batch 0 of replica 0. What
the others repeat is what differs between slices and leads to something that is
wanted of each: a gradient, the loss, a batch statistic.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from estimator_mp.capture.micro_batches import MicroBatches
from estimator_mp.config.schedules import schedule as schedule_lib
from estimator_mp.graph import gradient as gradient_lib
from estimator_mp.pipeline import (
  cells,
  example_axes,
  gradient_rows,
  merges,
  own_gradients,
  recomputation,
  slices,
  statistics,
)
from estimator_mp.pipeline.example_axes import Kind
from estimator_mp.plan import losses

import tensorflow as tf


class SlicePlanner:
  """Decides what slices repeat, and how what leaves them is merged.

  Attributes:
    axes: Where tensors have their examples.
    rules: How tensors are merged.
    policy: Which stages compute activations again.
    done: The ops of the first slice that the others repeat, in order.
    backward: Those of them, and others, that were made for gradients.
    shared: What slices read that is the same for all.
  """

  def __init__(
    self,
    batches: MicroBatches,
    schedule: schedule_lib.Schedule,
    loss_reduction: str,
    recompute: str,
  ):
    """Starts before model_fn is called on the first slice.

    Args:
      batches: The slices of features and labels.
      schedule: In which order each replica's pass the stages.
      loss_reduction: What a loss is taken for where the graph does not tell.
      recompute: Which activations are computed again.
    """
    parts = (
      tf.nest.flatten(entry.slices[0], expand_composites=True)
      for entry in batches.cut
    )
    self._finder = slices.SliceFinder([x for flat in parts for x in flat])
    self.axes = example_axes.ExampleAxes(
      batches.cut, self._finder.differs, batches.size
    )
    self.rules = merges.MergeRules(
      self.axes, self._finder.differs, batches.size, len(batches.inputs)
    )
    self._rows = gradient_rows.RowFinder(
      self.axes, self.rules, self._finder.differs
    )
    self.policy = recomputation.make_policy(recompute, schedule)
    self.done: dict[tf.Operation, None] = {}
    self.backward: set[tf.Operation] = set()
    self.shared: set[tf.Operation] = set()
    self._word = losses.WORDS[loss_reduction]
    graph = tf.compat.v1.get_default_graph()
    self._before = set(graph.get_operations())
    self._own: set[tf.Operation] = set()
    self._wholes: set[tf.Operation] = set()
    # The updates that ops of slices waited for, and no longer do, in order.
    self._late: dict[tf.Operation, None] = {}
    self._made: set[tf.Operation] = set()  # For gradients of all kinds.
    self._has_rules = False  # Of the program's own, for gradients.

  def add(self, ops: Iterable[tf.Operation]) -> None:
    """Hears of what was built.

    Args:
      ops: New ops that are no copies, in the order of the graph.
    """
    new = [op for op in ops if op not in self._own]
    self._finder.add(new)
    self._has_rules = self._has_rules or own_gradients.have_rules(new)

  def add_weight(self, weight: tf.Tensor) -> None:
    """Hears of a number that differs between slices, before anything reads it.

    Args:
      weight: That of the first slice.
    """
    self._finder.add_root(weight)
    self.axes.add_scalar(weight)

  def add_whole(self, whole: tf.Tensor, ops: Collection[tf.Operation]) -> None:
    """Hears of examples of all slices: what reads only them is there once.

    Args:
      whole: The examples.
      ops: The ops that join them, which are going to be added as the model's.
    """
    self._wholes.update(ops)
    self._finder.add_wholes(ops)
    self.axes.add_whole(whole)

  def add_share(self, share: tf.Tensor) -> None:
    """Hears of the rows of something whole that belong to the first slice.

    Args:
      share: The rows, before anything reads them.
    """
    self._finder.add_root(share)
    self.axes.add_rows(share)

  def add_own(self, ops: Collection[tf.Operation]) -> None:
    """Hears of ops that are no part of the model.

    Args:
      ops: What lowering made.
    """
    self._own.update(ops)

  def add_sums(self, ops: Sequence[tf.Operation]) -> None:
    """Hears of ops by which slices' gradients become one: all slices share it.

    Args:
      ops: What lowering made, in the order in which it was made.
    """
    self._own.update(ops)
    self._finder.add_sums(ops)

  def add_recomputed(self, ops: Collection[tf.Operation]) -> None:
    """Hears of ops that compute activations again, for the backward pass.

    Args:
      ops: What lowering made.
    """
    self._own.update(ops)
    self.backward.update(ops)
    self._finder.add(list(ops))

  def differs(self, tensor: tf.Tensor) -> bool:
    """Whether a tensor differs between slices.

    Args:
      tensor: A tensor of the first slice, or another.
    """
    return self._finder.differs(tensor)

  def is_shared(self, source: Any) -> bool:
    """Whether a source of gradients is the same for all, as variables are.

    Args:
      source: A variable or tensor.
    """
    tensor = getattr(source, "handle", source)
    return not tf.is_tensor(tensor) or not self.differs(tensor)

  def age(self, gradient: gradient_lib.Gradient) -> int:
    """Returns when the backward pass makes a gradient, compared with others.

    Args:
      gradient: One of the first slice.
    """
    return self._finder.place(getattr(gradient, "values", gradient).op)

  def groups_of(
    self, gradient: tf.IndexedSlices
  ) -> tuple[gradient_rows.Group, ...]:
    """Returns the rows of a sparse gradient, lookup by lookup.

    Args:
      gradient: One of the first slice.
    """
    return self._rows.groups(gradient.values, gradient.indices)

  def plan_loss(self, target: tf.Tensor) -> losses.LossPlan:
    """Decides how the gradients of slices make that of the whole batch.

    Args:
      target: What gradients are asked of.

    Raises:
      ValueError: If it is no mean and no sum over examples, and the user does
        not say which it is to be taken for.
    """
    if not self.differs(target):
      return losses.LossPlan(is_sum=False)
    return losses.plan_loss(target, self.axes, self.rules, self._word)

  def statistics(self, targets: Sequence[tf.Tensor]) -> statistics.Statistics:
    """Returns what examples read of all examples of their slice.

    Args:
      targets: What gradients are asked of.

    Raises:
      ValueError: If a statistic of inputs is made for the size of a slice.
    """
    finder = statistics.StatisticsFinder(
      self.axes, self.rules, self._finder.differs
    )
    return finder.find([x for x in targets if self.differs(x)], self._made)

  def check_sources(
    self, sources: Sequence[Any], gradients: Sequence[Any]
  ) -> None:
    """Raises if a source is made of all examples, but no variable.

    Args:
      sources: With respect to what gradients were asked for.
      gradients: Those of the first slice.

    Raises:
      ValueError: With the first such source.
    """
    for source, gradient in zip(sources, gradients, strict=True):
      if gradient is None or self.is_shared(source):
        continue
      if self.axes.of(source).kind is Kind.NONE:
        raise ValueError(
          f"the gradient with respect to {source.name} is asked for, which is "
          f"made of all examples of the batch (shape {source.shape}): slices "
          "of the batch cannot compute it; ask for that of a variable, or of "
          "a tensor with a dimension of examples, or use num_micro_batches=1 "
          "and no data axis"
        )

  def add_gradients(
    self, made: Sequence[tf.Operation], starts: Iterable[tf.Tensor]
  ) -> None:
    """Hears of gradients; raises if a rule of the program is about the batch.

    Args:
      made: The ops of the first slice's gradients, in the order of the graph.
      starts: What the chain rule starts with.

    Raises:
      ValueError: With an op of the rule.
    """
    self._made.update(made)
    if not self._has_rules:
      return
    found = own_gradients.op_over_examples(
      made, starts, self.axes, self._finder.differs
    )
    if found is not None:
      raise ValueError(own_gradients.over_examples(found))

  def find(self, targets: Iterable[tf.Operation]) -> slices.FoundSlice:
    """Returns what leads to targets and is not repeated yet.

    Args:
      targets: What is wanted of each slice.

    Raises:
      ValueError: If slices cannot repeat it; see `SliceFinder.find`.
    """
    return self._finder.find(targets, set(self.done))

  def take(self, found: slices.FoundSlice) -> None:
    """Decides that slices repeat what was found.

    Args:
      found: What `find` returned.
    """
    self.shared.update(found.shared)
    self.done.update(dict.fromkeys(found.ops))

  def new_late(self, found: slices.FoundSlice) -> list[tf.Operation]:
    """Returns updates that slices stop waiting for, and did not before.

    Args:
      found: What `find` returned.
    """
    late = {op: None for updates in found.late.values() for op in updates}
    new = [update for update in late if update not in self._late]
    self._late |= late
    return new

  def plan_recomputation(
    self,
    found: slices.FoundSlice,
    stages: Mapping[tf.Operation, int],
    known: Mapping[tf.Operation, int],
  ) -> recomputation.Recomputation:
    """Decides which activations the backward pass computes again.

    Args:
      found: What slices are going to repeat.
      stages: The stages of ops.
      known: Ops that compute again already, with their stages.
    """
    ops = [*self.done, *found.ops]
    return recomputation.plan_recomputation(
      ops,
      self.passes(ops, stages, known),
      self.policy.stages,
      self.differs,
      known,
    )

  def passes(
    self,
    ops: Sequence[tf.Operation],
    stages: Mapping[tf.Operation, int],
    recomputed: Mapping[tf.Operation, int],
    gradients: Sequence[Any] = (),
  ) -> dict[tf.Operation, cells.Pass]:
    """Decides which pass through which stage ops are part of.

    Args:
      ops: Ops of the first slice, in the order of the graph.
      stages: The stages of ops.
      recomputed: Those of ops that compute activations again.
      gradients: Those of variables, or the tensors that each is made of, if
        backward passes are to be split.
    """
    of_ops = {op: stages[op] for op in ops if op in stages}
    of_ops |= {op: recomputed[op] for op in ops if op in recomputed}
    makers = [
      {
        tensor.op
        for tensor in tf.nest.flatten(gradient, expand_composites=True)
        if tensor is not None
      }
      for gradient in gradients
    ]
    return cells.passes_of_ops(ops, self.backward, of_ops, makers)

  def readers(self, ops: Iterable[tf.Operation]) -> list[tf.Operation]:
    """Returns what model_fn made that may be there once for the whole batch.

    Args:
      ops: The ops of the graph that are no copies, in order.
    """
    return [
      op
      for op in ops
      if op not in self._before
      and op not in self._own
      and op not in self._wholes
      and op not in self.backward
    ]

  def known(self) -> set[tf.Operation]:
    """Returns the ops that slices repeat, or that lowering made."""
    return self.done.keys() | self._own
