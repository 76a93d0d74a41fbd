"""Training steps of a model axis, as they really were."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import estimator_mp
from estimator_mp import devices
from estimator_mp.graph import op_types
from estimator_mp.observe import executed_graph

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


# How many rows of tables are whose is in the ids of a batch.
_ROWS = re.compile("/look_up/|/own/")

_MADE_AGAIN = "/replicate/_"


class ObservedStep:
  """A step that has run, from the first values of all variables.

  Attributes:
    graph: What was executed, put together from its partitions.
    transfers: What devices sent each other, without signals.
  """

  @classmethod
  def of_model(
    cls,
    model_fn: Callable[..., Any],
    params: Any,
    examples: Mapping[str, np.ndarray],
    num_parts: int,
  ) -> "ObservedStep":
    """Trains a model on parts for a step, in the default graph.

    Args:
      model_fn: The model_fn.
      params: Its params, if it takes some.
      examples: The features, and "labels".
      num_parts: The number of devices.
    """
    fed = {
      name: v1.placeholder(value.dtype, [None, *value.shape[1:]])
      for name, value in examples.items()
    }
    # A placeholder that is fed has another name where it runs.
    features = {name: tf.identity(tensor) for name, tensor in fed.items()}
    labels = features.pop("labels")
    v1.train.get_or_create_global_step()
    config = estimator_mp.ShardingConfig(f"model:{num_parts}")
    sharded = estimator_mp.shard_model_fn(model_fn, config)
    arguments = {} if params is None else {"params": params}
    mode = tf.estimator.ModeKeys.TRAIN
    spec = sharded(features, labels, mode, **arguments)
    feed = {fed[name]: value for name, value in examples.items()}
    return cls(spec.train_op, feed, num_parts)

  def __init__(self, train_op: Any, feed: Mapping[Any, Any], num_parts: int):
    """Runs the step.

    Args:
      train_op: What it computes.
      feed: What is fed.
      num_parts: The number of devices.
    """
    names = [f"/device:CPU:{i}" for i in range(num_parts)]
    devices.check_local_devices_exist(names)
    config = v1.ConfigProto(
      device_count={"CPU": num_parts}, allow_soft_placement=False
    )
    # Its optimizer renames and joins ops.
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    start = tf.group(
      v1.global_variables_initializer(), v1.local_variables_initializer()
    )
    self._feed = feed
    self._session = v1.Session(config=config)
    self._session.run(start)
    metadata = v1.RunMetadata()
    options = v1.RunOptions(output_partition_graphs=True)
    self._session.run(train_op, feed, options, metadata)
    partitions = metadata.partition_graphs
    self.graph = executed_graph.ExecutedGraph(partitions)
    sent = executed_graph.measured_transfers(partitions)
    self.transfers = [x for x in sent if not x.is_signal]

  def sent(self) -> list[tuple[str, int]]:
    """Returns the ops whose outputs were sent, but for rows, and the bytes.

    And but for sizes, which are a few integers that the plan does not know.

    From 2.21 on TensorFlow makes a small constant again instead of sending it.
    """
    sent = [(x.op, x.output) for x in self.transfers if not _ROWS.search(x.op)]
    for node, device in self.graph.device_of.items():
      name, again, _ = node.partition(_MADE_AGAIN)
      if again:
        own = self._session.graph.get_operation_by_name(name).device
        sent += [(name, 0)] if device != own else []
    values = self.values({f"{op}:{output}" for op, output in sent})
    found = [(op, values[f"{op}:{output}"]) for op, output in sent]
    return [(op, value.nbytes) for op, value in found if not _is_sizes(value)]

  def device_of(self, source: tuple[str, int]) -> str:
    """Returns where an input of a node was made, and perhaps sent from.

    Args:
      source: One of those that the graph's `inputs_of` returns.
    """
    name, _ = source
    if self.graph.nodes[name].op in op_types.RECEIVES:
      ((name, _),) = self.graph.inputs_of(name)
    return self.graph.device_of[name]

  def values(self, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Returns the values of tensors in a step like it.

    Args:
      names: Their names.
    """
    found: dict[str, np.ndarray] = self._session.run(
      {name: name for name in names}, self._feed
    )
    return found


def _is_sizes(value: np.ndarray) -> bool:
  """Whether a value is that of a shape, or an axis."""
  is_vector = value.ndim < 2 and value.size <= 8
  return bool(value.dtype.kind == "i" and is_vector)
