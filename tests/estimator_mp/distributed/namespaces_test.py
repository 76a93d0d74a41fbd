"""Machines of a test reach each other, and nobody else reaches them."""

import os
import socket
import subprocess
import sys

from tests.estimator_mp.distributed import namespaces

from absl.testing import absltest

_PORT = 7070
_SERVE = f"""
import socket
server = socket.create_server(("", {_PORT}))
print("listens", flush=True)
while True:
  connection, (host, _) = server.accept()
  connection.sendall(host.encode())
  connection.close()
"""
_ASK = """
import socket, sys
with socket.create_connection((sys.argv[1], %d), float(sys.argv[2])) as asked:
  print(asked.recv(100).decode())
"""
_ASK %= _PORT


def _python(machines, number, program, *arguments):
  command = [sys.executable, "-I", "-S", "-c", program, *arguments]
  return subprocess.Popen(
    [*machines.command(number), *command],
    stdout=subprocess.PIPE,
    stderr=subprocess.DEVNULL,
    text=True,
  )


class MachinesTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.before = os.readlink("/proc/self/ns/net"), socket.if_nameindex()
    self.machines = self.enter_context(namespaces.machines(self, 3))

  def _ask(self, number, other, seconds=600):
    """Returns who a machine is for another one; empty if it is not heard."""
    arguments = self.machines.addresses[other], str(seconds)
    with _python(self.machines, number, _ASK, *arguments) as process:
      return process.communicate()[0].strip()

  def test_they_reach_each_other_until_a_cable_is_out(self):
    for number in range(3):
      process = self.enter_context(_python(self.machines, number, _SERVE))
      self.addCleanup(process.kill)
      self.assertEqual(process.stdout.readline(), "listens\n")
    for number, other in ((0, 1), (2, 0), (1, 1)):
      self.assertEqual(
        self._ask(number, other), self.machines.addresses[number]
      )
    self.machines.cut(1)
    self.assertEqual(self._ask(0, 1, seconds=1), "")
    self.assertEqual(self._ask(0, 2), self.machines.addresses[0])
    self.machines.mend(1)
    self.assertEqual(self._ask(0, 1), self.machines.addresses[0])

  def test_nothing_is_changed_outside(self):
    process = self.enter_context(_python(self.machines, 0, _SERVE))
    self.addCleanup(process.kill)
    process.stdout.readline()
    self.assertEqual(self.machines.listening(0), {_PORT})
    self.assertEmpty(self.machines.listening(1))
    inside = namespaces.listening_sockets(process.pid)
    self.assertNoCommonElements(inside, namespaces.listening_sockets())
    after = os.readlink("/proc/self/ns/net"), socket.if_nameindex()
    self.assertEqual(after, self.before)


if __name__ == "__main__":
  absltest.main()
