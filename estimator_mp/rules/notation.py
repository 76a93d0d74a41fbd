"""The notation of rules, which is that of an einsum with a few more signs.

    MatMul: m k ~transpose_a, k n ~transpose_b -> m n; sum, bilinear
    LogSoftmax Softmax: ... C -> ... C
    BiasAddGrad: [b... c] -> c; sum, linear
    Conv2DBackpropFilter:
      [n _ _ i], =, [n _ _ o] -> _ _ i o; sum, bilinear, nonempty

Types of ops, their inputs, their outputs, and traits. A rule begins in the
first column; lines that follow are indented.

    m       a dimension; equal names are split alike
    C       one that is never split, and has the size of equal names
    _       one that is never split, and has a size of its own
    ...     any number of dimensions, counted from the last; where an operand
            has size 1, it is repeated
    b...    any number of dimensions, as many wherever the name stands
    ()      no dimensions
    [ ]     dimensions in the order that `data_format` says; the channels are
            written last
    ~name   the last two dimensions change places if the attribute is true
    =       an input of which all parts read all
    #0      an input that has the sizes of output 0
    m*      as many inputs, or outputs, as there are

    sum, product, max, min, all, any
            how parts along a dimension that an output lacks make it
    linear  the op is linear in its tensors with dimensions, all at once;
            linear(1) in input 1 alone, linear(1 2) in both at once
    exchanged(c)
            parts along c, along which the first input is split, exchange
            their results (`lower.exchanges`)
    bilinear
            it is linear in each of them by itself
    nonempty
            no part may be empty
    alike   an output that lacks a dimension is the same for all parts along it
"""

import dataclasses
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from estimator_mp.rules.rule import (
  Input,
  Label,
  Labels,
  Reduction,
  Rule,
  SizesOf,
  Whole,
)

import tensorflow as tf

_Value = TypeVar("_Value")
_REDUCTIONS = {reduction.value: reduction for reduction in Reduction}
_TERM = re.compile(
  r"(?P<open>\[?)(?P<labels>[^\[\]~*]*)\]?"
  r"(?:\s*~(?P<swap>\w+))?\s*(?P<many>\*?)$"
)
_LABEL = re.compile(r"_|\.\.\.|[A-Za-z][a-z0-9]*(\.\.\.)?")


@dataclasses.dataclass(frozen=True)
class _Term:
  """How one input or output is written.

  Attributes:
    labels: Its labels; None for an input that is `read` in another way.
    read: How parts read the input otherwise.
    has_format: Whether `data_format` says the order.
    swap: The attribute that swaps the last two.
    many: Whether it stands for as many tensors as there are.
  """

  labels: tuple[str, ...] | None
  read: Whole | SizesOf | None = None
  has_format: bool = False
  swap: str | None = None
  many: bool = False


@dataclasses.dataclass(frozen=True)
class Template:
  """A rule as it is written, for ops of any rank."""

  inputs: tuple[_Term, ...]
  outputs: tuple[_Term, ...]
  reduction: Reduction | None
  linear: tuple[frozenset[int], ...]
  nonempty: bool
  is_alike: bool
  exchanged: Mapping[str, int]

  @functools.cached_property
  def _swaps(self) -> list[str]:
    return [x.swap for x in (*self.inputs, *self.outputs) if x.swap]

  @functools.cached_property
  def _has_format(self) -> bool:
    return any(x.has_format for x in (*self.inputs, *self.outputs))

  def orders(self, op: tf.Operation) -> tuple[bool, ...]:
    """Returns the order of labels by the attributes of an op.

    Args:
      op: The op. Others that say the same, of the same ranks, have the rule.
    """
    swaps = [bool(op.get_attr(name)) for name in self._swaps]
    return (*swaps, self._has_format and _has_channels_first(op))

  def bind(self, op: tf.Operation, ranks: Sequence[int | None]) -> Rule | None:
    """Returns the rule of an op; None if ranks are not known, or do not fit.

    Args:
      op: The op.
      ranks: How many dimensions each of its inputs has.
    """
    inputs = _spread(self.inputs, self.inputs, len(op.inputs))
    outputs = _spread(self.outputs, self.outputs, len(op.outputs))
    if inputs is None or outputs is None:
      return None
    lengths = _lengths(inputs, ranks)
    if lengths is None:
      return None
    read: list[Input] = []
    for term, rank in zip(inputs, ranks, strict=True):
      if term.labels is None:
        assert term.read is not None
        read.append(term.read)
        continue
      if rank is None and "..." in term.labels:
        return None  # It may be repeated, or not.
      labels = _labels(term, op, lengths, rank)
      if labels is None or (rank is not None and len(labels) != rank):
        return None
      read.append(labels)
    written = [_labels(term, op, lengths, None) for term in outputs]
    if None in written:
      return None
    return Rule(
      tuple(read),
      tuple(written),
      self.reduction,
      _spread_groups(self.linear, self.inputs, len(op.inputs)),
      nonempty=self.nonempty,
      exchanged=self.exchanged,
      is_alike=self.is_alike,
    )


def parse(text: str) -> dict[str, Template]:
  """Returns rules by types of ops.

  Args:
    text: Rules, as this module says.

  Raises:
    ValueError: If a line is no rule, or a type has two.
  """
  templates: dict[str, Template] = {}
  for line in re.sub(r"\n[ \t]+", " ", text.strip("\n")).splitlines():
    if not line.strip():
      continue
    types, colon, rule = line.partition(":")
    if not colon or "->" not in rule:
      raise ValueError(f"a rule is TYPES: INPUTS -> OUTPUTS, but not {line!r}")
    template = _template(rule.strip())
    for name in types.split():
      if name in templates:
        raise ValueError(f"ops of type {name} have two rules")
      templates[name] = template
  return templates


def _template(rule: str) -> Template:
  tensors, _, traits = rule.partition(";")
  left, _, right = tensors.partition("->")
  inputs, outputs = _terms(left, rule), _terms(right, rule)
  with_labels = [i for i, x in enumerate(inputs) if x.labels is not None]
  reduction: Reduction | None = None
  linear: tuple[frozenset[int], ...] = ()
  nonempty, is_alike = False, False
  exchanged: dict[str, int] = {}
  for trait in filter(None, map(str.strip, traits.split(","))):
    if trait in _REDUCTIONS:
      reduction = _REDUCTIONS[trait]
    elif trait == "nonempty":
      nonempty = True
    elif trait == "alike":
      is_alike = True
    elif trait == "linear":
      linear = (frozenset(with_labels),)
    elif trait == "bilinear":
      linear = tuple(frozenset([i]) for i in with_labels)
    elif match := re.fullmatch(r"linear\(([\d ]+)\)", trait):
      linear = (frozenset(map(int, match[1].split())),)
    elif match := re.fullmatch(r"exchanged\((\w+)\)", trait):
      exchanged[match[1]] = 0
    else:
      raise ValueError(f"{trait!r} in the rule {rule!r} is not known")
  return Template(
    inputs, outputs, reduction, linear, nonempty, is_alike, exchanged
  )


def _terms(text: str, rule: str) -> tuple[_Term, ...]:
  return tuple(_term(x.strip(), rule) for x in text.split(",") if x.strip())


def _term(text: str, rule: str) -> _Term:
  if text in ("=", "=*"):
    return _Term(None, Whole(), many=text != "=")
  if match := re.fullmatch(r"#(\d+)", text):
    return _Term(None, SizesOf(int(match[1])))
  match = _TERM.match(text)
  words = match["labels"].replace("()", "").split() if match else ["?"]
  if not match or not all(map(_LABEL.fullmatch, words)):
    raise ValueError(f"{text!r} in the rule {rule!r} are no dimensions")
  return _Term(
    tuple(words),
    has_format=bool(match["open"]),
    swap=match["swap"],
    many=bool(match["many"]),
  )


def _spread(
  values: Sequence[_Value], terms: Sequence[_Term], count: int
) -> list[_Value] | None:
  """Returns the value of its term for each tensor; None if they do not fit."""
  spread: list[_Value] = []
  for value, term in zip(values, terms, strict=True):
    times = count - len(terms) + 1 if term.many else 1
    spread += [value] * times
  return spread if len(spread) == count else None


def _spread_groups(
  groups: Iterable[frozenset[int]], terms: Sequence[_Term], count: int
) -> tuple[frozenset[int], ...]:
  """Returns groups of tensors for groups of terms."""
  owners = _spread(list(range(len(terms))), terms, count)
  return tuple(
    frozenset(i for i, term in enumerate(owners or ()) if term in group)
    for group in groups
  )


def _lengths(
  terms: Sequence[_Term], ranks: Sequence[int | None]
) -> Mapping[str, int] | None:
  """Returns how many dimensions each label with dots stands for, by its name.

  Operands that are repeated may have fewer; then it is the number of most.
  """
  lengths: dict[str, int] = {}
  for term, rank in zip(terms, ranks, strict=True):
    dots = [x for x in term.labels or () if x.endswith("...")]
    if len(dots) != 1 or rank is None or term.labels is None:
      continue
    length = rank - len(term.labels) + 1
    name = dots[0]
    if length < 0 or (name != "..." and lengths.get(name, length) != length):
      return None
    lengths[name] = max(length, lengths.get(name, 0))
  return lengths


def _labels(
  term: _Term, op: tf.Operation, lengths: Mapping[str, int], rank: int | None
) -> Labels | None:
  """Returns the labels of a tensor; None if they are not known.

  Args:
    term: How the tensor is written.
    op: The op.
    lengths: How many dimensions dots stand for.
    rank: That of the tensor, if it is an input and known.
  """
  assert term.labels is not None
  labels: list[Label | None] = []
  for label in term.labels:
    if label == "_":
      labels.append(None)
    elif not label.endswith("..."):
      labels.append(label)
    elif label not in lengths:
      return None
    elif label == "...":
      count = lengths[label]
      if rank is not None:
        count = rank - len(term.labels) + 1
      labels += [f"...{i}" for i in range(count, 0, -1)]
    else:
      labels += [f"{label[:-3]}{i}" for i in range(lengths[label])]
  if term.swap and op.get_attr(term.swap):
    labels[-2:] = reversed(labels[-2:])
  if term.has_format and _has_channels_first(op):
    labels.insert(1, labels.pop())
  return tuple(labels)


def _has_channels_first(op: tf.Operation) -> bool:
  if "data_format" not in op.node_def.attr:
    return False
  return bool(op.get_attr("data_format").startswith(b"NC"))
