"""Part maker: makes an op once more for a part, on the part's device."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

from compat.private import graph_edits
from estimator_mp.graph import colocation, device_assignment, op_types
from estimator_mp.model_axis.decisions import PerPart

import tensorflow as tf


class PartMaker:
  """Makes ops that stand for those of the model.

  Attributes:
    devices_of: Returns the devices of the parts of an op of the model.
    instead: What stands for an op that is not to run, for those that wait for
      it.
  """

  def __init__(
    self,
    devices_of: Callable[[tf.Operation], Sequence[str]],
    made: Callable[[tf.Operation, tf.Operation], None],
    parts: Mapping[str, Sequence[tf.Tensor]],
  ):
    """Starts with nothing made.

    Args:
      devices_of: Returns the devices of the parts of an op of the model.
      made: Hears of each op that is made, and for which op of the model.
      parts: The parts of split tensors, shards among them, by their names.
    """
    self.devices_of = devices_of
    self.instead: dict[tf.Operation, list[tf.Operation]] = {}
    self._made = made
    self._parts = parts

  @contextlib.contextmanager
  def making(self, op: tf.Operation) -> Iterator[None]:
    """Names what is made for an op after it, and tells of it.

    Args:
      op: An op of the model.

    Yields:
      None.
    """
    graph = op.graph
    count = len(graph.get_operations())
    with (
      tf.compat.v1.name_scope(None),
      tf.control_dependencies(None),
      graph.colocate_with(None, ignore_existing=True),
      tf.compat.v1.device(None),
      tf.compat.v1.name_scope("estimator_mp/split/"),
      tf.compat.v1.name_scope(op.name),
    ):
      yield
    for new in graph.get_operations()[count:]:
      self._made(new, op)

  def copy(
    self,
    op: tf.Operation,
    part: int,
    inputs: Sequence[tf.Tensor],
    device: str,
    decision: PerPart | None = None,
  ) -> tf.Operation:
    """Returns an op of the same type for one part.

    Args:
      op: The op of the model.
      part: The number of the part.
      inputs: What it reads.
      device: Where it is.
      decision: What says which attributes it has; None for those of the op.
    """
    attributes = {
      name: value
      for name, value in op.node_def.attr.items()
      if not name.startswith("_")
    }
    if decision is not None and decision.attributes:
      attributes.update(decision.attributes[part])
    with on(device), tf.control_dependencies(self.waits(op)):
      copy = op.graph.create_op(
        op.type,
        list(inputs),
        [tensor.dtype for tensor in op.outputs],
        [tensor.dtype for tensor in inputs],
        f"part_{part}",
        attributes,
      )
    if op.type in op_types.SWITCHES:
      graph_edits.set_branch(copy, op)
    self.colocate(copy, op, part)
    return copy

  def colocate(self, copy: tf.Operation, op: tf.Operation, part: int) -> None:
    """Puts an op of a part beside the shards that its op is beside of.

    Args:
      copy: The op.
      op: The op of the model that it stands for.
      part: The number of the part.
    """
    names = colocation.colocated_with(op)
    shards = [self._parts.get(f"{name}:0") for name in names]
    beside = [
      of_parts[part].op
      for of_parts in shards
      if of_parts and op_types.is_variable(of_parts[part].op)
    ]
    if beside:  # A shard may have moved to another replica.
      graph_edits.set_device(copy, beside[0].device)
    if beside or (names and copy is op):
      graph_edits.set_colocation(copy, [shard.name for shard in beside])

  def waits(self, op: tf.Operation) -> list[tf.Operation]:
    """Returns what an op has to wait for besides its inputs.

    Args:
      op: An op of the model.
    """
    return [
      other
      for before in op.control_inputs
      for other in self.instead.get(before, [before])
    ]


def on(device: str) -> AbstractContextManager[None]:
  """Returns a context whose ops are on a device, or its host.

  Args:
    device: The device's name.
  """
  place = device_assignment.device_function(device)
  context: AbstractContextManager[None] = tf.compat.v1.device(place)
  return context
