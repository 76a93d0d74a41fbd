"""Prefetching: the thread that takes batches before their steps begin."""

import dataclasses
import itertools
import threading

from estimator_mp import devices
from estimator_mp import mesh as mesh_lib
from estimator_mp.session import distribution, session_config

import tensorflow as tf

# How long the thread sleeps between looks at whether steps have caught up.
_SECONDS = 0.01


def check(
  run_config: tf.estimator.RunConfig | None, mesh: mesh_lib.Mesh
) -> None:
  """Raises if a run cannot take batches before their steps.

  Args:
    run_config: The Estimator's; None if unknown.
    mesh: The mesh of the model.

  Raises:
    ValueError: If several machines train, or the input's position is saved.
  """
  if session_config.saves_input_position(run_config):
    raise ValueError(session_config.PREFETCHED_POSITION)
  if (
    distribution.is_cluster_run()
    or any(map(devices.task_of, mesh.devices))
    or (run_config is not None and run_config.master)
  ):
    raise ValueError(
      "prefetch_inputs=True stores batches in the devices of one process, but "
      "the session is one of a cluster; leave prefetch_inputs out"
    )


@dataclasses.dataclass(eq=False)
class PrefetchingHook(tf.estimator.SessionRunHook):
  """Stores batches in each new session, until it ends or the data does.

  Attributes:
    number: A placeholder for the number of a batch.
    store: Takes a batch from the input and stores it, when there is room.
    stop: Says that there are no more batches.
    waiting: How many batches are there that no step has taken.
  """

  number: tf.Tensor
  store: tf.Operation
  stop: tf.Operation
  waiting: tf.Tensor

  def after_create_session(
    self, session: tf.compat.v1.Session, coord: tf.train.Coordinator
  ) -> None:
    """Begins with the first batch.

    Raises:
      ValueError: If something saves the position in the input, which is not
        that of the step.
    """
    for op in session.graph.get_operations():
      if op.type == "SerializeIterator":
        raise ValueError(
          "prefetch_inputs=True takes batches before their steps, so that the "
          f"position in the input that {op.name} saves would be too far; leave "
          "one of them out"
        )
    # Whoever waits for the coordinator's threads does not wait for this one:
    # it ends when the session is closed, however long a batch takes.
    threading.Thread(
      target=self._run, args=(session, coord), name="prefetch", daemon=True
    ).start()

  def _run(
    self, session: tf.compat.v1.Session, coord: tf.train.Coordinator
  ) -> None:
    try:
      self._store_all(session, coord)
    except Exception as error:
      # A closed session says so in several ways.
      if not coord.should_stop():
        coord.request_stop(error)

  def _store_all(
    self, session: tf.compat.v1.Session, coord: tf.train.Coordinator
  ) -> None:
    """Stores batches; at the end of the data, or an error, lets steps end."""
    try:
      for number in itertools.count():
        session.run(self.store, {self.number: number})
    except tf.errors.OutOfRangeError:
      session.run(self.stop)
    except Exception as error:
      # The batches before the one that failed are trained on.
      while not coord.should_stop() and session.run(self.waiting):
        coord.wait_for_stop(_SECONDS)
      if not coord.should_stop():
        coord.request_stop(error)
        session.run(self.stop)
