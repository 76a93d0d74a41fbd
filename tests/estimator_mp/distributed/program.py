"""An ordinary program: what every task of a test's cluster runs.

  python -m tests.estimator_mp.distributed.program RUNS_FILE

The file has a list of `Run`s in JSON. The task that evaluates writes what each
has given to `results.json` in its model_dir.
"""

import dataclasses
import json
import os
import pathlib
import random
import sys
from typing import Any

import estimator_mp
from tests.estimator_mp import runs, zoo

import tensorflow as tf

RESULTS = "results.json"
_SPLIT_TABLE = [["item.*embedding_weights", "mod"], [".", None]]


@dataclasses.dataclass(frozen=True)
class Run:
  """A run of training.

  Attributes:
    model: "digits", or one of the zoo's.
    model_dir: Where its checkpoints go.
    sharding: The options of a ShardingConfig; None for the plain model.
    steps: The global step at which it ends.
    save_steps: Steps between two checkpoints.
    startup_timeout: As for `estimator_mp.train_and_evaluate`.
    reads_by_task: Whether each task reads its own part of the data.
  """

  model: str
  model_dir: str
  sharding: dict[str, Any] | None = None
  steps: int = 4
  save_steps: int = 2
  startup_timeout: float = 60.0
  reads_by_task: bool = False


def split_table():
  """Returns rules that split the table of items of the zoo's deepfm."""
  return _SPLIT_TABLE


def execute(run):
  """Executes a run; returns the losses of its steps, and its metrics.

  The plain model is trained by `tf.estimator.train_and_evaluate`, which reads
  no TF_CONFIG.
  """
  config = None
  if run.sharding is not None:
    config = estimator_mp.ShardingConfig(**run.sharding)
  estimator, train_input_fn, eval_input_fn = _parts(run, config)
  recorder = runs.LossRecorder()
  train_spec = tf.estimator.TrainSpec(
    train_input_fn, max_steps=run.steps, hooks=[recorder]
  )
  eval_spec = tf.estimator.EvalSpec(
    eval_input_fn, steps=None, start_delay_secs=0, throttle_secs=0
  )
  random.seed(11)  # Layers of a plain run draw their seeds from here.
  if config is None:
    result = tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)
  else:
    result = estimator_mp.train_and_evaluate(
      estimator, train_spec, eval_spec, True, run.startup_timeout
    )
  metrics = {name: float(x) for name, x in result[0].items()} if result else {}
  return recorder.losses, metrics


def _parts(run, config):
  """Returns an Estimator, and its input_fns for training and evaluation."""
  if run.model == "digits":
    # The tasks that only serve import it, too, as they would a user's.
    from model_fns.recipes import recipe as recipe_lib

    recipe = recipe_lib.make(
      recipe_lib.Request(
        "cifar10_cnn", "digits", None, 32, run.steps, 0.001, "adam", 1
      )
    )
    model_fn, params = recipe.make_model_fn(config), None
    train_input_fn, eval_input_fn = recipe.train_input_fn, recipe.eval_input_fn
  else:
    model = zoo.MODELS[run.model]
    model_fn, params = model.model_fn, model.params
    if config is not None:
      model_fn = estimator_mp.shard_model_fn(model_fn, config)
    train_input_fn, eval_input_fn = _repeated, zoo.input_fn
    if run.reads_by_task:
      train_input_fn = _by_task
  estimator = runs.make_estimator(
    model_fn,
    config,
    params,
    run.model_dir,
    save_checkpoints_steps=run.save_steps,
  )
  return estimator, train_input_fn, eval_input_fn


def _by_task(input_context):
  """Reads batches in the same order, whatever the number of tasks."""
  examples = zoo.input_fn().unbatch().repeat()
  batches = examples.batch(
    input_context.get_per_replica_batch_size(30), drop_remainder=True
  )
  return batches.shard(
    input_context.num_input_pipelines, input_context.input_pipeline_id
  )


def _repeated():
  return zoo.input_fn().repeat()


def write_runs(path, made):
  """Writes runs for `main`."""
  text = json.dumps([dataclasses.asdict(run) for run in made])
  pathlib.Path(path).write_text(text)


def read_results(run):
  """Returns the losses and metrics that a task has written."""
  path = pathlib.Path(run.model_dir, RESULTS)
  return json.loads(path.read_text())


def main(argv):
  """Executes the runs of a file."""
  for run in json.loads(pathlib.Path(argv[1]).read_text()):
    run = Run(**run)
    losses, metrics = execute(run)
    if metrics or losses:
      os.makedirs(run.model_dir, exist_ok=True)
      pathlib.Path(run.model_dir, RESULTS).write_text(
        json.dumps([losses, metrics])
      )
  print("ended")


if __name__ == "__main__":
  main(sys.argv)
