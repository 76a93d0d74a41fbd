"""Chooses the variables to split over the model axis, while model_fn runs.

A variable is decided about when it is first read: by the user's rules, by the
automatic choice, or by what it meets (`model_axis.inference`). What was read
whole stays whole.
"""

import difflib
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from estimator_mp import amounts
from estimator_mp.config.model_axis_options import ModelAxisOptions
from estimator_mp.config.split_rules import (
  AUTO,
  SplitError,
  SplitRule,
  rule_for,
)
from estimator_mp.graph import op_types, savers, shapes, traversal
from estimator_mp.graph import variables as variables_lib
from estimator_mp.model_axis import costs, inference, search
from estimator_mp.model_axis.decisions import ByTurns, Shard, even_sizes
from estimator_mp.model_axis.evaluation import Problem
from estimator_mp.model_axis.inference import Inferred
from estimator_mp.model_axis.rules.table import TABLE
from estimator_mp.model_axis.split_plan import SplitPass
from estimator_mp.placement import costs as placement_costs
from estimator_mp.plan.split_plan import Gather, SplitPlan, SplitVariable

import tensorflow as tf


class SplitPlanner:
  """Decides about the variables of one graph.

  Attributes:
    splits: How variables are split, by the names of their ops.
    summary: The variables that are split so far, and the traffic of that.
  """

  def __init__(self, options: ModelAxisOptions, num_parts: int):
    """Starts with no variable.

    Args:
      options: The user's options: rules, of which the first one that is found
        in a name counts; the tensors that may be gathered; and how shards
        start.
      num_parts: The size of the axis, N; if it is 1, nothing is split.
    """
    self.splits: dict[str, Shard] = {}
    self.summary = SplitPlan()
    self._options = options
    self._rules: Sequence[SplitRule] = ()
    if num_parts > 1 and not isinstance(options.split, str):
      self._rules = tuple(options.split)
    self._num_parts = num_parts
    self._table_bytes = [0] * num_parts  # Of tables on one device.
    self._used: set[SplitRule] = set()
    self._names: list[str] = []
    self._tensors: dict[str, Shard] = {}
    self._sizes: Mapping[str, int] = {}
    self._undecided: dict[str, tf.Operation] = {}
    self._pending: list[tf.Operation] = []

  def plan(
    self,
    new: Sequence[tf.Operation],
    targets: Collection[tf.Operation] | None = None,
    joined: Mapping[str, Shard] = MappingProxyType({}),
  ) -> SplitPass:
    """Decides what becomes of new ops.

    Args:
      new: The ops that were made since the last pass, in the order of the
        graph.
      targets: The ops whose gradients are asked for, if there are any; None if
        the graph is not to train.
      joined: How tensors are split that lowering has joined, by their names.

    Raises:
      SplitError: If a rule does not suit a variable, or something would be
        gathered that must not be.
    """
    if self._num_parts == 1:
      return SplitPass(new, Inferred({}, {}, (), {}), {})
    self._tensors |= joined
    ops = [*self._pending, *new]
    fresh = [op for op in new if op.type == "VarHandleOp"]
    before = set(self.splits)
    known = self._undecided | {op.name: op for op in fresh}
    self._follow_rules(fresh)
    self._sizes = placement_costs.nominal_bytes(ops) if targets else {}
    if self._options.split == AUTO:
      self._choose(ops, targets)
    plain_values = self._writes_of_plain_values()
    inferred = inference.Inference(ops, TABLE).infer(
      self.splits,
      self._tensors,
      [name for name, op in self._undecided.items() if self._may_be_split(op)],
      plain_values,
      set(variables_lib.initial_writes()).difference(plain_values),
      on_copies=not targets,
    )
    self.splits |= inferred.adopted
    self._tensors |= inferred.splits
    variables = [known[name] for name in self.splits if name not in before]
    self._summarize(ops, inferred, variables, targets)
    self._leave_whole(ops)
    return SplitPass(
      ops, inferred, {op: self.splits[op.name] for op in variables}
    )

  def _summarize(
    self,
    ops: Sequence[tf.Operation],
    inferred: Inferred,
    variables: Sequence[tf.Operation],
    targets: Collection[tf.Operation] | None,
  ) -> None:
    """Says what a pass has split, and what that sends in a training step."""
    of_step = _ops_of_step(ops, targets)
    differentiated: Collection[str] = ()
    if targets:
      trained = {v.op.name for v in tf.compat.v1.trainable_variables()}
      differentiated = costs.tensors_with_gradients(of_step, trained, targets)
    names = {op.name: op for op in of_step}
    gathers = tuple(x for x in inferred.gathers if x.reader in names)
    for gather in gathers:
      self.check_gather(gather, names[gather.reader].graph)
    traffic = costs.Traffic(
      of_step, self._num_parts, TABLE, differentiated, self._sizes
    )
    self.summary = self.summary.and_then(
      SplitPlan(
        tuple(SplitVariable.of(op, self.splits[op.name]) for op in variables),
        costs.without_repeats(traffic.sent(inferred), of_step, inferred),
        gathers,
      )
    )

  def check_gather(self, gather: Gather, graph: tf.Graph) -> None:
    """Raises if a tensor must not be read whole.

    Raises:
      SplitError: With the op that reads it, and the bytes.
    """
    tensor = traversal.tensor_of_name(graph, gather.tensor)
    num_bytes = (
      shapes.variable_bytes(tensor.op)
      if op_types.is_handle(tensor)
      else shapes.tensor_bytes(tensor)
    )
    limit = self._options.memory_limit
    is_large = limit is not None and num_bytes > limit
    if self._options.gathers == "error" or is_large:
      why = f"more than memory_limit={limit}" if is_large else 'gathers="error"'
      raise SplitError(
        f"{gather.reader} ({gather.type}) has no rule for its split input "
        f"{gather.tensor}, and would read all of it "
        f"({amounts.amount(num_bytes, 'B')}) on one device: {why}; keep the "
        "variable before it whole, or split it by another axis, with a rule of "
        'split, or use gathers="allow"'
      )

  def leave_the_rest(self) -> None:
    """Leaves all variables whole that nothing has split so far."""
    self._undecided.clear()
    self._pending.clear()

  def check(self) -> None:
    """Raises if a rule has met no variable.

    Raises:
      SplitError: With the rule.
    """
    for rule in self._rules:
      if rule not in self._used:
        close = difflib.get_close_matches(rule[0], self._names, n=1, cutoff=0.3)
        hint = f"; the name nearest to it is {close[0]!r}" if close else ""
        raise SplitError(
          f"the split rule {rule!r} matches no variable of the model{hint}; "
          "use an expression that is found in the name of one, or leave the "
          "rule out"
        )

  def _follow_rules(self, fresh: Sequence[tf.Operation]) -> None:
    """Decides about the variables that the user has a rule for."""
    tables: list[tf.Operation] = []
    trained = {v.op.name for v in tf.compat.v1.trainable_variables()}
    for op in fresh:
      self._undecided[op.name] = op
      self._names.append(op.name)
      rule = rule_for(self._rules, op.name)
      if rule is None:
        continue
      # A slot is split as its variable is.
      is_below = any(op.name.startswith(f"{name}/") for name in self._names)
      if is_below and op.name not in trained:
        continue
      self._used.add(rule)
      del self._undecided[op.name]
      if rule[1] == "whole":
        tables.append(op)
      elif rule[1] is not None:
        self.splits[op.name] = self._split_of(op, rule, _axis(op, rule[1]))
    for op in sorted(tables, key=shapes.variable_bytes, reverse=True):
      self._place_whole(op)

  def _place_whole(self, table: tf.Operation) -> None:
    """Lets the device that has the fewest bytes of such tables have one.

    Raises:
      SplitError: If the variable has no rows.
    """
    shape = tf.TensorShape(table.get_attr("shape"))
    if not shape.rank or not shape.is_fully_defined():
      rule = rule_for(self._rules, table.name)
      raise SplitError(
        f"the split rule {rule!r} is for tables, but "
        f"{table.name} has the shape {shape}; use None to keep it where it is"
      )
    position = min(range(self._num_parts), key=self._table_bytes.__getitem__)
    self._table_bytes[position] += shapes.variable_bytes(table)
    sizes = [0] * self._num_parts
    sizes[position] = shape.as_list()[0]
    self.splits[table.name] = Shard(0, tuple(sizes))

  def _choose(
    self,
    ops: Sequence[tf.Operation],
    targets: Collection[tf.Operation] | None,
  ) -> None:
    """Decides about variables that are trained, by what is sent."""
    trained = {v.op.name for v in tf.compat.v1.trainable_variables()}
    candidates = {
      name: tf.TensorShape(op.get_attr("shape")).as_list()
      for name, op in self._undecided.items()
      if name in trained and self._may_be_split(op)
    }
    if not candidates:
      return
    problem = Problem(
      ops,
      TABLE,
      self._num_parts,
      candidates,
      self.splits,
      self._options.memory_limit,
      self._tensors,
      variables_lib.initial_writes(),
      targets or None,
      trained,
      self._sizes,
    )
    chosen = search.choose_splits(problem)
    for name, split in chosen.items():
      del self._undecided[name]
      if split is not None:
        self.splits[name] = split

  def _split_of(self, op: tf.Operation, rule: SplitRule, axis: int) -> Shard:
    """Returns how a rule splits a variable.

    Raises:
      SplitError: If it cannot.
    """
    shape = tf.TensorShape(op.get_attr("shape"))
    if shape.rank is None or axis >= shape.rank:
      raise SplitError(
        f"the split rule {rule!r} names axis {axis}, but {op.name} has the "
        f"shape {shape}; use an axis that it has, or None to keep it whole"
      )
    size = shape.as_list()[axis]
    if size is None or size < self._num_parts:
      raise SplitError(
        f"the split rule {rule!r} makes {self._num_parts} shards of axis "
        f"{axis} of {op.name}, whose shape is {shape}; use an axis with at "
        f"least {self._num_parts} entries, or None to keep it whole"
      )
    sizes = even_sizes(size, self._num_parts)
    return ByTurns(0, sizes) if rule[1] == "mod" else Shard(axis, sizes)

  def _writes_of_plain_values(self) -> list[tf.Operation]:
    """Returns the first writes that shards get slices of the plain value by."""
    if self._options.initial_values != "plain":
      return []
    limit = self._options.plain_initial_bytes
    return [
      x for x in variables_lib.initial_writes() if _bytes_written(x) <= limit
    ]

  def _may_be_split(self, op: tf.Operation) -> bool:
    """Whether all that works on a variable has a rule for it."""
    return bool(tf.TensorShape(op.get_attr("shape")).rank) and all(
      reader.type in TABLE.rules for reader in op.outputs[0].consumers()
    )

  def _leave_whole(self, ops: Sequence[tf.Operation]) -> None:
    """Decides that variables that have been read stay as they are."""
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


def _ops_of_step(
  ops: Sequence[tf.Operation], targets: Collection[tf.Operation] | None
) -> list[tf.Operation]:
  """Returns the ops that run in each step, as far as one can tell.

  Args:
    ops: Ops of the graph.
    targets: The ops whose gradients are asked for, which a training step runs
      besides its writes of variables; None if all ops may run but those that
      start or save variables.
  """
  beside_steps = {*variables_lib.initial_writes(), *savers.saver_ops(ops)}
  others = [
    op
    for op in ops
    if op not in beside_steps and op.type != "VarIsInitializedOp"
  ]
  if targets is None:
    return others
  counters = {v.op for v in tf.compat.v1.local_variables()}
  writes = [
    op
    for op in others
    if not counters.issuperset(variables_lib.written_variables(op))
  ]
  return traversal.ancestors([*targets, *writes], others)


def _bytes_written(write: tf.Operation) -> int:
  """Returns the bytes of what a variable is given first."""
  return max(map(shapes.tensor_bytes, write.inputs), default=0)


def _is_read(variable: tf.Operation) -> bool:
  """Whether anything depends on the value of a variable."""
  for reader in variable.outputs[0].consumers():
    if reader.type == "ReadVariableOp":
      if reader.outputs[0].consumers():
        return True
    elif reader.type not in ("AssignVariableOp", "VarIsInitializedOp"):
      return True
  return False
