"""Processes on loopback that train one model: the losses of one process."""

import estimator_mp  # noqa: F401
from tests import tiers
from tests.estimator_mp.distributed import clusters, equal_runs

from absl.testing import absltest


class TrainAndEvaluateTest(equal_runs.EqualRunsCase):
  @tiers.slow
  def test_three_processes_train_as_one(self):
    """Three runs of one program: the servers of the first do for the others."""
    made, path = self.make_runs(
      *tiers.sample(["hybrid", "stages", "inputs", "parts"])
    )
    cluster = clusters.make_cluster(chief=1, worker=2)
    with clusters.Processes(cluster) as processes:
      for job, index in equal_runs.TASKS:
        # gRPC would look for tasks by a proxy, and wait.
        proxy = {"http_proxy": "http://localhost:9", "no_proxy": "elsewhere"}
        processes.start(job, index, equal_runs.MODULE, path, **proxy)
      for job, index in equal_runs.TASKS:
        code = processes.wait(job, index)
        self.assertEqual(code, 0, processes.output(job, index))
    self.assert_equal(made)


if __name__ == "__main__":
  absltest.main()
