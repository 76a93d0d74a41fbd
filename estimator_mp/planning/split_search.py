"""The automatic choice of splits.

It sends the fewest bytes in a step, times a price of whole variables, by which
devices hold or compute less evenly (`split_costs`): for a transformer it is
Megatron-LM's (Shoeybi et al., 2019, arXiv:1909.08053).

Variables that are alike, as those of the layers of a network are, are split
alike at first. Choices are improved one group of them after the other, and two
that follow each other in the graph together, until nothing is better; then one
variable after the other, if there are not too many.
"""

import dataclasses
import itertools
import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from estimator_mp.graph import op_types, traversal
from estimator_mp.planning.split_candidates import (
  Candidate,
  Candidates,
  Choice,
  Problem,
)
from estimator_mp.planning.split_costs import Cost, Costs
from estimator_mp.propagate.layouts import Partition, Shard, is_whole
from estimator_mp.propagate.splits import even_sizes

import tensorflow as tf

# A search looks at this many ops at most, and so takes seconds.
_MOST_VISITS = 1_500_000


def choose_splits(problem: Problem) -> dict[tf.Operation, Shard | None]:
  """Returns how variables are best split.

  Args:
    problem: The graph and its variables.

  Returns:
    The split of each variable of the problem, or None if it is best whole, or
    cannot be split.
  """
  return dict(_Search(Candidates(problem)).run().splits)


@dataclasses.dataclass(frozen=True)
class _Group:
  """Variables that are split alike.

  Attributes:
    variables: Their ops.
    options: How they may be split, besides not at all; preferred ones first.
  """

  variables: tuple[tf.Operation, ...]
  options: tuple[Shard, ...]

  def choice(self, split: Shard | None) -> Choice:
    """Returns one choice for all of them."""
    return dict.fromkeys(self.variables, split)


class _Search:
  """Looks for the best choice."""

  def __init__(self, candidates: Candidates):
    self._candidates = candidates
    self._costs = Costs(candidates)
    self._problem = candidates.problem
    self._positions = {op: i for i, op in enumerate(self._problem.ops)}
    self._worth: set[tf.Operation] = set()  # Variables used without a gather.
    # The costs of choices so far, by how they split each variable.
    self._seen: dict[tuple[Shard | None, ...], Cost] = {}

  def run(self) -> Candidate:
    """Returns the best choice that is found."""
    groups = self._groups()
    moves = [
      *_moves(groups),
      *(group.choice(None) for group in groups),
      *_joint_moves(self._neighbours(groups)),
    ]
    best = min(
      (self._improved(start, moves) for start in self._starts(groups)),
      key=self._costs.cost,
    )
    return self._improved(best, [*_moves(self._singles(groups))])

  def _starts(self, groups: Sequence[_Group]) -> Iterator[Candidate]:
    """Yields choices to begin with, as the best one depends on where one is."""
    yield self._columns_and_rows(groups)
    yield self._columns_and_rows(sorted(groups, key=self._is_looked_up))
    yield self._columns_and_rows(self._singles(groups))
    yield self._alone(_start(groups, max))
    yield self._alone(_start(groups, min))

  def _alone(self, choice: Choice) -> Candidate:
    """Returns a choice for some variables, when all others are whole."""
    return self._candidates.changed(self._candidates.whole, choice)

  def _columns_and_rows(self, groups: Sequence[_Group]) -> Candidate:
    """Returns columns of weights on whole features, and rows on split ones.

    Only weights that features are multiplied with are split: columns of one of
    several tables that are added would have the sum split, and all that
    follows. So would a small one whose rows are chosen by a product, as BERT's
    of token types is.
    """
    best = self._candidates.whole
    small = self._small(groups)
    for group in groups:
      if group in small or not group.options:
        continue
      options = group.options[:1]
      if self._reads_split(group, best):
        options = group.options
      best = min(
        (
          self._candidates.changed(best, group.choice(option))
          for option in (*options, None)
        ),
        key=self._costs.cost,
      )
    return best

  def _is_looked_up(self, group: _Group) -> bool:
    """Whether the first op on a group's variables is no product."""
    users = self._costs.users.get(group.variables[0])
    return not users or not users[0].type.startswith(op_types.LARGE_WORK)

  def _small(self, groups: Sequence[_Group]) -> set[_Group]:
    """Returns groups that may all be whole, as they are hardly multiplied."""

    def work(group: _Group) -> float:
      return sum(map(self._costs.work.__getitem__, group.variables))

    small: set[_Group] = set()
    whole: set[tf.Operation] = set()
    for group in sorted(groups, key=work):
      if work(group):
        whole.update(group.variables)
        if self._costs.uneven(whole):
          break
      small.add(group)
    return small

  def _reads_split(self, group: _Group, candidate: Candidate) -> bool:
    """Whether a group is multiplied with something that is split."""
    return any(
      not is_whole(self._candidates.layout(candidate, x))
      for variable in group.variables
      for op in self._costs.users.get(variable, ())
      for x in op.inputs
    )

  def _improved(self, start: Candidate, moves: Sequence[Choice]) -> Candidate:
    """Returns a choice that no move makes better.

    Args:
      start: The choice to begin with.
      moves: The changes that may be made at a time, in the order in which they
        are tried.
    """
    best, cost = start, self._costs.cost(start)
    unchanged = 0
    for move in itertools.cycle(moves):
      if unchanged == len(moves) or self._candidates.visits > _MOST_VISITS:
        break
      unchanged += 1
      key = tuple({**best.splits, **move}.values())
      if key in self._seen and self._seen[key] >= cost:
        continue
      other = self._candidates.changed(best, move)
      self._seen[key] = self._costs.cost(other)
      if self._seen[key] < cost:
        best, cost, unchanged = other, self._seen[key], 0
    return best

  def _groups(self) -> list[_Group]:
    """Returns the variables that are alike, in the order of their use."""
    by_kind: dict[Hashable, list[tf.Operation]] = {}
    for variable in sorted(self._problem.variables, key=self._place):
      kind = (
        re.sub(r"_?\d+", "", variable.name),
        tuple(_shape(variable)),
        tuple(x.type for x in self._candidates.readers(variable)),
      )
      by_kind.setdefault(kind, []).append(variable)
    groups = [_Group(tuple(x), self._options(x[0])) for x in by_kind.values()]
    self._costs.set_worth(
      {
        variable
        for group in groups
        if group.variables[0] in self._worth
        for variable in group.variables
      }
    )
    return _with_sizes_of_others(groups)

  def _singles(self, groups: Sequence[_Group]) -> list[_Group]:
    """Returns groups of one variable each; products before tables."""
    singles = [
      _Group((variable,), group.options)
      for group in groups
      for variable in group.variables
    ]
    singles.sort(key=lambda group: self._place(group.variables[0]))
    return sorted(singles, key=self._is_looked_up)

  def _place(self, variable: tf.Operation) -> int:
    """Returns where a variable is used first."""
    users = self._costs.users.get(variable)
    return self._positions[users[0]] if users else len(self._positions)

  def _options(self, variable: tf.Operation) -> tuple[Shard, ...]:
    """Returns how a variable may be split, by itself."""
    options: list[Shard] = []
    for dim in reversed(range(len(_shape(variable)))):
      options += self._options_of_dim(variable, dim)
    return tuple(options)

  def _options_of_dim(self, variable: tf.Operation, dim: int) -> list[Shard]:
    """Returns splits of a dimension; sizes that reshapes can use come first."""
    size, count = _shape(variable)[dim], self._problem.num_parts
    options: list[Shard] = []
    multiple: int | None = 1
    while multiple is not None and size >= multiple * count:
      sizes = even_sizes(size, count, multiple)
      split = Shard(dim, Partition(size, sizes))
      candidate = self._candidates.changed(
        self._candidates.whole, {variable: split}
      )
      if self._candidates.is_refused(candidate, variable):
        return []
      if variable not in self._costs.gathered(candidate):
        self._worth.add(variable)
      options.insert(0, split)
      needed = self._multiple(candidate, size)
      multiple = needed if needed is not None and needed > multiple else None
    return list(dict.fromkeys(options))

  def _multiple(self, candidate: Candidate, size: int) -> int | None:
    """Returns the divisor of sizes that reshapes of gathers need."""
    for op in self._candidates.executed_once(candidate):
      layout = (
        self._candidates.layout(candidate, op.inputs[0]) if op.inputs else None
      )
      if op.type != "Reshape" or not isinstance(layout, Shard):
        continue
      split = layout.partition.whole
      after = self._problem.shapes.shape(op.outputs[0])
      if after is None or not isinstance(split, int):
        continue
      known = [x if isinstance(x, int) else None for x in after]
      inner = _inner_size(known, split)
      if inner is not None and inner * size % split == 0:
        return inner * size // split
    return None

  def _neighbours(
    self, groups: Sequence[_Group]
  ) -> list[tuple[_Group, _Group]]:
    """Returns the groups that others follow, with no third one between."""
    users: dict[tf.Operation, set[int]] = {}
    for index, group in enumerate(groups):
      for variable in group.variables:
        for op in self._costs.users.get(variable, ()):
          users.setdefault(op, set()).add(index)
    pairs: set[tuple[int, int]] = set()
    for index in range(len(groups)):
      start = [op for op, indices in users.items() if index in indices]
      later = (x for op in start for x in self._after(op))
      for op in traversal.walk(
        later, lambda x: () if x in users else self._after(x)
      ):
        others = users.get(op, set()) - {index}
        pairs.update((index, other) for other in others)
    return [(groups[i], groups[j]) for i, j in sorted(pairs)]

  def _after(self, op: tf.Operation) -> list[tf.Operation]:
    """Returns the ops of the forward pass that read one."""
    backward = self._problem.backward
    return [x for x in self._candidates.readers(op) if x not in backward]


def _shape(variable: tf.Operation) -> list[int]:
  shape: list[int] = tf.TensorShape(variable.get_attr("shape")).as_list()
  return shape


def _start(
  groups: Iterable[_Group], first: Callable[..., Shard | None]
) -> Choice:
  """Returns the choice of each group's last, or first, dimension."""
  choice: dict[tf.Operation, Shard | None] = {}
  for group in groups:
    split = first(group.options, key=lambda option: option.dim, default=None)
    choice |= group.choice(split)
  return choice


def _moves(groups: Iterable[_Group]) -> Iterator[Choice]:
  """Yields how each group may be split."""
  for group in groups:
    for option in group.options:
      yield group.choice(option)


def _joint_moves(pairs: Iterable[tuple[_Group, _Group]]) -> Iterator[Choice]:
  """Yields the changes of two groups together."""
  for one, other in pairs:
    for first, second in itertools.product(one.options, other.options):
      yield {**one.choice(first), **other.choice(second)}


def _with_sizes_of_others(groups: Sequence[_Group]) -> list[_Group]:
  """Returns groups that may have the sizes of others, to go with them."""
  partitions: dict[object, dict[Partition, None]] = {}
  for split in (x for group in groups for x in group.options):
    known = partitions.setdefault(split.partition.whole, {})
    known[split.partition] = None

  def options(group: _Group) -> Iterator[Shard]:
    yield from group.options
    for option in group.options:
      for partition in partitions[option.partition.whole]:
        yield Shard(option.dim, partition)

  return [
    _Group(group.variables, tuple(dict.fromkeys(options(group))))
    for group in groups
  ]


def _inner_size(shape: Sequence[int | None], size: int) -> int | None:
  """Returns the size of a block that a reshape to a shape keeps together.

  Args:
    shape: The shape after the reshape, such as [batch, length, heads, width].
    size: The size of the dimension that is split, such as heads x width.

  Returns:
    The product of all but the first of the dimensions that it becomes; None if
    it does not become several.
  """
  for first, last in itertools.combinations(range(len(shape) + 1), 2):
    dimensions = [x for x in shape[first:last] if x is not None]
    if len(dimensions) == last - first > 1 and math.prod(dimensions) == size:
      return size // dimensions[0]
  return None
