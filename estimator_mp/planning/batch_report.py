"""Report of the batch plan: segments, work in parts, and bytes.

    one segment      no slice of the batch waits for another
    several          the op that ends each of them, and the option that helps

All of it is computed from decisions, as plain data; no session runs.
"""

import dataclasses
import enum
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from estimator_mp import amounts
from estimator_mp.graph import op_types, shapes, traversal
from estimator_mp.placement import costs

import tensorflow as tf

# How many ops are named to people; JSON has all.
_MOST = 5
# If slices share less of the work than this, it is nearly all on one device.
LEAST_SHARE = 0.5
_JOINED = "on joined tensors"
_SET_SIZES = (
  "set dimensions that are none of examples, as by x.set_shape([None, 8]), "
  "write -1 for the number of examples, or "
)
_IF_PER_EXAMPLE = "per_example=[{}] if {} each example by itself"


class Why(enum.Enum):
  """Why slices wait at an op; the text names the option that helps."""

  MOMENTS = (
    "slices exchange the moments of their examples; "
    'batch_norm="per_micro_batch" lets each use its own'
  )
  SUM = "slices wait for a sum over all examples"
  PYTHON = "Python code sees all examples; use " + _IF_PER_EXAMPLE
  RANDOM = (
    'it draws for all examples; draws="per_slice" lets each slice draw its own'
  )
  FUNCTION = "an op in it, or in its gradient, has no rule that holds"
  STATE = "it has state; use " + _IF_PER_EXAMPLE
  NO_RULE = "its type has no rule; use " + _IF_PER_EXAMPLE
  SIZES = (
    f"its sizes are not known for any number of examples; {_SET_SIZES}use "
    + _IF_PER_EXAMPLE
  )
  ACROSS = "its rule does not hold along examples; use " + _IF_PER_EXAMPLE

  def words(self, names: Sequence[str]) -> str:
    """Returns the text.

    Args:
      names: The names of ops for `per_example`.
    """
    computes = "it computes" if len(names) == 1 else "each of them computes"
    return self.value.format(", ".join(map(_expression, names)), computes)

  @property
  def can_be_said(self) -> bool:
    """Whether `per_example` can help."""
    return _IF_PER_EXAMPLE in self.value


class Where(enum.Enum):
  """Where an op is executed; the text puts it in words."""

  BEFORE = "is executed once, before slices begin"
  BETWEEN = "ends a segment"
  AFTER = "is executed once, " + _JOINED


_NO_FALLBACK = frozenset([Why.MOMENTS, Why.SUM])


@dataclasses.dataclass(frozen=True)
class ExecutedOnce:
  """An op at which slices wait, or that is executed once on activations.

  Attributes:
    name: The name of the op of the plain graph.
    type: Its type.
    why: Why it is no part of a slice alone.
    where: Where it is executed.
  """

  name: str
  type: str
  why: Why
  where: Where = Where.BETWEEN

  @property
  def is_fallback(self) -> bool:
    """Whether it is executed once, on joined tensors, for want of a rule."""
    return self.where is not Where.BEFORE and self.why not in _NO_FALLBACK

  @property
  def expression(self) -> str:
    """The expression for `per_example`, as Python writes it."""
    return _expression(self.name)

  @property
  def reason(self) -> str:
    """Why it is no part of a slice, with the fix, in words."""
    return self.why.words([self.name])

  @property
  def help(self) -> str:
    """The reason, or its consequence, in words."""
    if self.where is Where.BEFORE:
      return "slices do not share its work, but none waits for another"
    return self.reason

  def to_dict(self) -> dict[str, str]:
    """Returns everything for JSON."""
    return {
      "name": self.name,
      "type": self.type,
      "where": self.where.name.lower(),
      "help": self.help,
    }

  def __str__(self) -> str:
    return f"{self.name} ({self.type}) {self.where.value}: {self.help}"


def _expression(name: str) -> str:
  return repr(f"^{re.escape(name)}$")


@dataclasses.dataclass(frozen=True)
class Moved:
  """Bytes that are cut for slices, or joined, in a step.

  Attributes:
    per_example: Those of each example.
    per_slice: Those of each slice, however many examples it has: shares of sums
      and moments.
    num_unknown: How many tensors have a size that only the session knows.
  """

  per_example: int = 0
  per_slice: int = 0
  num_unknown: int = 0


@dataclasses.dataclass(frozen=True)
class BatchReport:
  """How slices of the batch wait for each other, and the bytes they are sent.

  Attributes:
    count: How many segments there are; with one, no slice waits for another.
    once: The ops at which they wait, and those that are executed once on
      activations, in the order of the graph.
    flops: Floating-point operations of all forward ops that depend on the
      batch, of a nominal batch.
    flops_in_parts: Those of the ops that are executed in parts.
    inputs: The bytes cut of inputs, and of tensors that depend on inputs alone.
    cut: The bytes cut of all other tensors.
    joined: The bytes joined or summed, without the gradients of variables.
    num_slices: How many slices there are.
    num_examples: How many examples the batch has, if the graph knows.
    stopped_by: The op for which most of the work is executed once, if it is.
    helpful_batch_size: A number of examples for which most of the work would be
      executed in parts, if model_fn has it and input_fn leaves it open.
    helpful_ops: Names of ops for which it would, if each of them computes each
      example by itself.
  """

  count: int
  once: tuple[ExecutedOnce, ...] = ()
  flops: int = 0
  flops_in_parts: int = 0
  inputs: Moved = Moved()
  cut: Moved = Moved()
  joined: Moved = Moved()
  num_slices: int = 1
  num_examples: int | None = None
  stopped_by: ExecutedOnce | None = None
  helpful_batch_size: int | None = None
  helpful_ops: tuple[str, ...] = ()

  @property
  def share_in_parts(self) -> float:
    """The share of floating-point operations that are executed in parts."""
    return self.flops_in_parts / self.flops if self.flops else 1.0

  @property
  def fallbacks(self) -> list[ExecutedOnce]:
    """The ops that are executed once for want of a rule."""
    fallbacks = [x for x in self.once if x.is_fallback]
    if self.stopped_by is not None and self.stopped_by not in fallbacks:
      fallbacks.insert(0, self.stopped_by)
    return fallbacks

  def warning(self) -> str:
    """Returns a line if most of the work is executed once, or ""."""
    if self.stopped_by is None:
      return ""
    return (
      f"slices of the batch share {self.share_in_parts:.0%} of the "
      "floating-point operations; the rest is executed once on one device of "
      f"each stage, as {self.stopped_by.name} ({self.stopped_by.type}) is: "
      f"{self._reason}"
    )

  @property
  def _reason(self) -> str:
    """Why most of the work is executed once, with what helps, in words."""
    assert self.stopped_by is not None
    names = self.helpful_ops or (self.stopped_by.name,)
    reason = self.stopped_by.why.words(names)
    if self.helpful_batch_size is None:
      return reason
    return f"{reason.partition(';')[0]}; use {self.size_that_helps}"

  @property
  def size_that_helps(self) -> str:
    """The batch size that helps, in words."""
    return (
      f"static_batch_size={self.helpful_batch_size} if all batches have as "
      "many examples"
    )

  def lines(self) -> list[str]:
    """Returns lines for people."""
    waits = "no slice of the batch waits for another"
    if self.count != 1:
      waits = "all slices of the batch finish one before the next starts"
    share = self.share_in_parts
    percent = "100%" if share == 1 else f"{min(share, 0.999):.1%}"
    lines = [
      f"{amounts.counted(self.count, 'segment')}, {waits}; {percent} of "
      "floating-point operations are executed in parts",
      f"cut in each step: {self._text(self.inputs)} of inputs, "
      f"{self._text(self.cut)} of activations; joined: "
      f"{self._text(self.joined)}",
    ]
    lines += [f"  {x}" for x in self.once[:_MOST]]
    if len(self.once) > _MOST:
      lines.append(
        f"  and {amounts.counted(len(self.once) - _MOST, 'op')} more"
      )
    return lines

  def _text(self, moved: Moved) -> str:
    """Returns an amount for people, such as "1.2 kB per example"."""
    texts = []
    if self.num_examples is not None:
      total = moved.per_example * self.num_examples
      total += moved.per_slice * self.num_slices
      texts += [amounts.amount(total, "B")] if total else []
    else:
      for number, each in (
        (moved.per_example, "example"),
        (moved.per_slice, "slice"),
      ):
        if number:
          texts.append(f"{amounts.amount(number, 'B')} per {each}")
    if moved.num_unknown:
      unknown = amounts.counted(moved.num_unknown, "tensor")
      texts.append(f"{unknown} of unknown size")
    return " and ".join(texts) or "nothing"

  def to_dict(self) -> dict[str, Any]:
    """Returns everything for JSON."""
    values = dataclasses.asdict(self)
    values["once"] = [x.to_dict() for x in self.once]
    if self.stopped_by is not None:
      values["stopped_by"] = self.stopped_by.to_dict()
    return values

  def __str__(self) -> str:
    return "\n".join(self.lines())


def check(report: BatchReport, fallback: str) -> None:
  """Raises if an op is executed once that may not be.

  Args:
    report: The report of the plan.
    fallback: As in `ShardingOptions`.

  Raises:
    ValueError: If there is such an op, and fallback is "error".
  """
  once = report.fallbacks
  if fallback != "error" or not once:
    return
  names = ", ".join(f"{x.name!r} ({x.type})" for x in once[:_MOST])
  if len(once) == 1:
    ends = ", and ends a segment" if once[0].where is Where.BETWEEN else ""
    on = "before slices begin" if once[0].where is Where.BEFORE else _JOINED
    fact = f"{names} is executed once, {on}{ends}"
    words = "if it computes each example by itself"
  else:
    more = len(once) - _MOST
    names += f" and {more} more" if more > 0 else ""
    fact = f"{len(once)} ops are executed once, {_JOINED}: {names}"
    words = "for those that compute each example by itself"
  expressions = ", ".join(x.expression for x in once if x.why.can_be_said)
  fix = f"per_example=[{expressions}] {words}, or " if expressions else ""
  sizes = _SET_SIZES if any(x.why is Why.SIZES for x in once) else ""
  if report.helpful_batch_size is not None:
    sizes, fix = "", f"{report.size_that_helps}, or "
  raise ValueError(
    f'fallback="error", but {fact}; {sizes}use {fix}fallback="allow"'
  )


def stopping_op(
  once: Sequence[tf.Operation], could: Collection[tf.Operation]
) -> tf.Operation | None:
  """Returns the op for which the costliest of some ops is executed once.

  Args:
    once: Ops of the plain graph that are executed once, and depend on the
      batch, in the order of the graph.
    could: Those that could read parts.

  Returns:
    The first of them on the way to it that could read parts; None if none
    could, as where all of it follows from a sum over the batch.
  """
  work = [op for op in once if op.type not in op_types.CALLS_PYTHON]
  known = costs.op_costs(work)
  if not known:
    return None
  costliest = max(known, key=lambda op: known[op].flops)
  way = traversal.ancestors([costliest], once)
  return next((op for op in way if op in could), None)


def flops(
  ops: Sequence[tf.Operation], in_parts: Collection[tf.Operation]
) -> tuple[int, int]:
  """Returns the floating-point operations of ops, and of those in parts.

  Args:
    ops: Forward ops of the plain graph.
    in_parts: Those that are executed in parts.
  """
  # Neither shapes nor costs are inferred of Python code.
  of_python = [op for op in ops if op.type in op_types.CALLS_PYTHON]
  known = costs.op_costs([op for op in ops if op not in of_python])
  by_op = {op: cost.flops for op, cost in known.items()}
  for op in of_python:
    by_op[op] = sum(shapes.num_elements(x.shape) for x in op.outputs)
  by_op = {
    op: number
    for op, number in by_op.items()
    if any(x.dtype.is_floating or x.dtype.is_complex for x in op.outputs)
  }
  return sum(by_op.values()), sum(by_op[op] for op in by_op if op in in_parts)


def once_on_activations(
  once: Sequence[tf.Operation],
  targets: Iterable[tf.Operation],
  step: Sequence[tf.Operation],
) -> list[tf.Operation]:
  """Returns where floating-point work on activations is executed once.

  Args:
    once: Ops of the plain graph that are executed once, and depend on the batch
      and on variables, in the order of the graph.
    targets: The ops of the model's loss, or of its predictions.
    step: The ops of a step, in the order of the graph.

  Returns:
    Those of `once` that no others of it come before.
  """
  needed = set(traversal.ancestors(targets, step))
  among = set(once)
  return [
    op
    for op in once
    if op in needed
    and any(x.dtype.is_floating for x in op.outputs)
    and among.isdisjoint(traversal.inputs(op))
  ]
