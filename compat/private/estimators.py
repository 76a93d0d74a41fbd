"""Private names of tf.estimator's Estimators, their Savers and sessions.

Tested with the tensorflow-estimator 2.15.0 wheel, on TensorFlow 2.15.1 and
2.21.0; compat's tests look for each name.

- `Estimator._model_fn`, `_config` and `_session_config` are what an Estimator
  was made of; publicly they can only be given to a new one.
- `Estimator._call_model_fn` is where every Estimator calls its model_fn, also
  one that another Estimator makes while it trains. `intercepted_calls` stands
  before it while it is entered.
- `Estimator._call_input_fn` is where an Estimator calls an input_fn; a
  TPUEstimator gives it the batch size there, and notes in
  `_is_input_fn_invoked` that the next call of its model_fn is no export.
- `Estimator.train` is public, but nothing tells when somebody calls it.
- `TPUEstimator._ctx` tells whether it uses a TPU.
- `function_utils.fn_args` is how an Estimator finds which arguments an input_fn
  takes.
- `Saver.save` is public, but nothing tells when somebody calls it.
- `CheckpointSaverHook._listeners` grows with each call of `train` that the hook
  is given to, and it keeps the Saver of the first one's graph.
- `training._TrainingExecutor` is what `tf.estimator.train_and_evaluate` makes,
  without a `_ContinuousEvalListener`, which can end an evaluator.
- `monitored_session._PREEMPTION_ERRORS` are the errors after which the session
  of an Estimator makes itself anew. `errors_end_sessions` empties it while it
  is entered.
"""

import contextlib
import contextvars
import copy
import functools
import importlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.util import function_utils

ModelFn = Callable[..., Any]

# Of the estimator and the mode: the model_fn to call instead of its own.
Replacement = Callable[[Any, str], ModelFn]

_replacement: contextvars.ContextVar[Replacement | None] = (
  contextvars.ContextVar("compat.model_fn_replacement", default=None)
)
_LOCK = threading.RLock()
_users: list[None] = []
_undo: list[Callable[[], None]] = []


def model_fn_of(estimator: Any) -> ModelFn:
  """Returns the model_fn that an Estimator calls.

  Args:
    estimator: The Estimator; of a canned one it is the model_fn that its class
      made.
  """
  model_fn: ModelFn = estimator._model_fn
  return model_fn


def run_config_of(estimator: Any) -> Any:
  """Returns the RunConfig that an Estimator itself uses, not a copy.

  Args:
    estimator: The Estimator.
  """
  return estimator._config


def replace_parts(estimator: Any, model_fn: ModelFn, run_config: Any) -> None:
  """Makes an Estimator use another model_fn and another RunConfig.

  Args:
    estimator: The Estimator.
    model_fn: A model_fn that takes the arguments of the old one.
    run_config: A RunConfig with the model_dir of the old one.
  """
  estimator._model_fn = model_fn
  estimator._config = run_config
  estimator._session_config = run_config.session_config


def uses_tpu(estimator: Any) -> bool:
  """Whether an Estimator is a TPUEstimator that is to use a TPU.

  Args:
    estimator: The Estimator.
  """
  context = getattr(estimator, "_ctx", None)
  return bool(getattr(context, "_use_tpu", False))


def training_model_fn(estimator: Any) -> ModelFn:
  """Returns a model_fn that is called as an Estimator calls its own to train.

  Args:
    estimator: The Estimator; its params are given to its model_fn.
  """

  def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
    if hasattr(estimator, "_is_input_fn_invoked"):
      estimator._is_input_fn_invoked = True
    return estimator._call_model_fn(features, labels, mode, config)

  return model_fn


def training_input_fn(
  estimator: Any, input_fn: Callable[..., Any]
) -> Callable[[], Any]:
  """Returns an input_fn that is called as an Estimator calls one to train.

  Args:
    estimator: The Estimator; its params and RunConfig are given to the
      input_fn.
    input_fn: The input_fn.
  """
  return lambda: estimator._call_input_fn(input_fn, tf.estimator.ModeKeys.TRAIN)


@contextlib.contextmanager
def intercepted_training(
  train: Callable[[Any, Callable[..., Any]], Any],
) -> Iterator[None]:
  """Calls a function where an Estimator is to train, in all threads.

  Args:
    train: Is called with the Estimator and the input_fn.

  Yields:
    None.
  """
  owner = tf.compat.v1.estimator.Estimator
  original = owner.train

  @functools.wraps(original)
  def intercepted(
    estimator: Any, input_fn: Callable[..., Any], *args: Any, **kwargs: Any
  ) -> Any:
    del args, kwargs  # Hooks, steps and listeners of a run.
    return train(estimator, input_fn)

  owner.train = intercepted
  try:
    yield
  finally:
    owner.train = original


def arguments_of(function: Callable[..., Any]) -> tuple[str, ...]:
  """Returns the arguments that an Estimator may give a function by name.

  Args:
    function: An input_fn or a model_fn; also a method, a `functools.partial` or
      an object that can be called.
  """
  names: tuple[str, ...] = function_utils.fn_args(function)
  return names


@contextlib.contextmanager
def intercepted_calls(replacement: Replacement) -> Iterator[None]:
  """Decides which model_fn each Estimator calls, in this thread.

  The patch is made when the first block is entered, and undone when the last
  one is left, on every exit.

  Args:
    replacement: Is told of an Estimator that is about to call its model_fn, and
      of the mode; returns the model_fn to call.

  Yields:
    None.
  """
  token = _replacement.set(replacement)
  with _LOCK:
    _users.append(None)
    if not _undo:
      _patch()
  try:
    yield
  finally:
    _replacement.reset(token)
    with _LOCK:
      _users.pop()
      if not _users:
        _undo.pop()()


def _patch() -> None:
  owner = tf.compat.v1.estimator.Estimator
  original = owner._call_model_fn

  @functools.wraps(original)
  def call_model_fn(
    estimator: Any, features: Any, labels: Any, mode: str, config: Any
  ) -> tf.estimator.EstimatorSpec:
    replacement = _replacement.get()
    if replacement is None:
      return original(estimator, features, labels, mode, config)
    kept = estimator._model_fn
    estimator._model_fn = replacement(estimator, mode)
    try:
      return original(estimator, features, labels, mode, config)
    finally:
      estimator._model_fn = kept

  def unpatch() -> None:
    owner._call_model_fn = original

  owner._call_model_fn = call_model_fn
  _undo.append(unpatch)


def around_each_save(
  saver: Any, act: Callable[..., contextlib.AbstractContextManager[None]]
) -> None:
  """Enters a context manager while a Saver saves.

  Args:
    saver: A `tf.compat.v1.train.Saver`, this one only.
    act: Returns the context manager; called with the session, the path of the
      checkpoint without its step, and the step, as they were given to
      `Saver.save`.
  """
  save = saver.save

  @functools.wraps(save)
  def acting_save(
    sess: tf.compat.v1.Session,
    save_path: str,
    global_step: Any = None,
    *args: Any,
    **kwargs: Any,
  ) -> str | None:
    with act(sess, save_path, global_step):
      path: str | None = save(sess, save_path, global_step, *args, **kwargs)
    return path

  saver.save = acting_save


def for_one_training(hooks: Iterable[Any]) -> list[Any]:
  """Returns hooks for one of several calls of `train` with the same ones.

  Hooks that save checkpoints are copied: with the Saver of another graph, a
  second call would save what nobody hears of.

  Args:
    hooks: The hooks, those that save as they were before the first call.
  """
  return [_for_one_training(hook) for hook in hooks]


def _for_one_training(hook: Any) -> Any:
  if not isinstance(hook, tf.compat.v1.train.CheckpointSaverHook):
    return hook
  copied: Any = copy.copy(hook)
  copied._listeners = list(copied._listeners)
  return copied


@contextlib.contextmanager
def errors_end_sessions() -> Iterator[None]:
  """Lets each error of a step out of the sessions of Estimators.

  Without it, a session that loses a task makes itself anew, in its own way.
  Of this process, in all threads.

  Yields:
    None.
  """
  module: Any = importlib.import_module(
    "tensorflow.python.training.monitored_session"
  )
  errors = module._PREEMPTION_ERRORS
  module._PREEMPTION_ERRORS = ()
  try:
    yield
  finally:
    module._PREEMPTION_ERRORS = errors


def evaluate_until(
  estimator: Any, train_spec: Any, eval_spec: Any, is_over: Callable[[], bool]
) -> None:
  """Evaluates each new checkpoint, as `train_and_evaluate` in an evaluator.

  Args:
    estimator: The Estimator, which is an evaluator's.
    train_spec: The TrainSpec, whose last step ends it, too.
    eval_spec: The EvalSpec.
    is_over: Whether to end; asked before each look for a checkpoint.
  """
  training: Any = importlib.import_module(
    "tensorflow_estimator.python.estimator.training"
  )

  class Listener(training._ContinuousEvalListener):
    def before_eval(self) -> bool:
      return not is_over()

  training._TrainingExecutor(
    estimator, train_spec, eval_spec, continuous_eval_listener=Listener()
  ).run()
