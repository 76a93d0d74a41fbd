"""The work of all slices after model_fn has returned, as data.

`plan.finish_planner` decides it; `lower.slicing.all_slices` does it.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from estimator_mp.config.schedules.schedule import Schedule
from estimator_mp.graph.waits import Waits
from estimator_mp.pipeline import cells, recomputation, weight_products
from estimator_mp.plan import batch_report
from estimator_mp.plan.batch_plan import BatchOps, Rows
from estimator_mp.plan.bridge import Bridge

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class SliceZeroOps:
  """A graph with slice 0, before there are others.

  Attributes:
    ops: All ops but those that cut the inputs, in the order of the graph.
    bridges: The bridges between slice 0 and what is executed once.
    template: The ops that were made for slice 0, but for its gradients.
    backward: The ops made for gradients, with the number of the request.
    made_for: For each op that was made for slice 0, the op of the plain graph.
    rows: How slices lie in tensors of the plain graph, by name.
    numbers: The ops that give slice 0 its number of examples and its weight.
    step: The ops of a step.
    results: The ops of the model's loss, or else of its predictions.
    batch: The ops that depend on the batch.
    stages: The stages of ops.
    num_slices: The number of slices.
    num_examples: How many examples the batch has, if the graph knows.
  """

  ops: Sequence[tf.Operation]
  bridges: Sequence[Bridge]
  template: Collection[tf.Operation]
  backward: Mapping[tf.Operation, int]
  made_for: Mapping[tf.Operation, tf.Operation]
  rows: Mapping[str, Rows]
  numbers: Collection[tf.Operation]
  step: Collection[tf.Operation]
  results: Sequence[tf.Operation]
  batch: BatchOps
  stages: Mapping[tf.Operation, int]
  num_slices: int
  num_examples: int | None


@dataclasses.dataclass(frozen=True)
class RunPlan:
  """One segment of slice 0.

  Attributes:
    ops: The ops, in order.
    gradients: The bridges at which its gradients are added up.
    products: The products that are computed for several micro-batches at once,
      by the ops of bridges.
    passes: The pass through a stage that each op is part of.
  """

  ops: Sequence[tf.Operation]
  gradients: Sequence[Bridge]
  products: Mapping[tf.Operation, weight_products.WeightProduct]
  passes: Mapping[tf.Operation, cells.Pass] = dataclasses.field(
    default_factory=dict
  )

  def made_of(self, bridge: Bridge) -> list[tf.Tensor]:
    """Returns what slice 0 makes for a gradient, one of `gradients`."""
    product = self.products.get(bridge.op)
    if product is not None:
      return list(product.op.inputs)
    if bridge.together is not None:
      return [bridge.source, bridge.together.source]
    return [bridge.source]

  def settled(
    self,
    schedule: Schedule,
    backward: Collection[tf.Operation],
    stages: Mapping[tf.Operation, int],
    waits: Waits,
  ) -> "RunPlan":
    """Returns it with the passes that its ops have by a schedule."""
    makers: list[set[tf.Operation]] = []
    if schedule.splits_backward:
      makers = [{x.op for x in self.made_of(y)} for y in self.gradients]
    of_ops = {op: stages[op] for op in self.ops if op in stages}
    passes = cells.passes_of_ops(self.ops, backward, of_ops, makers, waits)
    return dataclasses.replace(self, passes=passes)


@dataclasses.dataclass(frozen=True)
class LateReads:
  """The plain ops that would read variables after a step has written them.

  Attributes:
    ops: The ops, in order: they are not fetched.
    joined: The outputs of theirs that slices make, with the tensors of slice 0;
      what reads them is to read these, joined.
  """

  ops: Sequence[tf.Operation]
  joined: Sequence[tuple[tf.Tensor, tf.Tensor]]


@dataclasses.dataclass(frozen=True)
class FinishPlan:
  """The work of all slices.

  Attributes:
    own: The ops of slice 0, in the order of the graph.
    waits: The control inputs that ops are to have.
    late: The ops that gradients wait for instead of slices, by the number of
      their request.
    runs: The segments, in their order.
    schedule: In which order each replica's micro-batches pass the stages.
    policy: Where activations are computed again.
    recomputation: The ops that are computed again.
    segments: The report of the segments of the batch.
    late_reads: The plain ops that would read variables after the updates.
  """

  own: Sequence[tf.Operation]
  waits: Waits
  late: Mapping[int, Sequence[tf.Operation]]
  runs: Sequence[RunPlan]
  schedule: Schedule
  policy: recomputation.Policy
  recomputation: recomputation.Recomputation
  segments: batch_report.Segments
  late_reads: LateReads
