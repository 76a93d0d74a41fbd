"""Decides which ops of a model are done in parts of the batch.

model_fn builds the plain graph, of the whole batch. An op is done in parts only
where a rule says that the parts together are the op (`model_axis.rules`); what
has no rule is done once, and reads what parts make, joined.

    features -> cut -> [in parts] -> joined -> [once] -> cut -> [in parts] ...

What depends on inputs alone, as labels in one-hot form, waits for no slice: it
is done in parts for who needs parts of it, and once for who needs it whole.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from compat.private import graph_reads
from estimator_mp.capture import micro_batches
from estimator_mp.graph import control_flow, op_types, traversal, variables
from estimator_mp.graph.batch_inputs import Input
from estimator_mp.model_axis import axes, function_parts, sources
from estimator_mp.model_axis.decisions import (
  Decision,
  Operand,
  Output,
  Partial,
  PerPart,
  Reduction,
  Replicate,
  Resized,
  Shard,
  Shards,
  Shifted,
)
from estimator_mp.model_axis.rules.table import TABLE
from estimator_mp.plan import batch_moments, odd_sizes, places
from estimator_mp.plan.batch_plan import (
  BatchOps,
  BatchPlan,
  Cut,
  PartedOp,
  Places,
  Rows,
)
from estimator_mp.plan.batch_sizes import OddBatchSizes, Sizes, StaticSizes

import tensorflow as tf


class BatchPlanner:
  """Decides for a graph that grows: before each request for gradients."""

  def __init__(
    self,
    inputs: Sequence[Input],
    before: Iterable[tf.Operation],
    per_example: Sequence[str] = (),
    draws: str = "whole",
    batch_norm: str = "whole",
  ):
    """Starts before model_fn is called.

    Args:
      inputs: The features and labels that have examples, whole.
      before: The ops that are there.
      per_example: Expressions for names of ops that the user says to be done
        for each example by itself.
      draws: As `ShardingOptions.draws`.
      batch_norm: As `ShardingOptions.batch_norm`.
    """
    self._size = micro_batches.known_size(inputs)
    self._roots = {
      x.name
      for entry in inputs
      for x in tf.nest.flatten(entry.value, expand_composites=True)
    }
    self._depends: set[tf.Operation] = set()
    self._of_inputs = {op for op in before if not _reads_variable(op)}
    self._per_example = [re.compile(x) for x in per_example]
    self._draws_per_slice = draws == "per_slice"
    self._moments = batch_moments.Moments(
      self.differs, batch_norm == "per_micro_batch"
    )
    self._odd = odd_sizes.OddSizes(
      inputs, self.differs, self._size or odd_sizes.BATCH
    )
    # Of what is made in parts, for the sizes that rules are told.
    self._rows: dict[str, Rows] = {}
    self._elements: dict[str, tf.TensorShape] = {}  # Of lists.
    self._parted: set[tf.Operation] = set()  # Planned, to run in parts.
    self._whole: dict[tf.Operation, bool] = {}
    self._loops = traversal.Loops()
    self._inner: Collection[tf.Operation] = ()  # Ops in branches of conds.
    for entry in inputs:
      if isinstance(entry.value, tf.Tensor):
        self._rows[entry.value.name] = Rows(entry.axis, 1)

  @property
  def batch(self) -> BatchOps:
    """Ops that depend on the batch, of all ops so far."""
    return BatchOps(self._depends, self._of_inputs, self._whole)

  def differs(self, tensor: tf.Tensor) -> bool:
    """Whether a tensor depends on the batch.

    Args:
      tensor: A tensor of the plain graph.
    """
    return tensor.name in self._roots or tensor.op in self._depends

  def plan(
    self,
    ops: Sequence[tf.Operation],
    joined: Mapping[str, Rows] = MappingProxyType({}),
  ) -> BatchPlan:
    """Returns what is done in parts.

    Args:
      ops: New ops of the plain graph.
      joined: How slices lie in tensors that lowering has joined, by name.

    Raises:
      ValueError: If the shape of an op's output is not known that the user says
        to be done for each example.
    """
    self._roots.update(joined)
    self._rows.update(joined)
    self._add(ops)
    if self._size == 1:
      return BatchPlan((), {}, frozenset())
    for op in filter(self._is_said, ops):
      for tensor in op.outputs:
        if tensor.shape.rank is None:
          raise ValueError(_unknown_shape(tensor))
    in_order = traversal.in_order([op for op in ops if op in self._depends])
    if not in_order:
      return BatchPlan((), {}, frozenset())
    graph = in_order[0].graph
    self._inner = control_flow.ops_in_branches(graph.get_operations())
    able = [x for x in in_order if x not in self._inner and self._is_able(x)]
    sizes = self._sizes(able)
    self._add_of_inputs(ops, sizes)
    without: set[tf.Operation] = set()
    while True:
      before = dict(self._rows)
      found = self._decisions(
        [x for x in able if x not in without], sizes, set(ops)
      )
      if self._say_sizes(found, sizes):
        sizes = self._sizes(able)
        self._rows = before
        continue
      unread = _read_once(found)
      if not unread:
        self._note_whole([op for op in in_order if op not in found], sizes)
        plan = self._without_idle(found, sizes)
        self._parted.update(x.op for x in plan.ops)
        return plan
      without |= unread
      self._rows = before

  def _decisions(
    self,
    ops: Sequence[tf.Operation],
    sizes: Sizes,
    new: Collection[tf.Operation],
  ) -> dict[tf.Operation, PartedOp]:
    """Returns the ops that are executed in parts, in order.

    Args:
      ops: The ops that may be.
      sizes: The sizes that rules are told.
      new: The ops that were not planned before.
    """
    found: dict[tf.Operation, PartedOp] = {}
    for op in ops:
      if op in found or self._waits(op, found):
        continue
      if self._moments.normalizes(op, self._rows):
        found[op] = self._moments.normalization(op, self._rows, sizes)
        continue
      if (gather := self._gather(op, sizes)) is not None:
        found[op] = gather
        continue
      if self._moments.is_own(op, self._rows):
        found[op] = self._moments.statistic(op, self._rows, sizes)
        continue
      decision = self._decision(op, sizes)
      if decision is None:
        continue
      for tensor, operand in zip(op.inputs, decision.operands, strict=True):
        if not isinstance(operand, Shard) or tensor.name in self._rows:
          continue
        made = self._made_for(tensor, operand, sizes, new)
        if made and not _are_read_whole(made, found):
          for maker, of_maker in made.items():
            self._accept(maker, of_maker, sizes, found)
      self._accept(op, decision, sizes, found)
    return found

  def _note_whole(self, ops: Iterable[tf.Operation], sizes: Sizes) -> None:
    """Notes which ops, of those that are not in parts, could read parts."""
    for op in ops:
      if op.type not in op_types.MEASURES and any(
        self._split_of(x, sizes) for x in op.inputs
      ):
        self._whole[op] = sizes.op(op) is not None

  def _waits(self, op: tf.Operation, found: Collection[tf.Operation]) -> bool:
    """Whether an op waits for what is executed once for the whole batch."""
    return any(
      x in self._depends and x not in found and x not in self._parted
      for x in op.control_inputs
    )

  def _accept(
    self,
    op: tf.Operation,
    decision: PerPart,
    sizes: Sizes,
    found: dict[tf.Operation, PartedOp],
  ) -> None:
    """Lets an op be done in parts."""
    found[op] = self._accepted(op, decision, sizes)
    for tensor, output in zip(op.outputs, decision.outputs, strict=True):
      if isinstance(output, Shard):
        self._rows[tensor.name] = sizes.rows_of(output)
    if op.type == "TensorListFromTensor":
      sized = sizes.op(op) or op
      self._elements[op.outputs[0].name] = sized.inputs[0].shape[1:]

  def _made_for(
    self,
    tensor: tf.Tensor,
    split: Shard,
    sizes: Sizes,
    new: Collection[tf.Operation],
  ) -> dict[tf.Operation, PerPart]:
    """Returns what slices make themselves so that each has its own part.

    That is a new list, or random numbers and what is made of these.

    Args:
      tensor: The tensor that an op in parts reads.
      split: How it is split there.
      sizes: The sizes that rules are told.
      new: The ops that were not planned before.
    """
    op = tensor.op
    if self._is_new_list(tensor):
      shape = function_parts.element_shape(op.inputs[0], split)
      return {op: PerPart((shape, Replicate()), (split,))}
    if not self._draws_per_slice:
      return {}
    return self._drawn(tensor, split, sizes, new)

  def _drawn(
    self,
    tensor: tf.Tensor,
    split: Shard,
    sizes: Sizes,
    new: Collection[tf.Operation],
  ) -> dict[tf.Operation, PerPart]:
    """Returns how slices draw a tensor; see `_made_for`."""
    op, sized = tensor.op, sizes.op(tensor.op)
    source = sources.TABLE.sources.get(op.type)
    if sized is None or source is None or op not in new:
      return {}
    decision = source(sized, split)
    if not isinstance(decision, PerPart):
      return {}
    if op.type in op_types.RANDOM:  # Clones get seeds of their own.
      operands = [
        Replicate() if isinstance(x, Shifted) else x for x in decision.operands
      ]
      decision = PerPart(tuple(operands), decision.outputs)
      fits = self._fits(op, sized, decision, sizes)
      return {op: decision} if fits and self._is_apart(op) else {}
    if decision.attributes or not self._fits(op, sized, decision, sizes):
      return {}
    made: dict[tf.Operation, PerPart] = {}
    for before, operand in zip(op.inputs, decision.operands, strict=True):
      if isinstance(operand, Shard) and before.name not in self._rows:
        made |= self._drawn(before, operand, sizes, new)
    return made | {op: decision} if made and self._is_apart(op) else {}

  def _is_apart(self, op: tf.Operation) -> bool:
    """Whether an op is in no v1 loop or cond, and waits for no slice."""
    return (
      graph_reads.outermost_loop(op) is None
      and op not in self._inner
      and not self._waits(op, ())
    )

  def _is_new_list(self, tensor: tf.Tensor) -> bool:
    """Whether slices may have lists of their own in place of one."""
    is_new = tensor.op.type in function_parts.NEW_LISTS
    return is_new and tensor.name not in self._rows

  def _add(self, ops: Sequence[tf.Operation]) -> None:
    """Finds what depends on the batch, and what on nothing but inputs."""
    self._loops.add(ops)

    def visit(op: tf.Operation) -> bool:
      if op in self._depends:
        return False
      depends = any(map(self.differs, op.inputs)) or any(
        x in self._depends for x in op.control_inputs
      )
      if depends:
        self._depends.update([op, *self._loops.ops_with(op)])
      return depends

    traversal.repeat_until_stable(visit, ops)
    self._add_of_inputs(ops)

  def _add_of_inputs(
    self, ops: Sequence[tf.Operation], sizes: Sizes | None = None
  ) -> None:
    """Finds what depends on nothing but inputs.

    Args:
      ops: New ops.
      sizes: Tells shapes that follow from the number of examples, whatever
        the tensors depend on; None if it is not known yet.
    """
    for op in traversal.in_order(ops):
      draws = self._draws_per_slice and op.type in op_types.RANDOM
      if draws or _reads_variable(op):
        continue
      is_shape = (
        sizes is not None
        and op.type in op_types.MEASURES
        and all(sizes.has_known(x) for x in op.inputs)
      )
      if is_shape or self._of_inputs.issuperset(traversal.sources(op)):
        self._of_inputs.add(op)

  def _sizes(self, able: Sequence[tf.Operation]) -> Sizes:
    if self._size is not None:
      is_sparse = any(x.type == "SparseReshape" for x in able)
      graph = self._odd.graph(able) if is_sparse else tf.Graph()
      return StaticSizes(self._size, graph)
    for op in able:
      for tensor in op.inputs:
        is_root = tensor.name in self._roots
        known = self._rows.get(tensor.name)
        if is_root and known is not None and not self._odd.is_known(tensor):
          self._odd.add_rows(tensor, known.axis, known.per_example or 1)
    for op in filter(self._is_said, able):
      for tensor in op.outputs:
        self._odd.add_rows(tensor)
    for op in able:  # Of what a table says no shape is inferred.
      is_lookup = op.type == "LookupTableFindV2" and op.outputs[0].shape.rank
      if is_lookup and self._odd.has_row_per_example(op.inputs[1]):
        self._odd.add_rows(op.outputs[0])
    return OddBatchSizes(self._odd.graph(able))

  def _say_sizes(self, found: Collection[tf.Operation], sizes: Sizes) -> bool:
    """Says how large parts are where TensorFlow cannot, as of a loop's list.

    Args:
      found: The ops that are executed in parts.
      sizes: The sizes that are known.

    Returns:
      Whether that says more.
    """
    unknown = [
      tensor
      for op in found
      for tensor in op.outputs
      if tensor.name in self._rows
      and tensor.shape.rank
      and not self._odd.is_known(tensor)
      and not sizes.has_known(tensor)
    ]
    for tensor in unknown if self._size is None else ():
      rows = self._rows[tensor.name]
      self._odd.add_rows(tensor, rows.axis, rows.per_example or 1)
    return self._size is None and bool(unknown)

  def _is_said(self, op: tf.Operation) -> bool:
    return any(x.search(op.name) for x in self._per_example)

  def _is_able(self, op: tf.Operation) -> bool:
    """Whether an op may be done in parts, whatever it computes."""
    is_lookup = op.type in op_types.VARIABLE_READS | op_types.TABLE_LOOKUPS
    is_stateful = op.op_def.is_stateful and not is_lookup
    return (
      bool(op.outputs)
      and op.type not in op_types.MEASURES
      and graph_reads.outermost_loop(op) is None
      and op.type not in op_types.SWITCHES | op_types.MERGES
      and not any(map(op_types.is_reference, op.inputs))
      and (
        self._is_said(op)
        or op.type in op_types.FUNCTIONAL
        or not (is_stateful or op_types.is_call(op))
      )
    )

  def _decision(self, op: tf.Operation, sizes: Sizes) -> PerPart | None:
    """Returns what parts of an op read and make, if parts are the same."""
    splits = [self._split_of(x, sizes) for x in op.inputs]
    if self._is_said(op):
      operands = [split or Replicate() for split in splits]
      return PerPart(
        tuple(operands), (Shard(0, sizes.parts),) * len(op.outputs)
      )
    sized = sizes.op(op)
    if sized is None or not any(splits):
      return None
    # How a whole tensor may be cut is no reason to cut it so.
    made = [
      split if x.name in self._rows else None
      for x, split in zip(op.inputs, splits, strict=True)
    ]
    for known in (splits, made) if made != splits else (splits,):
      found = self._by_rule(op, sized, known, sizes)
      if not isinstance(found, PerPart):
        continue
      # A part of one example must not lose its dimension.
      names_sizes = op.type == "Squeeze" and op.get_attr("squeeze_dims")
      if any(found.attributes) and not names_sizes:
        continue
      if self._fits(op, sized, found, sizes):
        return found
    return None

  def _by_rule(
    self,
    op: tf.Operation,
    sized: tf.Operation,
    splits: Shards,
    sizes: Sizes,
  ) -> Decision | None:
    """Returns what the rules say of an op."""
    if op.type in op_types.FUNCTIONAL:
      elements = [self._element_shape(x) for x in op.inputs]
      functions = function_parts.FunctionParts(
        sizes.parts, self._draws_per_slice
      )
      return functions.decide(op, sized, splits, elements)
    if op.type in function_parts.LIST_RULES:
      return function_parts.LIST_RULES[op.type](sized, splits)
    # A mean adds up as its sum does.
    rule = TABLE.rules.get("Sum" if op.type == "Mean" else op.type)
    return None if rule is None else rule(sized, splits)

  def _element_shape(self, tensor: tf.Tensor) -> tf.TensorShape | None:
    """Returns the shape of what a list holds, or a variable."""
    if tensor.dtype == tf.resource:
      found = variables.variable_of(tensor)
      if found is not None and "shape" in found.node_def.attr:
        return tf.TensorShape(found.get_attr("shape"))
    return self._elements.get(tensor.name)

  def _gather(self, op: tf.Operation, sizes: Sizes) -> PartedOp | None:
    """Returns how each slice gathers from its own rows; see `plan.places`."""
    if op.type != "GatherV2" or op.get_attr("batch_dims"):
      return None
    values, indices, axis = op.inputs
    rows, taken, _ = (self._split_of(x, sizes) for x in op.inputs)
    if rows is None or taken is None or rows.axis or taken.axis:
      return None
    if axes.constant_axes(axis, values.shape.rank) != [0]:
      return None

    def sized(tensor: tf.Tensor) -> tf.Tensor | None:
      known = sizes.op(tensor.op)
      return None if known is None else known.outputs[tensor.value_index]

    batch = sum(sizes.parts)
    terms = places.terms_of(indices, sized, batch, rows.size // batch)
    if terms is None or indices.op not in self._of_inputs:
      return None
    self._rows[op.outputs[0].name] = sizes.rows_of(taken)
    own, of_taken = (sizes.real(sizes.rows_of(x)) for x in (rows, taken))
    return PartedOp(op, (Cut(own), Places(of_taken, *terms), None), (False,))

  def _fits(
    self,
    op: tf.Operation,
    sized: tf.Operation,
    decision: PerPart,
    sizes: Sizes,
  ) -> bool:
    """Whether parts can read what they shall, and make parts of the batch."""
    return all(
      (tensor.shape.rank is not None or not _is_read(tensor))
      and (sizes.is_of_batch(output) or self._may_add(op, tensor, output))
      for output, tensor in zip(decision.outputs, op.outputs, strict=True)
    ) and all(
      self._may_read(*x, sizes)
      for x in zip(op.inputs, sized.inputs, decision.operands, strict=True)
    )

  def _may_add(
    self, op: tf.Operation, tensor: tf.Tensor, output: Output
  ) -> bool:
    """Whether slices may add their shares of an output.

    An op that depends on inputs alone is executed once, so that no slice waits
    for another.
    """
    if isinstance(output, Replicate):  # That of slice 0, without a gradient.
      return not tensor.dtype.is_floating or not _is_read(tensor)
    if op in self._of_inputs:
      return False
    can_mean = tensor.dtype.is_floating or op.type != "Mean"
    return output == Partial(Reduction.SUM) and can_mean

  def _may_read(
    self,
    tensor: tf.Tensor,
    sized: tf.Tensor,
    operand: Operand,
    sizes: Sizes,
  ) -> bool:
    """Whether each part can have what it is to read in place of a tensor."""
    if isinstance(operand, Shard):
      if tensor.dtype == tf.variant and tensor.name not in self._rows:
        return self._is_new_list(tensor)
      is_made = tensor.name in self._rows and tensor.name not in self._roots
      if is_made and operand != self._split_of(tensor, sizes):
        return False
      return sizes.is_of_batch(operand)
    if isinstance(operand, Replicate):
      return tensor.name in self._roots or tensor.name not in self._rows
    if not isinstance(operand, Resized):
      return False
    rows, rest = divmod(sum(operand.sizes), sum(sizes.parts))
    if rest or operand.sizes != tuple(x * rows for x in sizes.parts):
      return False
    named = axes.named_size(sized, operand.index)
    return named in (-1, sum(operand.sizes))

  def _split_of(self, tensor: tf.Tensor, sizes: Sizes) -> Shard | None:
    """Returns how a tensor is made by parts, or how it can be cut."""
    rows = self._rows.get(tensor.name)
    if rows is None and self.differs(tensor):
      rows = sizes.rows(tensor)
    if rows is None:
      return None
    return Shard(rows.axis, sizes.parts).times(rows.per_example or 0)

  def _accepted(
    self, op: tf.Operation, decision: PerPart, sizes: Sizes
  ) -> PartedOp:
    """Returns what slices do of an op."""
    sized = sizes.op(op) or op
    reads = tuple(
      sizes.reads(*x) for x in zip(sized.inputs, decision.operands, strict=True)
    )
    shares = tuple(x == Partial(Reduction.SUM) for x in decision.outputs)
    if op.type != "Mean" or not any(shares):
      return PartedOp(op, reads, shares)
    values = op.inputs[0]
    over = axes.constant_axes(op.inputs[1], values.shape.rank) or []
    split = decision.operands[0]
    assert isinstance(split, Shard)
    rows = sizes.real(sizes.rows_of(split))
    others = tuple(sorted({*over} - {rows.axis}))
    return PartedOp(op, reads, shares, divisor=rows, counted=others)

  def _without_idle(
    self, found: Mapping[tf.Operation, PartedOp], sizes: Sizes
  ) -> BatchPlan:
    """Leaves out what inputs alone make, and no other part reads."""
    read: set[tf.Operation] = set()
    kept: dict[tf.Operation, PartedOp] = {}
    for op, parted in reversed([*found.items()]):
      if op in self._of_inputs and op not in read:
        for tensor in op.outputs:
          self._rows.pop(tensor.name, None)
        continue
      kept[op] = parted
      for tensor, reads in zip(op.inputs, parted.reads, strict=True):
        if isinstance(reads, Cut):
          read.add(tensor.op)
    rows = {
      tensor.name: sizes.real(self._rows[tensor.name])
      for op in kept
      for tensor in op.outputs
      if tensor.name in self._rows
    }
    return BatchPlan(
      tuple(reversed(kept.values())),
      rows,
      frozenset(op for op in kept if op in self._of_inputs),
    )


def _read_once(found: Mapping[tf.Operation, PartedOp]) -> set[tf.Operation]:
  """Returns what makes lists of slices that something reads once.

  Lists cannot be joined, so they are not made in parts then.
  """
  return {
    op
    for op in found
    for tensor in op.outputs
    if tensor.dtype == tf.variant
    and any(reader not in found for reader in tensor.consumers())
  }


def _are_read_whole(
  made: Iterable[tf.Operation], found: Mapping[tf.Operation, PartedOp]
) -> bool:
  """Whether an op in parts reads all that another one of them has made."""
  return any(
    reader in found
    and any(
      source is tensor and not isinstance(reads, Cut)
      for source, reads in zip(reader.inputs, found[reader].reads, strict=True)
    )
    for op in made
    for tensor in op.outputs
    for reader in tensor.consumers()
  )


def _unknown_shape(tensor: tf.Tensor) -> str:
  """Returns the text of an error about an op of `per_example`."""
  return (
    f"per_example names {tensor.op.name}, but {tensor.name} has an unknown "
    "number of dimensions; set its shape, such as x.set_shape([None, 8])"
  )


def _is_read(tensor: tf.Tensor) -> bool:
  """Whether more reads a tensor than an identity, as each loop's output has."""
  return any(
    op.type != "Identity" or _is_read(op.outputs[0])
    for op in tensor.consumers()
  )


def _reads_variable(op: tf.Operation) -> bool:
  """Whether an op is a variable, or reads one."""
  return op_types.is_variable(op) or op.type in op_types.VARIABLE_READS
