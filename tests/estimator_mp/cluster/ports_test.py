"""What a process has for itself: ports of this machine, and small stacks."""

import os
import pathlib
import socket

from estimator_mp.cluster import ports
from tests.compat import processes

from absl.testing import absltest


class PortsTest(absltest.TestCase):
  def test_ports_are_free_and_none_of_those_of_connections(self):
    found = ports.free_ports(20)
    self.assertLen({*found}, 20)
    path = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range")
    lowest = int(path.read_text().split()[0])
    if lowest > 20_000:
      self.assertLess(max(found), lowest)

  def test_a_port_is_one_process_s_only(self):
    ask = (
      "import sys; from estimator_mp.cluster import ports;"
      " print(ports.reserve(int(sys.argv[1])))"
    )

    def reserve(port):
      return processes.run("-c", ask, str(port)).stdout

    (port,) = ports.free_ports(1)
    self.assertFalse(ports.reserve(port))
    self.assertEqual(reserve(port), "False\n")
    (other,) = ports.free_ports(1)
    os.close(ports._reserved.pop())
    self.assertEqual(reserve(other), "True\n")
    # The process has ended, and its ports are free again.
    self.assertTrue(ports.reserve(other))

  def test_a_port_at_which_somebody_listens_is_taken(self):
    with socket.create_server(("127.0.0.1", 0)) as server:
      self.assertFalse(ports.reserve(server.getsockname()[1]))


# A thread waits, and the growth of the process's data is printed, in KiB.
_PROGRAM = """
import resource, sys, threading
from estimator_mp.cluster import memory_limit

def data():
  with open("/proc/self/status") as file:
    (line,) = [x for x in file if x.startswith("VmData:")]
  return int(line.split()[1])

if sys.argv[1] == "limited":
  resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, -1))
memory_limit.reserve_small_stacks()
waits = threading.Event()
before = data()
threads = [threading.Thread(target=waits.wait) for _ in range(8)]
for thread in threads:
  thread.start()
print((data() - before) // 8)
waits.set()
"""


class ReserveSmallStacksTest(absltest.TestCase):
  def _stack(self, *arguments):
    return int(processes.run("-c", _PROGRAM, *arguments).stdout)

  def test_where_stacks_count_as_data(self):
    self.assertBetween(self._stack("limited"), 512, 1024)

  def test_not_without_a_limit(self):
    self.assertGreater(self._stack("free"), 2048)


if __name__ == "__main__":
  absltest.main()
