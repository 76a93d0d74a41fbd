"""The plan command: a partition and its costs, as a table and as pictures."""

import functools
import json
import os
from collections.abc import Callable
from typing import Any

import estimator_mp
from compat.private import estimators
from estimator_mp.cli import (
  commands,
  first_training,
  model_dirs,
  plan_flags,
  user_program,
)
from estimator_mp.graph import shapes
from estimator_mp.observe import gantt, placement_picture, split_picture
from estimator_mp.observe.model_plan import ModelPlan
from model_fns.recipes import images


def plan_options(options: plan_flags.PlanOptions) -> ModelPlan:
  """Returns the plan that the options describe.

  Args:
    options: The options of the command.

  Raises:
    ValueError: Something does not fit; the text is one line with its fix.
  """
  if options.out is not None:
    model_dirs.make_writable("out", options.out)
  config = estimator_mp.ShardingConfig.of(options)
  plan = functools.partial(estimator_mp.plan, config=config)
  if options.program:
    user_program.show_tensorflow(options)

    def plan_estimator(
      estimator: Any, input_fn: Callable[..., Any]
    ) -> ModelPlan:
      return plan(
        estimators.training_model_fn(estimator),
        estimators.training_input_fn(estimator, input_fn),
        run_config=estimator.config,
        model=" ".join(options.program),
      )

    return first_training.act_at_training(options.program, plan_estimator)
  batch_size = options.batch_size or shapes.NOMINAL_BATCH
  if options.model_fn is None:
    features, labels = map(
      user_program.input_spec, ("image:float32[?,32,32,3]", "int32[?,1]")
    )
    return plan(
      images.plain_model_fn("cifar10_cnn", num_classes=10, seed=1),
      user_program.input_fn_of_zeros(features, labels, batch_size),
      model="cifar10_cnn",
    )
  features = _input_spec("features", options.features)
  labels = options.labels and _input_spec("labels", options.labels)
  user_program.show_tensorflow(options, options.model_fn)
  return plan(
    user_program.load_function(
      "model_fn", options.model_fn, "check --features, --labels and --params"
    ),
    user_program.input_fn_of_zeros(features, labels or None, batch_size),
    params=options.params,
    model=options.model_fn,
  )


def _input_spec(flag: str, text: str | None) -> user_program.InputSpec:
  try:
    return user_program.input_spec(text or "")
  except ValueError as error:
    raise commands.FlagsError(f"--{flag}={text}: {error}") from error


def write(plan: ModelPlan, directory: str) -> list[str]:
  """Writes a plan into an existing folder; returns the paths.

  Args:
    plan: The plan.
    directory: The folder.

  Raises:
    ValueError: If there is no matplotlib to draw with.
  """
  texts = {
    "placement.dot": placement_picture.dot(plan),
    "placement.json": _json(plan) + "\n",
  }
  paths = placement_picture.write_pictures(plan, directory)
  if plan.segments is not None:
    paths += gantt.write_pictures(plan.trace(), directory, "step")
  if plan.splits is not None and plan.splits.variables:
    mesh, replicated = plan.mesh, 0
    if "model" not in mesh.axes:  # Each replica has all but the tables.
      replicated = sum(x.parameters for x in plan.placement.stages)
      replicated -= split_picture.num_parameters(plan.splits)
    count = mesh.axis_size("model" if "model" in mesh.axes else "data")
    is_alone = len(mesh.devices) == count
    parts = mesh.devices if is_alone else [f"part {i}" for i in range(count)]
    paths += split_picture.write_pictures(
      plan.title,
      plan.splits,
      parts,
      directory,
      replicated,
    )
  for name, text in texts.items():
    paths.append(os.path.join(directory, name))
    with open(paths[-1], "w", encoding="utf-8") as file:
      file.write(text)
  return paths


def _json(plan: ModelPlan) -> str:
  return json.dumps(plan.to_dict(), indent=1)


def run_command(options: plan_flags.PlanOptions) -> int:
  """Prints, and draws, a plan; returns 0.

  Args:
    options: The options of the command.

  Raises:
    ValueError: Something does not fit; the text is one line with its fix.
  """
  plan = plan_options(options)
  paths = [] if options.out is None else ["", *write(plan, options.out)]
  if options.json:
    print(_json(plan))
  else:
    print("\n".join([plan.title, "", plan.table(), *paths]))
  return 0
