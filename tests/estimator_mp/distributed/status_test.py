"""The one server of a process, and asking tasks whether they serve."""

import socket
import time
from unittest import mock

import estimator_mp
from estimator_mp.cluster import tasks as tasks_lib
from estimator_mp.distributed import server, status
from tests.estimator_mp.distributed import clocks, clusters

import tensorflow as tf
from absl.testing import absltest

_CHIEF = tasks_lib.Task("chief", 0)
_WORKER = tasks_lib.Task("worker", 0)
# However busy the machine is.
_LONG = 600.0


class StatusTest(absltest.TestCase):
  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.cluster = clusters.make_cluster(chief=1, worker=1)
    cls.address = cls.cluster["chief"][0]
    cls.server = tf.distribute.Server(cls.cluster, "chief", 0)

  def test_a_server_says_who_it_is(self):
    with status.Probe(self.address) as probe:
      first, second = probe.ask(_LONG), probe.ask(_LONG)
    self.assertEqual(first.task, _CHIEF)
    self.assertEqual(first, second)

  def test_a_server_that_was_started_anew_is_another_start(self):
    cluster = clusters.make_cluster(chief=1)
    again = tf.distribute.Server(cluster, "chief", 0)
    with (
      status.Probe(self.address) as one,
      status.Probe(cluster["chief"][0]) as other,
    ):
      first, second = one.ask(_LONG), other.ask(_LONG)
      self.assertEqual(first.task, second.task)
      self.assertNotEqual(first.start, second.start)
    del again

  def test_nobody_answers_where_nobody_listens(self):
    with status.Probe(self.cluster["worker"][0]) as probe:
      self.assertIsNone(probe.ask())

  def test_a_process_that_is_stopped_does_not_answer(self):
    with socket.create_server(("localhost", 0)) as silent:
      address = f"localhost:{silent.getsockname()[1]}"
      started = time.monotonic()
      with status.Probe(address) as probe:
        self.assertIsNone(probe.ask(0.5))
      self.assertLess(time.monotonic() - started, 60)

  def test_a_server_that_comes_later_answers(self):
    cluster = clusters.make_cluster(chief=1)
    with status.Probe(cluster["chief"][0]) as probe:
      self.assertIsNone(probe.ask())
      server = tf.distribute.Server(cluster, "chief", 0)
      status.wait_until_all_answer({_CHIEF: cluster["chief"][0]}, _LONG)
      end = time.monotonic() + _LONG
      while probe.ask() is None:
        self.assertLess(time.monotonic(), end)
    del server

  def test_the_error_names_role_and_address(self):
    addresses = {_CHIEF: self.address, _WORKER: self.cluster["worker"][0]}
    with self.assertRaisesRegex(
      status.TaskError,
      f"^worker 0 at {addresses[_WORKER]} .* within 0.5 s; .* startup_timeout$",
    ):
      status.wait_until_all_answer(addresses, 0.5)

  def test_the_log_names_all_tasks_that_are_waited_for_each_minute(self):
    ps = tasks_lib.Task("ps", 0)
    addresses = {_CHIEF: "a:1", _WORKER: "b:2", ps: "c:3"}
    clock = clocks.Clock()

    def ask(probe):
      del probe
      return status.Status(None, b"") if clock.now >= 1100.0 else None

    with (
      mock.patch.object(status, "time", clock),
      mock.patch.object(status.Probe, "ask", ask),
      self.assertLogs("tensorflow", "WARNING") as logged,
    ):
      status.wait_until_all_answer(addresses, 600.0)
    names = "chief 0 at a:1, worker 0 at b:2, ps 0 at c:3"
    ends = "the run starts when they answer, and ends after startup_timeout=600"
    self.assertEqual(
      [record.getMessage() for record in logged.records],
      [
        f"no answer yet, after {seconds} s, from {names}; {ends}"
        for seconds in (10, 70)
      ],
    )

  def test_one_that_is_cut_off_takes_no_time_from_others(self):
    addresses = {_CHIEF: "a:1", _WORKER: "b:2"}
    clock, asked = clocks.Clock(), []

    def ask(probe):
      asked.append(probe)
      if probe is asked[0]:  # The chief answers the second time.
        return status.Status(None, b"") if len(asked) > 1 else None
      clock.sleep(2.0)
      return None

    with (
      mock.patch.object(status, "time", clock),
      mock.patch.object(status.Probe, "ask", ask),
      self.assertRaisesRegex(status.TaskError, "^worker 0 at b:2 did not"),
    ):
      status.wait_until_all_answer(addresses, 1.0)

  def test_another_task_at_the_address_is_an_error(self):
    with self.assertRaisesRegex(
      status.TaskError, f"^{self.address} is chief 0 .* that it is worker 0;"
    ):
      status.wait_until_all_answer({_WORKER: self.address}, _LONG)


def _no_server_yet():
  """As in a process that has none."""
  return mock.patch.object(server, "_started", [])


class ServerTest(absltest.TestCase):
  def test_one_server_in_a_process(self):
    addresses = clusters.make_cluster(chief=1, worker=1)
    jobs = {job: tuple(of_job) for job, of_job in addresses.items()}
    chief = tasks_lib.Cluster(jobs, _CHIEF)
    with clusters.task(chief.jobs, "chief"):
      small = estimator_mp.run_config(estimator_mp.ShardingConfig("stage:2"))
      large = estimator_mp.run_config(estimator_mp.ShardingConfig("stage:8"))
    with _no_server_yet():
      first = server.serve(chief, small, True)
      self.assertIs(server.serve(chief, small, True), first)
      with self.assertRaisesRegex(
        ValueError, r"server of chief 0 has 2 CPU device\(s\) .* needs 4;"
      ):
        server.serve(chief, large, True)
      other = tasks_lib.Cluster(jobs, _WORKER)
      with self.assertRaisesRegex(
        ValueError, "^this process already serves as chief 0 of another"
      ):
        server.serve(other, small, True)

  def test_addresses_have_a_port(self):
    jobs = {"chief": ("localhost",), "worker": ("localhost:1",)}
    cluster = tasks_lib.Cluster(jobs, _CHIEF)
    with clusters.task(jobs, "chief"):
      config = estimator_mp.run_config(estimator_mp.ShardingConfig("stage:2"))
    with (
      _no_server_yet(),
      self.assertRaisesRegex(
        status.TaskError, "^chief 0 cannot serve at localhost: .* host:port$"
      ),
    ):
      server.serve(cluster, config, True)


if __name__ == "__main__":
  absltest.main()
