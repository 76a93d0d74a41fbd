"""The automatic choice of splits.

Among the ways to split variables, that is taken which sends the fewest bytes in
a training step, where what is left whole, so that devices do not hold, or
compute, about as much, has its price: for a transformer, Megatron-LM's
(Shoeybi et al., 2019, arXiv:1909.08053).

Variables that are alike, as those of the layers of a network are, are split
alike at first. Choices are improved one group of them after the other, and two
that follow each other in the graph together, until nothing is better; then one
variable after the other, if there are not too many.
"""

import dataclasses
import itertools
import math
import re
from collections.abc import (
  Callable,
  Hashable,
  Iterable,
  Iterator,
  Mapping,
  Sequence,
)

from estimator_mp.graph import traversal
from estimator_mp.model_axis.decisions import Shard, even_sizes
from estimator_mp.model_axis.evaluation import Evaluation, Problem
from estimator_mp.model_axis.inference import Inferred

# A search looks at this many ops at most, and so takes seconds.
_MOST_VISITS = 1_500_000


def choose_splits(problem: Problem) -> dict[str, Shard | None]:
  """Returns how variables are best split.

  Args:
    problem: The graph, and what is known of it.

  Returns:
    The split of each variable of the problem by its name, or None if it is best
    whole, or cannot be split. Vectors are left out unless they cannot: they are
    to be split as what they meet, by `inference`.
  """
  return _Search(Evaluation(problem)).run()


@dataclasses.dataclass(frozen=True)
class _Group:
  """Variables that are split alike.

  Attributes:
    names: The names of their ops.
    options: How they may be split, besides not at all; preferred ones first.
  """

  names: tuple[str, ...]
  options: tuple[Shard, ...]

  def choice(self, split: Shard | None) -> dict[str, Shard | None]:
    """Returns one choice for all of them."""
    return dict.fromkeys(self.names, split)


class _Search:
  """Looks for the best choice."""

  def __init__(self, evaluation: Evaluation):
    self._evaluation = evaluation
    self._problem = evaluation.problem
    self._ops = {op.name: op for op in self._problem.ops}
    self._worth: set[str] = set()  # Variables used without a gather.

  def run(self) -> dict[str, Shard | None]:
    """Returns the best choice that is found."""
    groups = self._groups()
    pairs = self._neighbours(groups)
    moves = [*_moves(groups), *_whole_moves(groups), *_joint_moves(pairs)]
    best = min(
      (self._improved(start, moves) for start in self._starts(groups)),
      key=self._evaluation.cost,
    )
    best = self._improved(best, [*_moves(self._singles(groups))])
    refused = self._evaluation.refused
    for name, split in best.items():
      if split is not None and (name, split.axis) in refused:
        best[name] = None
    vectors = (name for name, axis in sorted(refused) if axis is None)
    return best | dict.fromkeys(vectors)

  def _starts(
    self, groups: Sequence[_Group]
  ) -> Iterator[dict[str, Shard | None]]:
    """Yields choices to begin with, as the best one depends on where one is."""
    yield self._columns_and_rows(groups)
    yield _start(groups, max)
    yield _start(groups, min)

  def _columns_and_rows(
    self, groups: Sequence[_Group]
  ) -> dict[str, Shard | None]:
    """Returns columns of what reads whole features, and what suits them then.

    Only what is multiplied with features is split: columns of one of several
    tables that are added would have the sum split, and all that follows. So
    would a small one whose rows are chosen by a product, as BERT's of token
    types is.
    """
    found: dict[str, Shard | None] = {
      name: None for group in groups for name in group.names
    }
    small = self._small(groups)
    for group in groups:
      if group in small or not group.options:
        continue
      options = group.options[:1]
      if self._reads_split(group, self._evaluation.infer(found)):
        options = group.options
      found = min(
        ({**found, **group.choice(option)} for option in (*options, None)),
        key=self._evaluation.cost,
      )
    return found

  def _small(self, groups: Sequence[_Group]) -> set[_Group]:
    """Returns groups that may all be whole, as they are hardly multiplied."""

    def work(group: _Group) -> float:
      return sum(map(self._evaluation.work.__getitem__, group.names))

    found: set[_Group] = set()
    names: set[str] = set()
    for group in sorted(groups, key=work):
      if work(group):
        names.update(group.names)
        if self._evaluation.uneven(names):
          break
      found.add(group)
    return found

  def _reads_split(self, group: _Group, inferred: Inferred) -> bool:
    """Whether a group is multiplied with something that is split."""
    inputs = self._evaluation.inference.inputs
    return any(
      tensor in inferred.splits
      for name in group.names
      for position in self._evaluation.users.get(name, ())
      for tensor in inputs[position]
    )

  def _improved(
    self,
    start: Mapping[str, Shard | None],
    moves: Sequence[Mapping[str, Shard | None]],
  ) -> dict[str, Shard | None]:
    """Returns a choice that no move makes better.

    Args:
      start: The choice to begin with.
      moves: The changes that may be made at a time, in the order in which they
        are tried.
    """
    best = dict(start)
    cost = self._evaluation.cost(best)
    unchanged = 0
    for move in itertools.cycle(moves):
      if unchanged == len(moves) or self._evaluation.visits > _MOST_VISITS:
        break
      unchanged += 1
      other = {**best, **move}
      if (
        other != best
        and (found := self._evaluation.cost(other, limit=cost)) < cost
      ):
        best, cost, unchanged = other, found, 0
    return best

  def _groups(self) -> list[_Group]:
    """Returns the variables that are alike, in the order of their use."""
    by_kind: dict[Hashable, list[str]] = {}
    for name in sorted(self._problem.variables, key=self._place):
      shape = self._problem.variables[name]
      if len(shape) > 1:
        kind = (re.sub(r"_?\d+", "", name), tuple(shape), self._readers(name))
        by_kind.setdefault(kind, []).append(name)
    found = [
      _Group(tuple(names), self._options(names[0]))
      for names in by_kind.values()
    ]
    found.sort(key=lambda group: self._place(group.names[0]))
    self._evaluation.count(
      {name for x in found if x.names[0] in self._worth for name in x.names}
    )
    decided = [x for x in self._problem.fixed.values() if x is not None]
    return _with_sizes_of_others(
      found, [*decided, *self._problem.known.values()]
    )

  def _singles(self, groups: Sequence[_Group]) -> list[_Group]:
    """Returns groups of one variable each, of those that have several."""
    found = [
      _Group((name,), group.options)
      for group in groups
      for name in group.names
      if len(group.names) > 1
    ]
    return sorted(found, key=lambda group: self._place(group.names[0]))

  def _place(self, name: str) -> int:
    """Returns where a variable is used first."""
    users = self._evaluation.users.get(name)
    return users[0] if users else len(self._problem.ops)

  def _readers(self, name: str) -> tuple[str, ...]:
    """Returns the types of the ops on a variable."""
    positions = self._evaluation.inference.readers.get(f"{name}:0", ())
    return tuple(self._evaluation.inference.ops[i].type for i in positions)

  def _options(self, name: str) -> tuple[Shard, ...]:
    """Returns how a variable may be split, by itself."""
    found: list[Shard] = []
    for axis in reversed(range(len(self._problem.variables[name]))):
      found += self._options_of_axis(name, axis)
    return tuple(found)

  def _options_of_axis(self, name: str, axis: int) -> list[Shard]:
    """Returns splits of an axis, with sizes that reshapes can do with first."""
    size = self._problem.variables[name][axis]
    found: list[Shard] = []
    multiple: int | None = 1
    while multiple is not None and size >= multiple * self._problem.num_parts:
      sizes = even_sizes(size, self._problem.num_parts, multiple)
      split = Shard(axis, sizes)
      inferred = self._evaluation.infer({name: split})
      if (name, axis) in self._evaluation.refused:
        return []
      if name not in self._evaluation.gathered(inferred):
        self._worth.add(name)
      found.insert(0, split)
      needed = self._multiple(inferred, size)
      multiple = needed if needed is not None and needed > multiple else None
    return list(dict.fromkeys(found))

  def _multiple(self, inferred: Inferred, size: int) -> int | None:
    """Returns of what sizes have to be multiples for reshapes of gathers."""
    for gather in inferred.gathers:
      if gather.type != "Reshape":
        continue
      split = inferred.splits[gather.tensor]
      shape = self._ops[gather.reader].outputs[0].shape
      if shape.rank is not None:
        inner = _inner_size(shape.as_list(), split.size)
        if inner is not None and inner * size % split.size == 0:
          return inner * size // split.size
    return None

  def _neighbours(
    self, groups: Sequence[_Group]
  ) -> list[tuple[_Group, _Group]]:
    """Returns the groups that others follow, with no third one between."""
    users: dict[int, set[int]] = {}
    for index, group in enumerate(groups):
      for name in group.names:
        for position in self._evaluation.users.get(name, ()):
          users.setdefault(position, set()).add(index)
    found: set[tuple[int, int]] = set()
    for index in range(len(groups)):
      start = [i for i, indices in users.items() if index in indices]
      later = (x for position in start for x in self._after(position))
      for position in traversal.walk(
        later, lambda i: () if i in users else self._after(i)
      ):
        others = users.get(position, set()) - {index}
        found.update((index, other) for other in others)
    return [(groups[i], groups[j]) for i, j in sorted(found)]

  def _after(self, position: int) -> list[int]:
    """Returns the positions of the ops that read from one."""
    readers = self._evaluation.inference.readers
    return [
      reader
      for name in self._evaluation.inference.outputs[position]
      for reader in readers.get(name, ())
    ]


def _start(
  groups: Iterable[_Group], first: Callable[..., Shard | None]
) -> dict[str, Shard | None]:
  """Returns the choice of each group's last, or first, axis."""
  found: dict[str, Shard | None] = {}
  for group in groups:
    split = first(group.options, key=lambda option: option.axis, default=None)
    found |= group.choice(split)
  return found


def _moves(groups: Iterable[_Group]) -> Iterator[dict[str, Shard | None]]:
  """Yields how each group may be split."""
  for group in groups:
    for option in group.options:
      yield group.choice(option)


def _whole_moves(
  groups: Iterable[_Group],
) -> Iterator[dict[str, Shard | None]]:
  """Yields the choice to leave a group whole, for each."""
  for group in groups:
    yield group.choice(None)


def _joint_moves(
  pairs: Iterable[tuple[_Group, _Group]],
) -> Iterator[dict[str, Shard | None]]:
  """Yields what may be changed of two groups together."""
  for one, other in pairs:
    for first, second in itertools.product(one.options, other.options):
      yield one.choice(first) | other.choice(second)


def _with_sizes_of_others(
  groups: Sequence[_Group], others: Iterable[Shard]
) -> list[_Group]:
  """Returns groups that may have the sizes of others, to go with them.

  Args:
    groups: The groups.
    others: Choice of what is not in a group.
  """
  sizes: dict[int, dict[tuple[int, ...], None]] = {}
  for split in [*(x for group in groups for x in group.options), *others]:
    sizes.setdefault(split.size, {})[split.sizes] = None

  def options(group: _Group) -> Iterator[Shard]:
    yield from group.options
    for option in group.options:
      for other in sizes[option.size]:
        yield Shard(option.axis, other)

  return [
    _Group(group.names, tuple(dict.fromkeys(options(group))))
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
