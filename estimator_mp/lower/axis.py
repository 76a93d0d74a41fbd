"""The parts of an axis, of which ops are made: where they are, and their names.

Parts are slices of the batch, those of each replica one after the other, or the
devices of the model axis.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from estimator_mp.graph.definitions import Definitions

import tensorflow as tf


class Axis:
  """The parts of an axis.

  Attributes:
    definitions: The ops that are made.
    replicas: For each replica the numbers of its parts, in order from 0.
    numbers: Those of all.
    replica_of: The replica of each.
  """

  def __init__(
    self,
    definitions: Definitions,
    replicas: Sequence[Sequence[int]],
    device_of: Callable[[tf.Operation, int], str],
    scope: str,
  ):
    """Starts with no op.

    Args:
      definitions: Where ops are made.
      replicas: For each replica the numbers of its parts, in order from 0.
      device_of: Returns the device of an op's instance on a replica, "" if it
        has none.
      scope: The word for a part, in names of ops.
    """
    self.definitions = definitions
    self.replicas = replicas
    self.replica_of = {
      number: i for i, span in enumerate(replicas) for number in span
    }
    self.numbers = list(self.replica_of)
    self._find_device = device_of
    self._devices: dict[tuple[tf.Operation, int], str] = {}
    self._scope = scope

  def name_of(self, number: int) -> str:
    """Returns the name of a part, the scope of its ops."""
    return f"{self._scope}_{number}"

  def device_of(self, op: tf.Operation, replica: int) -> str:
    """Returns the device of an op's instance on a replica, "" for none."""
    place = op, replica
    if place not in self._devices:
      self._devices[place] = self._find_device(op, replica)
    return self._devices[place]

  def on(self, op: tf.Operation, number: int) -> AbstractContextManager[None]:
    """A context in which ops are added on the device of a part.

    Args:
      op: The op of the plain graph that they stand for.
      number: The number of the part.
    """
    replica = self.replica_of[number]
    return self.definitions.on(self.device_of(op, replica), (op, replica))
