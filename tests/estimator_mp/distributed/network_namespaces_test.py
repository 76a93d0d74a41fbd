"""Three machines with addresses of their own train one model.

They are network namespaces; outside of them, nothing listens.
"""

import os
import pathlib
import re
import time

import estimator_mp  # noqa: F401
from tests import tiers
from tests.estimator_mp.distributed import clusters, equal_runs, namespaces

from absl.testing import absltest

_PORT = 2222
_SECONDS = 600


def _sockets(group):
  """Returns the numbers of all sockets of the processes of a group."""
  found = set()
  for folder in pathlib.Path("/proc").glob("[0-9]*"):
    try:
      if os.getpgid(int(folder.name)) == group:
        names = [os.readlink(path) for path in (folder / "fd").iterdir()]
        found |= {int(x) for x in re.findall(r"socket:\[(\d+)\]", str(names))}
    except OSError:  # It has ended, or has closed a file.
      pass
  return found


@tiers.slow
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
      self._assert_nothing_listens_outside(started)
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

  def _assert_nothing_listens_outside(self, started):
    """Asserts that no socket of the tasks is in the test's own network."""
    outside = {socket for _, socket in namespaces.listening_sockets()}
    for process in started:
      sockets = _sockets(process.pid)
      listening = namespaces.listening_sockets(process.pid)
      self.assertNotEmpty(sockets & {socket for _, socket in listening})
      self.assertEmpty(sockets & outside)


if __name__ == "__main__":
  absltest.main()
