"""Names of tf.contrib.tpu: models for TPUs, on a CPU or GPU.

Programs run with use_tpu=False; TensorFlow on a TPU is 2.15's, see
docs/migrating.md. Checkpoints are saved in the thread that trains. Refused are
`keras_to_tpu_model` and `TPUDistributionStrategy` (tf.distribute.TPUStrategy),
and `profiler`.
"""

from typing import Any

from compat.contrib import packages
from compat.private import kept_names

import tensorflow as tf

__path__: list[str] = __path__
__getattr__ = packages.getter(__name__, kept_names.PLACES["tpu"])

_estimators = tf.compat.v1.estimator.tpu
_experimental = tf.tpu.experimental

InputPipelineConfig = _estimators.InputPipelineConfig
RunConfig = _estimators.RunConfig
TPUConfig = _estimators.TPUConfig
TPUEstimator = _estimators.TPUEstimator
TPUEstimatorSpec = _estimators.TPUEstimatorSpec

CrossShardOptimizer = tf.compat.v1.tpu.CrossShardOptimizer
DeviceAssignment = _experimental.DeviceAssignment
Topology = _experimental.Topology
bfloat16_scope = tf.compat.v1.tpu.bfloat16_scope
batch_parallel = tf.compat.v1.tpu.batch_parallel
core = tf.compat.v1.tpu.core
cross_replica_sum = tf.compat.v1.tpu.cross_replica_sum
initialize_system = tf.compat.v1.tpu.initialize_system
outside_compilation = tf.compat.v1.tpu.outside_compilation
replicate = tf.compat.v1.tpu.replicate
rewrite = tf.compat.v1.tpu.rewrite
shard = tf.compat.v1.tpu.shard
shutdown_system = tf.compat.v1.tpu.shutdown_system


class AsyncCheckpointSaverHook(tf.compat.v1.train.CheckpointSaverHook):
  """Saves checkpoints, in the thread that trains."""


def device_assignment(
  topology: Any,
  computation_shape: Any = None,
  computation_stride: Any = None,
  num_replicas: int = 1,
) -> Any:
  """Returns which cores of a TPU compute which replica.

  Args:
    topology: of the TPU.
    computation_shape: how many cores a replica has, in each direction.
    computation_stride: cores from one to the next, in each direction.
    num_replicas: how many replicas.
  """
  return DeviceAssignment.build(
    topology, computation_shape, computation_stride, num_replicas
  )


def infeed_dequeue(dtype: Any, shape: Any, name: str | None = None) -> Any:
  """Returns what the host has sent to the TPU."""
  return tf.raw_ops.InfeedDequeue(dtype=dtype, shape=shape, name=name)


def infeed_dequeue_tuple(
  dtypes: Any, shapes: Any, name: str | None = None
) -> Any:
  """Returns the tensors that the host has sent to the TPU."""
  return tf.raw_ops.InfeedDequeueTuple(dtypes=dtypes, shapes=shapes, name=name)


def infeed_enqueue(
  input: Any,
  shape: Any = (),
  layout: Any = (),
  device_ordinal: int = -1,
  name: str | None = None,
) -> Any:
  """Sends a tensor from the host to a TPU."""
  return tf.raw_ops.InfeedEnqueue(
    input=input,
    shape=shape,
    layout=list(layout),
    device_ordinal=device_ordinal,
    name=name,
  )


def infeed_enqueue_tuple(
  inputs: Any,
  shapes: Any,
  layouts: Any = (),
  device_ordinal: int = -1,
  name: str | None = None,
) -> Any:
  """Sends tensors from the host to a TPU."""
  return tf.raw_ops.InfeedEnqueueTuple(
    inputs=inputs,
    shapes=shapes,
    layouts=list(layouts),
    device_ordinal=device_ordinal,
    name=name,
  )


def outfeed_dequeue(
  dtype: Any, shape: Any, device_ordinal: int = -1, name: str | None = None
) -> Any:
  """Returns what a TPU has sent to the host."""
  return tf.raw_ops.OutfeedDequeue(
    dtype=dtype, shape=shape, device_ordinal=device_ordinal, name=name
  )


def outfeed_dequeue_tuple(
  dtypes: Any, shapes: Any, device_ordinal: int = -1, name: str | None = None
) -> Any:
  """Returns the tensors that a TPU has sent to the host."""
  return tf.raw_ops.OutfeedDequeueTuple(
    dtypes=dtypes, shapes=shapes, device_ordinal=device_ordinal, name=name
  )


def outfeed_enqueue(input: Any, name: str | None = None) -> Any:
  """Sends a tensor from the TPU to the host."""
  return tf.raw_ops.OutfeedEnqueue(input=input, name=name)


def outfeed_enqueue_tuple(inputs: Any, name: str | None = None) -> Any:
  """Sends tensors from the TPU to the host."""
  return tf.raw_ops.OutfeedEnqueueTuple(inputs=inputs, name=name)
