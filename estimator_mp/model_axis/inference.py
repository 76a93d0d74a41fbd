"""Inference: the split tensors that follow from split variables.

Ops are looked at in the order of the graph. A variable that is split reads as a
split tensor, and the rule of each op that reads one says what becomes of it;
where there is none, or it says nothing, the op reads gathered tensors.

A variable without a decision is *adopted* where a split tensor meets it entry
by entry, as a bias, or a slot of an optimizer, does: it is split in the same
way, instead of being sent in slices. A random tensor that meets a split one, as
the mask of a dropout does, is made in parts. Both are only seen when their
reader is, so that the ops are looked at once more then.
"""

import dataclasses
import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from compat.private import graph_reads
from estimator_mp.graph import feeds, op_types, traversal
from estimator_mp.model_axis.decisions import (
  Decision,
  OnCopies,
  OwnShard,
  PerPart,
  Replicate,
  Shard,
  Shards,
  Table,
)
from estimator_mp.plan.split_plan import Gather
from estimator_mp.propagate.splits import Unsplittable

import tensorflow as tf

# The most ops that are looked at to see whether a tensor is made of nothing.
_MOST_SOURCES = 64
# The most elements of a constant that each device has a copy of.
_MOST_COPIED = 1024


@dataclasses.dataclass(frozen=True)
class Inferred:
  """The consequences of the splits of variables.

  Attributes:
    splits: How tensors are split, by their names; handles of split variables
      are among them.
    decisions: The decisions about ops, in the order of the graph.
    gathers: The split tensors that ops read whole.
    adopted: The splits of variables without a decision, by the names of their
      ops.
  """

  splits: Mapping[str, Shard]
  decisions: Mapping[tf.Operation, Decision]
  gathers: tuple[Gather, ...]
  adopted: Mapping[str, Shard]


class Inference:
  """Looks at the same ops for several splits of variables.

  The results of rules are cached, and so are the readers of tensors, so that
  only ops that read split tensors are looked at.
  """

  def __init__(self, ops: Sequence[tf.Operation], table: Table):
    """Starts with nothing remembered.

    Args:
      ops: The ops, in the order of the graph.
      table: The rules.
    """
    self.ops = traversal.in_order(ops)
    self.positions = {op: position for position, op in enumerate(self.ops)}
    self.inputs: list[list[str]] = []
    self.outputs: list[list[str]] = []
    self.readers: dict[str, list[int]] = {}
    self.handles: list[list[int]] = []
    # The tensors that are made of variables, or of random numbers.
    self.of_variables: set[str] = set()
    self.of_random: set[str] = set()
    self._table = table
    self._sources: dict[tuple[tf.Operation, Shard], PerPart | None] = {}
    for position, op in enumerate(self.ops):
      names = [tensor.name for tensor in op.inputs]
      outputs = [tensor.name for tensor in op.outputs]
      handles = [i for i, x in enumerate(op.inputs) if op_types.is_handle(x)]
      self.inputs.append(names)
      self.outputs.append(outputs)
      self.handles.append(handles)
      self.of_variables.update(names[i] for i in handles)
      if not self.of_variables.isdisjoint(names):
        self.of_variables.update(outputs)
      if op.type in op_types.RANDOM or not self.of_random.isdisjoint(names):
        self.of_random.update(outputs)
      for name in dict.fromkeys(names):
        self.readers.setdefault(name, []).append(position)
    self._steps: list[dict[tuple[Shard | None, ...], _Step | None]]
    self._steps = [{} for _ in self.ops]

  def infer(
    self,
    variables: Mapping[str, Shard],
    known: Mapping[str, Shard] = MappingProxyType({}),
    adoptable: Collection[str] = (),
    whole_values: Collection[tf.Operation] = (),
    drawn_values: Collection[tf.Operation] = (),
    on_copies: bool = False,
  ) -> Inferred:
    """Returns what becomes of the ops if some variables are split.

    Args:
      variables: How variables are split, by the names of their ops.
      known: How tensors are split that other ops have made, by their names.
      adoptable: The names of variables without a decision.
      whole_values: Writes of initial values, which are made whole: random ones
        among them are the plain model's.
      drawn_values: Writes of initial values that each shard draws itself.
      on_copies: Whether an op on a variable's handle that has no rule may work
        on a copy of the whole variable; nothing is differentiated through it.

    Raises:
      Unsplittable: If one has no rule otherwise.
    """
    adopted: dict[str, Shard] = {}
    forced: dict[tf.Operation, Shard] = {}
    while True:
      handles = {**variables, **adopted}
      attempt = _Attempt(
        self,
        {f"{name}:0": split for name, split in handles.items()} | dict(known),
        forced,
        frozenset(adoptable) - adopted.keys(),
        frozenset(whole_values),
        frozenset(drawn_values),
        on_copies,
      )
      attempt.visit_all()
      if not attempt.adopted and not attempt.forced:
        return Inferred(
          attempt.splits, attempt.decisions, tuple(attempt.gathers), adopted
        )
      adopted |= attempt.adopted
      forced |= attempt.forced

  def decide(self, op: tf.Operation, splits: Shards) -> Decision | None:
    """Returns what the rules say of an op; None if it reads whole tensors.

    Args:
      op: An op.
      splits: How each of its inputs is split.
    """
    rule = self._table.rules.get(op.type)
    if rule is None or graph_reads.outermost_loop(op) is not None:
      return None
    return None if graph_reads.names_gradient(op) else rule(op, splits)

  def step(
    self, position: int, splits: tuple[Shard | None, ...]
  ) -> "_Step | None":
    """Returns what `decide` says of an op, and remembers it.

    Args:
      position: The position of the op.
      splits: How each of its inputs is split.
    """
    steps = self._steps[position]
    if splits not in steps:
      decision = self.decide(self.ops[position], splits)
      made = None if decision is None else self.step_of(position, decision)
      steps[splits] = made
    return steps[splits]

  def step_of(self, position: int, decision: Decision) -> "_Step":
    """Returns a decision about an op, with the parts that it makes and reads.

    Args:
      position: The position of the op.
      decision: The decision about it.
    """
    made = zip(self.outputs[position], decision.outputs, strict=False)
    return _Step(
      decision,
      tuple((name, x) for name, x in made if isinstance(x, Shard)),
      tuple(
        (index, x)
        for index, x in enumerate(decision.operands)
        if isinstance(x, Shard)
      ),
    )

  def source(self, op: tf.Operation, split: Shard) -> PerPart | None:
    """Returns how parts make an op's output themselves; see the function."""
    key = (op, split)
    if key not in self._sources:
      self._sources[key] = source(self._table, op, split)
    return self._sources[key]


@dataclasses.dataclass(frozen=True)
class _Step:
  """A decision about an op, with the parts that it makes and reads.

  Attributes:
    decision: The decision.
    made: The names of the outputs that are split, with how they are.
    read: The inputs that are read in parts, by index, with how they are split.
  """

  decision: Decision
  made: tuple[tuple[str, Shard], ...]
  read: tuple[tuple[int, Shard], ...]


class _Attempt:
  """One look at all ops."""

  def __init__(
    self,
    inference: Inference,
    splits: dict[str, Shard],
    made_in_parts: Mapping[tf.Operation, Shard],
    adoptable: Collection[str],
    whole_values: Collection[tf.Operation],
    drawn_values: Collection[tf.Operation],
    on_copies: bool,
  ):
    self.splits = splits
    self.decisions: dict[tf.Operation, Decision] = {}
    self.gathers: list[Gather] = []
    self.adopted: dict[str, Shard] = {}
    self.forced: dict[tf.Operation, Shard] = {}
    self._inference = inference
    self._made_in_parts = made_in_parts
    self._adoptable = adoptable
    self._whole_values = whole_values
    self._drawn_values = drawn_values
    self._on_copies = on_copies
    self._todo: list[int] = []
    self._seen: set[int] = set()

  def visit_all(self) -> None:
    """Decides about all ops that read something split, in their order."""
    for name in self.splits:
      self._visit_later(self._inference.readers.get(name, ()))
    positions = self._inference.positions
    self._visit_later(
      positions[op] for op in self._made_in_parts if op in positions
    )
    while self._todo:
      self._visit(heapq.heappop(self._todo))

  def _visit_later(self, positions: Iterable[int], after: int = -1) -> None:
    """Remembers to look at ops that come after one that was looked at."""
    for position in positions:
      if position > after and position not in self._seen:
        self._seen.add(position)
        heapq.heappush(self._todo, position)

  def _visit(self, position: int) -> None:
    """Decides what becomes of an op."""
    inference = self._inference
    op = inference.ops[position]
    if self._made_in_parts and op in self._made_in_parts:
      made = inference.source(op, self._made_in_parts[op])
      if made is not None:
        self._take(position, inference.step_of(position, made))
      return
    splits = tuple(map(self.splits.get, inference.inputs[position]))
    step = inference.step(position, splits)
    if step is not None and (
      not inference.handles[position]
      or self._can_be_read(position, splits, step.decision)
    ):
      self._take(position, step)
      return
    split_inputs = [
      tensor
      for tensor, split in zip(op.inputs, splits, strict=True)
      if split is not None
    ]
    handles = [x for x in split_inputs if op_types.is_handle(x)]
    if handles and not self._on_copies:
      raise Unsplittable(handles[0].op.name, op)
    if handles:
      self.decisions[op] = OnCopies(
        tuple(OwnShard() if x in handles else Replicate() for x in op.inputs),
        (Replicate(),) * len(op.outputs),
      )
    self.gathers += (Gather(x.name, op.name, op.type) for x in split_inputs)

  def _take(self, position: int, step: _Step) -> None:
    """Keeps a decision, and what it makes of the op's inputs and outputs."""
    op = self._inference.ops[position]
    self.decisions[op] = step.decision
    for name, split in step.made:
      self.splits[name] = split
      self._visit_later(self._inference.readers.get(name, ()), position)
    names = self._inference.inputs[position]
    for index, split in step.read:
      if names[index] not in self.splits and self._may_want(names[index], op):
        self._want(op.inputs[index], split, op)

  def _can_be_read(
    self,
    position: int,
    splits: Shards,
    decision: Decision,
  ) -> bool:
    """Whether parts can have all handles that a decision gives them.

    The resource behind a handle that is not split is on one device.
    """
    for index in self._inference.handles[position]:
      own, operand = splits[index], decision.operands[index]
      if own is not None:
        if not isinstance(operand, OwnShard):
          return False
      elif isinstance(operand, Replicate):
        return False
      elif isinstance(operand, Shard):
        handle = self._inference.ops[position].inputs[index]
        if handle.op.name not in self._adoptable:
          return False
    return True

  def _may_want(self, name: str, reader: tf.Operation) -> bool:
    """Whether anything that a whole tensor is made of may be split for it."""
    return name in self._inference.of_variables or (
      name in self._inference.of_random and reader not in self._whole_values
    )

  def _want(
    self, tensor: tf.Tensor, split: Shard, reader: tf.Operation
  ) -> None:
    """Sees whether a whole tensor can be made in parts to begin with.

    Numbers that follow from a seed are those of the plain model, but for
    initial values that shards are to draw.
    """
    leaves = self._leaves(tensor, split)
    if leaves is None:
      return
    if reader not in self._drawn_values and any(
      leaf.op.type in op_types.SEED_INPUTS for leaf, _ in leaves
    ):
      return
    for leaf, wanted in leaves:
      if op_types.is_handle(leaf):
        self.adopted.setdefault(leaf.op.name, wanted)
      elif reader not in self._whole_values and leaf.op.type in op_types.RANDOM:
        self.forced.setdefault(leaf.op, wanted)

  def _leaves(
    self, tensor: tf.Tensor, split: Shard
  ) -> list[tuple[tf.Tensor, Shard]] | None:
    """Returns what a tensor is made of, if parts can make that themselves.

    Returns:
      Handles of adoptable variables and the outputs of ops that parts can make,
      with how they are split; None if something has to be sliced.
    """
    found: list[tuple[tf.Tensor, Shard]] = []
    todo = [(tensor, split)]
    while todo:
      if len(found) + len(todo) > _MOST_SOURCES:
        return None
      wanted, how = todo.pop()
      if self.splits.get(wanted.name) == how:
        continue
      op = wanted.op
      if op_types.is_handle(wanted):
        if op.name not in self._adoptable:
          return None
        found.append((wanted, how))
      elif op.type == "ReadVariableOp":
        todo.append((op.inputs[0], how))
      else:
        decision = self._inference.source(op, how)
        if decision is None or op not in self._inference.positions:
          return None
        if op.type in op_types.RANDOM:
          found.append((wanted, how))
        todo += [
          (read, operand)
          for read, operand in zip(op.inputs, decision.operands, strict=True)
          if isinstance(operand, Shard)
        ]
    return found


def source(table: Table, op: tf.Operation, split: Shard) -> PerPart | None:
  """Returns how parts make an op's output themselves; None if they cannot.

  Args:
    table: The rules.
    op: An op that reads nothing split.
    split: How its output is to be split.
  """
  make = table.sources.get(op.type)
  if make is None or graph_reads.outermost_loop(op) is not None:
    return None
  if graph_reads.names_gradient(op):
    return None
  return make(op, split)


def is_repeatable(table: Table, tensor: tf.Tensor, split: Shard) -> bool:
  """Whether parts can make a tensor of nothing, and draw no numbers for it.

  Args:
    table: The rules.
    tensor: A tensor that is whole.
    split: How it is to be split.
  """
  decision = source(table, tensor.op, split)
  if decision is None or tensor.op.type in op_types.RANDOM:
    return False
  return all(
    is_repeatable(table, read, operand)
    for read, operand in zip(tensor.op.inputs, decision.operands, strict=True)
    if isinstance(operand, Shard)
  )


def is_small_constant(tensor: tf.Tensor) -> bool:
  """Whether each device has a copy of a tensor that is read whole.

  Args:
    tensor: A tensor.
  """
  elements = tensor.shape.num_elements()
  return (
    feeds.can_be_copied(tensor.op)
    and elements is not None
    and elements <= _MOST_COPIED
  )
