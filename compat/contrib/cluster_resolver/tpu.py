"""The resolver of a TPU's cluster, which may be told that there is no TPU."""

from typing import Any

import tensorflow as tf

_NOT_TO_RESOLVE = ("", "local")


class TPUClusterResolver(
  tf.compat.v1.distribute.cluster_resolver.TPUClusterResolver
):
  """Finds a Cloud TPU, or leaves a session on this machine.

  A program that trains with use_tpu=False makes one for the TPU "": as in
  TensorFlow 1.15 that is its master, and there is no cluster.
  """

  def __init__(
    self,
    tpu: str | None = None,
    zone: str | None = None,
    project: str | None = None,
    job_name: str = "worker",
    coordinator_name: str | None = None,
    coordinator_address: str | None = None,
    credentials: Any = "default",
    service: Any = None,
    discovery_url: str | None = None,
  ):
    """Makes the resolver; see tf.distribute.cluster_resolver for the others.

    Args:
      tpu: the TPU's name or address; "" and "local" are not looked up.
      zone: of the TPU.
      project: of the TPU.
      job_name: the job of the TPU's workers.
      coordinator_name: the job of the coordinator, if there is one.
      coordinator_address: where the coordinator is.
      credentials: for the project.
      service: the API to ask, instead of Google's.
      discovery_url: where that API is described.
    """
    self._local_master = tpu if tpu in _NOT_TO_RESOLVE else None
    super().__init__(
      tpu if self._local_master is None else "local",
      zone,
      project,
      job_name,
      coordinator_name,
      coordinator_address,
      credentials,
      service,
      discovery_url,
    )

  def master(
    self,
    task_type: str | None = None,
    task_id: int | None = None,
    rpc_layer: str | None = None,
  ) -> str:
    """Returns what a session connects to."""
    if self._local_master is not None:
      return self._local_master
    return str(super().master(task_type, task_id, rpc_layer))

  def cluster_spec(self) -> Any:
    """Returns the TPU's cluster, None without one."""
    return None if self._local_master is not None else super().cluster_spec()

  @property
  def environment(self) -> str:
    """Where it runs: "google" without a TPU's cluster, as in 1.15."""
    if self._local_master is not None:
      return "google"
    return str(super().environment)
