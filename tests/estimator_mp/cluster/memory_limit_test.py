"""A limit of memory: threads have small stacks where they count as data."""

from tests.compat import processes

from absl.testing import absltest

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
