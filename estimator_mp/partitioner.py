"""The partitioner: a finished graph of the whole batch becomes one of slices.

model_fn has returned, and its graph is the plain program's: forward, backward,
clipping, updates. Nothing of it is intercepted. What is split, and where, is
decided on that graph (`analysis`, `propagate`, `plan`), made as data
(`lower.instantiation`), and added to it at once; then what is executed once
reads what slices make.

So far for stages, micro-batches that pass them in the order of a schedule, and
replicas. The rest of it is still done by `conductor`.
"""

import itertools
from collections.abc import Collection, Mapping, Sequence

from estimator_mp import mesh as mesh_lib
from estimator_mp.analysis.symbolic_shapes import MEASURES, SymbolicShapes
from estimator_mp.config import sharding_config
from estimator_mp.config.schedules.schedule import Cell, Phase
from estimator_mp.graph import (
  control_flow,
  device_assignment,
  draws,
  feeds,
  frames,
  op_types,
  traversal,
)
from estimator_mp.graph.calls import inlining
from estimator_mp.graph.frames import Frames
from estimator_mp.graph.ledger import Ledger
from estimator_mp.lower import ordering
from estimator_mp.lower.instantiation import SLICE, Fetch, Instantiation
from estimator_mp.lower.replicas import Replicas
from estimator_mp.pipeline import cells
from estimator_mp.plan import (
  finished_stages,
  gradient_sums,
  slice_passes,
  unordered_reads,
  update_reads,
)
from estimator_mp.propagate.layouts import ONCE, Layout, Partition, Shard
from estimator_mp.propagate.propagation import Propagation, is_without_state
from estimator_mp.sizes import polynomials
from estimator_mp.sizes.polynomials import Polynomial, Size

import tensorflow as tf


class Partitioner:
  """Partitions the graph of one call of a model_fn over slices of its batch.

  Attributes:
    ops: What a step runs, each op after those that it reads.
    shapes: The sizes of tensors.
    batch: Their layouts over slices.
    stages: The stages of ops.
    passes: For each segment the passes of ops through stages.
    cells: For each replica the cells of what `lower` has made, by their names.
    replicas: The replicas.
    sums: How they sum gradients, for each round of updates; after `lower`.
  """

  def __init__(
    self,
    examples: Sequence[tf.Tensor],
    loss: tf.Tensor,
    train_op: Fetch,
    config: sharding_config.ShardingConfig,
    mesh: mesh_lib.Mesh,
    num_examples: tf.Tensor | None = None,
  ):
    """Decides how ops are executed.

    Calls of functions are inlined first, and reads come before writes: that is
    still the plain graph. Nothing else is edited before `lower`.

    Args:
      examples: Features and labels whose first dimension is that of examples.
      loss: The loss.
      train_op: What trains.
      config: How the model is sharded.
      mesh: The devices.
      num_examples: How many examples there are, a scalar of int32 that is
        checked in each step; by default it is measured.

    Raises:
      ValueError: If the model cannot be placed, or the batch not be cut, as the
        configuration says.
    """
    self._graph = loss.graph
    self._examples = list(examples)
    self._fetches: list[Fetch] = [loss, train_op]
    self._mesh = mesh
    self._num_examples = num_examples
    self._schedule = config.create_schedule()
    self.replicas = Replicas(config, mesh, Ledger(self._graph))
    self.sums: list[tuple[gradient_sums.GradientSum, ...]] = []
    self._check_examples()
    self._inline(op_types.FUNCTION_CALLS)
    self._order_reads()
    if self._slices[-1].stop > 1:
      self._inline(inlining.INLINED)
    live = traversal.ops_run_with(*self._fetches)
    every = self._graph.get_operations()
    self._frames = Frames(every)
    self.ops = frames.in_order([op for op in every if op in live], self._frames)
    self.shapes = SymbolicShapes(examples, self._frames)
    self.shapes.add(self.ops)
    self._of_inputs = self._find_of_inputs()
    starts = [tensor.op for tensor in examples]
    self._depends = set(traversal.descendants(starts, every))
    self._draws_per_slice = config.draws == "per_slice"
    self.batch = self._propagate()
    in_order = traversal.in_order(every)
    values = [op for op in every if op.type not in MEASURES]
    of_values = set(traversal.descendants(starts, values))
    self._backward = set(finished_stages.backward_of(in_order, of_values))
    of_input = traversal.ops_run_with(*examples)
    self.stages = finished_stages.plan_stages(
      [op for op in every if op not in of_input], self._backward, config, mesh
    )
    self._forward: set[tf.Operation] = set()
    self.cells: list[dict[str, Cell]] = [{} for _ in self._slices]
    self.passes = slice_passes.plan_passes(
      self.ops,
      self.batch,
      self._of_inputs,
      self._backward,
      self.stages,
      self._schedule,
    )

  def lower(self) -> list[Fetch]:
    """Makes the slices, and orders them.

    Returns:
      What stands for the loss, and for what trains.
    """
    device_assignment.assign(self.stages, self._mesh.stage_devices())
    of_slices = set(traversal.ancestors(self.batch.parts, self.ops))
    alike = of_slices - self._depends  # In all slices.
    self.replicas.mirror([op for op in self.ops if op in alike])
    updates = {op for op in self.ops if op not in of_slices}
    reads = update_reads.find(
      self.ops,
      updates,
      set(self.replicas.variables),
      self._layout_for_updates,
    )
    aggregated = {read.tensor.name for read in reads}
    before = set(self._graph.get_operations())
    made = Instantiation(
      self._graph,
      self.shapes,
      self.batch,
      self._of_inputs,
      self._slices,
      self._examples[0],
      self._device,
      self._frames,
      self._num_examples,
      self.replicas.copy_of,
      lambda op, tensor: op in updates and tensor.name in aggregated,
    )
    made.add(self.ops)
    # Such as summaries: they read what a step has made, and no plain op.
    made.redirect(self._graph.get_operations())
    made.keep_state(self._depends_on_state())
    fetches = made.apply(self._fetches)
    self._aggregate(made, reads)
    for op in self.batch.parts:
      if op not in self._of_inputs:
        feeds.refuse(op)
    device_assignment.leave_other_devices(self._graph.get_operations())
    for passes in self.passes:
      for own, cells_of_ops in zip(self._slices, self.cells, strict=True):
        self._order(made, passes, own)
        for op, of_op in passes.items():
          for number, copy in enumerate(made.copies(op)[own.start : own.stop]):
            if copy is not None:
              cells_of_ops[copy.name] = Cell(of_op.stage, number, of_op.phase)
    self._forward = of_slices.union(self._graph.get_operations()) - (
      before - of_slices
    )
    return fetches

  def keep_equal(
    self, spec: tf.estimator.EstimatorSpec
  ) -> tf.estimator.EstimatorSpec:
    """Returns a spec that trains all replicas' variables alike.

    Args:
      spec: One with what `lower` has returned.
    """
    return self.replicas.keep_equal(spec, self._forward)

  def _layout_for_updates(self, tensor: tf.Tensor) -> Layout:
    """Returns the layout of which updates read parts; `Once` of plain ops."""
    if tensor.op in self._of_inputs:
      return ONCE
    return self.batch.layout(tensor)

  def _aggregate(
    self, made: Instantiation, reads: Sequence[update_reads.UpdateRead]
  ) -> None:
    """Lets updates read what replicas have aggregated."""
    totals: dict[str, tf.Tensor] = {}
    read = [x for x in reads if x.tensor.name in made.of_replicas]
    in_rounds = sorted(read, key=lambda x: x.round)
    for _, of_round in itertools.groupby(in_rounds, lambda x: x.round):
      added = []
      for x in of_round:
        name = x.tensor.name
        if isinstance(x.layout, Shard):
          totals[name] = self.replicas.gather(
            x.variable, made.of_replicas[name], x.layout.axis
          )
        else:
          added.append(x)
      if not added:
        continue
      names = [x.tensor.name for x in added]
      parts = [made.of_replicas[name] for name in names]
      variables = [x.variable for x in added]
      planned = self.replicas.plan_sums(variables, parts, range(len(added)))
      summed = self.replicas.sum(parts, planned)
      totals.update(zip(names, summed, strict=True))
      self.sums.append(planned)
    made.read_aggregated(totals)

  @property
  def _slices(self) -> list[range]:
    """For each replica the numbers of its slices."""
    count = self._schedule.num_micro_batches
    return [
      range(i * count, (i + 1) * count)
      for i in range(self._mesh.axis_size("data"))
    ]

  def _device(self, op: tf.Operation, replica: int) -> str:
    """Returns the device of an op on a replica; "" if it has no stage."""
    stage = self.stages.get(op)
    return "" if stage is None else self._mesh.device(stage=stage, data=replica)

  def _order(
    self,
    made: Instantiation,
    passes: Mapping[tf.Operation, cells.Pass],
    own: Sequence[int],
  ) -> None:
    """Lets slices of a replica pass the stages in the order of the schedule."""
    device_of = self._schedule.device_of
    sums: dict[Cell, list[tf.Operation]] = {}
    elsewhere: dict[Cell, list[tf.Operation]] = {}
    in_branches = control_flow.ops_in_branches(self._graph.get_operations())
    for op, added in made.accumulated.items():
      if op not in passes or op not in self.stages or op in in_branches:
        continue  # Nothing may wait for a sum in a branch that is not taken.
      stage, phase = passes[op]
      is_here = device_of(self.stages[op]) == device_of(stage)
      found = sums if is_here else elsewhere
      for number, name in added:
        add = made.op_named(name)
        if number in own and add is not None:
          cell = Cell(stage, number - own[0], max(phase, Phase.BACKWARD))
          found.setdefault(cell, []).append(add)
    copies = {op: made.copies(op) for op in passes}
    ordering.order_cells(
      self._schedule,
      cells.ends_of_passes(self._schedule, passes, self.stages),
      lambda number, op: copies[op][own[number]],
      sums,
      elsewhere,
    )

  def _depends_on_state(self) -> list[tf.Operation]:
    """Returns ops that make something else whenever they are executed."""
    readers = {
      reader
      for op in self.ops
      if not op.inputs and any(map(op_types.is_handle, op.outputs))
      for reader in unordered_reads.readers_of(op)
    }
    return [
      op for op in self.ops if op in readers or op.type in op_types.RANDOM
    ]

  @property
  def _partition(self) -> Partition:
    return Partition(self.shapes.num_examples, (polynomials.symbol(SLICE),))

  def _propagate(self) -> Propagation:
    """Returns the layouts of tensors over slices of the batch."""
    able: set[tf.Operation] = set()
    if self._slices[-1].stop > 1:
      able = {
        op
        for op in self.ops
        if not self._may_be_fed(op)
        and (is_without_state(op) or self._draws_in_slices(op))
      }
    roots = {x.name: Shard(0, self._partition) for x in self._examples}
    for op in self.ops:
      # Slices are cut of what is there then.
      if self._may_be_fed(op):
        rows = self._rows(op.outputs[0])
        if rows is not None:
          roots[op.outputs[0].name] = Shard(0, rows)
    found = Propagation(
      self.shapes,
      roots,
      able,
      self._starts,
      self._rows,
      self._of_inputs,
      {x.name for x in self._fetches if isinstance(x, tf.Tensor)},
      self._frames,
    )
    found.run(self.ops)
    return found

  def _may_be_fed(self, op: tf.Operation) -> bool:
    """Whether an op was made to be fed; in a loop it bounds rounds, say."""
    is_placeholder = op.type == "PlaceholderWithDefault"
    return is_placeholder and self._frames.loop(op) is None

  def _draws_in_slices(self, op: tf.Operation) -> bool:
    """Whether slices draw random numbers of their own in place of an op."""
    if not self._draws_per_slice:
      return False
    return draws.has_seed(op.node_def) or op.type in op_types.SEED_INPUTS

  def _starts(self, size: Size) -> Partition | None:
    """Returns how something new is split that has a size."""
    if not isinstance(size, Polynomial) or not self.shapes.has_examples(size):
      return None
    return self._partition.of(size)

  def _rows(self, tensor: tf.Tensor) -> Partition | None:
    """Returns how a tensor is split whose first dimension is of examples."""
    shape = self.shapes.shape(tensor)
    if not shape or not self.shapes.has_examples(shape[0]):
      return None
    return self._partition.of(shape[0]) if tensor.op in self._depends else None

  def _find_of_inputs(self) -> set[tf.Operation]:
    """Returns ops that depend on inputs alone, on no state and no draw."""
    found = set(traversal.ops_run_with(*self._examples))
    for op in self.ops:
      is_free = op.op_def.is_stateful or op.type in op_types.RANDOM
      if not is_free and all(x in found for x in traversal.sources(op)):
        found.add(op)
    return found

  def _check_examples(self) -> None:
    """Raises if the batch has no slices, as far as the graph knows."""
    if not self._examples:
      raise ValueError(
        "features and labels have no tensor with examples, of which slices "
        "could be made; give their axes by batch_axis, or use no data axis and "
        "num_micro_batches=1"
      )
    sizes = {x.name: x.shape.as_list()[0] for x in self._examples}
    if len({*sizes.values()} - {None}) > 1:
      raise ValueError(
        f"inputs have different numbers of examples: {sizes}; make them equal, "
        "or leave out by batch_axis what has none"
      )

  def _inline(self, types: Collection[str]) -> None:
    """Puts ops of functions that read the batch in the place of their calls.

    Args:
      types: What is a call: branches and loops may be, too.
    """
    live = traversal.ops_run_with(*self._fetches)
    ops = [op for op in self._graph.get_operations() if op in live]
    starts = [tensor.op for tensor in self._examples]
    calls = [
      op for op in traversal.descendants(starts, ops) if op.type in types
    ]
    found = inlining.inline(calls, types)
    self._fetches = [
      found.get(x.name, x) if isinstance(x, tf.Tensor) else x
      for x in self._fetches
    ]

  def _order_reads(self) -> None:
    """Lets reads of variables come before writes, as they do by chance.

    That gradients wait for each other, in `tf.tuple`, orders them, but would
    let slices wait for each other, too.
    """
    ordering.forget_tuples(self._graph.get_operations())
    live = traversal.ops_run_with(*self._fetches)
    ops = [op for op in self._graph.get_operations() if op in live]
    ordering.read_before_writing(unordered_reads.find(ops, lookups=True))
    ordering.read_before_writing(unordered_reads.find_of_references(ops))
