"""Names of tf.contrib.tpu."""

from compat.contrib import absent

import tensorflow as tf

# `from ... import ABSENT` then asks the import system, which explains.
__path__: list[str] = []
__getattr__ = absent.getter(__name__)

InputPipelineConfig = tf.compat.v1.estimator.tpu.InputPipelineConfig
RunConfig = tf.compat.v1.estimator.tpu.RunConfig
TPUConfig = tf.compat.v1.estimator.tpu.TPUConfig
TPUEstimator = tf.compat.v1.estimator.tpu.TPUEstimator
TPUEstimatorSpec = tf.compat.v1.estimator.tpu.TPUEstimatorSpec

CrossShardOptimizer = tf.compat.v1.tpu.CrossShardOptimizer
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
