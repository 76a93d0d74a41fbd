"""Who can reach this machine, and how its connections are ended."""

import fcntl
import os
import socket
import struct
from unittest import mock

from estimator_mp.cluster import tasks as tasks_lib
from estimator_mp.distributed import connections, network

from absl.testing import absltest

_UP, _LOOPBACK = 0x1, 0x8
_ADDRESSES = {"chief": ("a:1",), "worker": ("b:1",)}
_CLUSTER = tasks_lib.Cluster(_ADDRESSES, tasks_lib.Task("worker", 0))


def _interfaces(**flags):
  """A machine with interfaces, each with its flags; None for no answer."""

  def ioctl(asked, number, request):
    del asked, number
    name = request[:16].rstrip(b"\0").decode()
    if flags[name] is None:
      raise OSError
    return struct.pack("16sH14x", name.encode(), flags[name])

  stack = mock.patch.multiple(
    socket, if_nameindex=lambda: [*enumerate(flags, 1)]
  )
  return stack, mock.patch.object(fcntl, "ioctl", ioctl)


class NetworkTest(absltest.TestCase):
  def _outer(self, **flags):
    names, answers = _interfaces(**flags)
    with names, answers:
      return network.outer_interfaces()

  def test_interfaces_that_are_up_but_the_loopback(self):
    found = self._outer(lo=_UP | _LOOPBACK, eth0=_UP, eth1=0, odd=None)
    self.assertEqual(found, ("eth0", "odd"))
    self.assertEqual(self._outer(lo=_UP | _LOOPBACK), ())

  def test_this_machines_loopback_is_none(self):
    self.assertNotIn("lo", network.outer_interfaces())

  def test_serving_on_a_network_takes_somebodys_word(self):
    with mock.patch.object(network, "outer_interfaces", lambda: ("eth0",)):
      network.check_network(_CLUSTER, trusted_network=True)
      with self.assertRaisesRegex(
        ValueError,
        r"^worker 0 .*\(eth0\), .* but trusted_network=True .* launch",
      ):
        network.check_network(_CLUSTER, trusted_network=False)

  def test_an_evaluator_serves_nobody(self):
    evaluator = tasks_lib.Cluster(_ADDRESSES, tasks_lib.Task("evaluator", 0))
    alone = tasks_lib.Cluster({"chief": ("a:1",)}, tasks_lib.Task("chief", 0))
    with mock.patch.object(network, "outer_interfaces", lambda: ("eth0",)):
      network.check_network(evaluator, trusted_network=False)
      network.check_network(alone, trusted_network=False)

  def test_tasks_are_reached_without_a_proxy(self):
    for told, expected in (
      ({}, "a,b"),
      ({"no_proxy": "c"}, "c,a,b"),
      ({"no_grpc_proxy": "b,d", "no_proxy": "c"}, "b,d,a"),
    ):
      with mock.patch.dict(os.environ, told, clear=True):
        network.reach_directly(_CLUSTER)
        self.assertEqual(os.environ[network.DIRECT], expected)

  def test_on_the_loopback_alone_nobody_is_asked(self):
    with mock.patch.object(network, "outer_interfaces", tuple):
      network.check_network(_CLUSTER, trusted_network=False)


def _address(server):
  return f"localhost:{server.getsockname()[1]}"


class ConnectionsTest(absltest.TestCase):
  def test_who_waits_on_a_connection_hears_of_its_end(self):
    with socket.create_server(("localhost", 0)) as server:
      host, port = server.getsockname()
      with socket.create_connection((host, port), timeout=600) as client:
        self.assertEqual(connections.shut_down(_address(server)), 1)
        self.assertEqual(client.recv(1), b"")

  def test_connections_to_others_go_on(self):
    with (
      socket.create_server(("localhost", 0)) as server,
      socket.create_server(("localhost", 0)) as other,
      socket.create_connection(other.getsockname(), timeout=600) as client,
    ):
      self.assertEqual(connections.shut_down(_address(server)), 0)
      accepted, _ = other.accept()
      with accepted:
        accepted.sendall(b"x")
        self.assertEqual(client.recv(1), b"x")

  def test_an_address_of_nobody(self):
    self.assertEqual(connections.shut_down("nobody.invalid:1"), 0)


if __name__ == "__main__":
  absltest.main()
