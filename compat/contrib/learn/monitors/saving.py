"""Monitors that write: summaries, checkpoints, exports, the speed."""

import logging
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from compat.contrib.learn.monitors.base import BaseMonitor, EveryN

import tensorflow as tf

_LOG = logging.getLogger("tensorflow")


def _writer(writer: Any, output_dir: str | None) -> Any:
  if writer is not None or output_dir is None:
    return writer
  return tf.compat.v1.summary.FileWriterCache.get(output_dir)


class SummarySaver(EveryN):
  """Saves summaries."""

  def __init__(
    self,
    summary_op: Any,
    save_steps: int = 100,
    output_dir: str | None = None,
    summary_writer: Any = None,
    scaffold: Any = None,
  ):
    """Makes the monitor.

    Args:
      summary_op: the summaries, serialized.
      save_steps: steps between two summaries.
      output_dir: where they are saved.
      summary_writer: saves them instead.
      scaffold: has the summaries, if summary_op is None.
    """
    super().__init__(save_steps)
    self._summary_op = summary_op
    self._scaffold = scaffold
    self._summary_writer = _writer(summary_writer, output_dir)

  def set_estimator(self, estimator: Any) -> None:
    """Writes where the model is, if no place was given."""
    super().set_estimator(estimator)
    if self._summary_writer is None:
      self._summary_writer = _writer(None, estimator.model_dir)

  def every_n_step_begin(self, step: int) -> list[Any]:
    """Asks for the summaries."""
    super().every_n_step_begin(step)
    if self._summary_op is None and self._scaffold is not None:
      self._summary_op = self._scaffold.summary_op
    return [] if self._summary_op is None else [self._summary_op]

  def every_n_step_end(self, step: int, outputs: Mapping[str, Any]) -> bool:
    """Saves them."""
    super().every_n_step_end(step, outputs)
    if self._summary_op is not None and self._summary_writer is not None:
      summary = outputs[getattr(self._summary_op, "name", self._summary_op)]
      self._summary_writer.add_summary(summary, step)
    return False

  def end(self, session: Any = None) -> None:
    """Writes out what is in memory."""
    super().end(session)
    if self._summary_writer is not None:
      self._summary_writer.flush()


class CheckpointSaver(BaseMonitor):
  """Saves checkpoints."""

  def __init__(
    self,
    checkpoint_dir: str,
    save_secs: int | None = None,
    save_steps: int | None = None,
    saver: Any = None,
    checkpoint_basename: str = "model.ckpt",
    scaffold: Any = None,
  ):
    """Makes the monitor.

    Args:
      checkpoint_dir: where they are saved.
      save_secs: seconds between two checkpoints.
      save_steps: steps between two checkpoints, in the place of save_secs.
      saver: the Saver.
      checkpoint_basename: the start of a checkpoint's name.
      scaffold: has the Saver, if there is none.

    Raises:
      ValueError: unless one of save_secs and save_steps is given.
    """
    super().__init__()
    if (save_secs is None) == (save_steps is None):
      raise ValueError("Give CheckpointSaver one of save_secs and save_steps.")
    self._saver = saver
    self._scaffold = scaffold
    self._path = os.path.join(checkpoint_dir, checkpoint_basename)
    self._save_secs = save_secs
    self._save_steps = save_steps
    self._last_saved_step: int | None = None
    self._last_saved_time = 0.0

  def begin(self, max_steps: int | None = None) -> None:
    """Forgets when it saved last."""
    super().begin(max_steps)
    self._last_saved_step = None

  def post_step(self, step: int, session: Any) -> None:
    """Saves if it is time to."""
    super().post_step(step, session)
    if self._is_time(step):
      self._save(step, session)

  def end(self, session: Any = None) -> None:
    """Saves the last step."""
    super().end(session)
    step = session.run(tf.compat.v1.train.get_global_step(session.graph))
    if step != self._last_saved_step:
      self._save(int(step), session)

  def _is_time(self, step: int) -> bool:
    if self._last_saved_step is None:
      return True
    if self._save_steps is not None:
      return step >= self._last_saved_step + self._save_steps
    assert self._save_secs is not None
    return time.time() >= self._last_saved_time + self._save_secs

  def _save(self, step: int, session: Any) -> None:
    saver = self._scaffold.saver if self._saver is None else self._saver
    _LOG.info("Saving a checkpoint of step %d into %s.", step, self._path)
    saver.save(session, self._path, global_step=step)
    self._last_saved_step, self._last_saved_time = step, time.time()


class StepCounter(EveryN):
  """Writes how many steps a second are made, "global_step/sec"."""

  def __init__(
    self,
    every_n_steps: int = 100,
    output_dir: str | None = None,
    summary_writer: Any = None,
  ):
    """Makes the monitor.

    Args:
      every_n_steps: steps between two summaries.
      output_dir: where they are saved.
      summary_writer: saves them instead.
    """
    super().__init__(every_n_steps)
    self._summary_writer = _writer(summary_writer, output_dir)
    self._last: tuple[int, float] | None = None

  def set_estimator(self, estimator: Any) -> None:
    """Writes where the model is, if no place was given."""
    super().set_estimator(estimator)
    if self._summary_writer is None:
      self._summary_writer = _writer(None, estimator.model_dir)

  def every_n_step_end(self, step: int, outputs: Mapping[str, Any]) -> bool:
    """Writes the speed since the last look."""
    super().every_n_step_end(step, outputs)
    now = time.time()
    if self._last is not None and self._summary_writer is not None:
      before, then = self._last
      value = tf.compat.v1.Summary.Value(
        tag="global_step/sec", simple_value=(step - before) / (now - then)
      )
      summary = tf.compat.v1.Summary(value=[value])
      self._summary_writer.add_summary(summary, step)
    self._last = step, now
    return False


class ExportMonitor(EveryN):
  """Exports the model, by the estimator's `export`."""

  def __init__(
    self,
    every_n_steps: int,
    export_dir: str,
    input_fn: Callable[..., Any] | None = None,
    input_feature_key: str | None = None,
    exports_to_keep: int | None = 5,
    signature_fn: Callable[..., Any] | None = None,
    default_batch_size: int | None = 1,
  ):
    """Says what to use: the format of its exports, SessionBundle, is gone.

    Raises:
      NotImplementedError: always.
    """
    raise NotImplementedError(
      "tf.contrib.learn.monitors.ExportMonitor writes SessionBundles, which "
      "nothing reads since TensorFlow 1.7. Use Experiment(export_strategies="
      "make_export_strategy(...)) or Estimator.export_savedmodel instead."
    )
