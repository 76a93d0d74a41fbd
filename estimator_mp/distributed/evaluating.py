"""The evaluator of a cluster: its view of the chief, and its end.

It is beside the cluster, and has no session with it. It asks the chief's
address, as other tasks do, and sees the model_dir:

    the chief answers, or saves            goes on
    neither, and the run has ended         evaluates the last checkpoint, ends
    neither                                the log names the chief, as in
                                           `silence`; after lost_after the
                                           evaluator ends with an error

A chief that has ended in order leaves a file in the model_dir, until the next
run begins there. A chief without other tasks serves at no address, and so it is
never named: no more is known of it than that it has ended.
"""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from compat.private import estimators
from estimator_mp.cluster import tasks as tasks_lib
from estimator_mp.config import files
from estimator_mp.distributed import status
from estimator_mp.distributed import watch as watch_lib

import tensorflow as tf

_ENDED_FILE = "ended"


@contextlib.contextmanager
def told_of_the_end(
  model_dir: str, cluster: tasks_lib.Cluster
) -> Iterator[None]:
  """Tells evaluators that a run has ended, if it did so in order.

  Args:
    model_dir: The Estimator's.
    cluster: The cluster; its chief tells, and enters this before it serves.

  Yields:
    None.
  """
  if cluster.task != cluster.chief:
    yield
    return
  path = os.path.join(model_dir, _ENDED_FILE)
  if tf.io.gfile.exists(path):
    tf.io.gfile.remove(path)
  yield
  if tf.io.gfile.isdir(model_dir):
    files.write_atomically(path, "")


def run(
  estimator: tf.estimator.Estimator,
  train_spec: tf.estimator.TrainSpec,
  eval_spec: tf.estimator.EvalSpec,
  cluster: tasks_lib.Cluster,
  startup_timeout: float,
  heartbeat_timeout: float,
  lost_after: float,
) -> None:
  """Evaluates each checkpoint that a chief saves, until its run has ended.

  Args:
    estimator: The Estimator.
    train_spec: The chief's TrainSpec; its `max_steps` are the end, too.
    eval_spec: How to evaluate.
    cluster: The cluster.
    startup_timeout: For how many seconds the chief of a run may be away before
      it begins.
    heartbeat_timeout: After how many seconds the log names a silent chief.
    lost_after: After how many seconds it is lost.

  Raises:
    LostTaskError: If the chief is lost. If that is found in an evaluation, or a
      pause between two, the process ends with its exit code.
  """
  chief = cluster.chief
  serves = len(cluster.tasks) > 1
  addresses = {chief: cluster.address(chief)} if serves else {}
  seen = ModelDir(estimator.model_dir)
  end = End(ModelDir(estimator.model_dir), addresses, startup_timeout)
  with watch_lib.Watch(
    addresses, heartbeat_timeout, lost_after, seen.shows_life
  ) as watch:

    def is_over() -> bool:
      watch.check_none_is_lost()
      return end.is_reached()

    estimators.evaluate_until(estimator, train_spec, eval_spec, is_over)


class ModelDir:
  """The progress of a run, read from its model_dir again and again."""

  def __init__(self, path: str):
    """Has seen no checkpoint yet.

    Args:
      path: The model_dir.
    """
    self._path = path
    self._newest: Any = None

  def is_new(self) -> bool:
    """Whether the newest checkpoint is another than when this was asked."""
    before, self._newest = self._newest, tf.train.latest_checkpoint(self._path)
    return bool(before != self._newest)

  def has_ended(self) -> bool:
    """Whether the run has ended in order."""
    return bool(tf.io.gfile.exists(os.path.join(self._path, _ENDED_FILE)))

  def shows_life(self) -> bool:
    """Whether the run shows life without an answer of the chief."""
    try:
      return self.is_new() or self.has_ended()
    except tf.errors.OpError:  # The file system does not answer, either.
      return False


class End:
  """Whether an evaluator has evaluated the last checkpoint of a run."""

  def __init__(
    self,
    model_dir: ModelDir,
    addresses: Mapping[tasks_lib.Task, str],
    startup_timeout: float,
  ):
    """Begins before the first evaluation.

    Args:
      model_dir: The model_dir; used by one caller only.
      addresses: Where the chief listens, if it does.
      startup_timeout: For how many seconds a run that has ended may be another
        one, before this one, whose chief is not there yet.
    """
    self._model_dir = model_dir
    self._addresses = addresses
    self._may_begin_until = time.monotonic() + startup_timeout

  def is_reached(self) -> bool:
    """Whether it has; asked before each evaluation."""
    has_ended = self._model_dir.has_ended()  # First: then nothing is saved.
    is_new = self._model_dir.is_new()
    if any(map(_answers, self._addresses.values())):
      self._may_begin_until = 0.0
      return False
    begins = time.monotonic() < self._may_begin_until
    return has_ended and not is_new and not begins


def _answers(address: str) -> bool:
  with status.Probe(address) as probe:
    return probe.ask() is not None
