"""A network of the cluster's own: nothing of it is seen from outside."""

import os
import pathlib
import re
import socket
from unittest import mock

from estimator_mp.cli.launching import launch_flags, network
from estimator_mp.cluster import ports
from estimator_mp.distributed import network as network_check
from tests.estimator_mp.cli import command_runs
from tests.estimator_mp.cli.launching import launched
from tests.estimator_mp.distributed import namespaces

from absl.testing import absltest, parameterized

# A task listens as TensorFlow does, whatever its address is, until it may end.
_LISTEN = (
  launched.WHO
  + """
import socket
_, port = config["cluster"][job][index].split(":")
server = socket.socket()
server.bind(("", int(port)))
server.listen()
for name in (f"pid_{os.getpid()}", f"uid_{os.getuid()}", f"port_{port}"):
  open(name, "w").close()
names = [name for _, name in socket.if_nameindex()]
if job == "chief":
  while sum(x.startswith("port_") for x in os.listdir()) < 2: time.sleep(.01)
  address, port = config["cluster"]["worker"][0].split(":")
  socket.create_connection((address, int(port))).close()
  print("reached", os.readlink("/proc/self/ns/net"))
while not os.path.exists("end"): time.sleep(.01)
"""
)


def _main(*arguments):
  """Returns the exit code and standard error of the command, run here."""
  code, _, errors = command_runs.run(launch_flags.COMMAND.main, *arguments)
  return code, errors


class NetworkTest(parameterized.TestCase):
  def _words(self, folder, kind):
    return [
      path.name.removeprefix(f"{kind}_")
      for path in folder.iterdir()
      if path.name.startswith(f"{kind}_")
    ]

  def test_nothing_listens_outside(self):
    launched.skip_without_namespaces(self)
    folder = pathlib.Path(self.create_tempdir().full_path)
    with launched.started(
      *("--tasks=2", "--", *launched.python(_LISTEN)), cwd=folder
    ) as launcher:
      launched.wait_until(lambda: len(self._words(folder, "port")) == 2)
      listening = {int(x) for x in self._words(folder, "port")}
      (task, *_) = self._words(folder, "pid")
      inside = namespaces.listening_sockets(task)
      self.assertContainsSubset(listening, {port for port, _ in inside})
      self.assertNoCommonElements(inside, namespaces.listening_sockets())
      # A port is another one outside, where another program may have it.
      for port in filter(ports.reserve, listening):
        with self.assertRaises(ConnectionRefusedError):
          socket.create_connection(("127.0.0.1", port))
      # What tasks write is the user's.
      self.assertEqual(self._words(folder, "uid"), [str(os.getuid())])
      owners = {path.stat().st_uid for path in folder.iterdir()}
      self.assertEqual(owners, {os.getuid()})
      (folder / "end").touch()
      output, errors = launcher.communicate(timeout=600)
    self.assertEqual(launcher.returncode, 0, errors)
    self.assertRegex(output, r"^\[chief 0\] reached net:\[\d+\]\n$")
    self.assertNotIn(os.readlink("/proc/self/ns/net"), output)
    self.assertIn("chief 0, worker 0 in a network of their own; logs", errors)

  def test_who_is_not_root_has_one_in_a_user_namespace(self):
    launched.skip_without_namespaces(self)
    real = network._unshare
    tried = []

    def refuse_the_first(flags):
      tried.append(flags)
      if len(tried) == 1:
        raise PermissionError(1, "Operation not permitted")
      real(flags)

    reading, writing = os.pipe()
    child = os.fork()
    if not child:
      with mock.patch.object(network, "_unshare", refuse_the_first):
        try:
          network.enter()
          names = [name for _, name in socket.if_nameindex()]
          server = socket.create_server(("127.0.0.1", 0))
          socket.create_connection(server.getsockname()).close()
          text = f"{os.getuid()} {os.getgid()} {names}"
        except OSError as error:
          text = f"refused: {error.strerror}"
        os.write(writing, text.encode())
      os._exit(0)
    os.close(writing)
    with open(reading) as file:
      text = file.read()
    os.waitpid(child, 0)
    if text.startswith("refused"):
      self.skipTest(f"no user namespace is permitted here: {text}")
    self.assertStartsWith(text, f"{os.getuid()} {os.getgid()} ['lo'")

  @parameterized.parameters(
    ([], ["eth0", "ib0"], 2, "({}), ... here on eth0, ib0; ... --network=host"),
    ([], [], 0, "chief 0 on loopback; no network ... permitted ({}); logs in "),
    ([launched.HOST], ["eth0"], 0, "...NOT in one of their own: ... eth0, "),
  )
  def test_where_it_is_not_permitted(self, arguments, interfaces, code, said):
    """The host's has to be chosen, unless nobody reaches it."""
    reason = "Operation not permitted"
    found = {"outer_interfaces": lambda: tuple(interfaces)}
    with (
      mock.patch.object(network, "reason_against", lambda: reason),
      mock.patch.multiple(network_check, **found),
    ):
      ended, errors = _main(
        f"--log_dir={self.create_tempdir().full_path}",
        *(*arguments, "--tasks=1", "--", "true"),
      )
    self.assertEqual(ended, code)
    expected = re.escape(said.replace("{}", reason)).replace(r"\.\.\.", ".*")
    self.assertRegex(errors, f"^launch: .*{expected}")
    self.assertLen(errors.splitlines(), 1)


if __name__ == "__main__":
  absltest.main()
