"""Monitors that look at values."""

import logging
from collections.abc import Mapping
from typing import Any

from compat.contrib.learn.monitors.base import BaseMonitor, EveryN

import numpy as np
import tensorflow as tf

_LOG = logging.getLogger("tensorflow")


def _value(outputs: Mapping[str, Any], name: str) -> Any:
  """The value of a tensor that may have been named without ":0"."""
  return outputs[name] if name in outputs else outputs[f"{name}:0"]


class CaptureVariable(EveryN):
  """Keeps the values of a variable."""

  def __init__(self, var_name: str, every_n: int = 100, first_n: int = 1):
    """Makes the monitor.

    Args:
      var_name: the name of the variable's tensor, "weights:0".
      every_n: steps from one look to the next.
      first_n: how many steps to look at in the beginning.
    """
    super().__init__(every_n, first_n)
    self._var_name = var_name
    self._var_values: dict[int, Any] = {}

  @property
  def values(self) -> dict[int, Any]:
    """The values by step."""
    return self._var_values

  def every_n_step_begin(self, step: int) -> list[Any]:
    """Asks for the variable."""
    super().every_n_step_begin(step)
    return [self._var_name]

  def every_n_step_end(self, step: int, outputs: Mapping[str, Any]) -> bool:
    """Keeps its value."""
    self._var_values[step] = _value(outputs, self._var_name)
    return super().every_n_step_end(step, outputs)


class PrintTensor(EveryN):
  """Logs the values of tensors."""

  def __init__(self, tensor_names: Any, every_n: int = 100, first_n: int = 1):
    """Makes the monitor.

    Args:
      tensor_names: names of tensors: a list, or a dictionary of what to call
        each in the log.
      every_n: steps from one look to the next.
      first_n: how many steps to look at in the beginning.
    """
    super().__init__(every_n, first_n)
    if not isinstance(tensor_names, dict):
      tensor_names = {name: name for name in tensor_names}
    self._tensor_names: dict[str, str] = tensor_names

  def every_n_step_begin(self, step: int) -> list[Any]:
    """Asks for the tensors."""
    super().every_n_step_begin(step)
    return list(self._tensor_names.values())

  def every_n_step_end(self, step: int, outputs: Mapping[str, Any]) -> bool:
    """Logs their values."""
    super().every_n_step_end(step, outputs)
    found = [
      f"{tag} = {_value(outputs, name)}"
      for tag, name in self._tensor_names.items()
    ]
    _LOG.info("Step %d: %s", step, ", ".join(found))
    return False


class LoggingTrainable(EveryN):
  """Logs the trainable variables."""

  def __init__(
    self, scope: str | None = None, every_n: int = 100, first_n: int = 1
  ):
    """Makes the monitor.

    Args:
      scope: logs only the variables below it.
      every_n: steps from one look to the next.
      first_n: how many steps to look at in the beginning.
    """
    super().__init__(every_n, first_n)
    self._scope = scope
    self._names: list[str] = []

  def every_n_step_begin(self, step: int) -> list[Any]:
    """Asks for the variables."""
    super().every_n_step_begin(step)
    found = tf.compat.v1.trainable_variables(self._scope)
    self._names = [variable.name for variable in found]
    return self._names

  def every_n_step_end(self, step: int, outputs: Mapping[str, Any]) -> bool:
    """Logs their values."""
    super().every_n_step_end(step, outputs)
    values = [f"{name} = {_value(outputs, name)}" for name in self._names]
    _LOG.info("Step %d: %s", step, ", ".join(values))
    return False


class NanLoss(EveryN):
  """Stops training when the loss is no number."""

  def __init__(
    self,
    loss_tensor: Any,
    every_n_steps: int = 100,
    fail_on_nan_loss: bool = True,
  ):
    """Makes the monitor.

    Args:
      loss_tensor: the loss.
      every_n_steps: steps from one look to the next.
      fail_on_nan_loss: whether to raise NanLossDuringTrainingError.
    """
    super().__init__(every_n_steps)
    self._loss_tensor = loss_tensor
    self._fail_on_nan_loss = fail_on_nan_loss

  def every_n_step_begin(self, step: int) -> list[Any]:
    """Asks for the loss."""
    super().every_n_step_begin(step)
    return [self._loss_tensor]

  def every_n_step_end(self, step: int, outputs: Mapping[str, Any]) -> bool:
    """Looks whether it is a number."""
    super().every_n_step_end(step, outputs)
    name = getattr(self._loss_tensor, "name", self._loss_tensor)
    if not np.isnan(_value(outputs, name)):
      return False
    if self._fail_on_nan_loss:
      raise tf.compat.v1.train.NanLossDuringTrainingError
    _LOG.warning("The loss of step %d is NaN; training stops.", step)
    return True


class GraphDump(BaseMonitor):
  """Keeps the values of all tensors of the graph, of each step."""

  IGNORE_OPS = (
    "Const",
    "Assign",
    "Identity",
    "Placeholder",
    "RandomUniform",
    "Cast",
    "RestoreSlice",
  )

  def __init__(self, ignore_ops: Any = None):
    """Makes the monitor.

    Args:
      ignore_ops: types of ops whose outputs are left out.
    """
    super().__init__()
    self._ignore_ops = ignore_ops or GraphDump.IGNORE_OPS
    self._data: dict[int, dict[str, Any]] = {}

  @property
  def data(self) -> dict[int, dict[str, Any]]:
    """The values by step, and by the tensor's name."""
    return self._data

  def begin(self, max_steps: int | None = None) -> None:
    """Chooses the tensors: those of the ops that can be fetched."""
    super().begin(max_steps)
    graph = tf.compat.v1.get_default_graph()
    self._tensors = [
      tensor
      for op in graph.get_operations()
      if op.type not in self._ignore_ops and graph.is_fetchable(op)
      for tensor in op.outputs
      if tensor.dtype not in (tf.resource, tf.variant)
    ]

  def step_begin(self, step: int) -> list[Any]:
    """Asks for all tensors."""
    super().step_begin(step)
    return self._tensors

  def step_end(self, step: int, output: Mapping[str, Any]) -> bool:
    """Keeps their values."""
    super().step_end(step, output)
    self._data[step] = dict(output)
    return False

  def compare(
    self, other_dump: "GraphDump", step: int, atol: float = 1e-6
  ) -> tuple[list[str], dict[str, tuple[Any, Any]]]:
    """Compares one step of two runs.

    Args:
      other_dump: the other run's monitor.
      step: which step.
      atol: the greatest difference of two values that count as equal.

    Returns:
      The names of the tensors that are equal, and both values of the others.
    """
    ours, theirs = self._data[step], other_dump.data[step]
    equal: list[str] = []
    different: dict[str, tuple[Any, Any]] = {}
    for name in sorted(set(ours) & set(theirs)):
      one, other = ours[name], theirs[name]
      same = (
        np.allclose(one, other, atol=atol)
        if np.issubdtype(np.asarray(one).dtype, np.floating)
        else np.array_equal(one, other)
      )
      if same:
        equal.append(name)
      else:
        different[name] = (one, other)
    return equal, different


def get_default_monitors(
  loss_op: Any = None,
  summary_op: Any = None,
  save_summary_steps: int = 100,
  output_dir: str | None = None,
  summary_writer: Any = None,
) -> list[BaseMonitor]:
  """Returns monitors that log the loss and save summaries.

  Args:
    loss_op: the loss, if it is to be logged.
    summary_op: the summaries, if they are to be saved.
    save_summary_steps: steps between two summaries.
    output_dir: where summaries are saved.
    summary_writer: saves them instead.
  """
  from compat.contrib.learn.monitors.saving import SummarySaver

  found: list[BaseMonitor] = []
  if loss_op is not None:
    found.append(PrintTensor({"loss": loss_op.name}))
  if summary_op is not None:
    found.append(
      SummarySaver(summary_op, save_summary_steps, output_dir, summary_writer)
    )
  return found
