"""The model axis: a finished graph becomes one of shards of its variables.

The propagation and the instantiation are those for slices of the batch. Here
they split the graph of model_fn over the devices of the model axis, and the
roots are handles of variables:

    MatMul(x, Shard(1))         -> Shard(1)      a layer, split by columns
    MatMul(Shard(1), Shard(0))  -> Partial(SUM)  one after it, by rows

as in Megatron-LM (Shoeybi et al., 2019, arXiv:1909.08053), updates of the
shards and of their slots among them. The result is a finished graph again,
which the batch is sliced in like any other.
"""

import dataclasses
from collections.abc import (
  Callable,
  Collection,
  Iterable,
  Mapping,
  Sequence,
)
from types import MappingProxyType

from estimator_mp.analysis.symbolic_shapes import MEASURES, SymbolicShapes
from estimator_mp.graph import (
  batch_inputs,
  frames,
  op_types,
  savers,
  traversal,
  variables,
)
from estimator_mp.graph.frames import Frames
from estimator_mp.lower import copies, lookups, shards
from estimator_mp.lower.instantiation import Instantiation
from estimator_mp.lower.source import Source
from estimator_mp.placement import costs as placement_costs
from estimator_mp.planning import split_candidates, split_costs, split_search
from estimator_mp.planning.model_traffic import Traffic
from estimator_mp.planning.split_plan import SplitPlan, SplitVariable
from estimator_mp.planning.step_graph import Fetch
from estimator_mp.propagate import demands
from estimator_mp.propagate import splits as splits_lib
from estimator_mp.propagate.layouts import Partition, Shard
from estimator_mp.propagate.propagation import Propagation, is_without_state

import tensorflow as tf

Splits = Mapping[tf.Operation, splits_lib.VariableSplit]


@dataclasses.dataclass(frozen=True)
class SplitGraph:
  """A graph whose variables are split.

  Attributes:
    fetches: The stand-ins of the fetches of a step.
    instances: The ops of parts, each with its plain op and the number of the
      part.
    handles: The variables of shards, each with the whole variable and the
      number of the shard.
    plan: The splits of variables, and the transfers that they cause.
  """

  fetches: Sequence[Fetch]
  instances: Mapping[tf.Operation, tuple[tf.Operation, int]]
  handles: Mapping[tf.Operation, tuple[tf.Operation, int]]
  plan: SplitPlan


class ModelPartitioner:
  """Splits the variables of one graph, and the ops that use them.

  Attributes:
    lookups: Those of tables whose rows are split, which are made last.
  """

  def __init__(
    self,
    inputs: Sequence[batch_inputs.Input],
    count: int,
    devices_of: Callable[[tf.Operation], Sequence[str]],
  ):
    """Starts with nothing split.

    Args:
      inputs: Features and labels that have examples.
      count: How many devices share the variables.
      devices_of: Returns the devices of an op's parts.
    """
    self._inputs = inputs
    self._count = count
    self._devices_of = devices_of
    self.lookups = lookups.Lookups()
    self._splits: Splits = {}
    self._handles: Mapping[tf.Operation, Sequence[tf.Operation]] = {}
    self._starts: dict[tf.Operation, list[str]] = {}  # Of shards.
    self._num_seen = 0  # Ops, when the last ones were split.

  def split(
    self,
    fetches: Sequence[Fetch],
    decided: Mapping[tf.Operation, splits_lib.VariableSplit | None],
    undecided: Sequence[tf.Operation] = (),
    backward: Collection[tf.Operation] = (),
    memory_limit: int | None = None,
    is_drawn: Callable[[tf.Operation], bool] = lambda write: False,
    draws_itself: Callable[[tf.Operation], bool] = lambda op: False,
  ) -> SplitGraph:
    """Splits variables of a finished graph, and the ops that use them.

    Args:
      fetches: The tensors and ops that a step runs.
      decided: The splits that a user wants, by variable; None for those that
        are to stay whole.
      undecided: Variables that are split as it is best. All others follow the
        ops that use them, as a slot that model_fn keeps itself.
      backward: The ops that come after the forward pass.
      memory_limit: The bytes of a device for variables that are trained, with
        their gradients and slots; None for no limit.
      is_drawn: Whether shards draw their own initial values in place of slices
        of the plain one, which an op writes.
      draws_itself: Whether parts draw random numbers of their own in place of
        an op of a step.

    Raises:
      Unsplittable: If one that a user wants split has to stay whole.
    """
    graph = fetches[0].graph
    all_ops = graph.get_operations()
    live = traversal.ops_run_with(*fetches)
    starts = variables.initial_writes()
    # A hook may run updates that no step does, as those of a GAN in turns.
    others = savers.saver_ops(all_ops).union(live, starts)
    by_hooks = [
      op for op in all_ops if op_types.is_write(op) and op not in others
    ]
    of_model = op_types.variables_of(all_ops)
    drawn = traversal.ops_run_with(*filter(is_drawn, starts)) - live
    analysis = _Analysis(
      all_ops,
      [*fetches, *starts, *by_hooks, *_variable_reads(of_model)],
      self._inputs,
      drawn={op for op in drawn if op.type in op_types.RANDOM}.union(
        filter(draws_itself, live)
      ),
    )
    sizes = placement_costs.nominal_bytes(analysis.ops)
    step = [op for op in analysis.ops if op in live]
    requested = {x: split for x, split in decided.items() if split is not None}
    undecided = split_costs.without_followers(
      step, backward, [x for x in undecided if x in live]
    )
    candidates = {*decided, *undecided}

    def may_follow(variable: tf.Operation) -> bool:
      return variable not in candidates

    chosen = dict(requested)
    if undecided:
      problem = split_candidates.Problem.of(
        step,
        analysis.shapes,
        analysis.frames,
        sizes,
        self._count,
        undecided,
        may_follow,
        backward,
        memory_limit,
      )
      best = split_search.choose_splits(problem)
      chosen |= {x: _split_of(shard) for x, shard in best.items() if shard}
    together = splits_lib.used_at_once([*step, *by_hooks])
    self._splits, layouts = _final_splits(
      analysis,
      splits_lib.with_slots(chosen, together),
      sizes,
      may_follow,
      splits_lib.with_slots(requested, together),
    )
    traffic = Traffic(layouts, analysis.shapes, self._count, sizes, backward)
    traffic.add(step)
    plan = SplitPlan(
      tuple(SplitVariable.of(op, split) for op, split in self._splits.items()),
      traffic.sent,
      tuple(traffic.gathers),
    )
    return self._lower(analysis, layouts, fetches, starts, by_hooks, live, plan)

  def _lower(
    self,
    analysis: "_Analysis",
    layouts: Propagation,
    fetches: Sequence[Fetch],
    starts: Sequence[tf.Operation],
    by_hooks: Sequence[tf.Operation],
    live: Collection[tf.Operation],
    plan: SplitPlan,
  ) -> SplitGraph:
    """Makes shards, and the ops in parts that use them."""
    graph = analysis.graph
    all_ops = graph.get_operations()
    model_shards = shards.Shards(self._splits, self._devices_of)
    self._handles = model_shards.handles
    self._defer([op for op in all_ops if _looks_up(op, self._splits)], live)
    instantiation = self._instantiate(analysis, layouts, all_ops)
    starts, by_hooks = (
      [op for op in ops if op in layouts.parts] for ops in (starts, by_hooks)
    )
    collected = [x for x in _in_collections(graph) if layouts.parts.get(x.op)]
    after_writes = [
      op
      for op in _variable_reads(self._splits)
      if _is_only_fetched(op) and op.control_inputs
    ]
    reads = [op.outputs[0] for op in after_writes]
    replaced = instantiation.apply(
      [*fetches, *reads, *collected], [*starts, *by_hooks]
    )
    for op in after_writes:
      copies.read_copy(op, replaced.pop(len(fetches)), self._devices_of(op)[0])
    wholes = {x.name: replaced.pop(len(fetches)) for x in collected}
    writes = {
      op: [x for x in instantiation.copies(op) if x is not None]
      for op in starts
    }
    self._starts = {op: [x.name for x in ops] for op, ops in writes.items()}
    for op, parts in writes.items():
      shards.write_instead(op, parts)
    model_shards.replace_in_collections(writes, wholes)
    self._num_seen = len(graph.get_operations())
    handles = {
      handle: (variable, number)
      for variable, of_one in self._handles.items()
      for number, handle in enumerate(of_one)
    }
    return SplitGraph(replaced, instantiation.instances(), handles, plan)

  def _defer(
    self, ops: Iterable[tf.Operation], step: Collection[tf.Operation] = ()
  ) -> None:
    """Leaves lookups of tables until the batch is in slices."""
    of_tables: dict[tf.Operation, list[tf.Operation]] = {}
    for op in ops:
      variable = variables.variable_of(op.inputs[0])
      of_tables.setdefault(variable, []).append(op)
    for variable, gathers in of_tables.items():
      rows = self._splits[variable].rows
      self.lookups.defer(gathers, variable, self._handles[variable], rows, step)

  def split_late(self, graph: tf.Graph) -> None:
    """Splits the ops that were made since, such as the reads of a hook.

    Args:
      graph: The graph, which is not finalized yet.
    """
    with graph.as_default():
      all_ops = graph.get_operations()
      handles = [variable.outputs[0] for variable in self._splits]
      new = {*all_ops[self._num_seen :]}
      users = {
        op
        for x in handles
        for op in x.consumers()
        if op in new
        or _is_only_fetched(op)
        or not new.isdisjoint(traversal.consumers(op))
      }
      if not self._splits:
        return
      gathers = [op for op in users if _looks_up(op, self._splits)]
      users.difference_update(gathers)
      self._defer(gathers)
      analysis = _Analysis(all_ops, list(users), self._inputs, only=users)
      layouts = analysis.propagate(self._splits)
      instantiation = self._instantiate(analysis, layouts, [*new])
      alone = [
        op
        for op in users
        if op.type == "ReadVariableOp"
        and (op not in new or _is_only_fetched(op))
      ]
      values = instantiation.apply([op.outputs[0] for op in alone])
      for op, value in zip(alone, values, strict=True):
        copies.read_copy(op, value, self._devices_of(op)[0])
      self.lookups.exchange(
        ([op] for op in gathers), lambda op: self._devices_of(op)[0]
      )
      for op in users:  # A shard is initialized if its variable is.
        if op.type == "VarIsInitializedOp":
          first = self._handles[variables.variable_of(op.inputs[0])][0]
          copies.read_instead(op, first.outputs[0], first.device)

  def _instantiate(
    self,
    analysis: "_Analysis",
    layouts: Propagation,
    others: Iterable[tf.Operation],
  ) -> Instantiation:
    """Returns the parts of ops, and the tensors that other ops read instead."""
    dense = (
      x
      for x in self._inputs
      if not isinstance(x.value, batch_inputs.COMPOSITES)
    )
    measured = next(((x.value, x.axis) for x in dense), None)
    instantiation = Instantiation(
      Source(
        analysis.graph, analysis.shapes, layouts, analysis.frames, measured
      ),
      [[i] for i in range(self._count)],
      lambda op, part: self._devices_of(op)[part],
      scope="part",
    )
    for variable, handles in self._handles.items():
      instantiation.stand_for(variable, [x.name for x in handles])
    for op, names in self._starts.items():
      instantiation.stand_for(op, names)
    instantiation.add([op for op in analysis.ops if op not in self._splits])
    instantiation.redirect(
      [op for op in others if not _uses_any(op, self._splits)],
      [*self._starts, *analysis.ops],
    )
    return instantiation


class _Analysis:
  """The ops of a step and their shapes, which hold for all splits."""

  def __init__(
    self,
    every: Sequence[tf.Operation],
    fetches: Sequence[Fetch],
    inputs: Sequence[batch_inputs.Input],
    only: Collection[tf.Operation] | None = None,
    drawn: Collection[tf.Operation] = (),
  ):
    """Reads a graph.

    Args:
      every: All of its ops.
      fetches: The tensors and ops that are run.
      inputs: Features and labels that have examples.
      only: The ops to analyse; by default all that are run.
      drawn: Random ops of which each part draws its own numbers.
    """
    self._drawn = frozenset(drawn)
    self.graph = every[0].graph
    self.frames = Frames(every)
    live = traversal.ops_run_with(*fetches) if only is None else only
    self.ops = frames.in_order([x for x in every if x in live], self.frames)
    self.shapes = SymbolicShapes(inputs, self.frames)
    self.shapes.add(self.ops)
    self._fetched = {x.name for x in fetches if isinstance(x, tf.Tensor)}

  def propagate(
    self,
    splits: Splits,
    wanted: Mapping[tf.Operation, Shard] = MappingProxyType({}),
  ) -> Propagation:
    """Returns the layouts of tensors over the devices of the model axis.

    Args:
      splits: The splits of variables, by their ops.
      wanted: As for `Propagation.run`.
    """
    roots = {
      variable.outputs[0].name: Shard(
        split.dim,
        Partition(
          sum(split.sizes),
          tuple(split.sizes),
          isinstance(split, splits_lib.CyclicSplit),
        ),
      )
      for variable, split in splits.items()
    }
    layouts = Propagation(
      self.shapes,
      roots,
      self._able(splits),
      fetched=self._fetched,
      frames=self.frames,
      exchanged=("classes",),
    )
    layouts.run(self.ops, wanted)
    return layouts

  def demands(
    self,
    layouts: Propagation,
    splits: Splits,
    sizes: Mapping[str, int],
    may_follow: Callable[[tf.Operation], bool],
  ) -> demands.Demands:
    """Returns the layouts that readers in parts want of whole values.

    Args:
      layouts: The layouts of tensors.
      splits: The splits of variables, by their ops.
      sizes: The bytes of tensors, by their names.
      may_follow: Whether a whole variable may be split.
    """
    able = self._able(splits)
    return demands.find(
      self.ops, layouts, able, sizes, self._fetched, may_follow
    )

  def _able(self, splits: Splits) -> frozenset[tf.Operation]:
    """Returns the ops that parts may execute, if their rules say so."""
    return frozenset(
      op
      for op in self.ops
      if op in self._drawn
      or (_may_be_in_parts(op, splits) and not _looks_up(op, splits))
    )


def _final_splits(
  analysis: _Analysis,
  splits: Splits,
  sizes: Mapping[str, int],
  may_follow: Callable[[tf.Operation], bool],
  requested: Collection[tf.Operation],
) -> tuple[Splits, Propagation]:
  """Returns the final splits, and the layouts that follow from them.

  Raises:
    Unsplittable: If a variable has to stay whole that the user wants split.
  """
  stay: set[tf.Operation] = set()
  used = splits_lib.used_at_once(analysis.ops)

  def may_join(variable: tf.Operation) -> bool:
    return variable not in known and may_follow(variable)

  while True:
    layouts = analysis.propagate(splits)
    whole = _variables_used_whole(analysis.ops, layouts, splits)
    for variable, op in whole.items():
      if variable in requested:
        raise splits_lib.Unsplittable(variable.name, op)
    stay |= whole.keys()
    known = splits.keys() | stay
    wanted = analysis.demands(layouts, splits, sizes, may_join)
    followers = {op: _split_of(x) for op, x in wanted.variables.items()}
    if not followers and stay.isdisjoint(splits):
      return splits, analysis.propagate(splits, wanted.ops)
    remaining = {x: split for x, split in splits.items() if x not in stay}
    splits = splits_lib.with_slots({**remaining, **followers}, used)
    splits = {x: split for x, split in splits.items() if x not in stay}


def _split_of(shard: Shard) -> splits_lib.VariableSplit:
  """Returns the split of a variable that is read as such a shard."""
  sizes = tuple(x for x in shard.partition.parts if isinstance(x, int))
  if shard.partition.is_cyclic:
    return splits_lib.CyclicSplit(shard.dim, sizes)
  return splits_lib.VariableSplit(shard.dim, sizes)


def _variable_reads(of_model: Iterable[tf.Operation]) -> list[tf.Operation]:
  """Returns the ops that read the values of variables."""
  return [
    reader
    for variable in of_model
    for reader in variable.outputs[0].consumers()
    if reader.type == "ReadVariableOp"
  ]


def _in_collections(graph: tf.Graph) -> list[tf.Tensor]:
  """Returns the tensors that a program has put into collections."""
  entries = {
    id(x): x
    for name in graph.get_all_collection_keys()
    for x in graph.get_collection_ref(name)
    if isinstance(x, tf.Tensor)
  }
  return list(entries.values())


def _is_only_fetched(op: tf.Operation) -> bool:
  """Whether no op reads a read of a variable: only sessions can fetch it."""
  is_look = op.type in ("ReadVariableOp", "VarIsInitializedOp")
  return is_look and not op.outputs[0].consumers()


def _uses_any(op: tf.Operation, splits: Splits) -> bool:
  """Whether an op gets the handle of a variable that is split."""
  return any(
    op_types.is_resource(x) and variables.variable_of(x) in splits
    for x in op.inputs
  )


def _looks_up(op: tf.Operation, splits: Splits) -> bool:
  """Whether an op looks up rows that several devices have."""
  if not op_types.looks_up_rows(op):
    return False
  split = splits.get(variables.variable_of(op.inputs[0]))
  return split is not None and split.dim == 0


def _may_be_in_parts(op: tf.Operation, splits: Splits) -> bool:
  """Whether parts may execute an op, if its rule says so.

  One that works on variables may if there are shards of all of these.
  """
  handles = [x for x in op.inputs if op_types.is_resource(x)]
  used = [variables.variable_of(x) for x in handles]
  if any(x.type == "VarHandleOp" for x in used):
    return all(x in splits for x in used)
  return is_without_state(op)


def _variables_used_whole(
  ops: Sequence[tf.Operation], layouts: Propagation, splits: Splits
) -> dict[tf.Operation, tf.Operation]:
  """Returns split variables that an op uses whole, each with the op.

  Those that are updated together with one of them are among them.
  """
  whole: dict[tf.Operation, tf.Operation] = {}
  together: list[set[tf.Operation]] = []
  for op in ops:
    if op.type in MEASURES or (
      _looks_up(op, splits) and not layouts.is_in_region(op)
    ):
      continue
    used = {
      index: variable
      for index, x in enumerate(op.inputs)
      if op_types.is_resource(x)
      and (variable := variables.variable_of(x)) in splits
    }
    part = layouts.parts.get(op)
    for index, variable in used.items():
      layout = layouts.layout(op.inputs[index])
      read = None if part is None else part.reads[index]
      if read != layout or not isinstance(layout, Shard):
        whole.setdefault(variable, op)
    if len(used) > 1:
      together.append({*used.values()})
  is_new = bool(whole)
  while is_new:
    new = {
      x: whole[of_group[0]]
      for group in together
      if (of_group := [y for y in group if y in whole])
      for x in group
      if x not in whole
    }
    is_new = bool(new)
    whole |= new
  return whole
