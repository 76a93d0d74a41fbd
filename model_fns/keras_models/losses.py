"""The loss that `compile` asked for, of a batch.

It is what `Model.fit` minimizes: the mean of each output's loss over its
elements, weighted, and whatever layers and `add_loss` add. A mean divides by
the number of elements, not by the sum of the sample weights; where an
`Embedding(mask_zero=True)` masks steps, by the number of steps that count.
"""

from collections.abc import Callable, Sequence
from typing import Any

from model_fns.keras_models import masks
from model_fns.keras_models import outputs as outputs_lib

import tensorflow as tf


class FunctionLoss(tf.keras.losses.Loss):
  """A function of targets and outputs, as a loss of Keras.

  Like Keras's own, it lets a last dimension of 1 be left out.
  """

  def __init__(self, function: Callable[..., tf.Tensor]) -> None:
    name = getattr(function, "__name__", type(function).__name__)
    super().__init__(name=name)
    self._function = function

  def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
    """Returns the loss of each element."""
    return self._function(*_without_last_one(y_true, y_pred))


def make_loss(given: Any) -> tf.keras.losses.Loss | None:
  """Returns the loss object of one output.

  Args:
    given: A name, a function, a loss object, or None.

  Raises:
    ValueError: If its reduction leaves no number.
  """
  if given is None:
    return None
  found = tf.keras.losses.get(given)
  if not isinstance(found, tf.keras.losses.Loss):
    return FunctionLoss(found)
  if found.reduction == tf.keras.losses.Reduction.NONE:
    raise ValueError(
      f"the loss {found.name!r} has the reduction NONE, so that a batch has no "
      "loss; use SUM_OVER_BATCH_SIZE or SUM"
    )
  return found


def total_loss(
  outputs: outputs_lib.Outputs,
  labels: Any,
  sample_weights: Any,
  loss: Any,
  loss_weights: Any,
  added: Sequence[tf.Tensor],
) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
  """Returns the loss of a batch, and that of each output.

  Args:
    outputs: The outputs of the model.
    labels: The targets of each output.
    sample_weights: The weight of each example, for all outputs or for each;
      None for 1.
    loss: The loss of all outputs or of each.
    loss_weights: The weight of each output's loss; None for 1.
    added: Losses of regularizers and of `add_loss`.

  Returns:
    A float scalar, and the loss of each output that has one, by its name and
    without its weight.

  Raises:
    ValueError: If nothing is to be minimized.
  """
  rows = zip(
    outputs.names,
    outputs.flat,
    outputs.of_each(labels, "labels"),
    outputs.of_each(sample_weights, "sample_weight"),
    map(make_loss, outputs.of_each(loss, "loss")),
    outputs.of_each(loss_weights, "loss_weights"),
    strict=True,
  )
  values, by_output = [], {}
  for name, output, target, sample_weight, function, weight in rows:
    if function is None or target is None:
      continue
    target, sample_weight = conform(target, output, sample_weight)
    value = _value(function, target, output, sample_weight)
    by_output[name] = value
    values.append(value if weight is None else value * weight)
  values.extend(added)
  if not values:
    raise ValueError(
      "the model has no loss; compile it with a loss, or let it call add_loss"
    )
  common = _widest([value.dtype for value in values])
  return tf.add_n([tf.cast(value, common) for value in values]), by_output


def _value(
  function: tf.keras.losses.Loss,
  target: tf.Tensor,
  output: tf.Tensor,
  sample_weight: tf.Tensor | None,
) -> tf.Tensor:
  """Returns the loss of an output, a number.

  Keras multiplies a mask by what the mean over all steps has to be multiplied
  by, and takes that mean. Here it is the sum of what counts, divided by how
  much that is: so parts of the batch can be added up, each with a mask of its
  own.
  """
  mask = masks.mask_of(output)
  is_mean = function.reduction != tf.keras.losses.Reduction.SUM
  if mask is None or not is_mean:
    return function(target, output, sample_weight=sample_weight)
  values = function.call(target, output)
  mask = masks.like(tf.cast(mask, values.dtype), values)
  weights = mask
  if sample_weight is not None:
    weights *= masks.like(tf.cast(sample_weight, values.dtype), values)
  count = tf.reduce_sum(mask * tf.ones_like(values))
  return tf.reduce_sum(values * weights) / count


def conform(
  target: tf.Tensor, output: tf.Tensor, sample_weight: tf.Tensor | None
) -> tuple[tf.Tensor, tf.Tensor | None]:
  """Returns targets and weights in the form that Keras gives to a loss.

  Of outputs of the shape [batch, n], targets and weights of the shape [batch]
  become [batch, 1]. Numbers of the same kind get the outputs' type.

  Args:
    target: The targets of an output.
    output: The output.
    sample_weight: The weights of its examples, or None.
  """
  target = _expanded(target, output)
  of_one_kind = (target.dtype.is_floating and output.dtype.is_floating) or (
    target.dtype.is_integer and output.dtype.is_integer
  )
  if of_one_kind:
    target = tf.cast(target, output.dtype)
  if sample_weight is not None:
    sample_weight = tf.cast(_expanded(sample_weight, output), output.dtype)
  return target, sample_weight


def with_class_weight(
  outputs: outputs_lib.Outputs,
  labels: Any,
  sample_weights: Any,
  class_weight: Sequence[float],
) -> tf.Tensor:
  """Returns sample weights times the weight of each example's class.

  Args:
    outputs: The outputs of the model, which has to be one tensor.
    labels: Its targets: classes, or one-hot rows.
    sample_weights: The weights without that of the class, or None.
    class_weight: The weight of each class.

  Raises:
    ValueError: If the model has several outputs.
  """
  if len(outputs.names) != 1:
    raise ValueError(
      f"class_weight is for a model with one output, but this one has "
      f"{len(outputs.names)} ({', '.join(outputs.names)}); give sample_weight"
    )
  (target,) = outputs.of_each(labels, "labels")
  (sample_weight,) = outputs.of_each(sample_weights, "sample_weight")
  if target.shape.rank > 1 and target.shape[-1] != 1:
    classes = tf.argmax(target, axis=-1)
  else:
    if target.shape.rank > 1:
      target = tf.squeeze(target, axis=-1)
    if target.dtype.is_floating:
      target = tf.round(target)
    classes = tf.cast(target, tf.int64)
  weights = tf.gather(tf.constant(class_weight, tf.float32), classes)
  if sample_weight is None:
    return weights
  missing = weights.shape.rank - sample_weight.shape.rank
  for _ in range(missing):
    sample_weight = tf.expand_dims(sample_weight, axis=-1)
  return tf.cast(sample_weight, tf.float32) * weights


def _expanded(tensor: tf.Tensor, output: tf.Tensor) -> tf.Tensor:
  if tensor.shape.rank == 1 and output.shape.rank == 2:
    return tf.expand_dims(tensor, axis=-1)
  return tensor


def _without_last_one(
  target: tf.Tensor, output: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
  """Drops a last dimension of 1 that only one of both has."""
  if target.shape.rank is None or output.shape.rank is None:
    return target, output
  more = output.shape.rank - target.shape.rank
  if more == 1 and output.shape[-1] == 1:
    return target, tf.squeeze(output, axis=-1)
  if more == -1 and target.shape[-1] in (1, None):
    return tf.squeeze(target, axis=-1), output
  return target, output


def _widest(types: Sequence[tf.DType]) -> tf.DType:
  """Returns the floating type that loses nothing of any of these."""
  widest = max(types, key=lambda dtype: dtype.size)
  narrow = {dtype for dtype in types if dtype.size == widest.size}
  return widest if len(narrow) == 1 else tf.float32
