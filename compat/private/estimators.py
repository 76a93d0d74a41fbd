"""Private names of tf.estimator's Estimators, and of their Savers.

Tested with the tensorflow-estimator 2.15.0 wheel, on TensorFlow 2.15.1 and
2.21.0; compat's tests look for each name.

- `Estimator._model_fn`, `_config` and `_session_config` are what an Estimator
  was made of; publicly they can only be given to a new one.
- `Estimator._call_model_fn` is where every Estimator calls its model_fn, also
  one that another Estimator makes while it trains. `intercepted_calls` stands
  before it while it is entered.
- `TPUEstimator._ctx` tells whether it uses a TPU.
- `Saver.save` is public, but nothing tells when somebody calls it.
"""

import contextlib
import contextvars
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

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
