"""Steps: the stage of each op of a prediction, and the tensors sent.

Two kinds of ops:

- An op that depends on no input of a request (a constant, a variable, a table,
  or an op on these alone) is in each stage that reads it: it gives the same
  there. So a variable that two stages read, such as tied embeddings, is in
  both.
- All others are computed once, by their stage. A stage that data visit again,
  such as one of two virtual stages, has a step for each visit.

If a graph computes with stages 0, 1, 2, its steps are these. If its data go
from stage 1 to stage 0, or 0, 1, 0, 1, so do the steps.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from estimator_mp.graph import control_flow, op_types, traversal, variables

import tensorflow as tf

# Ops that give the same in each stage, though TensorFlow calls them stateful.
_READS = op_types.STATE_READS - op_types.ITERATORS
_UNSENDABLE = (tf.resource, tf.variant)


@dataclasses.dataclass(frozen=True)
class Feeds:
  """The inputs and outputs of a signature, by the names of tensors.

  Attributes:
    inputs: The tensors that are fed.
    outputs: The tensors that are fetched.
  """

  inputs: tuple[str, ...]
  outputs: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Step:
  """One visit of a stage, by the names of tensors.

  A name that begins with "^" is that of an op that later steps wait for.

  Attributes:
    stage: The stage.
    ops: The ops that are computed then, and nowhere else.
    received: The tensors that the caller or earlier steps give.
    sent: The tensors that later steps or the caller read.
  """

  stage: int
  ops: frozenset[tf.Operation]
  received: tuple[str, ...]
  sent: tuple[str, ...]


class StepPlanner:
  """Decides the steps of the signatures of one graph.

  Attributes:
    repeated: The ops that each stage has that reads them.
  """

  def __init__(
    self,
    graph: tf.Graph,
    stages: Mapping[str, int],
    num_stages: int,
    signatures: Iterable[Feeds],
  ):
    """Sorts the ops of the graph.

    Args:
      graph: The graph of a prediction.
      stages: The stages of its ops, by name; some may have none.
      num_stages: How many stages there are.
      signatures: All signatures that steps will be planned of.

    Raises:
      ValueError: If the prediction changes a state, or needs a state that no
        other session can have.
    """
    self._graph = graph
    self._num_stages = num_stages
    signatures = list(signatures)
    self._fed = {name for feeds in signatures for name in feeds.inputs}
    needed = {op for feeds in signatures for op in self._needed(feeds)}
    everything = [op for op in graph.get_operations() if op in needed]
    self._order = traversal.in_order(everything)
    for op in self._order:
      _check_state(op)
    self._bound = self._find_bound(needed)
    self.repeated = needed - self._bound
    self._stages = self._find_stages(stages)
    self._inside = _ops_inside(everything)

  def plan(self, feeds: Feeds) -> list[Step]:
    """Returns the steps of a signature, in order.

    Args:
      feeds: One of those that the planner was made with.

    Raises:
      ValueError: If something would have to be sent that cannot be.
    """
    needed = set(self._needed(feeds))
    order = [op for op in self._order if op in needed and op in self._bound]
    visits = self._visits(order, feeds)
    received: dict[int, dict[str, None]] = {}
    sent: dict[int, dict[str, None]] = {}
    for op in order:
      visit = visits[op]
      for name, source in self._reads(op, feeds):
        if source is not None and visits[source] == visit:
          continue
        received.setdefault(visit, {})[name] = None
        if source is not None:
          self._check_sendable(name, source, op)
          sent.setdefault(visits[source], {})[name] = None
    self._send_outputs(feeds, visits, sent)
    numbers = sorted({*visits.values(), *sent})
    return [
      Step(
        number % self._num_stages,
        frozenset(op for op in order if visits[op] == number),
        tuple(received.get(number, ())),
        tuple(sent.get(number, ())),
      )
      for number in numbers
    ]

  def _needed(self, feeds: Feeds) -> Iterable[tf.Operation]:
    """Returns the ops that a signature runs."""
    fed = set(feeds.inputs)
    start = [
      self._graph.get_tensor_by_name(name).op
      for name in feeds.outputs
      if name not in fed
    ]
    return traversal.walk(start, lambda op: _sources(op, fed))

  def _find_bound(self, needed: set[tf.Operation]) -> set[tf.Operation]:
    """Returns the ops that have to be computed once for each request."""
    readers: dict[tf.Operation, list[tf.Operation]] = {}
    for op in needed:
      for source in _sources(op, self._fed):
        readers.setdefault(source, []).append(op)
    start = [
      op
      for op in needed
      if not _is_repeatable(op) or any(x.name in self._fed for x in op.inputs)
    ]
    return set(traversal.walk(start, lambda op: readers.get(op, ())))

  def _find_stages(self, stages: Mapping[str, int]) -> dict[tf.Operation, int]:
    """Returns the stage of each op that is computed once.

    Ops before the model, such as the parsing of examples, are where they are
    read first, and ops after it where their inputs are.
    """
    placed = {op: stages[op.name] for op in self._bound if op.name in stages}
    wanted: dict[tf.Operation, int] = {}
    for op in reversed(self._order):
      stage = placed.get(op, wanted.get(op))
      if op in self._bound and stage is not None:
        placed[op] = stage
        for source in traversal.sources(op):
          wanted[source] = min(stage, wanted.get(source, stage))
    for op in self._order:
      if op in self._bound and op not in placed:
        sources = [placed.get(x, 0) for x in traversal.sources(op)]
        placed[op] = max(sources, default=0)
    return placed

  def _visits(
    self, order: Sequence[tf.Operation], feeds: Feeds
  ) -> dict[tf.Operation, int]:
    """Returns the visit of each op: its stage, plus a round of all stages."""
    visits: dict[tf.Operation, int] = {}
    for op in order:
      sources = [source for _, source in self._reads(op, feeds)]
      first = max(
        (visits[x] for x in sources if x is not None and x in visits), default=0
      )
      visits[op] = first + (self._stages[op] - first) % self._num_stages
    for op in order:
      if op.type in op_types.NEXT_ITERATIONS:
        for begin in traversal.consumers(op):
          if visits.get(begin, visits[op]) != visits[op]:
            raise ValueError(_spans(op))
    return visits

  def _reads(
    self, op: tf.Operation, feeds: Feeds
  ) -> Iterable[tuple[str, tf.Operation | None]]:
    """Yields the names that an op reads or waits for, with their producers.

    Fed tensors are made by none, and those that each stage has are left out.
    """
    for tensor in op.inputs:
      if tensor.name in feeds.inputs:
        yield tensor.name, None
      elif tensor.op in self._bound:
        yield tensor.name, tensor.op
    for source in op.control_inputs:
      if source in self._bound:
        yield f"^{source.name}", source

  def _send_outputs(
    self,
    feeds: Feeds,
    visits: Mapping[tf.Operation, int],
    sent: dict[int, dict[str, None]],
  ) -> None:
    """Lets each output of the caller be sent by the step that has it."""
    last = max(visits.values(), default=0)
    for name in feeds.outputs:
      op = self._graph.get_tensor_by_name(name).op
      if name not in feeds.inputs:
        sent.setdefault(visits.get(op, last), {})[name] = None

  def _check_sendable(
    self, name: str, source: tf.Operation, reader: tf.Operation
  ) -> None:
    """Raises if a stage cannot send a tensor to another.

    Raises:
      ValueError: If so.
    """
    if source in self._inside or source.type in op_types.SWITCHES:
      raise ValueError(_spans(source))
    if name.startswith("^"):
      return
    tensor = self._graph.get_tensor_by_name(name)
    if tensor.dtype.base_dtype in _UNSENDABLE or op_types.is_reference(tensor):
      raise ValueError(
        f"{reader.name} ({reader.type}) of stage {self._stages[reader]} reads "
        f"{name}, a {tensor.dtype.base_dtype.name} of stage "
        f"{self._stages[source]}, which cannot be sent; place both on one stage"
      )


def _sources(op: tf.Operation, fed: Iterable[str]) -> list[tf.Operation]:
  """Returns the sources of an op, but for those of tensors that are fed."""
  read = [tensor.op for tensor in op.inputs if tensor.name not in fed]
  return [*read, *op.control_inputs]


def _is_repeatable(op: tf.Operation) -> bool:
  """Whether an op gives the same in each stage if its inputs are the same."""
  if not op.op_def.is_stateful:
    return True
  scope = op_types.STATE_SCOPES.get(op.type)
  return op.type in _READS or (
    scope is op_types.StateScope.SHARED and op.type not in op_types.ITERATORS
  )


def _check_state(op: tf.Operation) -> None:
  """Raises if an op changes a state that outlives a request, or its process.

  Raises:
    ValueError: If so.
  """
  if op_types.STATE_SCOPES.get(op.type) is op_types.StateScope.REFUSED:
    raise ValueError(
      f"{op.name} ({op.type}) has a state that a request changes; a chain of "
      "stages serves models that only read theirs, so leave it out of PREDICT"
    )
  for state in variables.written_variables(op):
    scope = op_types.STATE_SCOPES.get(state.type)
    if scope is not op_types.StateScope.LOCAL:
      raise ValueError(
        f"{op.name} ({op.type}) changes {state.name} while the model predicts; "
        "a chain of stages serves models that only read their state, so leave "
        "the update out of PREDICT"
      )


def _ops_inside(ops: Sequence[tf.Operation]) -> set[tf.Operation]:
  """Returns the ops in v1 loops and branches, which are parts of a stage."""
  loops = control_flow.ops_in_loops(ops)
  ends = {op for op in loops if op.type in op_types.EXITS}
  return control_flow.ops_in_branches(ops) | (loops - ends)


def _spans(op: tf.Operation) -> str:
  """Returns the text of the error for a loop or branch on several stages."""
  return (
    f"{op.name} ({op.type}) is in a loop or a branch that spans several "
    "stages; place all of it on one stage"
  )
