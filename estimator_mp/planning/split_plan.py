"""The split plan: the split over the model axis, and its traffic.

It is plain data, for `plan`; ops and tensors go by their names.
"""

import dataclasses
import functools
from collections.abc import Collection, Iterable
from typing import Any

from estimator_mp import amounts
from estimator_mp.propagate.splits import VariableSplit

import tensorflow as tf

# A tensor of fewer bytes gets no line of its own.
_SMALL = 100
# The kinds of traffic that are no join of parts, which have the join's.
GATHER = "gather"
BROADCAST = "broadcast"
SLICE = "slice"
EXCHANGE = "exchange"


@dataclasses.dataclass(frozen=True)
class Sent:
  """The traffic of one tensor in a training step.

  Attributes:
    kind: The kind of communication: "sum", or another `Reduction`, of the
      results of parts; "gather" of its parts; "broadcast" of it, or "slice", to
      the devices of parts; "exchange" of tensors between the parts of an op.
    tensor: Its name in the model.
    op: The name of the op that makes it, for a join or an exchange, or of the
      first one that reads it.
    type: The type of that op.
    forward_bytes: The bytes that all devices together send forward.
    backward_bytes: Those that go back for its gradient.
  """

  kind: str
  tensor: str
  op: str
  type: str
  forward_bytes: int
  backward_bytes: int

  @property
  def num_bytes(self) -> int:
    """The bytes of both ways."""
    return self.forward_bytes + self.backward_bytes

  def to_dict(self) -> dict[str, Any]:
    """Returns everything for JSON."""
    return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class Gather:
  """A split tensor that an op without a rule for it reads whole.

  Attributes:
    tensor: Its name.
    reader: The name of the op.
    type: The op's type.
  """

  tensor: str
  reader: str
  type: str


@dataclasses.dataclass(frozen=True)
class SplitVariable:
  """A variable that is split.

  Attributes:
    name: The name of its op.
    shape: The shape of the whole variable.
    axis: The dimension that is split, from 0.
    sizes: The size of each shard in that dimension.
    num_bytes: The bytes of the whole variable's value.
  """

  name: str
  shape: tuple[int, ...]
  axis: int
  sizes: tuple[int, ...]
  num_bytes: int

  @classmethod
  def of(cls, variable: tf.Operation, split: VariableSplit) -> "SplitVariable":
    """Returns the plan of a variable.

    Args:
      variable: Its op, a resource handle.
      split: How it is split.
    """
    shape = tf.TensorShape(variable.get_attr("shape"))
    dtype = tf.dtypes.as_dtype(variable.get_attr("dtype"))
    return cls(
      variable.name,
      tuple(shape.as_list()),
      split.dim,
      split.sizes,
      int(shape.num_elements() or 0) * int(dtype.size),
    )


@dataclasses.dataclass(frozen=True)
class SplitPlan:
  """The split over the model axis of a graph, and its traffic.

  Attributes:
    variables: The variables that are split, slots of optimizers among them.
    sent: The traffic between the devices of the axis in a training step.
    gathers: The split tensors that ops read whole, with these ops.
  """

  variables: tuple[SplitVariable, ...] = ()
  sent: tuple[Sent, ...] = ()
  gathers: tuple[Gather, ...] = ()

  @property
  def num_bytes(self) -> int:
    """The bytes that are sent in a training step."""
    return sum(x.num_bytes for x in self.sent)

  @functools.cached_property
  def slots(self) -> list[SplitVariable]:
    """Those variables that are under the name of another one, as slots are."""
    names = {x.name for x in self.variables}
    return [x for x in self.variables if is_slot_name(x.name, names)]

  def to_dict(self) -> dict[str, Any]:
    """Returns everything for JSON."""
    return {
      "variables": [dataclasses.asdict(x) for x in self.variables],
      "sent": [x.to_dict() for x in self.sent],
      "gathers": [dataclasses.asdict(x) for x in self.gathers],
    }

  def lines(self) -> list[str]:
    """Returns lines for people: variables, then the traffic with its ops."""
    if not self.variables:
      return ["no variable is split over the model axis"]
    slots = self.slots
    rows = [("variable", "shape", "axis", "shards", "bytes")]
    rows += [
      (
        x.name,
        " x ".join(map(str, x.shape)),
        str(x.axis),
        _sizes(x.sizes),
        amounts.amount(x.num_bytes, "B"),
      )
      for x in self.variables
      if x not in slots
    ]
    lines = amounts.columns(rows, 2)
    if slots:
      count = amounts.counted(len(slots), "slot")
      num_bytes = sum(x.num_bytes for x in slots)
      lines.append(
        f"and {count} of optimizers, split as their variables: "
        f"{amounts.amount(num_bytes, 'B')}"
      )
    return [*lines, "", *self._lines_of_sent()]

  def _lines_of_sent(self) -> Iterable[str]:
    """Yields a line for each large tensor that is sent, and one for others."""
    yield (
      "sent over the model axis each training step: "
      f"{amounts.amount(self.num_bytes, 'B')}"
    )
    small = [x for x in self.sent if x.num_bytes < _SMALL]
    rows = [("kind", "tensor", "for", "forward", "backward")]
    rows += [
      (
        x.kind,
        x.tensor,
        x.type if x.tensor == f"{x.op}:0" else f"{x.op} ({x.type})",
        amounts.amount(x.forward_bytes, "B"),
        amounts.amount(x.backward_bytes, "B"),
      )
      for x in self.sent
      if x.num_bytes >= _SMALL
    ]
    if len(rows) > 1:
      yield from (f"  {line}" for line in amounts.columns(rows, 3))
    if small:
      num_bytes = amounts.amount(sum(x.num_bytes for x in small), "B")
      count = amounts.counted(len(small), "tensor")
      yield f"  and {count} of less than {_SMALL} B each: {num_bytes}"


def is_slot_name(name: str, names: Collection[str]) -> bool:
  """Whether a variable is under the name of another one, as slots are.

  Args:
    name: The name of its op.
    names: Those of others.
  """
  return owner_of_slot(name, names) is not None


def owner_of_slot(name: str, names: Collection[str]) -> str | None:
  """Returns the variable that one is under the name of, as slots are.

  Args:
    name: The name of its op.
    names: Those of others.
  """
  parts = name.split("/")
  before = ("/".join(parts[:i]) for i in range(1, len(parts)))
  return next((x for x in before if x in names), None)


def _sizes(sizes: tuple[int, ...]) -> str:
  """Returns the sizes of shards: "4 x 64", or "3, 3, 2"."""
  if len(set(sizes)) == 1:
    return f"{len(sizes)} x {sizes[0]:,}"
  return ", ".join(f"{size:,}" for size in sizes)
