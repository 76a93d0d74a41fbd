"""The ledger: the ops that lowering has made, and the op that each is for.

    role        the role of an op that lowering has made
    made_for    the op that it stands for, or is beside
    request_of  the request for gradients that an op was made for

An op without a role is the program's own.
"""

import contextlib
import enum
from collections.abc import Iterable, Iterator

from compat.private import graph_reads

import tensorflow as tf


class Role(enum.Enum):
  """The role of an op that lowering has made.

  PART: It does a part of an op's work on a device of the model axis, or joins
    such parts.
  SLICE: It does slice 0's part of an op's work.
  CUT: It measures the batch, or cuts its inputs.
  PASS: It is in a pass of a further slice, or adds up what passes make.
  MIRROR: It is a further replica's copy of a variable, or works on one.
  """

  PART = "part"
  SLICE = "slice"
  CUT = "cut"
  PASS = "pass"
  MIRROR = "mirror"


# Roles of ops that follow the place of another op: their stages are not
# planned.
_APART = frozenset([Role.CUT, Role.PASS, Role.MIRROR])


class Ledger:
  """The ops that lowering made in one graph.

  Attributes:
    made_for: For ops that do some of another op's work, that op.
    request_of: For ops of gradients the number of their request, from 0, in the
      order in which they were made.
  """

  def __init__(self, graph: tf.Graph):
    """Starts with a graph as it is.

    Args:
      graph: The graph.
    """
    self._first = graph_reads.num_ops(graph)
    self.made_for: dict[tf.Operation, tf.Operation] = {}
    self.request_of: dict[tf.Operation, int] = {}
    self._graph = graph
    self._roles: dict[tf.Operation, Role] = {}
    self._num_read = self._first
    self._num_requests = 0

  def all_made(self) -> list[tf.Operation]:
    """Returns all ops that were made since the ledger started."""
    return graph_reads.ops_after(self._graph, self._first)

  def read_new(self) -> list[tf.Operation]:
    """Returns what was made since the last call and has to be planned."""
    new = graph_reads.ops_after(self._graph, self._num_read)
    self._num_read += len(new)
    return [op for op in new if self._roles.get(op) not in _APART]

  def role(self, op: tf.Operation) -> Role | None:
    """Returns the role of an op; None for the program's own.

    Args:
      op: An op of the graph.
    """
    return self._roles.get(op)

  def with_role(self, role: Role) -> list[tf.Operation]:
    """Returns the ops that have a role, in the order in which they got it.

    Args:
      role: The role.
    """
    return [op for op, of_op in self._roles.items() if of_op is role]

  def enter(
    self,
    ops: Iterable[tf.Operation],
    role: Role,
    made_for: tf.Operation | None = None,
  ) -> None:
    """Enters ops, if they are not entered yet.

    Args:
      ops: Ops of the graph.
      role: Their role.
      made_for: The op some of whose work they do.
    """
    for op in ops:
      if self._roles.setdefault(op, role) is role and made_for is not None:
        self.made_for.setdefault(op, made_for)

  @contextlib.contextmanager
  def creating(
    self, role: Role, made_for: tf.Operation | None = None
  ) -> Iterator[None]:
    """Enters what is made inside.

    Args:
      role: As for `enter`, like the other.
      made_for: The op some of whose work is done.

    Yields:
      None.
    """
    with made_in(self._graph) as made:
      yield
    self.enter(made, role, made_for)

  @contextlib.contextmanager
  def answering(self) -> Iterator[int]:
    """Enters what is made for one more request for gradients.

    Yields:
      The number of the request.
    """
    number = self._num_requests
    self._num_requests += 1
    with made_in(self._graph) as made:
      yield number
    self.request_of.update(dict.fromkeys(made, number))


@contextlib.contextmanager
def made_in(graph: tf.Graph) -> Iterator[list[tf.Operation]]:
  """Lists the ops that are made inside.

  Args:
    graph: Their graph.

  Yields:
    A list, which has them once the block is left.
  """
  count = graph_reads.num_ops(graph)
  found: list[tf.Operation] = []
  yield found
  found += graph_reads.ops_after(graph, count)
