"""Candidates: choices of splits of variables, with layouts and bytes sent.

Layouts follow op by op, from those of an op's inputs (`propagate`). A changed
choice propagates again only behind the change, and the decision on an op is
kept by the layouts of its inputs. Ops, tensors and layouts go by numbers.
"""

import dataclasses
import heapq
from collections.abc import Callable, Collection, Mapping, Sequence

from estimator_mp.analysis.symbolic_shapes import MEASURES, SymbolicShapes
from estimator_mp.graph import op_types, variables
from estimator_mp.graph.frames import Frames
from estimator_mp.planning import model_traffic
from estimator_mp.planning.split_plan import SLICE
from estimator_mp.propagate import splits
from estimator_mp.propagate.layouts import (
  ONCE,
  Layout,
  Read,
  Repeated,
  Shard,
  Sizes,
  is_whole,
)
from estimator_mp.propagate.propagation import Propagation, is_without_state

import tensorflow as tf

Choice = Mapping[tf.Operation, Shard | None]


@dataclasses.dataclass(frozen=True)
class Problem:
  """A graph whose variables are to be split.

  Attributes:
    ops: The ops of a step, each after those that it reads.
    backward: Those that come after the forward pass.
    shapes: The sizes of tensors.
    layouts: Decides how ops are executed; nothing is split there.
    sizes: The bytes of tensors for a nominal batch, by their names.
    num_parts: How many devices there are.
    variables: The variables to decide about, each with those that are split
      as it is, as its slots are.
    may_follow: Whether another variable is split if all that reads it is.
    memory_limit: The bytes of a device for its variables, with their gradients
      and slots; None for no limit.
  """

  ops: Sequence[tf.Operation]
  backward: Collection[tf.Operation]
  shapes: SymbolicShapes
  layouts: Propagation
  sizes: Mapping[str, int]
  num_parts: int
  variables: Mapping[tf.Operation, Collection[tf.Operation]]
  may_follow: Callable[[tf.Operation], bool]
  memory_limit: int | None = None

  @classmethod
  def of(
    cls,
    ops: Sequence[tf.Operation],
    shapes: SymbolicShapes,
    frames: Frames,
    sizes: Mapping[str, int],
    num_parts: int,
    undecided: Collection[tf.Operation],
    may_follow: Callable[[tf.Operation], bool],
    backward: Collection[tf.Operation] = (),
    memory_limit: int | None = None,
  ) -> "Problem":
    """Returns a problem, of the ops of a step.

    Args:
      ops: Each after those that it reads.
      shapes: The sizes of tensors.
      frames: The loops that ops are in. These are executed once here.
      sizes: The bytes of tensors for a nominal batch, by their names.
      num_parts: How many devices there are.
      undecided: The variables to decide about.
      may_follow: Whether another variable is split if all that reads it is.
      backward: The ops that come after the forward pass.
      memory_limit: The bytes of a device for variables.
    """
    on_handles = [op for op in ops if any(map(op_types.is_handle, op.inputs))]
    able = frozenset(filter(is_without_state, ops)).union(on_handles)
    layouts = Propagation(
      shapes, {}, able, frames=frames, exchanged=("classes",)
    )
    layouts.prepare(ops)
    used = splits.used_at_once(on_handles)
    together = {
      variable: splits.with_slots({variable: None}, used)
      for variable in undecided
    }
    return cls(
      ops,
      backward,
      shapes,
      layouts,
      sizes,
      num_parts,
      {x: of.keys() - undecided for x, of in together.items()},
      may_follow,
      memory_limit,
    )


@dataclasses.dataclass(frozen=True)
class _Parts:
  """How an op is executed in parts, with layouts by their numbers."""

  reads: tuple[int, ...]
  outputs: tuple[int, ...]
  exchanged_bytes: int


@dataclasses.dataclass(frozen=True)
class _Sent:
  """The traffic of a tensor, or between the parts of an op."""

  num_bytes: int = 0
  num_sent: int = 0
  is_gathered: bool = False  # For an op that is executed once.


_NOTHING = _Sent()
_ONCE = 0  # The number of this layout.
_EXECUTED_ONCE = -1  # In the place of how an op reads an input.


@dataclasses.dataclass(frozen=True)
class Candidate:
  """A choice, with the layouts and the traffic that follow from it.

  Attributes:
    splits: How each variable is split; None for whole ones.
    layouts: The numbers of the layouts of tensors.
    parts: How ops are executed in parts; None for those that are not.
    sent: The traffic of each tensor.
    num_bytes: The bytes that are sent of all.
    num_sent: How many tensors are sent.
  """

  splits: Choice
  layouts: list[int]
  parts: list[_Parts | None]
  sent: list[_Sent]
  num_bytes: int
  num_sent: int


class Candidates:
  """The layouts and the traffic of choices.

  Attributes:
    problem: The problem.
    visits: How many ops were decided about.
  """

  def __init__(self, problem: Problem):
    """Reads the graph.

    Args:
      problem: The graph and its variables.
    """
    self.problem = problem
    self.visits = 0
    self._ops = problem.ops
    self._positions = {op: i for i, op in enumerate(self._ops)}
    self._tensors: list[tf.Tensor] = []
    self._numbers: dict[str, int] = {}
    self._inputs = [self._numbered(op.inputs) for op in self._ops]
    self._outputs = [self._numbered(op.outputs) for op in self._ops]
    # The numbers of layouts, and of how tensors are read.
    self._reads: list[Read] = [ONCE]
    self._ids: dict[Read, int] = {ONCE: _ONCE}
    self._decided: list[dict[tuple[int, ...], _Parts | None]] = [
      {} for _ in self._ops
    ]
    self._of_tensors: list[dict[tuple[int, ...], _Sent]] = [
      {} for _ in self._tensors
    ]
    self._bytes: dict[tuple[str, Shard], int] = {}
    self._consumers: list[list[int]] = [[] for _ in self._tensors]
    # The ops that a tensor may be sent to, with the numbers of their inputs.
    self._readers: list[list[tuple[int, int]]] = [[] for _ in self._tensors]
    # Handles that an op without parts of all of them cannot work on.
    self._handles: list[list[int]] = []
    self._uses: dict[tf.Operation, list[tuple[int, int]]] = {}
    owner = {x: v for v, group in problem.variables.items() for x in group}
    for position, op in enumerate(self._ops):
      self._enter(position, op, owner)

  @property
  def whole(self) -> Candidate:
    """The choice to split nothing."""
    return Candidate(
      dict.fromkeys(self.problem.variables),
      [_ONCE] * len(self._tensors),
      [None] * len(self._ops),
      [_NOTHING] * len(self._tensors),
      num_bytes=0,
      num_sent=0,
    )

  def changed(self, before: Candidate, move: Choice) -> Candidate:
    """Returns the candidate of another choice.

    Args:
      before: A choice.
      move: How some variables are split instead.
    """
    layouts, parts, sent = [*before.layouts], [*before.parts], [*before.sent]
    roots = {
      self._numbers[x.outputs[0].name]: self._number_of(split or ONCE)
      for variable, split in move.items()
      for x in (variable, *self.problem.variables[variable])
    }
    touched, num_bytes = self._propagate(roots, layouts, parts)
    num_bytes += before.num_bytes
    num_sent = before.num_sent
    for tensor in touched:
      now = self._sent(tensor, layouts, parts)
      num_bytes += now.num_bytes - sent[tensor].num_bytes
      num_sent += now.num_sent - sent[tensor].num_sent
      sent[tensor] = now
    splits = {**before.splits, **move}
    return Candidate(splits, layouts, parts, sent, num_bytes, num_sent)

  def layout(self, candidate: Candidate, tensor: tf.Tensor) -> Layout:
    """Returns the layout of a tensor for a choice.

    Args:
      candidate: The choice.
      tensor: The tensor.
    """
    return self._layout(candidate.layouts[self._numbers[tensor.name]])

  def is_gathered(self, candidate: Candidate, name: str) -> bool:
    """Whether an op that is executed once reads a tensor that is split.

    Args:
      candidate: The choice.
      name: The tensor's name.
    """
    return candidate.sent[self._numbers[name]].is_gathered

  def executed_once(self, candidate: Candidate) -> list[tf.Operation]:
    """Returns ops that are not in parts although an input is.

    Args:
      candidate: A choice.
    """
    return [
      op
      for position, op in enumerate(self._ops)
      if candidate.parts[position] is None
      and any(candidate.layouts[x] for x in self._inputs[position])
    ]

  def is_refused(self, candidate: Candidate, variable: tf.Operation) -> bool:
    """Whether an op works on a variable, or a slot, of which it has no parts.

    Args:
      candidate: A choice in which the variable is split.
      variable: The variable.
    """
    for position, index in self._uses.get(variable, ()):
      parts = candidate.parts[position]
      layout = candidate.layouts[self._inputs[position][index]]
      if parts is None or not layout or parts.reads[index] != layout:
        return True
    return False

  def readers(self, op: tf.Operation) -> list[tf.Operation]:
    """Returns the ops of a step that read an op.

    Args:
      op: An op of a step.
    """
    outputs = self._outputs[self._positions[op]]
    return [self._ops[i] for x in outputs for i in self._consumers[x]]

  # How the graph is kept: ops and tensors by number.

  def _numbered(self, tensors: Sequence[tf.Tensor]) -> tuple[int, ...]:
    for tensor in tensors:
      if tensor.name not in self._numbers:
        self._numbers[tensor.name] = len(self._tensors)
        self._tensors.append(tensor)
    return tuple(self._numbers[x.name] for x in tensors)

  def _number_of(self, read: Read) -> int:
    if read not in self._ids:
      self._ids[read] = len(self._reads)
      self._reads.append(read)
    return self._ids[read]

  def _layout(self, number: int) -> Layout:
    layout = self._reads[number]
    assert not isinstance(layout, Sizes | Repeated)
    return layout

  def _enter(
    self,
    position: int,
    op: tf.Operation,
    owner: Mapping[tf.Operation, tf.Operation],
  ) -> None:
    """Enters an op as a reader of its inputs."""
    inputs = self._inputs[position]
    handles = {
      index: variables.variable_of(x)
      for index, x in enumerate(op.inputs)
      if op_types.is_resource(x)
    }
    for x in dict.fromkeys(inputs):
      self._consumers[x].append(position)
    for index, variable in handles.items():
      leader = owner.get(variable, variable)
      if leader in self.problem.variables and op.type not in MEASURES:
        self._uses.setdefault(leader, []).append((position, index))
    able = is_without_state(op)
    self._handles.append([] if able else [inputs[i] for i in handles])
    # The update of a variable that follows others is split with it.
    is_free = handles and all(map(self.problem.may_follow, handles.values()))
    if op.type in MEASURES or is_free:
      return
    for index, tensor in enumerate(op.inputs):
      if model_traffic.may_be_sent(tensor, self.problem.shapes):
        self._readers[inputs[index]].append((position, index))

  # Layouts.

  def _propagate(
    self,
    roots: Mapping[int, int],
    layouts: list[int],
    parts: list[_Parts | None],
  ) -> tuple[set[int], int]:
    """Changes layouts, and those that follow from them.

    Args:
      roots: The new layouts of some tensors.
      layouts: Those of all, to be changed.
      parts: How ops are executed in parts, to be changed.

    Returns:
      The tensors of which something else may be sent, and how many more bytes
      ops exchange.
    """
    touched: set[int] = set()
    todo: list[int] = []  # Ops, the first one in the graph first.

    def set_layout(tensor: int, number: int) -> None:
      if layouts[tensor] != number:
        layouts[tensor] = number
        touched.add(tensor)
        for reader in self._consumers[tensor]:
          heapq.heappush(todo, reader)

    for tensor, number in roots.items():
      set_layout(tensor, number)
    exchanged, last = 0, -1
    while todo:
      position = heapq.heappop(todo)
      if position == last:
        continue
      last = position
      new, old = self._decide(position, layouts), parts[position]
      if new == old:
        continue
      parts[position] = new
      exchanged += _exchanged(new) - _exchanged(old)
      touched.update(self._inputs[position])
      outputs = self._outputs[position]
      new_layouts = new.outputs if new else (_ONCE,) * len(outputs)
      for tensor, number in zip(outputs, new_layouts, strict=True):
        set_layout(tensor, number)
    return touched, exchanged

  def _decide(self, position: int, layouts: Sequence[int]) -> _Parts | None:
    self.visits += 1
    key = tuple([layouts[x] for x in self._inputs[position]])
    decided = self._decided[position]
    if key not in decided:
      decided[key] = self._decide_anew(position, key)
    return decided[key]

  def _decide_anew(self, position: int, key: tuple[int, ...]) -> _Parts | None:
    op = self._ops[position]
    numbers = dict(zip(self._inputs[position], key, strict=True))
    is_able = all(numbers[x] for x in self._handles[position])
    if not any(key) or not is_able:
      return None
    layouts = [self._layout(x) for x in key]
    shapes = self.problem.shapes
    parts = self.problem.layouts.decide(op, layouts)
    of_rows = model_traffic.exchanged_rows(op, parts, layouts[0], shapes)
    if of_rows:
      num_bytes = model_traffic.bytes_of_rows(
        of_rows, layouts[0], self.problem.sizes
      )
      # All but the handles is where the rows are wanted.
      reads = [x if x else _EXECUTED_ONCE for x in key]
      outputs = (0,) * len(op.outputs)
      return _Parts(tuple(reads), outputs, num_bytes)
    if parts is None:
      return None
    exchanged = 0
    if parts.exchanges:
      exchanged = model_traffic.exchanged_bytes(
        op,
        layouts[0],
        self.problem.shapes,
        self.problem.sizes,
        self.problem.num_parts,
      )
    return _Parts(
      tuple(map(self._number_of, parts.reads)),
      tuple(map(self._number_of, parts.outputs)),
      exchanged,
    )

  # Traffic.

  def _sent(
    self, tensor: int, layouts: Sequence[int], parts: Sequence[_Parts | None]
  ) -> _Sent:
    """Returns the traffic of a tensor, for all its readers."""
    key = (
      layouts[tensor],
      *[
        _EXECUTED_ONCE if (x := parts[reader]) is None else x.reads[index]
        for reader, index in self._readers[tensor]
      ],
    )
    known = self._of_tensors[tensor]
    if key not in known:
      known[key] = self._sent_anew(tensor, key)
    return known[key]

  def _sent_anew(self, number: int, key: Sequence[int]) -> _Sent:
    tensor, layout = self._tensors[number], self._layout(key[0])
    different = [
      None if x == _EXECUTED_ONCE else self._reads[x]
      for x in dict.fromkeys(key[1:])
    ]
    reads = [x for x in different if not isinstance(x, Sizes)]
    size = self.problem.sizes.get(tensor.name, 0)
    count = self.problem.num_parts
    by_kind: dict[str, int] = {}
    for x in reads:
      by_kind = model_traffic.moves(tensor, layout, x, size, count) | by_kind
    parts = [x for x in reads if x is not None]
    if is_whole(layout) and len(parts) == 1 and isinstance(parts[0], Shard):
      # Those that are executed once could as well be in parts.
      once = [
        reader
        for reader, x in zip(self._readers[number], key[1:], strict=True)
        if x == _EXECUTED_ONCE
      ]
      if all(self._may_read(*reader, parts[0]) for reader in once):
        by_kind[SLICE] = self._bytes_to_make(tensor, parts[0])
    return _Sent(
      sum(by_kind.values()),
      sum(1 for x in by_kind.values() if x),
      isinstance(layout, Shard) and None in reads,
    )

  def _may_read(self, position: int, index: int, read: Shard) -> bool:
    """Whether an op that is executed once could read parts instead."""
    op = self._ops[position]
    if not is_without_state(op):
      return False
    parts = self.problem.layouts.along_input(op, index, read)
    return parts is not None and not parts.exchanges

  def _bytes_to_make(self, tensor: tf.Tensor, read: Shard) -> int:
    """Returns the bytes sent for parts of a whole tensor, or to make them."""
    key = tensor.name, read
    if key not in self._bytes:
      size = self.problem.sizes.get(tensor.name, 0)
      slices = model_traffic.bytes_of_others(read, size)
      self._bytes[key] = slices  # If it is made of itself.
      if slices:
        of_parts = self._bytes_of_parts(tensor, read, slices)
        self._bytes[key] = min(slices, of_parts)
    return self._bytes[key]

  def _bytes_of_parts(self, tensor: tf.Tensor, output: Shard, most: int) -> int:
    """Returns the bytes sent if a tensor is made in the parts that are read."""
    op = tensor.op
    if op.type in op_types.CONSTANTS:
      return 0
    handles = [x for x in op.inputs if op_types.is_resource(x)]
    if handles:
      of = map(variables.variable_of, handles)
      return 0 if all(map(self.problem.may_follow, of)) else most
    if op not in self._positions or not is_without_state(op):
      return most
    parts = self.problem.layouts.along_output(op, output)
    if parts is None or parts.exchanges or parts.outputs != (output,):
      return most
    others = self.problem.num_parts - 1
    total = 0
    for x, read in zip(op.inputs, parts.reads, strict=True):
      if isinstance(read, Sizes) or x.op.type in op_types.CONSTANTS:
        continue
      if isinstance(read, Shard):
        total += self._bytes_to_make(x, read)
      elif self.problem.shapes.value(x) is None:
        total += self.problem.sizes.get(x.name, 0) * others
    return total


def _exchanged(parts: _Parts | None) -> int:
  return 0 if parts is None else parts.exchanged_bytes
