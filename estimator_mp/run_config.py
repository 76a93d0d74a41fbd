"""RunConfig for a sharded run: sessions that hold and obey the mesh."""

import os

from estimator_mp import config as config_lib
from estimator_mp import devices, one_process

import tensorflow as tf


def run_config(
  config: config_lib.ShardingConfig,
  model_dir: str | None = None,
  **run_config_kwargs,
) -> tf.estimator.RunConfig:
  """Returns a RunConfig whose sessions hold and obey a mesh.

  - Hard placement (`allow_soft_placement=False`): an op that cannot run where
    it was placed is an error, not a silent move to the first device.
  - As many CPU devices as the mesh names.
  - A thread pool per session with a thread per device. TensorFlow otherwise
    shares one pool in the process, sized by the first session, and a small
    pool makes the devices take turns.

  Args:
    config: The sharding.
    model_dir: Where checkpoints and summaries go.
    **run_config_kwargs: Anything else `tf.estimator.RunConfig` takes. A
      `session_config` given here keeps all it says that the list above does
      not, and is not changed itself. With a `tpu_config`, the result is the
      RunConfig that a `TPUEstimator` (with `use_tpu=False`) asks for.

  Returns:
    A new `tf.estimator.RunConfig`.

  Raises:
    ValueError: If `TF_CONFIG` names several tasks, or there is a distribution
      strategy.
  """
  given = run_config_kwargs.pop("session_config", None)
  kind = tf.estimator.RunConfig
  if "tpu_config" in run_config_kwargs:
    kind = tf.compat.v1.estimator.tpu.RunConfig
  made = kind(
    model_dir=model_dir,
    session_config=session_config(config, given),
    **run_config_kwargs,
  )
  one_process.check_run_config(made, config.create_mesh())
  return made


def session_config(
  config: config_lib.ShardingConfig,
  base: tf.compat.v1.ConfigProto | None = None,
) -> tf.compat.v1.ConfigProto:
  """Returns a session configuration that holds and obeys a mesh.

  Args:
    config: The sharding.
    base: Settings to start from; not changed. None for an Estimator's
      defaults.

  Returns:
    A new `ConfigProto`; `run_config` says what it sets.
  """
  config_lib.check_config(config)
  mesh = config.create_mesh()
  proto = tf.compat.v1.ConfigProto()
  if base is not None:
    proto.CopyFrom(base)
  else:
    # As an Estimator without a session_config has it; a second iteration
    # rewrites graphs otherwise, which changes how numbers are rounded.
    options = proto.graph_options.rewrite_options
    options.meta_optimizer_iterations = options.ONE
  proto.allow_soft_placement = False
  proto.use_per_session_threads = True
  cpus = devices.num_virtual_cpus(mesh.devices)
  proto.device_count["CPU"] = max(proto.device_count.get("CPU", 1), cpus)
  threads = max(mesh.size, os.cpu_count() or 1)
  proto.inter_op_parallelism_threads = max(
    proto.inter_op_parallelism_threads, threads
  )
  return proto
