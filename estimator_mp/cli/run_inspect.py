"""The inspect command: a partition, as a table and as pictures."""

import json
import os
from collections.abc import Callable
from typing import Any

import estimator_mp
from compat.private import estimators
from estimator_mp.cli import (
  commands,
  first_training,
  inspect_flags,
  model_dirs,
  user_program,
)
from estimator_mp.comparison import inspect_model, training_graph
from estimator_mp.comparison.inspect_model import InputSpec
from estimator_mp.observe import placement_picture, split_picture
from estimator_mp.observe.inspection import Inspection
from model_fns.recipes import images


def inspect_options(options: inspect_flags.InspectOptions) -> Inspection:
  """Returns the partition that the options describe.

  Args:
    options: The options of the command.

  Raises:
    ValueError: Something does not fit; the text is one line with its fix.
  """
  if options.out is not None:
    model_dirs.make_writable("out", options.out)
  config = estimator_mp.ShardingConfig.of(options)
  if options.program:
    user_program.show_tensorflow(options)

    def inspect_estimator(
      estimator: Any, input_fn: Callable[..., Any]
    ) -> Inspection:
      features, labels = training_graph.input_specs(
        estimators.training_input_fn(estimator, input_fn), estimator.config
      )
      return inspect_model.inspect_model_fn(
        estimators.training_model_fn(estimator),
        features,
        labels,
        config,
        model=" ".join(options.program),
        run_config=estimator.config,
      )

    return first_training.act_at_training(options.program, inspect_estimator)
  if options.model_fn is None:
    return inspect_model.inspect_model_fn(
      images.plain_model_fn("cifar10_cnn", num_classes=10, seed=1),
      user_program.input_spec("image:float32[?,32,32,3]"),
      user_program.input_spec("int32[?,1]"),
      config,
      model="cifar10_cnn",
    )
  features = _input_spec("features", options.features)
  labels = options.labels and _input_spec("labels", options.labels)
  user_program.show_tensorflow(options, options.model_fn)
  return inspect_model.inspect_model_fn(
    user_program.load_function(
      "model_fn", options.model_fn, "check --features, --labels and --params"
    ),
    features,
    labels or None,
    config,
    options.params,
    options.model_fn,
  )


def _input_spec(flag: str, text: str | None) -> InputSpec:
  try:
    return user_program.input_spec(text or "")
  except ValueError as error:
    raise commands.FlagsError(f"--{flag}={text}: {error}") from error


def write(inspection: Inspection, directory: str) -> list[str]:
  """Writes a partition into an existing folder; returns the paths.

  Args:
    inspection: The partition.
    directory: The folder.

  Raises:
    ValueError: If there is no matplotlib to draw with.
  """
  texts = {
    "placement.dot": placement_picture.dot(inspection),
    "placement.json": json.dumps(inspection.to_dict(), indent=1) + "\n",
  }
  paths = placement_picture.write_pictures(inspection, directory)
  if inspection.splits is not None and inspection.splits.variables:
    mesh, replicated = inspection.mesh, 0
    if "model" not in mesh.axes:  # Each replica has all but the tables.
      replicated = sum(x.parameters for x in inspection.placement.stages)
      replicated -= split_picture.num_parameters(inspection.splits)
    count = mesh.axis_size("model" if "model" in mesh.axes else "data")
    is_alone = len(mesh.devices) == count
    parts = mesh.devices if is_alone else [f"part {i}" for i in range(count)]
    paths += split_picture.write_pictures(
      inspection.title,
      inspection.splits,
      parts,
      directory,
      replicated,
    )
  for name, text in texts.items():
    paths.append(os.path.join(directory, name))
    with open(paths[-1], "w", encoding="utf-8") as file:
      file.write(text)
  return paths


def run_command(options: inspect_flags.InspectOptions) -> int:
  """Prints, and draws, a partition; returns 0.

  Args:
    options: The options of the command.

  Raises:
    ValueError: Something does not fit; the text is one line with its fix.
  """
  inspection = inspect_options(options)
  print(f"{inspection.title}\n\n{inspection.table()}")
  if options.out is not None:
    print("\n".join(["", *write(inspection, options.out)]))
  return 0
