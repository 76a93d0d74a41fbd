"""tf.contrib.learn.Experiment: a model, its inputs, and how it is run.

It runs models of tf.contrib.learn and of tf.estimator.
"""

import contextlib
import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from compat.contrib.learn import monitors as monitors_lib
from compat.contrib.learn.base import Evaluable, Trainable
from compat.contrib.learn.constants import Environment
from compat.contrib.learn.export_strategy import ExportStrategy
from compat.contrib.learn.run_config import RunConfig

import tensorflow as tf

_LOG = logging.getLogger("tensorflow")
_CoreEstimator = tf.compat.v1.estimator.Estimator

InputFn = Callable[..., Any]


def _is_core(estimator: Any) -> bool:
  return isinstance(estimator, _CoreEstimator)


def _strategies(given: Any) -> tuple[ExportStrategy, ...]:
  found = (given,) if isinstance(given, ExportStrategy) else given
  found = () if found is None else found
  if isinstance(found, Iterable) and not isinstance(found, str):
    found = tuple(found)
    if all(isinstance(one, ExportStrategy) for one in found):
      return found
  raise ValueError(
    f"export_strategies={given!r} must be an ExportStrategy, several, or None."
  )


class _Export(tf.compat.v1.train.CheckpointSaverListener):
  """Evaluates and exports whenever a checkpoint has been saved."""

  def __init__(self, experiment: "Experiment"):
    self._experiment = experiment
    self.result: Any = None

  def after_save(self, session: Any, global_step_value: int) -> None:
    del session, global_step_value
    self.result = self._experiment.evaluate_and_export()


class Experiment:
  """Trains and evaluates a model."""

  def __init__(
    self,
    estimator: Any,
    train_input_fn: InputFn,
    eval_input_fn: InputFn,
    eval_metrics: Any = None,
    train_steps: int | None = None,
    eval_steps: int | None = 100,
    train_monitors: Iterable[Any] | None = None,
    eval_hooks: Iterable[Any] | None = None,
    local_eval_frequency: int | None = None,
    eval_delay_secs: float = 120,
    continuous_eval_throttle_secs: float = 60,
    min_eval_frequency: int | None = None,
    delay_workers_by_global_step: bool = False,
    export_strategies: Any = None,
    train_steps_per_iteration: int | None = None,
    checkpoint_and_export: bool = False,
    saving_listeners: Any = None,
    check_interval_secs: float = 5,
  ):
    """Describes the experiment.

    Args:
      estimator: a model of tf.contrib.learn or tf.estimator.
      train_input_fn: returns features and labels to train on.
      eval_input_fn: returns those to evaluate on.
      eval_metrics: metrics by name, for a model of tf.contrib.learn.
      train_steps: the step to train until; None trains for ever.
      eval_steps: how many batches to evaluate on; None is all.
      train_monitors: monitors and hooks for training.
      eval_hooks: hooks for evaluating.
      local_eval_frequency: steps between evaluations in local_run.
      eval_delay_secs: how long evaluate waits before it begins.
      continuous_eval_throttle_secs: the least number of seconds between the
        beginnings of two evaluations.
      min_eval_frequency: the least number of steps between evaluations while
        training; 0 evaluates only at the end. By default 1, and 1000 where
        model_dir is on Google's storage.
      delay_workers_by_global_step: whether workers begin one after the other
        by the step, not by the clock.
      export_strategies: how to export after an evaluation.
      train_steps_per_iteration: steps between evaluations of
        continuous_train_and_eval.
      checkpoint_and_export: whether train_and_evaluate evaluates and exports
        at each checkpoint that it saves.
      saving_listeners: told of each checkpoint, with a tf.estimator.Estimator.
      check_interval_secs: the least number of seconds between two looks for a
        new checkpoint while training.

    Raises:
      ValueError: if the model is none, or arguments do not fit it.
    """
    core = _is_core(estimator)
    if not core:
      for interface in (Evaluable, Trainable):
        if not isinstance(estimator, interface):
          raise ValueError(
            f"estimator={estimator!r} must implement "
            f"tf.contrib.learn.{interface.__name__} "
            "or be a tf.estimator.Estimator."
          )
      if saving_listeners is not None:
        raise ValueError(
          "saving_listeners need a tf.estimator.Estimator; the estimator is "
          f"a {type(estimator).__name__}."
        )
    elif eval_metrics is not None:
      raise ValueError(
        "eval_metrics are for models of tf.contrib.learn. The model_fn of a "
        "tf.estimator.Estimator has eval_metric_ops in its EstimatorSpec."
      )
    if train_steps_per_iteration is not None and not isinstance(
      train_steps_per_iteration, int
    ):
      raise ValueError(
        f"train_steps_per_iteration={train_steps_per_iteration!r} must be an "
        "integer."
      )
    self._core_estimator_used = core
    self._estimator = estimator
    self._train_input_fn = train_input_fn
    self._eval_input_fn = eval_input_fn
    self._eval_metrics = eval_metrics
    self._train_steps = train_steps
    self._eval_steps = eval_steps
    self._local_eval_frequency = local_eval_frequency
    self._eval_delay_secs = eval_delay_secs
    self._continuous_eval_throttle_secs = continuous_eval_throttle_secs
    self._checkpoint_and_export = checkpoint_and_export
    self._saving_listeners = saving_listeners
    if min_eval_frequency is None:
      on_cloud = (estimator.model_dir or "").startswith("gs://")
      min_eval_frequency = 1000 if on_cloud else 1
    self._min_eval_frequency = min_eval_frequency
    self._check_interval_secs = check_interval_secs
    self._delay_workers_by_global_step = delay_workers_by_global_step
    self._train_monitors = list(train_monitors or [])
    self._eval_hooks = list(eval_hooks or [])
    self._train_steps_per_iteration = train_steps_per_iteration
    self._export_strategies = _strategies(export_strategies)

  @property
  def estimator(self) -> Any:
    """The model."""
    return self._estimator

  @property
  def eval_metrics(self) -> Any:
    """Metrics by name."""
    return self._eval_metrics

  @property
  def train_steps(self) -> int | None:
    """The step to train until."""
    return self._train_steps

  @property
  def eval_steps(self) -> int | None:
    """How many batches to evaluate on."""
    return self._eval_steps

  def reset_export_strategies(self, new_export_strategies: Any = None) -> Any:
    """Replaces the export strategies.

    Args:
      new_export_strategies: those to use from now on.

    Returns:
      Those until now.
    """
    before = self._export_strategies
    self._export_strategies = _strategies(new_export_strategies)
    return before

  def extend_train_hooks(self, additional_hooks: Iterable[Any]) -> None:
    """Adds monitors or hooks for training.

    Args:
      additional_hooks: those to add.
    """
    self._train_monitors.extend(additional_hooks)

  def train(self, delay_secs: float | None = None) -> Any:
    """Trains, and starts this task's server if TF_CONFIG has a cluster.

    Args:
      delay_secs: how long to wait first; by default 5 seconds for each worker
        before this one, a minute at most.

    Returns:
      The trained model.
    """
    config = self._estimator.config
    _check_cluster(config)
    if _needs_server(config):
      self._start_server()
    hooks: list[Any] = []
    if delay_secs is None:
      task_id = config.task_id or 0
      if self._delay_workers_by_global_step:
        steps = int(8000.0 * math.log(task_id + 1))
        hooks.append(tf.compat.v1.train.GlobalStepWaiterHook(steps))
        delay_secs = 0
      else:
        delay_secs = min(60, task_id * 5)
    _sleep(delay_secs)
    return self._call_train(max_steps=self._train_steps, extra_hooks=hooks)

  def evaluate(
    self, delay_secs: float | None = None, name: str | None = None
  ) -> Any:
    """Evaluates the latest checkpoint.

    Args:
      delay_secs: how long to wait first; eval_delay_secs by default.
      name: of this evaluation, "one_pass" by default.

    Returns:
      The metrics, by name.
    """
    _sleep(self._eval_delay_secs if delay_secs is None else delay_secs)
    return self._call_evaluate(name=name or "one_pass", hooks=self._eval_hooks)

  def continuous_eval(
    self,
    delay_secs: float | None = None,
    throttle_delay_secs: float | None = None,
    evaluate_checkpoint_only_once: bool = True,
    continuous_eval_predicate_fn: Callable[[Any], bool] | None = None,
    name: str = "continuous",
  ) -> None:
    """Evaluates checkpoints as they come, until the last step of training.

    Args:
      delay_secs: how long to wait first; eval_delay_secs by default.
      throttle_delay_secs: the least number of seconds between two beginnings.
      evaluate_checkpoint_only_once: whether to wait for a new checkpoint.
      continuous_eval_predicate_fn: is called with what the last evaluation
        gave, None before the first; evaluation ends when it returns False.
      name: of this evaluation.
    """
    self._continuous_eval(
      self._eval_input_fn,
      name,
      delay_secs,
      throttle_delay_secs,
      evaluate_checkpoint_only_once,
      continuous_eval_predicate_fn,
    )

  def continuous_eval_on_train_data(
    self,
    delay_secs: float | None = None,
    throttle_delay_secs: float | None = None,
    continuous_eval_predicate_fn: Callable[[Any], bool] | None = None,
    name: str = "continuous_on_train_data",
  ) -> None:
    """Does as continuous_eval, on what the model is trained on."""
    self._continuous_eval(
      self._train_input_fn,
      name,
      delay_secs,
      throttle_delay_secs,
      predicate=continuous_eval_predicate_fn,
    )

  def _continuous_eval(
    self,
    input_fn: InputFn,
    name: str | None,
    delay_secs: float | None,
    throttle_delay_secs: float | None,
    only_once: bool = True,
    predicate: Callable[[Any], bool] | None = None,
  ) -> None:
    if predicate is None:
      predicate = self._is_before_last_step
    if throttle_delay_secs is None:
      throttle_delay_secs = self._continuous_eval_throttle_secs
    _sleep(self._eval_delay_secs if delay_secs is None else delay_secs)
    previous_path, result = None, None
    while predicate(result):
      began = time.time()
      path = tf.train.latest_checkpoint(self._estimator.model_dir)
      if path is None:
        _LOG.warning("There is no checkpoint in %s.", self._estimator.model_dir)
        result = {}
      elif not (only_once and path == previous_path):
        result = self._call_evaluate(
          input_fn, name=name, checkpoint_path=path, hooks=self._eval_hooks
        )
        self._maybe_export(result, checkpoint_path=path)
        previous_path = path
      _sleep(throttle_delay_secs - (time.time() - began))

  def _is_before_last_step(self, result: Any) -> bool:
    if not result or self._train_steps is None:
      return True
    step = result.get(tf.compat.v1.GraphKeys.GLOBAL_STEP)
    return step is None or bool(step < self._train_steps)

  def train_and_evaluate(self) -> tuple[Any, list[Any]]:
    """Trains, evaluates new checkpoints on the way, and at the end.

    Returns:
      The result of the last evaluation, and those of each export strategy.
    """
    if self._checkpoint_and_export:
      export = _Export(self)
      with self._kept_monitors():
        self._train_monitors.append(self._exporting_saver(export))
        self.train(delay_secs=0)
      return export.result or (None, [])
    with self._kept_monitors():
      if self._min_eval_frequency:
        monitor = monitors_lib.ValidationMonitor(
          input_fn=self._eval_input_fn,
          eval_steps=self._eval_steps,
          metrics=self._eval_metrics,
          every_n_steps=self._min_eval_frequency,
          check_interval_secs=self._check_interval_secs,
          hooks=self._eval_hooks,
        )
        hooks = monitors_lib.replace_monitors_with_hooks(
          [monitor], self._estimator
        )
        self._train_monitors += hooks
      self.train(delay_secs=0)
    return self.evaluate_and_export()

  def _exporting_saver(self, export: _Export) -> Any:
    config = self._estimator.config
    return tf.compat.v1.train.CheckpointSaverHook(
      self._estimator.model_dir,
      save_secs=config.save_checkpoints_secs,
      save_steps=config.save_checkpoints_steps,
      listeners=[export],
    )

  @contextlib.contextmanager
  def _kept_monitors(self) -> Iterator[None]:
    """Restores the monitors for training afterwards."""
    kept = list(self._train_monitors)
    try:
      yield
    finally:
      self._train_monitors = kept

  def evaluate_and_export(self) -> tuple[Any, list[Any]]:
    """Evaluates the latest checkpoint and exports it.

    Returns:
      The result of the evaluation, and those of each export strategy.
    """
    result = self._call_evaluate(hooks=self._eval_hooks)
    return result, self._maybe_export(result)

  def continuous_train_and_eval(
    self, continuous_eval_predicate_fn: Callable[[Any], bool] | None = None
  ) -> tuple[Any, list[Any]]:
    """Trains and evaluates in turns.

    Args:
      continuous_eval_predicate_fn: is called with what the last evaluation
        gave, None before the first; training ends when it returns False. By
        default it ends at train_steps.

    Returns:
      The result of the last evaluation, and those of each export strategy.
    """
    predicate = continuous_eval_predicate_fn or self._is_before_last_step
    result, exported = None, []
    steps = self._train_steps_per_iteration or 1000
    if self._train_steps is not None and not self._train_steps_per_iteration:
      steps = max(1, int(self._train_steps / 10))
    while predicate(result):
      self._call_train(steps=steps)
      result = self._call_evaluate(name="one_pass", hooks=self._eval_hooks)
      exported = self._maybe_export(result)
    return result, exported

  def local_run(self) -> tuple[Any, list[Any]]:
    """Trains, and evaluates every local_eval_frequency steps."""
    before = self._min_eval_frequency
    self._min_eval_frequency = self._local_eval_frequency or 0
    try:
      return self.train_and_evaluate()
    finally:
      self._min_eval_frequency = before

  def test(self) -> Any:
    """Trains and evaluates one step of each, and exports."""
    self._call_train(steps=1)
    result = self._call_evaluate(steps=1, name="one_pass")
    self._maybe_export(result)
    return result

  def run_std_server(self) -> None:
    """Starts this task's server, and waits for ever."""
    self._start_server().join()

  def _start_server(self) -> Any:
    config = self._estimator.config
    if not (config.cluster_spec and config.task_type and config.master):
      raise ValueError(
        "TF_CONFIG has no cluster and task: "
        f"cluster={config.cluster_spec.as_dict()}, task={config.task_type!r}. "
        "A server needs both."
      )
    server = tf.compat.v1.train.Server(
      config.cluster_spec,
      job_name=config.task_type,
      task_index=config.task_id,
      config=getattr(config, "tf_config", None) or config.session_config,
      start=False,
    )
    server.start()
    return server

  def _call_train(
    self,
    steps: int | None = None,
    max_steps: int | None = None,
    extra_hooks: Iterable[Any] = (),
  ) -> Any:
    hooks = [*self._train_monitors, *extra_hooks]
    if not self._core_estimator_used:
      return self._estimator.fit(
        input_fn=self._train_input_fn,
        steps=steps,
        max_steps=max_steps,
        monitors=hooks,
      )
    return self._estimator.train(
      self._train_input_fn,
      hooks=monitors_lib.replace_monitors_with_hooks(hooks, self._estimator),
      steps=steps,
      max_steps=max_steps,
      saving_listeners=self._saving_listeners,
    )

  def _call_evaluate(
    self,
    input_fn: InputFn | None = None,
    steps: int | None = None,
    name: str | None = None,
    checkpoint_path: str | None = None,
    hooks: Any = None,
  ) -> Any:
    given: dict[str, Any] = dict(
      input_fn=input_fn or self._eval_input_fn,
      steps=steps or self._eval_steps,
      name=name,
      checkpoint_path=checkpoint_path,
      hooks=hooks,
    )
    if not self._core_estimator_used:
      given["metrics"] = self._eval_metrics
    return self._estimator.evaluate(**given)

  def _maybe_export(
    self, eval_result: Any, checkpoint_path: str | None = None
  ) -> list[Any]:
    folder = self._estimator.model_dir or ""
    return [
      strategy.export(
        self._estimator,
        os.path.join(
          tf.compat.as_bytes(folder), b"export", strategy.name.encode()
        ),
        checkpoint_path=checkpoint_path,
        eval_result=eval_result,
      )
      for strategy in self._export_strategies
    ]


def _check_cluster(config: Any) -> None:
  """Refuses a cluster with a configuration that says too little of it."""
  if isinstance(config, RunConfig):
    return
  if config.cluster_spec and config.cluster_spec.as_dict() and config.master:
    raise ValueError(
      "An Experiment on a cluster needs a tf.contrib.learn.RunConfig; the "
      f"estimator has a {type(config).__name__}. Use "
      "tf.estimator.train_and_evaluate, or give the estimator such a RunConfig."
    )


def _needs_server(config: Any) -> bool:
  """Whether this task of a cluster starts its own server."""
  environment = getattr(config, "environment", Environment.LOCAL)
  has_cluster = bool(config.cluster_spec and config.cluster_spec.as_dict())
  is_remote = environment not in (Environment.LOCAL, Environment.GOOGLE)
  return is_remote and has_cluster and bool(config.master)


def _sleep(seconds: float) -> None:
  if seconds > 0:
    time.sleep(seconds)
