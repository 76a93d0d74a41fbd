"""Ending connections of this process from outside of who uses them."""

import socket

from estimator_mp.distributed import connections

from absl.testing import absltest


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
