"""Errors of slices: what a model says that cannot do with a part of its batch.

A model may hold on to the size of its batch: reshape to [24, 10], add constants
of 24 rows, or pad to the longest example of all. The plain model runs, and with
micro-batches or replicas TensorFlow says that shapes do not fit. Only sharding
knows why, so it says so, in one line after TensorFlow's own.
"""

import re
import traceback
import weakref
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from estimator_mp.capture import batch_size, micro_batches
from estimator_mp.graph import traversal

import tensorflow as tf

_SHAPES = re.compile(
  r"shape|dimension|\brank|\bdims?\b|broadcast|\bsize|_size|elements\b|"
  r"padding|out of bounds|expected (begin|size)",
  re.IGNORECASE,
)
_NODE = re.compile(r"\{\{node (\S+?)\}\}")
_FAILED_NODE = re.compile(
  r"([^\n]*)\s*\n\s*\[\[(?:\{\{function_node [^}]*\}\})?\{\{node (\S+?)\}\}"
)
_CALLER = re.compile(r"\[\[([^\s{}\]]+)\]\]")
_OF_SLICE = re.compile(r"^(replica_\d+/)?micro_batch_\d+/")
_BUILD_ERRORS = (
  AssertionError,
  TypeError,
  ValueError,
  tf.errors.InvalidArgumentError,
)


def explain_build_error(
  error: Exception, batches: micro_batches.MicroBatches
) -> None:
  """Says so if a model_fn cannot be built for a micro-batch.

  If the graph does not know the size of the batch, the shapes of micro-batches
  are those of the batch, and no error is theirs.

  Args:
    error: What was raised while it was built.
    batches: The micro-batches.

  Raises:
    ValueError: If the error is about shapes, and the graph knows the size of
      micro-batches.
  """
  if batches.size is None or not _is_about_slices(error, batches.size):
    return
  text = " ".join(_text(error).split())
  node = _NODE.search(text)
  what = node[1] if node else "it"
  raise ValueError(
    f"{batches.cutting()} gives model_fn {batches.size} examples at a time, "
    f"and {what} cannot be built for them: {text.rstrip('.')}; let model_fn "
    "take the number of examples from its features, as in tf.shape(x)[0], or "
    f"use {batches.without_cutting()}"
  ) from error


def _is_about_slices(error: Exception, size: int) -> bool:
  """Whether an error is about shapes, and may be about those of slices."""
  if not isinstance(error, _BUILD_ERRORS) or _is_own(error):
    return False
  text = _text(error)
  numbers = [int(number) for number in re.findall(r"\d+", text)]
  return bool(_SHAPES.search(text)) and (
    not str(error) or any(n and n % size == 0 for n in numbers)
  )


def _text(error: Exception) -> str:
  """Returns what an error says; the line that raised it if it says nothing."""
  if str(error):
    return str(error)
  return traceback.extract_tb(error.__traceback__)[-1].line or ""


def _is_own(error: Exception) -> bool:
  """Whether an error was raised by sharding, which says what it has to."""
  names: list[str] = [
    frame.f_globals.get("__name__", "")
    for frame, _ in traceback.walk_tb(error.__traceback__)
  ]
  return names[-1].partition(".")[0] == "estimator_mp"


def with_explained_steps(
  spec: tf.estimator.EstimatorSpec,
  batches: micro_batches.MicroBatches,
  stored: Mapping[str, Sequence[str]],
) -> tf.estimator.EstimatorSpec:
  """Returns a spec whose training says so if a step cannot do with slices.

  Args:
    spec: The spec that a model_fn would return.
    batches: The micro-batches.
    stored: The names of what the model reads instead of tensors of the input,
      by their names, if batches are prefetched.
  """
  hook = _ExplainingHook(batches, stored)
  return spec._replace(training_hooks=(*spec.training_hooks, hook))


class _ExplainingHook(tf.estimator.SessionRunHook):
  """Explains errors of a session's steps.

  No method of a hook hears of errors, so each session gets a `run` of its own.
  """

  def __init__(
    self,
    batches: micro_batches.MicroBatches,
    stored: Mapping[str, Sequence[str]],
  ):
    self._batches = batches
    self._slices = frozenset(
      name
      for of_slice in _tensors_of_slices(batches)
      for name in (of_slice, *stored.get(of_slice, ()))
    )

  def after_create_session(
    self, session: tf.compat.v1.Session, coord: tf.train.Coordinator | None
  ) -> None:
    """Explains the errors of a new session."""
    del coord
    run = type(session).run
    # A session that held itself would hold its variables' memory for longer.
    reference, graph = weakref.ref(session), session.graph

    def explained_run(*args: Any, **kwargs: Any) -> Any:
      try:
        return run(reference(), *args, **kwargs)
      except tf.errors.InvalidArgumentError as error:
        text = _explanation(error, self._batches, self._slices, graph)
        if text is None:
          raise
        raise tf.errors.InvalidArgumentError(
          error.node_def, None, text
        ) from error

    session.run = explained_run


def _explanation(
  error: tf.errors.InvalidArgumentError,
  batches: micro_batches.MicroBatches,
  slices: Collection[str],
  graph: tf.Graph,
) -> str | None:
  """Returns what to say of an error of a step, in one line.

  Args:
    error: What the session raised.
    batches: The micro-batches.
    slices: The names of what differs between them.
    graph: Their graph.

  Returns:
    The sizes of inputs that differ, or why shapes do not fit; None for other
    errors, and those of ops that read no micro-batch.
  """
  text = batch_size.message_of_check(error.message)
  if text is not None:
    return text
  found = _FAILED_NODE.search(error.message)
  if found is None:
    return None
  op = error.op or _caller(error.message, graph)
  if not _may_be_of_slices(op, found[1], slices):
    return None
  reason = found[1].strip().rpartition("INVALID_ARGUMENT: ")[2]
  return (
    f"{batches.cutting()} gives model_fn a part of the batch at a time, and "
    f"{_OF_SLICE.sub('', found[2])} cannot run on it: {reason.rstrip('.')}; "
    "let model_fn take the number of examples and their length from its "
    f"features, as in tf.shape(x)[0], or use {batches.without_cutting()}"
  )


def _caller(message: str, graph: tf.Graph) -> tf.Operation | None:
  """Returns the op whose function failed, such as that of the input pipeline.

  TensorFlow names it for data sets, but not for conditions and loops.
  """
  operations = {op.name: op for op in graph.get_operations()}
  for name in _CALLER.findall(message):
    if name in operations:
      return operations[name]
  return None


def _may_be_of_slices(
  op: tf.Operation | None, text: str, slices: Collection[str]
) -> bool:
  """Whether the size of slices may be why an op failed.

  Args:
    op: The op; None if it is inside of a function of an unknown op.
    text: What TensorFlow says.
    slices: The names of what differs between micro-batches.
  """
  if _SHAPES.search(text):
    return op is None or _read_slices(op.inputs, slices)
  # Rows that a slice lacks, but not words that a table lacks.
  return (
    op is not None
    and op.type.startswith("Gather")
    and " is not in [0, " in text
    and _read_slices(op.inputs[:1], slices)
  )


def _read_slices(tensors: Sequence[tf.Tensor], slices: Collection[str]) -> bool:
  """Whether tensors are computed from what was cut."""
  return any(x.name in slices for x in traversal.tensors_before(tensors))


def _tensors_of_slices(batches: micro_batches.MicroBatches) -> Collection[str]:
  """Returns the names of what differs between micro-batches."""
  first, second, *others = (
    tf.nest.flatten(inputs, expand_composites=True) for inputs in batches.inputs
  )
  return {
    tensor.name
    for tensors in zip(first, second, *others, strict=True)
    if tensors[0] is not tensors[1]
    for tensor in tensors
  }
