"""The work of a plain graph, for any cut, number of slices and split.

Each op has seconds that grow with the batch, and others that do not, as of the
weights that a product reads. So one reading of the graph gives the work of
stages for every mesh.
"""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from estimator_mp.config.measured_costs import MeasuredCosts
from estimator_mp.config.schedules.schedule import Phase
from estimator_mp.graph import op_types, shapes, traversal
from estimator_mp.machines.machine import Machine
from estimator_mp.pipeline import cells
from estimator_mp.placement import costs
from estimator_mp.planning import split_plan
from estimator_mp.planning.step_graph import StepGraph
from estimator_mp.propagate.layouts import Layouts, Shard
from estimator_mp.simulator.step import StageWork

import numpy as np
import tensorflow as tf

_PART = "part_"
# The phase of an op that a step executes once.
_ONCE = len(Phase)
# Bytes by kind.
_KEPT, _SENT, _INPUT, _OVER, _WEIGHT, _SLOT, _LARGEST_SLOT = range(7)
_GRADIENT, _ROWS, _TABLE = range(7, 10)


@dataclasses.dataclass(frozen=True, eq=False)
class Cut:
  """The stages of a plain graph.

  Attributes:
    num_stages: How many there are.
    stages: The stage of each op, by its name.
    phases: The phase of each op of a slice, by its name.
  """

  num_stages: int
  stages: Mapping[str, int]
  phases: Mapping[str, Phase]

  @classmethod
  def of(
    cls,
    passes: Iterable[Mapping[tf.Operation, cells.Pass]],
    stages: Mapping[tf.Operation, int],
    num_stages: int,
  ) -> "Cut":
    """Returns the cut of a plain graph.

    Args:
      passes: The passes of ops that are executed in parts, of each segment.
      stages: The stages of ops.
      num_stages: How many stages there are.
    """
    of_slices = {op: x for of_one in passes for op, x in of_one.items()}
    numbers = {**stages, **{op: x.stage for op, x in of_slices.items()}}
    return cls(
      num_stages,
      {op.name: stage for op, stage in numbers.items()},
      {op.name: x.phase for op, x in of_slices.items()},
    )


class Workload:
  """The ops of a training step of a nominal batch, with their work."""

  def __init__(
    self,
    step: StepGraph,
    layouts: Layouts,
    machine: Machine,
    positions: Mapping[str, int] = MappingProxyType({}),
    num_parts: int = 1,
  ):
    """Reads a graph.

    Args:
      step: The graph; if its batch is open, it is a nominal one.
      layouts: The layouts that its tensors have over slices.
      machine: What executes it.
      positions: Where ops are on the model axis, by name, if not at 0.
      num_parts: The size of the model axis that the graph was split for.
    """
    self._step = step
    self._layouts = layouts
    self._machine = machine
    self._positions = positions
    self._num_parts = num_parts
    self._sizes = costs.nominal_bytes(step.ops)
    self._ops = step.ops
    self._inside = {*self._ops}
    elsewhere = [self._place(op) > 0 for op in self._ops]
    self._is_elsewhere = np.array(elsewhere, bool)
    known = costs.op_costs(self._ops, device=machine.device)
    rows = [self._seconds(op, known[op]) for op in self._ops]
    self._amounts = np.array(rows, np.float64).reshape([len(rows), 6]).T
    self._is_part = np.array([*map(_is_part, self._ops)], bool)
    self._of_cuts: dict[Cut, tuple[Any, Any]] = {}

  def work(self, cut: Cut, fraction: float, num_parts: int) -> list[StageWork]:
    """Returns the work of stages.

    Args:
      cut: The stages.
      fraction: The part of a nominal batch that a slice has.
      num_parts: The size of the model axis.
    """
    size = cut.num_stages * (_ONCE + 1)
    if cut not in self._of_cuts:
      passes = self._passes(cut)
      pairs = [passes[op] for op in self._ops]
      numbers = np.array([(_ONCE + 1) * i + phase for i, phase in pairs])
      numbers[self._is_elsewhere & (numbers >= 0)] += size
      self._of_cuts[cut] = numbers, self._bytes(passes)
    places, amounts = self._of_cuts[cut]
    share = self._num_parts / num_parts
    inside = places >= 0
    seconds, of_one_core = (
      np.bincount(places[inside], x[inside], 2 * size).reshape(
        [2, cut.num_stages, -1]
      )
      for x in self._seconds_of_ops(fraction, share)
    )
    # The last two axes: whether bytes grow with the batch, or are of parts.
    total = amounts[:, :, 0, :] + fraction * amounts[:, :, 1, :]
    total = total[:, :, 0] + share * total[:, :, 1]
    return [
      self._stage(
        seconds[:, i].tolist(), of_one_core[:, i], num_bytes, num_parts
      )
      for i, num_bytes in enumerate(total.tolist())
    ]

  def ratios(
    self, measured: MeasuredCosts, fraction: float
  ) -> dict[str, float]:
    """Returns how many times as long as estimated ops take, by their names.

    Args:
      measured: The costs of the plain model.
      fraction: The part of a nominal batch that they are for.
    """
    estimates, _ = self._seconds_of_ops(fraction, 1.0)
    return {
      op.name: measured.scale * measured.seconds[op.name] / estimate
      for op, estimate in zip(self._ops, estimates.tolist(), strict=True)
      if estimate and op.name in measured.seconds
    }

  def correct(self, ratios: Mapping[str, float]) -> None:
    """Makes ops take longer.

    Args:
      ratios: How many times as long, by the names of ops of the plain graph.
    """
    self._amounts *= [ratios.get(_plain_name(op), 1.0) for op in self._ops]

  def _seconds_of_ops(self, fraction: float, share: float) -> Any:
    """Returns the seconds of ops, and those of one core.

    Args:
      fraction: The part of a nominal batch.
      share: The size of a part, of that of the graph.
    """
    launches, strided, flops, fixed_flops, moved, fixed_moved = self._amounts
    roofline = np.maximum(
      fraction * flops + fixed_flops, fraction * moved + fixed_moved
    )
    shares = np.where(self._is_part, share, 1.0)
    return launches + shares * (strided + roofline), shares * strided

  def _stage(
    self,
    seconds: Sequence[Sequence[float]],
    of_one_core: Any,
    amounts: Sequence[float],
    num_parts: int,
  ) -> StageWork:
    """Returns the work of a stage, from seconds here and elsewhere, and bytes.

    Seconds are by phase, the last ones those of what is executed once.
    """
    over, send = 0.0, 0.0
    # There are as many other parts, times this.
    more = (num_parts - 1) / max(self._num_parts - 1, 1)
    if num_parts > 1:
      over = amounts[_OVER] * more
      send = self._machine.link(0, num_parts - 1).seconds(over) / 2
    (forward, backward, weight, once), (*of_slice, updates) = seconds
    one_here, one_elsewhere = of_one_core[:, :_ONCE].sum(1).tolist()
    return StageWork(
      forward + send,
      backward + send,
      weight,
      once,
      sent_bytes=amounts[_SENT],
      kept_bytes=amounts[_KEPT],
      input_bytes=amounts[_INPUT],
      weight_bytes=amounts[_WEIGHT],
      slot_bytes=amounts[_SLOT],
      largest_slot_bytes=amounts[_LARGEST_SLOT],
      gradient_bytes=amounts[_GRADIENT],
      row_bytes=amounts[_ROWS],
      table_bytes=amounts[_TABLE],
      model_bytes=over,
      others=sum(of_slice) * more,
      other_updates=updates * more,
      of_one_core=one_here + one_elsewhere * more,
    )

  def _is_of_batch(self, tensor: tf.Tensor) -> bool:
    """Whether a tensor grows with the batch."""
    return isinstance(self._layouts.layout(tensor), Shard)

  def _seconds(self, op: tf.Operation, cost: costs.OpCost) -> list[float]:
    """Returns launches, strided reads, operations and memory traffic.

    Of the last two, those of the batch and fixed ones. All are in seconds.
    """
    if op.type in op_types.VIEWS or op.type in op_types.NO_WORK:
      return [0.0] * 6
    device = self._machine.device
    values = [x for x in (*op.inputs, *op.outputs) if x.dtype != tf.resource]
    grown = [x for x in values if self._is_of_batch(x)]
    num_bytes = sum(self._sizes.get(x.name, 0) for x in grown)
    moved = min(num_bytes, cost.touched_bytes)
    dtype = next((x.dtype.name for x in op.outputs), "float32")
    flops = device.seconds(cost.flops, 0.0, dtype, 0)
    roofline = device.seconds(cost.flops, cost.touched_bytes, dtype, 0)
    strided = cost.one_core * cost.seconds
    return [
      max(cost.seconds - roofline - strided, 0.0),
      strided,
      flops if grown else 0.0,
      0.0 if grown else flops,
      moved / device.memory_bandwidth,
      (cost.touched_bytes - moved) / device.memory_bandwidth,
    ]

  def _passes(self, cut: Cut) -> dict[tf.Operation, tuple[int, int]]:
    """Returns the stage and the phase of each op, -1 for one without a stage.

    What a split has added, such as sums of parts, follows what it reads.
    """
    passes: dict[tf.Operation, tuple[int, int]] = {}
    for op in self._step.ops:
      name = _plain_name(op)
      read = [passes[x] for x in traversal.inputs(op) if x in passes]
      if name in cut.stages:
        passes[op] = cut.stages[name], int(cut.phases.get(name, _ONCE))
      else:
        passes[op] = max(read, key=lambda x: x[::-1], default=(-1, _ONCE))
    return passes

  def _bytes(self, passes: Mapping[tf.Operation, tuple[int, int]]) -> Any:
    """Returns bytes by stage and kind, of the batch or not, of parts or not."""
    size = 1 + max(stage for stage, _ in passes.values())
    amounts = np.zeros([size, _TABLE + 1, 2, 2])
    for stage, kind, of_batch, is_part, num_bytes in (
      *self._of_activations(passes),
      *self._of_variables(passes),
    ):
      amounts[stage, kind, int(of_batch), int(is_part)] += num_bytes
    return amounts

  def _of_activations(
    self, passes: Mapping[tf.Operation, tuple[int, int]]
  ) -> Iterator[tuple[int, int, bool, bool, int]]:
    """Yields what activations of a forward pass are kept, sent and received."""
    kept: dict[tuple[int, str], tf.Tensor] = {}
    sent: set[tuple[int, str]] = set()
    for op in self._step.ops:
      stage, phase = passes[op]
      for x in op.inputs:
        source, made = passes.get(x.op, (-1, _ONCE))
        if min(stage, source) < 0 or op_types.is_handle(x):
          continue
        num_bytes, grown = self._sizes.get(x.name, 0), self._is_of_batch(x)
        place = self._place(op)
        if self._place(x.op) != place:  # It is sent once to each part.
          if (place, x.name) not in sent:
            sent.add((place, x.name))
            yield stage, _OVER, grown, False, num_bytes
        elif place == 0 and made == Phase.FORWARD:
          if phase == Phase.FORWARD and stage > source:
            yield stage, _INPUT, grown, _is_part(x.op), num_bytes
            for k in range(source, stage):
              yield k, _SENT, grown, _is_part(x.op), num_bytes
          elif phase != Phase.FORWARD and x.op.type not in op_types.LASTING:
            kept[source, _buffer(x).name] = x
    for (stage, _), x in kept.items():
      size = self._sizes.get(x.name, 0)
      yield stage, _KEPT, self._is_of_batch(x), _is_part(x.op), size

  def _place(self, op: tf.Operation) -> int:
    """Returns where an op is on the model axis."""
    scope = op.name.partition("/")[0]
    number = scope.removeprefix(_PART)
    if number != scope and number.isdecimal():
      return int(number)
    return self._positions.get(op.name, 0)

  def _of_variables(
    self, passes: Mapping[tf.Operation, tuple[int, int]]
  ) -> Iterator[tuple[int, int, bool, bool, int]]:
    """Yields the bytes of variables, and of their gradients."""
    tables = {*self.tables}
    most: dict[tuple[int, bool], dict[str, int]] = {}
    for op in filter(op_types.is_variable, self._ops):
      stage, _ = passes[op]
      if stage < 0 or self._place(op):
        continue
      num_bytes, is_part = shapes.variable_bytes(op), _is_part(op)
      is_trained = op.name in self._trained
      yield stage, _WEIGHT if is_trained else _SLOT, False, is_part, num_bytes
      owner = split_plan.owner_of_slot(op.name, self._trained)
      if tables.intersection({op.name, owner}):
        yield stage, _TABLE, False, is_part, num_bytes
      if is_trained:
        rows = self._rows(op)
        for x in rows:
          yield stage, _ROWS, True, is_part, self._sizes.get(x.name, 0)
        if not rows:
          yield stage, _GRADIENT, False, is_part, num_bytes
      else:
        of_owners = most.setdefault((stage, is_part), {})
        key = owner or op.name
        of_owners[key] = of_owners.get(key, 0) + num_bytes
    for (stage, is_part), of_owners in most.items():
      yield stage, _LARGEST_SLOT, False, is_part, max(of_owners.values())

  @functools.cached_property
  def _trained(self) -> set[str]:
    """The names of the ops of variables that are trained."""
    kind = tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES
    return {x.op.name for x in self._step.graph.get_collection(kind)}

  @functools.cached_property
  def tables(self) -> tuple[str, ...]:
    """The names of tables: of each, a batch looks up less than it has."""
    names = []
    for op in filter(op_types.is_variable, self._ops):
      rows = sum(self._sizes.get(x.name, 0) for x in self._rows(op))
      if op.name in self._trained and 0 < rows < shapes.variable_bytes(op):
        names.append(op.name)
    return tuple(names)

  def _rows(self, variable: tf.Operation) -> list[tf.Tensor]:
    """Returns what is looked up of a variable; nothing if all of it is read."""
    readers = [x for x in traversal.consumers(variable) if x in self._inside]
    if any(x.type in op_types.WHOLE_READS for x in readers):
      return []
    return [x.outputs[0] for x in readers if op_types.looks_up_rows(x)]


def _is_part(op: tf.Operation) -> bool:
  """Whether the other devices of a model axis have such an op, too."""
  return op.name.startswith(_PART) or f"/{_PART}" in op.name


def _plain_name(op: tf.Operation) -> str:
  """Returns the name of the op of the plain graph that one is of."""
  scope, _, rest = str(op.name).partition("/")
  is_part = scope.startswith(_PART)
  return rest if is_part else str(op.name).partition(f"/{_PART}")[0]


def _buffer(tensor: tf.Tensor) -> tf.Tensor:
  """Returns the tensor in whose memory one is."""
  while tensor.op.type in op_types.VIEWS and tensor.op.inputs:
    tensor = tensor.op.inputs[0]
  return tensor
