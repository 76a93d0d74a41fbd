"""The one server of a process."""

from unittest import mock

import estimator_mp
from estimator_mp.cluster import tasks as tasks_lib
from estimator_mp.distributed import server, status
from tests.estimator_mp.distributed import clusters

from absl.testing import absltest

_CHIEF = tasks_lib.Task("chief", 0)
_WORKER = tasks_lib.Task("worker", 0)


def _no_server_yet():
  """As in a process that has none."""
  return mock.patch.object(server, "_started", [])


class ServerTest(absltest.TestCase):
  def test_one_server_in_a_process(self):
    addresses = clusters.make_cluster(chief=1, worker=1)
    jobs = {job: tuple(of_job) for job, of_job in addresses.items()}
    chief = tasks_lib.Cluster(jobs, _CHIEF)
    with clusters.task(chief.jobs, "chief"):
      small = estimator_mp.run_config(estimator_mp.ShardingConfig("stage:2"))
      large = estimator_mp.run_config(estimator_mp.ShardingConfig("stage:8"))
    with _no_server_yet():
      first = server.serve(chief, small, True)
      self.assertIs(server.serve(chief, small, True), first)
      with self.assertRaisesRegex(
        ValueError,
        r"^the server of chief 0 has 2 CPU device\(s\) since the first run of "
        "this process, and this one needs 4; train the larger mesh first, or "
        "in a process of its own$",
      ):
        server.serve(chief, large, True)
      other = tasks_lib.Cluster(jobs, _WORKER)
      with self.assertRaisesRegex(
        ValueError,
        "^this process already serves as chief 0 of another cluster, and "
        "TensorFlow cannot stop its server; start a process for each "
        "TF_CONFIG$",
      ):
        server.serve(other, small, True)

  def test_addresses_have_a_port(self):
    jobs = {"chief": ("localhost",), "worker": ("localhost:1",)}
    cluster = tasks_lib.Cluster(jobs, _CHIEF)
    with clusters.task(jobs, "chief"):
      config = estimator_mp.run_config(estimator_mp.ShardingConfig("stage:2"))
    with (
      _no_server_yet(),
      self.assertRaisesRegex(
        status.TaskError,
        "^chief 0 cannot serve at localhost: .*; write the addresses of "
        "TF_CONFIG as host:port$",
      ),
    ):
      server.serve(cluster, config, True)


if __name__ == "__main__":
  absltest.main()
