"""Replicas of a model_fn, which are those of whoever shards the model."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

_v1 = tf.compat.v1
_Optimizer: Any = _v1.train.Optimizer
_Reduction = _v1.losses.Reduction


def replicate_model_fn(
  model_fn: Callable[..., Any],
  loss_reduction: str = _Reduction.SUM_BY_NONZERO_WEIGHTS,
  devices: Sequence[str] | None = None,
) -> Callable[..., Any]:
  """Returns a model_fn that builds the given one once, for the whole batch.

  TensorFlow 1 built it for each device, with a part of the batch, and added up
  losses and gradients. If the model's loss is a sum and loss_reduction SUM, or
  it is a mean and loss_reduction another, that is the loss of the whole batch.
  Replicas are left to estimator_mp.shard_estimator, on the mesh "data:2".

  Args:
    model_fn: the model_fn.
    loss_reduction: how the model's loss is reduced, a tf.losses.Reduction.
    devices: those to train on, all GPUs by default; their number is logged.

  Raises:
    ValueError: if the losses are not reduced.
  """
  if loss_reduction == _Reduction.NONE:
    raise ValueError(
      f"loss_reduction={loss_reduction!r} must reduce the losses of replicas."
    )
  used = devices or tf.config.list_physical_devices("GPU") or ["/CPU:0"]
  _tell(len(used))
  accepted = inspect.signature(model_fn).parameters

  def built_once(
    features: Any,
    labels: Any,
    mode: str,
    params: Any = None,
    config: Any = None,
  ) -> Any:
    given = {"params": params, "config": config}
    return model_fn(
      features=features,
      labels=labels,
      mode=mode,
      **{name: value for name, value in given.items() if name in accepted},
    )

  return built_once


def _tell(devices: int) -> None:
  """Says in a line of log on how many devices the model is."""
  if devices == 1:
    _v1.logging.info(
      "replicate_model_fn: there is one device; the model is as it is."
    )
    return
  _v1.logging.warning(
    "replicate_model_fn: the model is built once, for the whole batch. To "
    "train it on %d devices, use estimator_mp.shard_estimator(estimator, "
    'estimator_mp.ShardingConfig("data:%d")).',
    devices,
    devices,
  )


class TowerOptimizer(_Optimizer):
  """Leaves all to another optimizer: gradients are the whole batch's."""

  COLLECTION_FOR_GRAPH_STATES = "replicate_model_fn_graph_states"

  def __init__(self, optimizer_or_optimizer_fn: Any):
    """Makes the optimizer.

    Args:
      optimizer_or_optimizer_fn: the other one, or a function that makes it when
        it is first asked for.
    """
    self._given = optimizer_or_optimizer_fn

  @staticmethod
  def has_been_used() -> bool:
    """Returns whether one has been, in the default graph."""
    return bool(_v1.get_collection(TowerOptimizer.COLLECTION_FOR_GRAPH_STATES))

  def _optimizer(self) -> Any:
    if callable(self._given):
      self._given = self._given()
    if not self.has_been_used():
      _v1.add_to_collection(self.COLLECTION_FOR_GRAPH_STATES, "used")
    return self._given

  def compute_gradients(self, loss: Any, *args: Any, **kwargs: Any) -> Any:
    """Returns what the other optimizer does."""
    return self._optimizer().compute_gradients(loss, *args, **kwargs)

  def apply_gradients(
    self, grads_and_vars: Any, global_step: Any = None, **kwargs: Any
  ) -> Any:
    """Returns what the other optimizer does."""
    return self._optimizer().apply_gradients(
      grads_and_vars, global_step, **kwargs
    )

  def get_slot(self, *args: Any, **kwargs: Any) -> Any:
    """Returns a slot of the other optimizer."""
    return self._optimizer().get_slot(*args, **kwargs)

  def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
    """Returns the names of the other optimizer's slots."""
    return self._optimizer().get_slot_names(*args, **kwargs)

  def get_name(self, *args: Any, **kwargs: Any) -> Any:
    """Returns the other optimizer's name."""
    return self._optimizer().get_name(*args, **kwargs)

  def variables(self, *args: Any, **kwargs: Any) -> Any:
    """Returns the other optimizer's variables."""
    return self._optimizer().variables(*args, **kwargs)
