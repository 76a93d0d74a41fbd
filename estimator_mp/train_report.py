"""What a training run shows besides its progress."""

import importlib.util
import shlex

import estimator_mp
from estimator_mp import progress as progress_lib

import tensorflow as tf


def tensorboard_command(model_dir: str) -> str:
  """Returns the command that shows a run in TensorBoard.

  Args:
    model_dir: The directory of the run.
  """
  command = f"tensorboard --logdir={shlex.quote(model_dir)}"
  if importlib.util.find_spec("tensorboard") is None:
    return f"pip install tensorboard && {command}"
  return command


class PlacementTableHook(tf.estimator.SessionRunHook):
  """Shows where the layers are, once the graph is built."""

  def __init__(self, progress: progress_lib.ProgressHook):
    self._progress = progress

  def begin(self):
    """Shows the placement of the graph that was just built."""
    graph = tf.compat.v1.get_default_graph()
    table = estimator_mp.get_placement(graph).table()
    self._progress.write(f"\n{table}\n")


class EvaluationReport(tf.estimator.Exporter):
  """Shows every evaluation; Estimator tells its exporters of each one."""

  def __init__(self, progress: progress_lib.ProgressHook):
    self._progress = progress

  @property
  def name(self) -> str:
    """The exporter's name."""
    return "evaluation_report"

  def export(
    self,
    estimator,
    export_path,
    checkpoint_path,
    eval_result,
    is_the_final_export,
  ):
    """Shows an evaluation; exports nothing."""
    del estimator, export_path, checkpoint_path, is_the_final_export
    self._progress.write(
      f"evaluation at step {eval_result['global_step']}: accuracy"
      f" {eval_result['accuracy']:.4f}, loss {eval_result['average_loss']:.4f}"
    )
