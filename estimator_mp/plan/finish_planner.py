"""Plans the work of all slices after model_fn has returned.

    what slice 0 has       what it needs not wait for
    segments               what slices do without waiting for each other
    weight products        what several micro-batches multiply at once
    schedule               in which order micro-batches pass the stages
    recomputation          what backward passes compute again

Nothing is edited: what ops are to wait for no longer is a part of the plan, and
all that is decided after that goes by it.
"""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

from compat.private import graph_reads
from estimator_mp.config.pipeline_options import PipelineOptions
from estimator_mp.config.schedules.orders import AUTO
from estimator_mp.config.schedules.schedule import Schedule
from estimator_mp.graph import control_flow, traversal
from estimator_mp.graph.waits import Waits
from estimator_mp.pipeline import (
  auto_schedule,
  cells,
  recomputation,
  weight_products,
)
from estimator_mp.plan import late_reads, phase_costs, segments, slice_report
from estimator_mp.plan.bridge import Bridge, Kind
from estimator_mp.plan.finish_plan import FinishPlan, RunPlan, SliceZeroOps

import tensorflow as tf

_ENDS = frozenset([Kind.JOIN, Kind.SUM, Kind.FIRST])
_READ = "ReadVariableOp"


def plan_finish(
  zero: SliceZeroOps,
  config: PipelineOptions,
  schedule: Schedule,
  measured_seconds: Mapping[str, float] | None,
) -> FinishPlan:
  """Returns what all slices do.

  Args:
    zero: The graph with slice 0.
    config: How micro-batches pass the stages.
    schedule: The order of micro-batches; "auto" for one that is to be found.
    measured_seconds: The seconds of ops of the model, by name, if they were
      measured.
  """
  waits = Waits()
  between = segments.ops_between(
    zero.ops, _begins(zero), _ends(zero), zero.backward, zero.template
  )
  read = [x for op in _ends(zero) for x in traversal.inputs(op)]
  has = _needed(between, read, zero.ops, waits)
  late = _late(zero, set(between), has, waits)
  runs = _runs(zero, has, waits)
  said = slice_report.segments_of(
    slice_report.Captured(
      [op for op in zero.ops if op in zero.step],
      has,
      [x for x in zero.bridges if x.op in zero.step],
      zero.made_for,
      zero.backward,
      zero.batch,
      waits,
    ),
    zero.results,
    len(runs),
    zero.num_slices,
    zero.num_examples,
  )
  policy = recomputation.make_policy(config.recompute, schedule)
  mode = config.weight_gradients if not policy.stages else "each"
  runs = _with_products(zero, runs, mode, schedule, waits)
  own = _needed_with_products(zero, has, runs, waits)
  inside = set(own)

  def settled(by: Schedule) -> list[RunPlan]:
    return [
      dataclasses.replace(
        run, ops=[op for op in run.ops if op in inside]
      ).settled(by, zero.backward, zero.stages, waits)
      for run in runs
    ]

  found = settled(schedule)
  if schedule.name == AUTO:
    measured = None
    if measured_seconds is not None:
      measured = {
        op.name: measured_seconds[of.name]
        for op, of in zero.made_for.items()
        if of.name in measured_seconds
      }
    costs = phase_costs.phase_costs(
      _passes(found), schedule.num_stages, measured, zero.num_slices
    )
    schedule = auto_schedule.fastest(schedule, costs)
    found = settled(schedule)
  again = recomputation.Recomputation({}, ())
  if policy.stages:
    again = recomputation.plan_recomputation(
      own, _passes(found), policy.stages, lambda tensor: tensor.op in inside
    )
  copies = {
    zero.made_for[op]: op
    for op in own
    if op in zero.template and op in zero.made_for
  }
  reads = late_reads.find(copies, zero.rows, zero.step)
  return FinishPlan(
    own, waits, late, found, schedule, policy, again, said, reads
  )


def _passes(runs: Iterable[RunPlan]) -> dict[tf.Operation, cells.Pass]:
  return {op: x for run in runs for op, x in run.passes.items()}


def _begins(zero: SliceZeroOps) -> set[tf.Operation]:
  """Returns what slice 0 begins at."""
  cuts = {x.op for x in zero.bridges if x.kind not in _ENDS}
  return cuts | {*zero.numbers}


def _ends(zero: SliceZeroOps) -> set[tf.Operation]:
  """Returns what makes whole tensors of what slices make."""
  return {x.op for x in zero.bridges if x.kind in _ENDS}


def _late(
  zero: SliceZeroOps,
  inside: Collection[tf.Operation],
  own: Sequence[tf.Operation],
  waits: Waits,
) -> dict[int, list[tf.Operation]]:
  """Lets slice 0 not wait for what is executed once.

  Args:
    zero: The graph with slice 0.
    inside: The ops between the begins and the ends of slice 0.
    own: Those of them that slice 0 has to run.
    waits: The control dependencies of ops, which change.

  Returns:
    For each request the ops that its gradients wait for instead.
  """
  begins, others = _begins(zero), {*inside, *_ends(zero)}
  late: dict[int, list[tf.Operation]] = {}
  for op in [*own, *_once_for(zero, [*begins, *own], others)]:
    outside = [x for x in op.control_inputs if x not in inside]
    if outside and op in zero.backward and not op.op_def.is_stateful:
      waits.keep(op, [x for x in op.control_inputs if x in inside])
      # A bridge that slices begin at is not run itself, and gradients wait
      # for each other only so that they come at once.
      once = [x for x in outside if x not in zero.backward.keys() | begins]
      late.setdefault(zero.backward[op], []).extend(once)
  return {k: [*dict.fromkeys(v)] for k, v in late.items()}


def _once_for(
  zero: SliceZeroOps,
  readers: Collection[tf.Operation],
  others: Collection[tf.Operation],
) -> list[tf.Operation]:
  """Returns the ops of gradients that run once, and that slices wait for.

  Args:
    zero: The graph with slice 0.
    readers: The ops at which slices begin, and the ops of slices.
    others: The ops that are not executed once.
  """

  def before(op: tf.Operation) -> list[tf.Operation]:
    return [x for x in traversal.sources(op) if x not in others]

  found = set(traversal.walk(readers, before)) - {*readers}
  found.intersection_update(zero.backward)
  if not found:
    return []
  (graph,) = {op.graph for op in found}
  inner = control_flow.ops_in_branches(graph.get_operations())
  return [
    op
    for op in zero.backward
    if op in found
    and op not in inner
    and graph_reads.outermost_loop(op) is None
  ]


def _runs(
  zero: SliceZeroOps, own: Sequence[tf.Operation], waits: Waits
) -> list[RunPlan]:
  """Returns what slices do in a step, segment by segment."""
  ends = {x.op for x in zero.bridges if x.kind in (Kind.JOIN, Kind.SUM)}
  graph = own[0].graph if own else tf.Graph()
  numbers = segments.segments_of_ops(
    graph.get_operations(), set(own), ends, zero.backward, waits
  )
  ops: dict[int, list[tf.Operation]] = {}
  for op in filter(zero.step.__contains__, own):
    ops.setdefault(numbers[op], []).append(op)
  number_of = {op: number for number, of_run in ops.items() for op in of_run}
  gradients: dict[int, list[Bridge]] = {}
  for bridge in zero.bridges:
    if bridge.of is not None and bridge.source.op in number_of:
      gradients.setdefault(number_of[bridge.source.op], []).append(bridge)
  return [RunPlan(ops[x], gradients.get(x, ()), {}) for x in sorted(ops)]


def _with_products(
  zero: SliceZeroOps,
  runs: Sequence[RunPlan],
  mode: str,
  schedule: Schedule,
  waits: Waits,
) -> list[RunPlan]:
  """Decides what micro-batches multiply at once.

  They do not where slices read no value of a variable that lasts, as rows of a
  table.

  Args:
    zero: The graph with slice 0.
    runs: The segments.
    mode: As `PipelineOptions.weight_gradients`.
    schedule: The schedule.
    waits: The control dependencies of ops, which change.
  """
  made = zero.backward
  if schedule.splits_backward:
    cells.open_gates(made, made, zero.stages, waits)
  # The cuts from which slices read rows.
  cut = {
    x.op for x in zero.bridges if x.kind is Kind.CUT and x.rows is not None
  }
  of_round = schedule.num_micro_batches // schedule.num_rounds
  found = []
  for run in runs:
    readable = {*run.ops, *cut}
    products = {}
    for bridge in run.gradients if mode != "each" else ():
      is_sparse = bridge.together is not None
      if is_sparse or bridge.of is None or bridge.of.op.type != _READ:
        continue
      product = weight_products.plan_product(
        bridge.source, mode, of_round, made, zero.stages, waits
      )
      if product is not None and all(
        x.op in readable for x in product.op.inputs
      ):
        products[bridge.op] = product
    found.append(dataclasses.replace(run, products=products))
  multiply = {x.op for run in found for x in run.products.values()}
  waiting = [
    op
    for op in made
    if any(not multiply.isdisjoint(waits.of(x)) for x in waits.of(op))
  ]
  cells.open_gates(waiting, made, zero.stages, waits)
  return found


def _needed_with_products(
  zero: SliceZeroOps,
  own: Sequence[tf.Operation],
  runs: Sequence[RunPlan],
  waits: Waits,
) -> list[tf.Operation]:
  """Returns what slice 0 has to run, of which several may multiply at once."""
  made_of = {
    bridge.op: run.made_of(bridge) for run in runs for bridge in run.gradients
  }
  read = [
    x.op
    for bridge in zero.bridges
    if bridge.kind in _ENDS
    for x in made_of.get(bridge.op, [bridge.source])
  ]
  return _needed(own, read, zero.ops, waits)


def _needed(
  inside: Sequence[tf.Operation],
  read: Iterable[tf.Operation],
  ops: Iterable[tf.Operation],
  waits: Waits,
) -> list[tf.Operation]:
  """Returns what a slice has to run of its ops.

  Args:
    inside: The ops that it has, in order.
    read: The ops among them whose results are read outside of the slice.
    ops: All ops: others, too, may wait for ops of the slice.
    waits: The control dependencies of ops.
  """
  own = set(inside)
  awaited = [
    x
    for op in ops
    if op not in own and not own.isdisjoint(waits.of(op))
    for x in waits.of(op)
  ]
  found = traversal.walk(
    [x for x in (*read, *awaited) if x in own],
    lambda x: own.intersection(waits.sources(x)),
  )
  has = set(found)
  return [op for op in inside if op in has]
