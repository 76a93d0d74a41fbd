"""Which variables are split over the model axis, decided as model_fn goes on.

A variable is decided about when it is first read: by the user's rules, by the
automatic choice, or by what it meets (`model_axis.inference`). What was read
whole stays whole.
"""

import dataclasses
import difflib
import re
from collections.abc import Collection, Sequence

from estimator_mp.config.split_rules import SplitRule
from estimator_mp.model_axis import inference
from estimator_mp.model_axis.decisions import Split, even_sizes
from estimator_mp.model_axis.inference import Inferred
from estimator_mp.model_axis.rules.table import TABLE

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class SplitPass:
  """What is split of the ops that were made since the last pass.

  Attributes:
    ops: The ops, in the order of the graph.
    inferred: What becomes of them.
    variables: The ops of the variables that are split from now on.
  """

  ops: Sequence[tf.Operation]
  inferred: Inferred
  variables: Sequence[tf.Operation]


class SplitPlanner:
  """Decides about the variables of one graph.

  Attributes:
    splits: How variables are split, by the names of their ops.
  """

  def __init__(self, split: str | Sequence[SplitRule], num_parts: int):
    """Starts with no variable.

    Args:
      split: The user's rules, of which the first one that is found in a name
        counts; or "auto".
      num_parts: The size of the axis, N.
    """
    self.splits: dict[str, Split] = {}
    self.gathers: list[inference.Gather] = []
    self._rules: Sequence[SplitRule] = ()
    if not isinstance(split, str):
      self._rules = tuple(split)
    self._num_parts = num_parts
    self._used: set[SplitRule] = set()
    self._names: list[str] = []
    self._tensors: dict[str, Split] = {}
    self._undecided: dict[str, tf.Operation] = {}
    self._pending: list[tf.Operation] = []

  def plan(self, new: Sequence[tf.Operation]) -> SplitPass:
    """Decides what becomes of new ops.

    Args:
      new: The ops that were made since the last pass, in the order of the
        graph.

    Raises:
      ValueError: If a rule does not suit a variable.
    """
    ops = [*self._pending, *new]
    fresh = [op for op in new if op.type == "VarHandleOp"]
    before = set(self.splits)
    self._follow_rules(fresh)
    inferred = inference.infer(
      ops,
      TABLE,
      self.splits,
      self._tensors,
      [name for name, op in self._undecided.items() if self._may_be_split(op)],
      _initial_writes(),
    )
    self.splits |= inferred.adopted
    self.gathers += inferred.gathers
    self._tensors |= inferred.splits
    by_name = {op.name: op for op in fresh} | self._undecided
    variables = [by_name[name] for name in self.splits if name not in before]
    self._leave_whole(ops)
    return SplitPass(ops, inferred, variables)

  def add(self, tensor: tf.Tensor, split: Split) -> None:
    """Hears of a split tensor that lowering made.

    Args:
      tensor: The whole tensor.
      split: How it is split.
    """
    self._tensors[tensor.name] = split

  def check(self) -> None:
    """Raises if a rule has met no variable.

    Raises:
      ValueError: With the rule.
    """
    for rule in self._rules:
      if rule not in self._used:
        close = difflib.get_close_matches(rule[0], self._names, n=1, cutoff=0.3)
        hint = f"; the name nearest to it is {close[0]!r}" if close else ""
        raise ValueError(
          f"the split rule {rule!r} matches no variable of the model{hint}; "
          "use an expression that is found in the name of one, or leave the "
          "rule out"
        )

  def _follow_rules(self, fresh: Sequence[tf.Operation]) -> None:
    """Decides about the variables that the user has a rule for."""
    for op in fresh:
      self._undecided[op.name] = op
      self._names.append(op.name)
      rule = self._rule_of(op.name)
      if rule is None:
        continue
      # A slot is split as its variable is.
      is_slot = any(op.name.startswith(f"{name}/") for name in self._names)
      if is_slot:
        continue
      self._used.add(rule)
      del self._undecided[op.name]
      if rule[1] is not None:
        self.splits[op.name] = self._split_of(op, rule, _axis(op, rule[1]))

  def _rule_of(self, name: str) -> SplitRule | None:
    """Returns the first rule for a variable of this name."""
    return next((r for r in self._rules if re.search(r[0], name)), None)

  def _split_of(self, op: tf.Operation, rule: SplitRule, axis: int) -> Split:
    """Returns how a rule splits a variable.

    Raises:
      ValueError: If it cannot.
    """
    shape = tf.TensorShape(op.get_attr("shape"))
    if shape.rank is None or axis >= shape.rank:
      raise ValueError(
        f"the split rule {rule!r} names axis {axis}, but {op.name} has the "
        f"shape {shape}; use an axis that it has, or None to keep it whole"
      )
    size = shape.as_list()[axis]
    if size is None or size < self._num_parts:
      raise ValueError(
        f"the split rule {rule!r} makes {self._num_parts} shards of axis "
        f"{axis} of {op.name}, whose shape is {shape}; use an axis with at "
        f"least {self._num_parts} entries, or None to keep it whole"
      )
    return Split(axis, even_sizes(size, self._num_parts))

  def _may_be_split(self, op: tf.Operation) -> bool:
    """Whether all that works on a variable has a rule for it."""
    return bool(tf.TensorShape(op.get_attr("shape")).rank) and all(
      reader.type in TABLE.rules for reader in op.outputs[0].consumers()
    )

  def _leave_whole(self, ops: Sequence[tf.Operation]) -> None:
    """Decides that variables that somebody has read stay as they are."""
    for name, op in [*self._undecided.items()]:
      if name in self.splits or _is_read(op):
        del self._undecided[name]
    pending = {op.outputs[0].name for op in self._undecided.values()}
    self._pending = [
      op for op in ops if any(tensor.name in pending for tensor in op.inputs)
    ]


def _axis(variable: tf.Operation, where: int | str) -> int:
  """Returns the axis of a variable that a rule splits."""
  if isinstance(where, int):
    return where
  rank = tf.TensorShape(variable.get_attr("shape")).rank or 1
  return rank - 1 if where == "columns" else 0


def _initial_writes() -> Collection[tf.Operation]:
  """Returns the ops that give variables their first values."""
  return {
    variable.initializer
    for variable in (
      *tf.compat.v1.global_variables(),
      *tf.compat.v1.local_variables(),
    )
  }


def _is_read(variable: tf.Operation) -> bool:
  """Whether anything depends on the value of a variable."""
  for reader in variable.outputs[0].consumers():
    if reader.type == "ReadVariableOp":
      if reader.outputs[0].consumers():
        return True
    elif reader.type not in ("AssignVariableOp", "VarIsInitializedOp"):
      return True
  return False
