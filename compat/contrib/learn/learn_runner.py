"""tf.contrib.learn.learn_runner: runs the Experiment that a function makes."""

from collections.abc import Callable
from typing import Any

from compat.contrib import absent
from compat.contrib.learn.constants import TaskType
from compat.contrib.learn.experiment import Experiment
from compat.contrib.learn.run_config import RunConfig

# `from ... import ABSENT` then asks the import system, which explains.
__path__: list[str] = []
__getattr__ = absent.getter(__name__)

_SCHEDULES = {
  TaskType.MASTER: "train_and_evaluate",
  TaskType.PS: "run_std_server",
  TaskType.WORKER: "train",
}


def run(
  experiment_fn: Callable[..., Experiment],
  output_dir: str | None = None,
  schedule: str | None = None,
  run_config: RunConfig | None = None,
  hparams: Any = None,
) -> Any:
  """Makes an Experiment and runs it.

  Args:
    experiment_fn: returns the Experiment, of output_dir, or of run_config and
      hparams.
    output_dir: where the model is, if there is no run_config.
    schedule: the name of the Experiment's method to call. By default the one
      for this task of TF_CONFIG; "train_and_evaluate" without a cluster.
    run_config: how the model is run, with its model_dir.
    hparams: given to experiment_fn as they are.

  Returns:
    The result of the method.

  Raises:
    ValueError: if there are both or none of output_dir and run_config, or no
      such schedule.
    TypeError: if experiment_fn or the schedule cannot be called, or it returns
      no Experiment.
    RuntimeError: if the Experiment's model does not use run_config.
  """
  if not output_dir and run_config is None:
    raise ValueError("Give learn_runner.run an output_dir or a run_config.")
  if output_dir and run_config is not None:
    raise ValueError("Give output_dir or run_config, not both.")
  if not callable(experiment_fn):
    raise TypeError(f"experiment_fn={experiment_fn!r} is not callable.")
  if run_config is None:
    if hparams is not None:
      raise ValueError("hparams need a run_config in the place of output_dir.")
    experiment = _checked(experiment_fn(output_dir=output_dir))
  else:
    experiment = _made_of_config(experiment_fn, run_config, hparams)
  config = experiment.estimator.config
  return _execute(experiment, schedule or _default_schedule(config))


def tune(experiment_fn: Callable[..., Experiment], tuner: Any) -> None:
  """Runs an Experiment for each of a tuner's trials.

  Args:
    experiment_fn: returns the Experiment of run_config and hparams.
    tuner: an object with `next_trial()`, whether there is one, and
      `run_experiment(experiment_fn)`.
  """
  while tuner.next_trial():
    tuner.run_experiment(
      lambda run_config, hparams: _made_of_config(
        experiment_fn, run_config, hparams
      )
    )


def _made_of_config(
  experiment_fn: Callable[..., Experiment], run_config: Any, hparams: Any
) -> Experiment:
  if not isinstance(run_config, RunConfig):
    raise ValueError(
      f"run_config={run_config!r} must be a tf.contrib.learn.RunConfig."
    )
  if not run_config.model_dir:
    raise ValueError("run_config has no model_dir. Give it one.")
  if hparams is not None and not hasattr(hparams, "override_from_dict"):
    raise ValueError(
      f"hparams={hparams!r} must be tf.contrib.training.HParams."
    )
  expected = run_config.uid()
  experiment = _checked(experiment_fn(run_config=run_config, hparams=hparams))
  config = experiment.estimator.config
  found = config.uid() if isinstance(config, RunConfig) else repr(config)
  if found != expected:
    raise RuntimeError(
      "The Experiment's estimator does not use the run_config that "
      f"experiment_fn was given: {found} in the place of {expected}."
    )
  return experiment


def _checked(experiment: Any) -> Experiment:
  if not isinstance(experiment, Experiment):
    raise TypeError(
      f"experiment_fn returned {experiment!r}, and not an Experiment."
    )
  return experiment


def _execute(experiment: Experiment, schedule: str) -> Any:
  if not hasattr(experiment, schedule):
    raise ValueError(
      f"schedule={schedule!r} is no method of Experiment. There are "
      f"{', '.join(_methods(experiment))}."
    )
  method = getattr(experiment, schedule)
  if not callable(method):
    raise TypeError(f"schedule={schedule!r} is no method, but a property.")
  return method()


def _methods(experiment: Experiment) -> list[str]:
  return [
    name
    for name in dir(experiment)
    if not name.startswith("_") and callable(getattr(experiment, name))
  ]


def _default_schedule(config: Any) -> str:
  jobs = config.cluster_spec.as_dict() if config.cluster_spec else {}
  if not jobs or config.task_type == "local":
    return "train_and_evaluate"
  if not config.task_type:
    raise ValueError(
      f"TF_CONFIG has a cluster of {', '.join(jobs)}, but no task. Give it "
      "one, or give learn_runner.run a schedule."
    )
  if config.task_type not in _SCHEDULES:
    raise ValueError(
      f"The task type {config.task_type!r} has no schedule of its own. Give "
      "learn_runner.run a schedule."
    )
  return _SCHEDULES[config.task_type]
