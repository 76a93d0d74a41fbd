"""tf.contrib.layers.optimize_loss."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

_train = tf.compat.v1.train

OPTIMIZER_CLS_NAMES: dict[str, Callable[..., Any]] = {
  "Adagrad": _train.AdagradOptimizer,
  "Adam": _train.AdamOptimizer,
  "Ftrl": _train.FtrlOptimizer,
  "Momentum": lambda learning_rate: _train.MomentumOptimizer(
    learning_rate, momentum=0.9
  ),
  "RMSProp": _train.RMSPropOptimizer,
  "SGD": _train.GradientDescentOptimizer,
}

OPTIMIZER_SUMMARIES = ("learning_rate", "loss", "gradients", "gradient_norm")


def optimize_loss(
  loss: Any,
  global_step: Any,
  learning_rate: Any,
  optimizer: Any,
  gradient_noise_scale: float | None = None,
  gradient_multipliers: Mapping[Any, Any] | None = None,
  clip_gradients: Any = None,
  learning_rate_decay_fn: Callable[[Any, Any], Any] | None = None,
  update_ops: Sequence[Any] | None = None,
  variables: Sequence[Any] | None = None,
  name: str | None = None,
  summaries: Sequence[str] | None = None,
  colocate_gradients_with_ops: bool = False,
  increment_global_step: bool = True,
) -> Any:
  """Returns an operation that makes one training step and gives the loss.

  Args:
    loss: a scalar.
    global_step: the step's variable; the graph's by default, if it has one.
    learning_rate: a float, which becomes the variable "learning_rate", or a
      scalar tensor, or None to leave it to the optimizer.
    optimizer: a name of OPTIMIZER_CLS_NAMES, a class or function of a learning
      rate, or an optimizer.
    gradient_noise_scale: not supported.
    gradient_multipliers: factors of gradients, by variable or variable name.
    clip_gradients: the largest global norm, or a function from (gradient,
      variable) pairs to such pairs.
    learning_rate_decay_fn: called with (learning_rate, global_step).
    update_ops: run before the loss counts; those of UPDATE_OPS by default.
    variables: to train; all trainable ones by default.
    name: the variable scope; "OptimizeLoss" by default.
    summaries: which of OPTIMIZER_SUMMARIES to write; the first two by default.
    colocate_gradients_with_ops: whether gradients are computed where the
      forward operations are.
    increment_global_step: whether the step is counted.

  Returns:
    A scalar: the loss, once the step is made.

  Raises:
    ValueError: if an argument is not of the kinds above, or no variable has a
      gradient.
  """
  if gradient_noise_scale is not None:
    raise ValueError(
      f"gradient_noise_scale={gradient_noise_scale!r} is not supported by "
      "compat's optimize_loss; add the noise in clip_gradients."
    )
  summaries = ("learning_rate", "loss") if summaries is None else summaries
  for one in summaries:
    if one not in OPTIMIZER_SUMMARIES:
      raise ValueError(
        f"summaries has {one!r}; it may have {', '.join(OPTIMIZER_SUMMARIES)}."
      )
  loss = tf.convert_to_tensor(loss)
  if global_step is None:
    global_step = _train.get_global_step()
  with tf.compat.v1.variable_scope(name, "OptimizeLoss", [loss, global_step]):
    graph_keys = tf.compat.v1.GraphKeys
    if update_ops is None:
      update_ops = tf.compat.v1.get_collection(graph_keys.UPDATE_OPS)
    if update_ops:
      with tf.control_dependencies(list(update_ops)):
        loss = tf.identity(loss)
    rate = _learning_rate(learning_rate)
    if learning_rate_decay_fn is not None:
      if rate is None or global_step is None:
        raise ValueError(
          "learning_rate_decay_fn needs a learning_rate and a global_step."
        )
      rate = learning_rate_decay_fn(rate, global_step)
    made = _optimizer(optimizer, rate)
    gradients = made.compute_gradients(
      loss,
      variables or tf.compat.v1.trainable_variables(),
      colocate_gradients_with_ops=colocate_gradients_with_ops,
    )
    gradients = _multiply(gradients, gradient_multipliers or {})
    gradients = _clip(gradients, clip_gradients)
    _summarize(summaries, rate, loss, gradients)
    step = made.apply_gradients(
      gradients, global_step if increment_global_step else None, "train"
    )
    with tf.control_dependencies([step]):
      return tf.identity(loss)


def _learning_rate(learning_rate: Any) -> Any:
  if learning_rate is None or tf.is_tensor(learning_rate):
    return learning_rate
  if isinstance(learning_rate, tf.Variable):
    return learning_rate
  if not isinstance(learning_rate, float) or learning_rate < 0:
    raise ValueError(
      f"learning_rate={learning_rate!r} must be a float of at least 0.0, a "
      "scalar tensor, or None."
    )
  return tf.compat.v1.get_variable(
    "learning_rate",
    [],
    trainable=False,
    initializer=tf.compat.v1.constant_initializer(learning_rate),
  )


def _optimizer(optimizer: Any, rate: Any) -> Any:
  if isinstance(optimizer, _train.Optimizer):
    return optimizer
  if isinstance(optimizer, str):
    if optimizer not in OPTIMIZER_CLS_NAMES:
      raise ValueError(
        f"optimizer={optimizer!r} must be one of "
        f"{', '.join(OPTIMIZER_CLS_NAMES)}."
      )
    optimizer = OPTIMIZER_CLS_NAMES[optimizer]
  if not callable(optimizer):
    raise ValueError(
      f"optimizer={optimizer!r} must be a name, a class, a function of a "
      "learning rate, or an optimizer."
    )
  if rate is None:
    if isinstance(optimizer, type):
      raise ValueError(
        f"learning_rate is None, but {optimizer.__name__} needs one."
      )
    return optimizer()
  return optimizer(learning_rate=rate)


def _multiply(gradients: list[Any], factors: Mapping[Any, Any]) -> list[Any]:
  """Multiplies the gradients of the variables that have a factor."""
  result = []
  for gradient, variable in gradients:
    key = variable.ref() if isinstance(variable, tf.Variable) else variable
    named = variable.op.name
    by_variable = {
      one.ref() if isinstance(one, tf.Variable) else one: factor
      for one, factor in factors.items()
    }
    factor = by_variable.get(key, by_variable.get(named))
    if factor is None or gradient is None:
      result.append((gradient, variable))
    elif isinstance(gradient, tf.IndexedSlices):
      values = gradient.values * tf.cast(factor, gradient.dtype)
      scaled = tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
      result.append((scaled, variable))
    else:
      result.append((gradient * tf.cast(factor, gradient.dtype), variable))
  return result


def _clip(gradients: list[Any], clip: Any) -> list[Any]:
  if clip is None:
    return gradients
  if callable(clip):
    return list(clip(gradients))
  if not isinstance(clip, (int, float)):
    raise ValueError(
      f"clip_gradients={clip!r} must be a number, a function or None."
    )
  values, variables = zip(*gradients, strict=True)
  clipped, _ = tf.clip_by_global_norm(values, clip)
  return list(zip(clipped, variables, strict=True))


def _summarize(
  summaries: Sequence[str], rate: Any, loss: Any, gradients: list[Any]
) -> None:
  """Adds the summaries that are asked for to the graph."""
  summary = tf.compat.v1.summary
  if "learning_rate" in summaries and rate is not None:
    summary.scalar("learning_rate", rate)
  if "loss" in summaries:
    summary.scalar("loss", loss)
  values = [(g, v) for g, v in gradients if g is not None]
  if "gradients" in summaries:
    for gradient, variable in values:
      dense = tf.convert_to_tensor(gradient)
      summary.histogram(f"gradients/{variable.op.name}", dense)
  if "gradient_norm" in summaries and values:
    norm = tf.linalg.global_norm([gradient for gradient, _ in values])
    summary.scalar("global_norm/gradient_norm", norm)
