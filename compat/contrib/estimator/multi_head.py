"""A head of several heads."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compat.contrib.estimator.multi_label import step_of
from compat.private import wheel_names

import tensorflow as tf

_export = tf.compat.v1.estimator.export
_Modes = tf.compat.v1.estimator.ModeKeys
_SERVING = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


def multi_head(
  heads: Sequence[Any], head_weights: Sequence[float] | None = None
) -> Any:
  """Returns a head whose loss is the sum of other heads'.

  Labels are a dictionary by the heads' names. Logits are, too, or one tensor
  whose last axis has the logits of all heads.

  Args:
    heads: the heads, each with a name.
    head_weights: what each loss is multiplied with.

  Raises:
    ValueError: if there are no heads, one has no name, or weights are missing.
  """
  if not heads:
    raise ValueError(f"heads={heads!r} must have a head or more.")
  if head_weights and len(head_weights) != len(heads):
    raise ValueError(
      f"There are {len(heads)} heads, and {len(head_weights)} head_weights."
    )
  for head in heads:
    if not head.name:
      raise ValueError(f"The head {head} has no name. Each of heads needs one.")
  return _MultiHead(tuple(heads), tuple(head_weights or ()))


class _MultiHead(wheel_names.Head):
  """The head that multi_head returns."""

  def __init__(self, heads: tuple[Any, ...], weights: tuple[float, ...]):
    self._heads = heads
    self._weights = weights

  @property
  def name(self) -> str:
    return "_".join(head.name for head in self._heads)

  @property
  def logits_dimension(self) -> int:
    return sum(head.logits_dimension for head in self._heads)

  def _logits_by_head(self, logits: Any) -> Mapping[str, Any]:
    if isinstance(logits, Mapping):
      return logits
    found, begin = {}, 0
    for head in self._heads:
      end = begin + head.logits_dimension
      found[head.name] = logits[..., begin:end]
      begin = end
    return found

  def _merged_loss(self, losses: Sequence[Any]) -> Any:
    with tf.compat.v1.name_scope("merge_losses"):
      if self._weights:
        losses = [
          loss * weight
          for loss, weight in zip(losses, self._weights, strict=True)
        ]
      return tf.add_n(losses)

  def create_loss(
    self, features: Any, mode: str, logits: Any, labels: Mapping[str, Any]
  ) -> Any:
    by_head = self._logits_by_head(logits)
    specs = {
      head.name: head.create_loss(
        features, mode, by_head[head.name], labels[head.name]
      )
      for head in self._heads
    }
    factors = dict(zip(specs, self._weights or [1.0] * len(specs), strict=True))
    return wheel_names.LossSpec(
      training_loss=self._merged_loss(
        [spec.training_loss for spec in specs.values()]
      ),
      unreduced_loss={
        name: one.unreduced_loss * factors[name] for name, one in specs.items()
      },
      weights={
        name: one.weights * factors[name] for name, one in specs.items()
      },
      processed_labels={
        name: one.processed_labels for name, one in specs.items()
      },
    )

  def create_estimator_spec(
    self,
    features: Any,
    mode: str,
    logits: Any,
    labels: Any = None,
    optimizer: Any = None,
    train_op_fn: Callable[[Any], Any] | None = None,
  ) -> Any:
    if isinstance(logits, Mapping):
      missing = {head.name for head in self._heads} - set(logits)
      if missing:
        raise ValueError(
          f"logits have {', '.join(logits)}, and none for "
          f"{', '.join(sorted(missing))}."
        )
    by_head = self._logits_by_head(logits)
    specs = [
      head.create_estimator_spec(
        features=features,
        mode=mode,
        logits=by_head[head.name],
        labels=None if labels is None else labels[head.name],
        train_op_fn=_no_train_op if mode == _Modes.TRAIN else None,
      )
      for head in self._heads
    ]
    if mode == _Modes.PREDICT:
      return self._predict_spec(specs)
    if mode == _Modes.EVAL:
      return self._eval_spec(specs)
    loss = self._merged_loss([spec.loss for spec in specs])
    # In no scope of names, and without the updates that layers ask for: as on
    # 1.15, whose checkpoints have "beta1_power".
    train_op = step_of(loss, optimizer, train_op_fn)
    with tf.compat.v1.name_scope(""):
      tf.compat.v1.summary.scalar("loss", loss)
    return tf.compat.v1.estimator.EstimatorSpec(
      mode=mode,
      predictions=self._predictions(specs),
      loss=loss,
      train_op=train_op,
    )

  def _predictions(self, specs: Sequence[Any]) -> dict[tuple[str, str], Any]:
    return {
      (head.name, key): tensor
      for head, spec in zip(self._heads, specs, strict=True)
      for key, tensor in spec.predictions.items()
    }

  def _eval_spec(self, specs: Sequence[Any]) -> Any:
    metrics: dict[str, Any] = {}
    with tf.compat.v1.name_scope("merge_eval"):
      for head, spec in zip(self._heads, specs, strict=True):
        key = f"loss/{head.name}"
        metrics[key] = tf.compat.v1.metrics.mean(spec.loss, name=key)
        metrics.update(spec.eval_metric_ops or {})
      loss = self._merged_loss([spec.loss for spec in specs])
    return tf.compat.v1.estimator.EstimatorSpec(
      mode=_Modes.EVAL,
      predictions=self._predictions(specs),
      loss=loss,
      eval_metric_ops=metrics,
    )

  def _predict_spec(self, specs: Sequence[Any]) -> Any:
    outputs = {_SERVING: specs[0].export_outputs[_SERVING]}
    together: dict[str, Any] = {}
    for head, spec in zip(self._heads, specs, strict=True):
      for key, output in spec.export_outputs.items():
        name = head.name if key == _SERVING else f"{head.name}/{key}"
        outputs[name] = output
        if key == "predict" and isinstance(output, _export.PredictOutput):
          together.update(
            {f"{head.name}/{one}": it for one, it in output.outputs.items()}
          )
    outputs["predict"] = _export.PredictOutput(together)
    return tf.compat.v1.estimator.EstimatorSpec(
      mode=_Modes.PREDICT,
      predictions=self._predictions(specs),
      export_outputs=outputs,
    )


def _no_train_op(loss: Any) -> Any:
  del loss
  return tf.no_op()
