"""Three machines (network namespaces) with own addresses train one model."""

import estimator_mp  # noqa: F401
from tests import tiers
from tests.estimator_mp.distributed import clusters, namespaces
from tests.estimator_mp.distributed import recorded_program as program

from absl.testing import absltest

_PROGRAM = "tests.estimator_mp.distributed.recorded_program"
_STEPS = 6


@tiers.slow
class NetworkNamespacesTest(absltest.TestCase):
  def test_three_machines_train_as_one(self):
    machines = self.enter_context(namespaces.machines(self, 3))
    model_dir = self.create_tempdir().full_path
    addresses = [f"{address}:2222" for address in machines.addresses]
    cluster = {"chief": addresses[:1], "worker": addresses[1:]}
    tasks = [("chief", 0), ("worker", 0), ("worker", 1)]
    with clusters.Processes(cluster) as processes:
      for number, task in enumerate(tasks):
        processes.start(
          *(*task, _PROGRAM, model_dir, _STEPS, "data:2,stage:2"),
          within=machines.command(number),
          # gRPC would look for tasks by a proxy, and wait.
          http_proxy="http://localhost:9",
          no_proxy="elsewhere",
        )
      for task in tasks:
        code = processes.wait(*task)
        self.assertEqual(code, 0, processes.output(*task))
    program.assert_calm(self, model_dir, _STEPS, "data:2,stage:2")


if __name__ == "__main__":
  absltest.main()
