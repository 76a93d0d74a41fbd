"""The template: the part of a model that slices execute, for slice 0."""

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from compat.private import graph_edits, graph_reads
from estimator_mp.graph import op_types, shapes
from estimator_mp.graph.calls import functions
from estimator_mp.graph.ledger import Ledger, Role
from estimator_mp.lower.slicing import bridges as bridges_lib
from estimator_mp.lower.slicing import composites
from estimator_mp.lower.slicing.slices import Slice
from estimator_mp.plan.batch_plan import (
  BatchPlan,
  Cut,
  PartedOp,
  Places,
  Rows,
  Size,
)
from estimator_mp.plan.bridge import Kind

import tensorflow as tf

# Behind "gradients" in the order of names. TensorFlow's rewriting multiplies a
# constant into whichever factor comes first; if that is an activation, the
# product of both is made and held in the forward pass.
_SCOPE = "slice_by_estimator_mp"


class Template:
  """The ops of slice 0, and the readers of the tensors of all slices.

  Attributes:
    joined: How slices lie in tensors that are no op's of the plain graph, by
      name: gradients of slices, joined.
    own_gradients: The ops that have a gradient of the program's own, by the
      names of slice 0's ops.
  """

  def __init__(
    self,
    bridges: bridges_lib.Bridges,
    of_slice: Slice,
    ledger: Ledger,
    own_gradient: str,
  ):
    """Starts without an op.

    Args:
      bridges: The bridges of the graph.
      of_slice: The numbers of examples of slice 0 and of the batch, and the
        weight of slice 0's last example.
      ledger: Says for which op of the plain graph something was made.
      own_gradient: The gradient that is asked where the program has its own.
    """
    self._own_gradient = own_gradient
    self.joined: dict[str, Rows] = {}
    self.own_gradients: dict[str, PartedOp] = {}
    self._bridges = bridges
    self._slice = of_slice
    self._ledger = ledger
    self._parts: dict[str, tf.Tensor] = {}  # By tensors of the plain graph.
    self._rows: dict[str, Rows] = {}
    self._shares: set[str] = set()  # Terms of sums over slices, by name.
    self._own: set[str] = set()  # Tensors of each slice's own, by name.
    self._stand_ins: dict[tf.Operation, tf.Operation] = {}
    self._functions: set[str] = set()  # Those that were defined for slices.
    self._of_inputs: set[tf.Operation] = set()
    self._cuts: dict[tuple[str, Rows], tf.Tensor] = {}
    self._reads: dict[tuple[str, str], tf.Tensor] = {}
    self._wholes: dict[str, tf.Tensor] = {}
    self._lessers: dict[Any, tf.Tensor] = {}  # See `_less`.

  @property
  def ops(self) -> set[tf.Operation]:
    """The ops that stand for ops of the plain graph."""
    return set(self._stand_ins.values())

  @property
  def all_rows(self) -> Mapping[str, Rows]:
    """How slices lie in tensors of the plain graph, by name."""
    return self._rows

  @property
  def plain_ops(self) -> list[tf.Operation]:
    """The ops of the plain graph that they stand for."""
    return [*self._stand_ins]

  def part(self, tensor: tf.Tensor) -> tf.Tensor | None:
    """Returns what slice 0 makes of a tensor; None if it is done once.

    Args:
      tensor: A tensor of the plain graph.
    """
    return self._parts.get(tensor.name)

  def rows(self, tensor: tf.Tensor) -> Rows | None:
    """Returns how slices lie in a tensor that they make.

    Args:
      tensor: A tensor of the plain graph.
    """
    return self._rows.get(tensor.name)

  def is_made_twice(self, tensor: tf.Tensor) -> bool:
    """Whether a tensor is made in parts, and once besides.

    Args:
      tensor: A tensor of the plain graph.
    """
    return tensor.op in self._of_inputs

  def add(self, plan: BatchPlan) -> None:
    """Makes slice 0's ops.

    Args:
      plan: The ops that are executed in parts, and the rows of their outputs.
    """
    if not plan.ops:
      return
    self._of_inputs |= plan.of_inputs
    self._rows |= plan.rows
    simple: list[PartedOp] = []
    wholes: set[str] = set()  # Outputs of those ops that are no parts.
    for parted in plan.ops:
      # A tensor that is read whole is bridged before.
      reads_whole = any(x.name in wholes for x in parted.op.inputs)
      if parted.is_composite or reads_whole:
        self._add_copies(simple)
        simple, wholes = [], set()
      if parted.is_composite:
        self._normalize(parted)
        continue
      simple.append(parted)
      own = parted.own or (False,) * len(parted.shares)
      wholes.update(
        x.name
        for x, is_own in zip(parted.op.outputs, own, strict=True)
        if not (is_own or x.name in plan.rows)
      )
    self._add_copies(simple)

  def _add_copies(self, ops: Sequence[PartedOp]) -> None:
    """Copies ops that a rule lets slices do each for itself."""
    if not ops:
      return
    made = self._imported(ops)
    for parted in ops:
      op, copy = parted.op, made[parted.op.name]
      self._stand_ins[op] = copy
      self._ledger.enter([copy], Role.SLICE, op)
      graph_edits.differentiate_calls([copy], copy.graph)
      if graph_reads.names_gradient(op):
        self.own_gradients[copy.name] = parted
      waits = [self._of_slice(x) for x in op.control_inputs]
      graph_edits.add_control_inputs(copy, waits)
      for tensor, part in zip(op.outputs, copy.outputs, strict=True):
        self._parts[tensor.name] = part
      if parted.own:
        named = zip(op.outputs, parted.own, strict=True)
        self._own.update(x.name for x, is_own in named if is_own)
      for tensor, is_share in zip(op.outputs, parted.shares, strict=True):
        if is_share:
          share = self._share(parted, copy, self._parts[tensor.name])
          share.set_shape(tensor.shape)
          self._parts[tensor.name] = share
          self._shares.add(tensor.name)

  def _normalize(self, parted: PartedOp) -> None:
    """Makes slice 0's part of a batch normalization."""
    op = parted.op
    read = functools.partial(self._read, op)
    with self._making(op):
      inputs = map(read, op.inputs[:3], parted.reads[:3])
      part, mean, variance = composites.batch_norm(
        op, [*inputs], self._slice, self._bridges
      )
    waits = [self._of_slice(x) for x in op.control_inputs]
    graph_edits.add_control_inputs(part.op, waits)
    self._stand_ins[op] = part.op
    self._parts[op.outputs[0].name] = part
    for tensor, whole in zip(op.outputs[1:], (mean, variance), strict=False):
      self._wholes[tensor.name] = whole

  def _of_slice(self, op: tf.Operation) -> tf.Operation:
    """Returns what slice 0 waits for in place of an op."""
    bridge = self._bridges.all.get(op.name)
    if bridge is not None and bridge.kind is Kind.JOIN:
      return bridge.source.op
    return self._stand_ins.get(op, op)

  def is_share(self, tensor: tf.Tensor) -> bool:
    """Whether slices add up their shares of a tensor.

    Args:
      tensor: A tensor of the plain graph.
    """
    return tensor.name in self._shares

  def pair(self, whole: tf.Tensor, part: tf.Tensor, rows: Rows) -> None:
    """Enters a tensor that slices make for no op of the plain graph.

    Args:
      whole: All rows of it.
      part: Those of slice 0.
      rows: How slices lie in it.
    """
    self.joined[whole.name] = rows
    self._parts[whole.name] = part
    self._rows[whole.name] = rows
    self._wholes[whole.name] = whole

  def whole(self, tensor: tf.Tensor) -> tf.Tensor:
    """Returns what is to be read of a tensor by what is done once.

    Args:
      tensor: A tensor of the plain graph.
    """
    if tensor.name in self._wholes:
      return self._wholes[tensor.name]
    part = self._parts.get(tensor.name)
    if part is None or tensor.op in self._of_inputs:
      return self._whole_shape(tensor)
    rows = self._rows.get(tensor.name)
    if tensor.name in self._shares:
      found = self._bridges.sum(part)
    elif tensor.name in self._own:
      found = self._bridges.sum(self._weighted(tensor.op, part))
    elif rows is None:
      found = self._bridges.first(part)
    else:
      found = self._bridges.join(part, rows, tensor.shape)
    self._wholes[tensor.name] = found
    return found

  def _weighted(self, op: tf.Operation, part: tf.Tensor) -> tf.Tensor:
    """Returns slice 0's term of the mean of what slices have of their own."""
    with self._making(op):
      examples, whole = (
        tf.cast(x, part.dtype)
        for x in (self._slice.examples, self._slice.all_examples)
      )
      return self.without_stand_in(part * (examples / whole))

  def without_stand_in(self, part: tf.Tensor) -> tf.Tensor:
    """Returns 0 instead of what slice 0 makes if it has no example of its own.

    Args:
      part: Its share of something, or its part of a gradient.
    """
    if self._slice.weight is None:
      return part
    return part * tf.cast(self._slice.weight, part.dtype)

  def redirect(self, ops: Iterable[tf.Operation]) -> None:
    """Lets ops executed once read the tensors that slices make.

    Args:
      ops: New ops, which are no slice's.
    """
    for op in ops:
      if op in self._stand_ins or op.name in self._bridges.all:
        continue
      for index, tensor in enumerate(op.inputs):
        if op.type not in op_types.MEASURES:
          whole = self.whole(tensor)
          if whole is not tensor:
            graph_edits.replace_input(op, index, whole)
      waits = list(op.control_inputs)
      if not self._stand_ins.keys().isdisjoint(waits):
        found = [self._stand_ins.get(x, x) for x in waits]
        graph_edits.set_control_inputs(op, found)

  def _imported(self, ops: Sequence[PartedOp]) -> dict[str, tf.Operation]:
    """Returns copies of ops that read what slices read, by the ops' names."""
    inside = {x.name for parted in ops for x in parted.op.outputs}
    own = {
      x.name
      for parted in ops
      for x, is_own in zip(parted.op.outputs, parted.own, strict=False)
      if is_own
    }
    definition = tf.compat.v1.GraphDef()
    graph = tf.compat.v1.get_default_graph()
    definition.versions.CopyFrom(graph.graph_def_versions)
    outside: dict[str, tf.Tensor] = {}
    for parted in ops:
      op = parted.op
      node = definition.node.add()
      node.CopyFrom(op.node_def)
      node.device = op.device
      node.attr.pop("_class", None)
      if graph_reads.names_gradient(op):
        node.attr["_gradient_op_type"].s = self._own_gradient.encode()
      if parted.divisor is not None:
        node.op = "Sum"
      self._forget_sizes(op, node)
      del node.input[:]
      for tensor, reads in zip(op.inputs, parted.reads, strict=True):
        is_row = isinstance(reads, Cut) and tensor.name in self._rows
        if tensor.name in inside and (is_row or tensor.name in own):
          node.input.append(tensor.name)
          continue
        name = f"estimator_mp_input_{len(outside)}"
        outside[f"{name}:0"] = self._read(op, tensor, reads)
        node.input.append(name)
    with bridges_lib.outside(""), tf.compat.v1.name_scope(None):
      return graph_edits.import_ops(definition, outside, _SCOPE)

  def _forget_sizes(self, op: tf.Operation, node: tf.compat.v1.NodeDef) -> None:
    """Lets a loop or a cond return other rows than those of the whole batch."""
    if "output_shapes" in node.attr:
      known = node.attr["output_shapes"].list.shape
      for tensor, shape in zip(op.outputs, known, strict=False):
        rows = self._rows.get(tensor.name)
        if rows is not None and len(shape.dim) > rows.axis:
          shape.dim[rows.axis].size = -1
    size = self._slice.all_examples
    if tf.is_tensor(size):
      return
    library = tf.compat.v1.GraphDef().library
    for function in functions.functions_of(node):
      name, made = functions.without_sizes(op.graph, function.name, size)
      function.name = name
      library.function.extend(
        x for key, x in made.items() if key not in self._functions
      )
      self._functions.update(made)
    if library.function:
      functions.define(library)

  def _read(self, op: tf.Operation, tensor: tf.Tensor, reads: Any) -> tf.Tensor:
    """Returns what slice 0 reads in place of a tensor."""
    if isinstance(reads, Cut):
      part = self._parts.get(tensor.name)
      if part is not None and tensor.name in self._rows:
        return part
      key = (tensor.name, reads.rows)
      if key not in self._cuts:
        whole = self.whole(tensor)
        self._cuts[key] = self._bridges.cut(whole, reads.rows)
      return self._cuts[key]
    if isinstance(reads, Places):
      return self._places(op, tensor, reads)
    if isinstance(reads, Size):
      return self._shape(op, self.whole(tensor), reads)
    if tensor.name in self._own:
      return self._parts[tensor.name]
    whole = self.whole(tensor)
    if whole.op.type == "Const" and not whole.op.control_inputs:
      return whole
    known = self._reads.get((whole.name, op.device))
    if known is None:
      known = self._reads[whole.name, op.device] = self._bridges.read(whole)
    return known

  def _places(
    self, op: tf.Operation, indices: tf.Tensor, reads: Places
  ) -> tf.Tensor:
    """Returns indices that count from the first row of slice 0 on."""
    text = (
      f"{op.name} gathers rows of other examples than its own, which slices of "
      "the batch do not have; leave num_micro_batches and the data axis out"
    )
    with bridges_lib.outside(indices.device):
      taken = tf.cast(reads.taken, tf.int64)
      last = tf.cast(reads.offsets[-1], tf.int64)
      others = tf.size(reads.offsets, tf.int64) - 1
      is_own = (taken >= 0) & ((taken + 1) * others <= last)
      check = tf.debugging.Assert(tf.reduce_all(is_own), [text])
      with tf.control_dependencies([check]):
        checked = tf.identity(indices)
    own = self._bridges.cut(checked, reads.rows)
    first = self._bridges.cut(reads.offsets, Rows(0, 1))
    with self._making(op):
      return own - tf.cast(tf.reduce_min(first), own.dtype)

  def _shape(self, op: tf.Operation, shape: tf.Tensor, reads: Size) -> Any:
    """Returns a shape that names how many rows slice 0 has."""
    examples = self._slice.examples
    if reads.per_example is not None and not tf.is_tensor(examples):
      sizes = shapes.constant(shape)
      if sizes is not None:
        sizes = [*sizes]
        sizes[reads.index] = examples * (reads.per_example or 1)
        with bridges_lib.outside(op.device):
          return tf.constant(sizes, shape.dtype)
    if tf.get_static_value(shape) is None:
      shape = self._bridges.read(shape)
    with self._making(op):
      return shape + self._less(op.device, shape, reads)

  def _less(self, device: str, shape: tf.Tensor, reads: Size) -> tf.Tensor:
    """Returns by how much a shape of slice 0 differs from that of the batch.

    Most layers of a model ask for the same.
    """
    of_slice = self._slice
    rank = shape.shape.num_elements()
    if rank is None:
      rank = tf.shape(shape)[0]
    rows = reads.per_example
    key = (device, shape.dtype, str(rank), reads.index, rows)
    known = self._lessers.get(key)
    if known is not None:
      return known
    if rows is None:
      rows = tf.cast(shape[reads.index], tf.int32) // of_slice.all_examples
    less = (of_slice.examples - of_slice.all_examples) * rows
    place = tf.one_hot(reads.index, rank, dtype=shape.dtype)
    found = place * tf.cast(less, shape.dtype)
    if reads.per_example is not None:
      self._lessers[key] = found
    return found

  def _share(
    self, parted: PartedOp, copy: tf.Operation, share: tf.Tensor
  ) -> tf.Tensor:
    """Returns what slice 0 adds to the whole batch's value."""
    with self._making(parted.op):
      if parted.divisor is not None:
        share = share / self._num_entries(parted, copy)
      return self.without_stand_in(share)

  def _num_entries(self, parted: PartedOp, copy: tf.Operation) -> tf.Tensor:
    """Returns how many entries a mean of the whole batch is of."""
    values = copy.inputs[0]
    assert parted.divisor is not None
    number = tf.cast(self._all_rows(values, parted.divisor), values.dtype)
    for axis in parted.counted:
      size = tf.compat.dimension_at_index(values.shape, axis).value
      if size is None:
        size = tf.shape(values)[axis]
      number *= tf.cast(size, values.dtype)
    return number

  def _all_rows(self, part: tf.Tensor, rows: Rows) -> int | tf.Tensor:
    """Returns how many rows all slices have of what slice 0 has some of."""
    if rows.per_example is not None:
      return self._slice.all_examples * rows.per_example
    of_slice = tf.shape(part)[rows.axis]
    return of_slice // self._slice.examples * self._slice.all_examples

  def _whole_shape(self, tensor: tf.Tensor) -> tf.Tensor:
    """Returns the shape of what slices make, as the plain op says it."""
    op = tensor.op
    if op.type not in op_types.MEASURES:
      return tensor
    measured = op.inputs[tensor.value_index]
    part, rows = self.part(measured), self.rows(measured)
    if part is None or rows is None or measured.op in self._of_inputs:
      return tensor
    with bridges_lib.outside(op.device):
      sizes: list[Any] = part.shape.as_list()
      if op.type == "Rank":
        found = tf.constant(len(sizes), tensor.dtype)
      else:
        if rows.per_example is None:
          every = self._all_rows(part, rows)
          sizes[rows.axis] = self._bridges.first(every)
        else:
          sizes[rows.axis] = self._slice.all_examples * rows.per_example
        if None in sizes:
          known = self._bridges.first(tf.shape(part))
          sizes = [known[i] if x is None else x for i, x in enumerate(sizes)]
        found = tf.cast(tf.stack(sizes), tensor.dtype)
        if op.type == "Size":
          found = tf.reduce_prod(found)
    graph_edits.add_control_inputs(found.op, op.control_inputs)
    self._wholes[tensor.name] = found
    return found

  @contextlib.contextmanager
  def _making(self, op: tf.Operation) -> Iterator[None]:
    """Puts what is made beside an op of the plain graph."""
    with (
      self._ledger.creating(Role.SLICE, op),
      bridges_lib.outside(op.device),
    ):
      yield
