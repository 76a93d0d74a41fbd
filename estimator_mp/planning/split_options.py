"""The user's options for splits: rules for variables, and no large gathers."""

import difflib
from collections.abc import Collection, Iterable, Sequence

from estimator_mp import amounts
from estimator_mp import mesh as mesh_lib
from estimator_mp.config.sharding_config import ShardingConfig
from estimator_mp.config.sharding_options import ShardingOptions
from estimator_mp.config.split_rules import (
  AUTO,
  SplitError,
  SplitRule,
  rule_for,
)
from estimator_mp.graph import op_types, shapes, traversal
from estimator_mp.planning.purpose import TRAINING, Purpose
from estimator_mp.planning.split_plan import Gather, is_slot_name
from estimator_mp.propagate.splits import CyclicSplit, VariableSplit, even_sizes

import tensorflow as tf


def split_axis(
  config: ShardingConfig, mesh: mesh_lib.Mesh, purpose: Purpose
) -> str | None:
  """Returns the axis over whose devices variables are split; None if over none.

  Without a model axis, tables may be split over replicas.

  Args:
    config: How the model is sharded.
    mesh: The devices.
    purpose: The purpose of the graph.
  """
  if purpose.is_export and not config.export_shards:
    return None
  axis = "model"
  if mesh.axis_size("model") == 1 and config.split != AUTO:
    axis = "data"
  return axis if mesh.axis_size(axis) > 1 else None


def splits_of_rules(
  rules: Sequence[SplitRule],
  variables: Sequence[tf.Operation],
  trained: Collection[tf.Operation],
  num_parts: int,
  purpose: Purpose = TRAINING,
) -> dict[tf.Operation, VariableSplit | None]:
  """Returns how rules split variables.

  Args:
    rules: The rules, of which the first one that is found in a name counts.
    variables: The ops of a model's variables, in the order of the graph.
    trained: Those that are trained.
    num_parts: How many devices share them.
    purpose: The purpose of the graph.

  Returns:
    How variables are split that a rule is for; None for those that it keeps
    whole. A slot is left out that is to be split as its variable is.

  Raises:
    SplitError: If a rule does not suit a variable, or is for none.
  """
  splits: dict[tf.Operation, VariableSplit | None] = {}
  tables: list[tuple[tf.Operation, SplitRule]] = []
  names: set[str] = set()
  used: set[SplitRule] = set()
  for variable in variables:
    rule = rule_for(rules, variable.name)
    is_slot = variable not in trained and is_slot_name(variable.name, names)
    names.add(variable.name)
    if rule is None or (is_slot and rule[1] is not None):
      continue
    if not is_slot:
      used.add(rule)
    splits[variable] = None
    if rule[1] == "whole":
      tables.append((variable, rule))
    elif rule[1] is not None:
      splits[variable] = _split_of(variable, rule, num_parts)
  _check_used(rules, used, names, purpose)
  return splits | _on_one_device_each(tables, num_parts)


def check_gathers(
  gathers: Iterable[Gather], options: ShardingOptions, graph: tf.Graph
) -> None:
  """Raises if a tensor is read whole that must not be.

  Args:
    gathers: The split tensors that ops read whole.
    options: The user's options.
    graph: The graph.

  Raises:
    SplitError: With the op that reads it, and the bytes.
  """
  limit = options.memory_limit
  for gather in gathers:
    tensor = traversal.tensor_of_name(graph, gather.tensor)
    num_bytes = (
      shapes.variable_bytes(tensor.op)
      if op_types.is_handle(tensor)
      else shapes.tensor_bytes(tensor)
    )
    is_large = limit is not None and num_bytes > limit
    if options.gathers == "error" or is_large:
      why = f"more than memory_limit={limit}" if is_large else 'gathers="error"'
      raise SplitError(
        f"{gather.reader} ({gather.type}) has no rule for its split input "
        f"{gather.tensor}, and would read all of it "
        f"({amounts.amount(num_bytes, 'B')}) on one device: {why}; keep the "
        "variable before it whole, or split it by another axis, with a rule of "
        'split, or use gathers="allow"'
      )


def _check_used(
  rules: Iterable[SplitRule],
  used: Collection[SplitRule],
  names: Collection[str],
  purpose: Purpose,
) -> None:
  """Raises if a rule has met no variable, of a graph that has to have one."""
  for rule in rules:
    if rule not in used:
      close = difflib.get_close_matches(rule[0], sorted(names), n=1, cutoff=0.3)
      hint = f"; the name nearest to it is {close[0]!r}" if close else ""
      purpose.unmatched(
        SplitError(
          f"the split rule {rule!r} matches no variable of the model{hint}; "
          "use an expression that is found in the name of one, or leave the "
          "rule out"
        )
      )


def _split_of(
  variable: tf.Operation, rule: SplitRule, num_parts: int
) -> VariableSplit:
  """Returns how a rule splits a variable."""
  shape = tf.TensorShape(variable.get_attr("shape"))
  axis = rule[1] if isinstance(rule[1], int) else 0
  if rule[1] == "columns":
    axis = (shape.rank or 1) - 1
  if shape.rank is None or axis >= shape.rank:
    raise SplitError(
      f"the split rule {rule!r} names axis {axis}, but {variable.name} has the "
      f"shape {shape}; use an axis that it has, or None to keep it whole"
    )
  size = shape.as_list()[axis]
  if size is None or size < num_parts:
    raise SplitError(
      f"the split rule {rule!r} makes {num_parts} shards of axis {axis} of "
      f"{variable.name}, whose shape is {shape}; use an axis with at least "
      f"{num_parts} entries, or None to keep it whole"
    )
  sizes = even_sizes(size, num_parts)
  return (
    CyclicSplit(0, sizes) if rule[1] == "mod" else VariableSplit(axis, sizes)
  )


def _on_one_device_each(
  tables: Iterable[tuple[tf.Operation, SplitRule]], num_parts: int
) -> dict[tf.Operation, VariableSplit]:
  """Returns tables, each on the device with the fewest bytes of them so far.

  Raises:
    SplitError: If a variable has no rows.
  """
  splits: dict[tf.Operation, VariableSplit] = {}
  num_bytes = [0] * num_parts
  for table, rule in sorted(
    tables, key=lambda x: shapes.variable_bytes(x[0]), reverse=True
  ):
    shape = tf.TensorShape(table.get_attr("shape"))
    if not shape.rank or not shape.is_fully_defined():
      raise SplitError(
        f"the split rule {rule!r} is for tables, but {table.name} has the "
        f"shape {shape}; use None to keep it where it is"
      )
    position = min(range(num_parts), key=num_bytes.__getitem__)
    num_bytes[position] += shapes.variable_bytes(table)
    sizes = [0] * num_parts
    sizes[position] = shape.as_list()[0]
    splits[table] = VariableSplit(0, tuple(sizes))
  return splits
