"""export_stages: a SavedModel for each stage, and the file that chains them."""

import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from estimator_mp.serving import pipeline_file, whole_model
from estimator_mp.serving.stage_model import StageModel
from estimator_mp.serving.steps import Step, StepPlanner

import tensorflow as tf

_STEP = "global_step"


def export_stages(
  estimator: tf.estimator.Estimator,
  export_dir_base: str,
  serving_input_receiver_fn: Callable[[], Any],
  checkpoint_path: str | None = None,
) -> str:
  """Exports each stage of a sharded model as a SavedModel of its own.

  The stages can be served on different machines. The folder has

      pipeline.json         which tensor goes where
      stage_0/              a SavedModel with the variables of stage 0 alone
      stage_1/              ...

  A stage's signatures take tensors of earlier stages, or of the caller, and
  return the inputs of later ones. `//estimator_mp:predict` and
  `estimator_mp.toolbox.StagePipeline` send requests through the chain; any
  server of SavedModels can serve a stage. See docs/serving.md.

  A variable that several stages read is in each of them. Variables that are
  split over a `model` axis are whole, unless the configuration has
  `export_shards`.

  Args:
    estimator: A trained Estimator whose model `shard_model_fn`, or
      `shard_estimator`, has sharded.
    export_dir_base: The folder in which a folder named after the time is made.
    serving_input_receiver_fn: As for `Estimator.export_saved_model`. Each of
      the model's export outputs is a signature of the chain.
    checkpoint_path: The checkpoint; None for the latest.

  Returns:
    The path of the folder.

  Raises:
    ValueError: If the model is not sharded, has never been trained, or cannot
      be cut into stages with the same results: it changes a state when it
      predicts, runs Python, or has a loop that spans several stages.
  """
  checkpoint = checkpoint_path or estimator.latest_checkpoint()
  if checkpoint is None:
    raise ValueError(
      f"{estimator.model_dir} has no checkpoint, and stages are exported from "
      "one; train the Estimator first, or give checkpoint_path"
    )
  temporary = os.path.join(export_dir_base, f"tmp-{uuid.uuid4().hex[:12]}")
  try:
    whole = whole_model.export_whole(
      estimator,
      os.path.join(temporary, "whole"),
      serving_input_receiver_fn,
      checkpoint,
    )
    stages = os.path.join(temporary, "stages")
    pipeline_file.write(_write_stages(whole, stages, checkpoint), stages)
    path = _new_folder(export_dir_base)
    tf.io.gfile.rename(stages, path)
  finally:
    if tf.io.gfile.exists(temporary):
      tf.io.gfile.rmtree(temporary)
  return path


def _write_stages(
  whole: whole_model.WholeModel, folder: str, checkpoint: str
) -> pipeline_file.Pipeline:
  """Writes the SavedModels; returns how they are chained."""
  feeds = {name: whole.feeds(name) for name in whole.signatures}
  planner = StepPlanner(
    whole.graph, whole.stages, whole.num_stages, feeds.values()
  )
  steps = {name: planner.plan(x) for name, x in feeds.items()}
  for name, of_one in steps.items():
    _log(name, of_one)
  if not any(steps.values()):
    raise ValueError(
      "the model's predictions are its inputs, so that no stage has anything "
      "to compute; predict a tensor that the model computes"
    )
  models = {
    number: StageModel(
      whole,
      [x for of_one in steps.values() for x in of_one if x.stage == number],
      planner.repeated,
    )
    for number in sorted({x.stage for of_one in steps.values() for x in of_one})
  }
  signatures = {
    name: _signature(whole, name, of_one, models)
    for name, of_one in steps.items()
  }
  stages = []
  for number, model in models.items():
    name = f"stage_{number}"
    path = os.path.join(folder, name)
    count = model.write(path)
    values = pipeline_file.digest(path)
    stages.append(
      pipeline_file.Stage(number, name, count, model.variables, values)
    )
  return pipeline_file.Pipeline(
    _global_step(checkpoint), tuple(stages), signatures
  )


def _log(name: str, steps: Sequence[Step]) -> None:
  """Logs which stages a signature visits, and warns of round trips.

  Args:
    name: The signature.
    steps: Its steps.
  """
  stages = [step.stage for step in steps]
  logging = tf.compat.v1.logging
  logging.info("%s goes through the stages %s", name, stages)
  again = [
    step for number, step in enumerate(steps) if step.stage in stages[:number]
  ]
  if again:
    first = min((op.name for op in again[0].ops), default="an output")
    logging.warning(
      "%s visits stages again, which costs round trips: %s. The first of them "
      "is stage %d, such as for %s; place that op on the stage of its inputs.",
      name,
      stages,
      again[0].stage,
      first,
    )


def _signature(
  whole: whole_model.WholeModel,
  name: str,
  steps: Sequence[Step],
  models: Mapping[int, StageModel],
) -> pipeline_file.Signature:
  """Returns the chain of a signature, and adds its steps to the stages."""
  definition = whole.signatures[name]
  keys: dict[str, str] = {}
  for key, info in sorted(definition.inputs.items()):
    keys.setdefault(info.name, key)
  makers = {
    tensor: number for number, step in enumerate(steps) for tensor in step.sent
  }

  def source(tensor: str) -> pipeline_file.Source:
    if tensor in keys:
      return pipeline_file.Source(None, keys[tensor])
    return pipeline_file.Source(makers[tensor], tensor)

  chained = []
  visits: dict[int, int] = {}
  for step in steps:
    visits[step.stage] = visits.get(step.stage, 0) + 1
    visit = visits[step.stage]
    visit_name = name if visit == 1 else f"{name}_visit_{visit}"
    model = models[step.stage]
    model.add_signature(visit_name, step, keys)
    chained.append(
      pipeline_file.Step(
        step.stage,
        visit_name,
        {keys.get(x, x): source(x) for x in step.received},
        {x: whole.spec(x) for x in step.sent},
      )
    )
  return pipeline_file.Signature(
    {
      key: whole.spec(info.name)
      for key, info in sorted(definition.inputs.items())
    },
    tuple(chained),
    {
      key: source(info.name) for key, info in sorted(definition.outputs.items())
    },
  )


def _global_step(checkpoint: str) -> int | None:
  """Returns the step that a checkpoint was saved at; None if it has none."""
  reader = tf.train.load_checkpoint(checkpoint)
  if not reader.has_tensor(_STEP):
    return None
  return int(reader.get_tensor(_STEP))


def _new_folder(base: str) -> str:
  """Returns the path of a new folder that is named after the time."""
  number = int(time.time())
  while tf.io.gfile.exists(os.path.join(base, str(number))):
    number += 1
  return os.path.join(base, str(number))
