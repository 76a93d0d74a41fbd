"""What a training run shows besides its progress."""

import importlib.util
import shlex
from collections.abc import Mapping
from typing import Any

import estimator_mp
from estimator_mp.cli import progress as progress_lib
from estimator_mp.cli import train_flags
from model_fns import datasets

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


def header(
  options: train_flags.TrainOptions,
  mesh: estimator_mp.Mesh,
  dataset: datasets.Dataset,
  trained: int,
) -> list[str]:
  """Returns lines about what a run is going to do.

  Args:
    options: What the run was told.
    mesh: The devices.
    dataset: The images.
    trained: The global step from which it goes on.
  """
  height, width, channels = dataset.image_shape
  replicas = mesh.axis_size("data")
  batches = f"batches of {options.batch_size}"
  if replicas > 1:
    of_replica = options.batch_size // replicas
    batches += f" ({of_replica} for each of {replicas} replicas)"
  facts = [
    ("model", options.model),
    (
      "dataset",
      f"{dataset.name}: {dataset.num_train:,} images to train and"
      f" {dataset.num_test:,} held out, {height}x{width}x{channels},"
      f" {dataset.num_classes} classes",
    ),
    ("mesh", f"{mesh} ({', '.join(mesh.devices)})"),
    (
      "steps",
      f"{trained} to {max(trained, options.train_steps)}, {batches},"
      f" {options.optimizer} at {options.learning_rate}, seed {options.seed}",
    ),
    ("model_dir", options.model_dir),
    ("TensorFlow", tf.__version__),
  ]
  return [f"  {name:<12} {value}" for name, value in facts]


class PlacementTableHook(tf.estimator.SessionRunHook):
  """Shows where the layers are, once the graph is built."""

  def __init__(self, progress: progress_lib.ProgressHook):
    self._progress = progress

  def begin(self) -> None:
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
    estimator: tf.estimator.Estimator,
    export_path: str,
    checkpoint_path: str,
    eval_result: Mapping[str, Any],
    is_the_final_export: bool,
  ) -> None:
    """Shows an evaluation; exports nothing."""
    del estimator, export_path, checkpoint_path, is_the_final_export
    self._progress.write(
      f"evaluation at step {eval_result['global_step']}: accuracy"
      f" {eval_result['accuracy']:.4f}, loss {eval_result['average_loss']:.4f}"
    )
