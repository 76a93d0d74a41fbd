"""Three machines (network namespaces) with own addresses train one model."""

import time

import estimator_mp  # noqa: F401
from tests.estimator_mp.distributed import clusters, equal_runs, namespaces

from absl.testing import absltest

_PORT = 2222
_SECONDS = 600


class NetworkNamespacesTest(equal_runs.EqualRunsCase):
  def test_three_machines_train_as_one(self):
    machines = self.enter_context(namespaces.machines(self, 3))
    made, path = self.make_runs("hybrid")
    addresses = [f"{address}:{_PORT}" for address in machines.addresses]
    cluster = {"chief": addresses[:1], "worker": addresses[1:]}
    with clusters.Processes(cluster) as processes:
      started = [
        processes.start(
          *task, equal_runs.MODULE, path, within=machines.command(number)
        )
        for number, task in enumerate(equal_runs.TASKS)
      ]
      self._wait_until_all_listen(machines, started)
      for task in equal_runs.TASKS:
        code = processes.wait(*task)
        self.assertEqual(code, 0, processes.output(*task))
    self.assert_equal(made)

  def _wait_until_all_listen(self, machines, started):
    end = time.monotonic() + _SECONDS
    while any(_PORT not in machines.listening(i) for i in range(3)):
      self.assertLess(time.monotonic(), end, "not all tasks have served")
      self.assertEqual([process.poll() for process in started], [None] * 3)
      time.sleep(0.1)


if __name__ == "__main__":
  absltest.main()
