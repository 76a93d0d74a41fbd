"""The position in the input: a resumed run goes on with the next batch.

A checkpoint of an Estimator has the variables, but not how far the input was
read: a run that resumes sees the first batches again. So the states of the
graph's `tf.data` iterators are saved beside each checkpoint,

    model.ckpt-5.index            the variables, as ever
    input_position-5.index        the iterators, after the batch of step 5

and are restored with the checkpoint of the same step. The file of a step is
written before the checkpoint is, and removed with it.
"""

import contextlib
import hashlib
import os
import re
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from compat.private import estimators
from estimator_mp.cluster.run_log import LOG
from estimator_mp.graph import op_types, traversal

import tensorflow as tf

v1 = tf.compat.v1

_PREFIX = "input_position"
# Attributes of ops that differ from process to process.
_UNSTABLE = frozenset(["container", "metadata", "shared_name", "token"])
_FINGERPRINT = "fingerprint"
# The errors of a session if a task of its cluster has died.
_TASK_LOST = (tf.errors.AbortedError, tf.errors.UnavailableError)
_FAIL = tf.data.experimental.ExternalStatePolicy.FAIL.value


class InputPositionHook(tf.estimator.SessionRunHook):
  """Saves the position in the input with each checkpoint, and restores it.

  `estimator_mp.run_config(config, save_input_position=True)` adds it to a
  sharded model_fn. Give it to `Estimator.train(hooks=[...])` for a model_fn
  that is not sharded.

  The first step after a start gets the batch after the one of the
  checkpoint's step; shuffle buffers and random seeds of `tf.data` are
  restored too. The input starts from its beginning, as without the hook, if the
  checkpoint has no position (of a run without the hook), if the input_fn has
  changed, and if the last run has read all of its data.
  """

  def __init__(self, model_dir: str, scaffold: Any = None):
    """Makes the hook for one call of `train`.

    Args:
      model_dir: The Estimator's.
      scaffold: The EstimatorSpec's, which has the Saver of the checkpoints;
        None for the one that the Estimator makes.
    """
    self._model_dir = model_dir
    self._scaffold = scaffold
    self._position: Any = None  # A _Position, from begin on.
    self._saver: Any = None
    # Of the session whose input is where it should be.
    self._session: Callable[[], Any] = lambda: None
    self._is_in_step = False

  def begin(self) -> None:
    """Makes the ops that save and restore.

    Raises:
      ValueError: If the input has no iterator.
    """
    self._position = _Position(v1.get_default_graph())
    self._saver = None

  def after_create_session(
    self, session: tf.compat.v1.Session, coord: tf.train.Coordinator | None
  ) -> None:
    """Restores the position of the checkpoint's step.

    Raises:
      ValueError: If the state of the input cannot be saved, the file with that
        of the last run is damaged, or the Saver is not known.
    """
    self._is_in_step = False
    self._position.check(session)
    step = int(session.run(v1.train.get_global_step(session.graph)))
    path = _path(self._model_dir, step)
    if not tf.io.gfile.exists(f"{path}.index"):
      if step:
        _log(f"step {step} was saved without it")
    elif not self._position.restore(session, path):
      _log(f"the input_fn is not that of {path}")
    self._session = weakref.ref(session)
    self._listen()

  def _listen(self) -> None:
    """Hears of it when the Saver of the checkpoints saves."""
    saver = getattr(self._scaffold, "saver", None)
    savers = [saver] if saver else v1.get_collection(v1.GraphKeys.SAVERS)
    if not savers:
      raise ValueError(
        "save_input_position=True saves whenever the Saver of the checkpoints "
        "does, but scaffold_fn does not register that Saver; add it to the "
        "collection tf.compat.v1.GraphKeys.SAVERS, or leave "
        "save_input_position out"
      )
    if self._saver is None:
      self._saver = savers[0]
      estimators.around_each_save(self._saver, self._saving)

  @contextlib.contextmanager
  def _saving(
    self, session: tf.compat.v1.Session, save_path: str, global_step: Any
  ) -> Iterator[None]:
    """Saves the position for a checkpoint that is saved inside."""
    folder = os.path.abspath(os.path.dirname(save_path))
    is_elsewhere = folder != os.path.abspath(self._model_dir)
    # A session that has lost a task is made anew, and saves the checkpoint that
    # it has read once more, before it has an input; the file is there already.
    is_new = session is not self._session()
    if global_step is None or is_elsewhere or is_new:
      yield
      return
    self._position.save(session, _path(self._model_dir, int(global_step)))
    yield
    self._remove_unused(save_path)

  def _remove_unused(self, save_path: str) -> None:
    """Removes positions whose checkpoint was removed."""
    for index in tf.io.gfile.glob(_path(self._model_dir, "*") + ".index"):
      match = re.search(r"-(\d+)\.index$", index)
      if match and not tf.io.gfile.exists(f"{save_path}-{match[1]}.index"):
        self._remove(index)

  def _remove(self, index: str) -> None:
    for path in tf.io.gfile.glob(index.removesuffix("index") + "*"):
      tf.io.gfile.remove(path)

  def before_run(self, run_context: tf.estimator.SessionRunContext) -> None:
    """Notes that a step has begun."""
    self._is_in_step = True

  def after_run(
    self,
    run_context: tf.estimator.SessionRunContext,
    run_values: tf.estimator.SessionRunValues,
  ) -> None:
    """Notes that it had a batch."""
    self._is_in_step = False

  def end(self, session: tf.compat.v1.Session) -> None:
    """Drops the position if the data has ended: the next run starts anew."""
    if self._is_in_step:
      step = int(session.run(v1.train.get_global_step(session.graph)))
      self._remove(_path(self._model_dir, step) + ".index")


def _path(model_dir: str, step: int | str) -> str:
  """Returns the path of a step's files, without their suffixes."""
  return os.path.join(model_dir, f"{_PREFIX}-{step}")


def _log(why: str) -> None:
  LOG.warning(
    "The input starts from its beginning, not from the position of the "
    "checkpoint: %s",
    why,
  )


class _Position:
  """The ops that save and restore the iterators of a graph."""

  def __init__(self, graph: tf.Graph):
    iterators = [
      op.outputs[0]
      for op in graph.get_operations()
      if op.type in op_types.ITERATORS
    ]
    if not iterators:
      raise ValueError(
        "save_input_position=True saves the iterators of tf.data, but the "
        "input_fn made none; return a tf.data.Dataset from it, or leave "
        "save_input_position out"
      )
    self._fingerprint = _fingerprint(graph, [x.op for x in iterators])
    names = [x.op.name for x in iterators]
    # No op of the model may be named otherwise than without the hook.
    with v1.name_scope(_PREFIX), tf.device("/device:CPU:0"):
      self._file = v1.placeholder(tf.string, [], "file")
      self._states = []
      for x in iterators:
        with graph.colocate_with(x.op, ignore_existing=True):
          self._states.append(
            tf.raw_ops.SerializeIterator(
              resource_handle=x, external_state_policy=_FAIL
            )
          )
      self._saved = tf.raw_ops.SaveV2(
        prefix=self._file,
        tensor_names=[*names, _FINGERPRINT],
        shape_and_slices=[""] * (len(names) + 1),
        tensors=[*self._states, tf.constant(self._fingerprint)],
      )
      restored = tf.raw_ops.RestoreV2(
        prefix=self._file,
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        dtypes=[tf.variant] * len(names),
      )
      self._restored = []
      for x, state in zip(iterators, restored, strict=True):
        with graph.colocate_with(x.op, ignore_existing=True):
          self._restored.append(
            tf.raw_ops.DeserializeIterator(resource_handle=x, serialized=state)
          )

  def check(self, session: tf.compat.v1.Session) -> None:
    """Raises if the input has a state that cannot be saved."""
    try:
      session.run([x.op for x in self._states])
    except _TASK_LOST:
      raise
    except tf.errors.OpError as error:
      raise ValueError(
        "save_input_position=True, but the state of the input cannot be saved: "
        f"{_reason(error)}; make it of tf.data ops alone, with "
        "tf.random.stateless_uniform for random numbers, or leave "
        "save_input_position out"
      ) from error

  def save(self, session: tf.compat.v1.Session, path: str) -> None:
    """Writes the position to files whose names begin with a path."""
    session.run(self._saved, {self._file: path})

  def restore(self, session: tf.compat.v1.Session, path: str) -> bool:
    """Reads it, unless it is of another input_fn; returns whether it is not."""
    try:
      saved = tf.train.load_checkpoint(path)
      if saved.get_tensor(_FINGERPRINT).decode() != self._fingerprint:
        return False
      session.run(self._restored, {self._file: path})
    except _TASK_LOST:
      raise
    except (tf.errors.OpError, RuntimeError, ValueError) as error:
      raise ValueError(
        f"{path}.index holds no position in the input: it, or the data file "
        "beside it, is damaged; delete it, and the input starts from its "
        "beginning"
      ) from error
    return True


def _reason(error: tf.errors.OpError) -> str:
  """Returns the part of a message that names the stateful op, in a line."""
  match = re.search(r"\w+ is stateful", error.message)
  return match[0] if match else error.message.strip().splitlines()[-1]


def _fingerprint(graph: tf.Graph, iterators: Iterable[tf.Operation]) -> str:
  """Returns a digest that is equal for two graphs only if their inputs are.

  It is made of all ops that make the data sets, with their constants and their
  functions, but not of names: these have numbers that differ between processes.

  Args:
    graph: The graph.
    iterators: The ops of its iterators.
  """
  library = {f.signature.name: f for f in graph.as_graph_def().library.function}
  digest = hashlib.sha256()
  for iterator in iterators:
    makers = [
      op for op in iterator.outputs[0].consumers() if op.type == "MakeIterator"
    ]
    seen: dict[tf.Operation, int] = {}
    for op in [iterator, *makers]:
      _add_op(digest, op, seen, library)
  return digest.hexdigest()


def _add_op(
  digest: Any,
  op: tf.Operation,
  seen: dict[tf.Operation, int],
  library: Mapping[str, Any],
) -> None:
  """Adds an op, and all that it reads, to a digest."""
  for current in traversal.walk(
    [op], lambda op: reversed(traversal.inputs(op)), seen
  ):
    seen[current] = len(seen)
    _add_node(digest, current.node_def, library)
    numbers = [f"{seen.get(x.op)}:{x.value_index}" for x in current.inputs]
    digest.update(" ".join(numbers).encode())


def _add_node(digest: Any, node: Any, library: Mapping[str, Any]) -> None:
  """Adds an op's type and attributes, with the functions that it calls."""
  digest.update(node.op.encode())
  for name in sorted(node.attr):
    value = node.attr[name]
    if name in _UNSTABLE or name.startswith("_"):
      continue
    digest.update(name.encode())
    called = [value.func] if value.HasField("func") else value.list.func
    if not called:
      digest.update(value.SerializeToString(deterministic=True))
    for function in called:
      _add_function(digest, function.name, library)


def _add_function(digest: Any, name: str, library: Mapping[str, Any]) -> None:
  """Adds the body of a function."""
  function = library.get(name)
  if function is None:
    return
  for node in function.node_def:
    _add_node(digest, node, library)
    digest.update(" ".join(node.input).encode())
  for output in sorted(function.ret):
    digest.update(f"{output} {function.ret[output]}".encode())


def with_saved_position(
  spec: tf.estimator.EstimatorSpec, model_dir: str
) -> tf.estimator.EstimatorSpec:
  """Returns a spec that saves the position in the input with its checkpoints.

  Args:
    spec: The spec for training that a model_fn would return.
    model_dir: The Estimator's.
  """
  hook = InputPositionHook(model_dir, getattr(spec, "scaffold", None))
  return spec._replace(training_hooks=(*spec.training_hooks, hook))
