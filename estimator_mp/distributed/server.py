"""The server of this task: one for the life of the process.

A `tf.distribute.Server` cannot be stopped, so a second run in the same program
goes on with the first one's.
"""

from estimator_mp import devices
from estimator_mp.cluster import tasks as tasks_lib
from estimator_mp.distributed import network, status
from estimator_mp.session import session_config

import tensorflow as tf

v1 = tf.compat.v1


# The server of this process, and its cluster.
_started: list[tuple[tasks_lib.Cluster, tf.distribute.Server]] = []


def serve(
  cluster: tasks_lib.Cluster,
  run_config: tf.estimator.RunConfig,
  trusted_network: bool,
) -> tf.distribute.Server:
  """Starts the server of this task, or returns the one that is started.

  Args:
    cluster: The cluster; its `task` is this process.
    run_config: The Estimator's. Its session_config says how many devices and
      threads the server has.
    trusted_network: Whether only who may use the server can reach it.

  Raises:
    ValueError: If the network is not trusted, or this process already serves as
      something else.
    TaskError: If its address is malformed, or the port cannot be had.
  """
  if _started:
    serves, server = _started[0]
    _check_same(serves, server, cluster, run_config)
    return server
  config = _server_config(run_config.session_config)
  address = cluster.address(cluster.task)
  port = address.rpartition(":")[2]
  network.check_network(cluster, trusted_network)
  network.reach_directly(cluster)
  try:
    server = tf.distribute.Server(
      {job: list(addresses) for job, addresses in cluster.jobs.items()},
      job_name=cluster.task.job,
      task_index=cluster.task.index,
      protocol=run_config.protocol,
      config=config,
    )
  except tf.errors.InvalidArgumentError as error:
    raise status.TaskError(
      f"{cluster.task} cannot serve at {address}: {error.message}; write the "
      "addresses of TF_CONFIG as host:port"
    ) from error
  except tf.errors.OpError as error:
    raise status.TaskError(
      f"{cluster.task} cannot serve at {address}: port {port} is not "
      "available; another program may use it, such as an earlier run; end that "
      "program, or give the task another port in TF_CONFIG"
    ) from error
  _started.append((cluster, server))
  return server


def _server_config(
  of_session: tf.compat.v1.ConfigProto,
) -> tf.compat.v1.ConfigProto:
  """Returns the part of a session's settings that is the server's."""
  config = v1.ConfigProto()
  config.CopyFrom(of_session)
  # These are of one session.
  config.ClearField("device_filters")
  config.ClearField("isolate_session_state")
  return config


def _check_same(
  serves: tasks_lib.Cluster,
  server: tf.distribute.Server,
  cluster: tasks_lib.Cluster,
  run_config: tf.estimator.RunConfig,
) -> None:
  """Raises if a server does not do for another run."""
  if serves != cluster:
    raise ValueError(
      f"this process already serves as {serves.task} of another "
      "cluster, and TensorFlow cannot stop its server; start a process for "
      "each TF_CONFIG"
    )
  prefix = cluster.task.device_prefix
  of_run = session_config.sharded_run_of(run_config)
  names = [
    name.removeprefix(prefix)
    for name in (of_run.devices if of_run else ())
    if devices.task_of(name) == prefix
  ]
  needs = devices.num_virtual_cpus(names)
  counts = server.server_def.default_session_config.device_count
  there_are = max(1, counts.get("CPU", 1))
  if there_are < needs:
    raise ValueError(
      f"the server of {cluster.task} has {there_are} CPU device(s) "
      f"since the first run of this process, and this one needs {needs}; train "
      "the larger mesh first, or in a process of its own"
    )
