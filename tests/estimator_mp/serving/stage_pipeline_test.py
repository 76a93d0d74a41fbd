"""Requests go through stages that are served, in order and at the same time."""

import os
import socket
import tempfile
import threading
from unittest import mock

from estimator_mp.serving import (
  export_stages,
  messages,
  pipeline_file,
  stage_pipeline,
  stage_process,
  stage_server,
)
from tests import tiers
from tests.estimator_mp.serving import chains, served_models

import grpc
import numpy as np
import tensorflow as tf
from absl.testing import absltest

_PATIENCE = 600


def setUpModule():
  tf.get_logger().setLevel("FATAL")


def _exported(seed):
  """Returns the stages of a model that has trained from a seed."""
  folder = tempfile.mkdtemp(dir=absltest.TEST_TMPDIR.value)
  model = served_models.MODELS["tables"]
  estimator = chains.trained(model, folder, seed)
  receiver_fn = served_models.receiver_fn("word")
  return export_stages.export_stages(estimator, folder, receiver_fn)


class ServedTest(absltest.TestCase):
  """A model of three stages, each served in this process."""

  folder = ""

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    if ServedTest.folder:  # For all classes of this file.
      return
    ServedTest.folder = _exported(seed=4)
    local = chains.Chain(ServedTest.folder)
    ServedTest.request = {"word": served_models.WORDS}
    ServedTest.expected = local.run("serving_default", ServedTest.request)

  def _serve(self):
    """Returns a server of each stage."""
    servers = []
    for number in range(3):
      folder = os.path.join(self.folder, f"stage_{number}")
      servers.append(stage_server.StageServer(folder))
      self.addCleanup(servers[-1].stop)
    return servers

  def _pipeline(self, servers, **options):
    pipeline = stage_pipeline.StagePipeline(
      self.folder, [x.address for x in servers], **options
    )
    self.addCleanup(pipeline.close)
    return pipeline

  def _change(self, servers, number, before):
    """Lets a stage do something before it computes."""
    runner = servers[number].runner
    run = runner.run

    def changed(signature, inputs):
      before(inputs)
      return run(signature, inputs)

    self.enter_context(mock.patch.object(runner, "run", changed))


class PipelineTest(ServedTest):
  def test_requests_of_any_size_in_order(self):
    pipeline = self._pipeline(self._serve())
    self.assertEqual([*pipeline.inputs], ["word"])
    self.assertCountEqual(pipeline.outputs, ["name", "output"])
    words = served_models.WORDS
    sizes = [7, 1, 3, 2, 0, 5] * 3
    found = [*pipeline.predict({"word": words[:n]} for n in sizes)]
    self.assertLen(found, len(sizes))
    for outputs, size in zip(found, sizes, strict=True):
      self.assertLen(outputs["name"], size)
      np.testing.assert_allclose(
        outputs["output"], self.expected["output"][:size], rtol=1e-6, atol=1e-6
      )
      self.assertEqual([*outputs["name"]], [*self.expected["name"][:size]])

  def test_all_stages_work_at_the_same_time(self):
    """Each waits in a request until the others are in the ones beside it."""
    servers = self._serve()
    together = threading.Barrier(3)
    counts = [0, 0, 0]

    def meet(number):
      def before(inputs):
        del inputs
        counts[number] += 1
        if counts[number] + number == 3:
          together.wait(_PATIENCE)

      return before

    for number in range(3):
      self._change(servers, number, meet(number))
    pipeline = self._pipeline(servers)
    self.assertLen([*pipeline.predict([self.request] * 5)], 5)
    self.assertFalse(together.broken)
    self.assertEqual(counts, [5, 5, 5])

  def test_no_more_requests_are_taken_than_are_under_way(self):
    pipeline = self._pipeline(self._serve(), in_flight=2)
    taken = []

    def requests():
      for number in range(10):
        taken.append(number)
        yield self.request

    for number, _ in enumerate(pipeline.predict(requests())):
      self.assertLessEqual(len(taken), number + 1 + 2)
    self.assertLen(taken, 10)

  def test_a_stage_computes_one_request_at_a_time(self):
    servers = self._serve()
    inside = threading.Lock()

    def alone(inputs):
      del inputs
      self.assertTrue(inside.acquire(blocking=False))
      threading.Event().wait(0.002)
      inside.release()

    self._change(servers, 0, alone)
    pipeline = self._pipeline(servers, in_flight=8)
    self.assertLen([*pipeline.predict([self.request] * 16)], 16)


class FailureTest(ServedTest):
  """What fails names the stage and where it is, in one line."""

  def _assert_error(self, expression, call, *args, **kwargs):
    with self.assertRaisesRegex(
      stage_pipeline.StageError, expression
    ) as raised:
      call(*args, **kwargs)
    self.assertNotIn("\n", str(raised.exception))

  @tiers.slow
  def test_a_deadline(self):
    servers = self._serve()
    pipeline = self._pipeline(servers, deadline_seconds=5.0)
    pipeline.run(self.request)
    end = threading.Event()
    self._change(servers, 1, lambda _: end.wait(_PATIENCE))
    self._assert_error(
      rf"^stage 1 at {servers[1].address} has not answered in 5 s; give it a ",
      pipeline.run,
      self.request,
    )
    end.set()
    self.assertCountEqual(pipeline.run(self.request), self.expected)

  def test_an_op_that_fails(self):
    servers = self._serve()
    pipeline = self._pipeline(servers)

    def fail(inputs):
      del inputs
      raise tf.errors.InvalidArgumentError(None, None, "no\n  good")

    with mock.patch.object(servers[2].runner, "run", lambda *_: fail(_)):
      self._assert_error(
        rf"^stage 2 at {servers[2].address} failed: no good$",
        pipeline.run,
        self.request,
      )
    pipeline.run(self.request)

  def test_a_server_that_has_gone(self):
    servers = self._serve()
    pipeline = self._pipeline(servers)
    servers[1].stop()
    self._assert_error(
      rf"^stage 1 at {servers[1].address} is not reachable: ",
      list,
      pipeline.predict([self.request] * 3),
    )

  def test_addresses(self):
    servers = self._serve()
    here = [x.address for x in servers]
    with socket.socket() as free:
      free.bind(("127.0.0.1", 0))
      nobody = f"127.0.0.1:{free.getsockname()[1]}"
      self._assert_error(
        rf"^stage 2 at {nobody} is not reachable: ",
        stage_pipeline.StagePipeline,
        self.folder,
        [*here[:2], nobody],
      )
    self._assert_error(
      rf"^stage 0 at {here[1]} serves stage 1 of the chain \w+, and not stage",
      stage_pipeline.StagePipeline,
      self.folder,
      [here[1], here[0], here[2]],
    )
    for addresses, expression in (
      (here[:2], r"^there are 2 address\(es\) for 3 stage\(s\); give one for"),
      ([*here[:2], "8500"], r"^the address '8500' is not host:port; write it "),
    ):
      with self.assertRaisesRegex(ValueError, expression):
        stage_pipeline.StagePipeline(self.folder, addresses)

  def test_a_stage_of_another_training_is_refused(self):
    """Its structure and its step are equal, and the answer was wrong."""
    other = _exported(seed=5)
    server = stage_server.StageServer(os.path.join(other, "stage_1"))
    self.addCleanup(server.stop)
    here = [x.address for x in self._serve()]
    chain, another = (
      pipeline_file.read(x).identity for x in (self.folder, other)
    )
    self._assert_error(
      rf"^stage 1 at {server.address} serves stage 1 of the chain {another}, "
      f"and not stage 1 of {chain}; give the addresses",
      stage_pipeline.StagePipeline,
      self.folder,
      [here[0], server.address, here[2]],
    )

  def test_what_a_pipeline_is_told(self):
    for options, expression in (
      ({"signature": "x"}, "^signature='x' is not one .*are serving_default$"),
      ({"in_flight": 0}, "^in_flight=0 is too small; use 1 or more$"),
      ({"deadline_seconds": 0}, "^deadline_seconds=0 is too small; use such"),
      ({"folder": "/nowhere"}, r"^/nowhere holds no pipeline.json; give the f"),
    ):
      with self.assertRaisesRegex(ValueError, expression):
        stage_pipeline.StagePipeline(**{"folder": self.folder, **options})

  def test_a_message_that_no_signature_allows_is_not_read(self):
    with mock.patch.object(messages, "longest_request", lambda _: 1000):
      servers = self._serve()
    pipeline = self._pipeline(servers)
    pipeline.run({"word": ["a"]})
    self._assert_error(
      rf"^stage 0 at {servers[0].address} failed: SERVER: Received message "
      r"larger than max \(\d+ vs. 1000\)$",
      pipeline.run,
      {"word": ["a" * 1001]},
    )

  def test_messages_that_make_no_sense(self):
    (server, *_) = self._serve()
    channel = grpc.insecure_channel(server.address)
    self.addCleanup(channel.close)
    run = channel.unary_unary(f"/{messages.SERVICE}/{messages.RUN}")
    for message, expression in (
      (b"\xff", "^the message has no tensors: "),
      (messages.encode("x", {}), "^'x' is not a signature; there are serving_"),
      (messages.encode("serving_default", {}), "^serving_default takes word, "),
    ):
      with self.assertRaises(grpc.RpcError) as raised:
        run(message, timeout=_PATIENCE)
      self.assertEqual(
        raised.exception.code(), grpc.StatusCode.INVALID_ARGUMENT
      )
      self.assertRegex(raised.exception.details(), expression)


class ProcessesTest(ServedTest):
  @tiers.slow
  def test_processes_start_fail_and_end(self):
    with stage_pipeline.StagePipeline(self.folder) as pipeline:
      processes = [*pipeline._processes.values()]
      outputs = pipeline.run(self.request)
      np.testing.assert_allclose(
        outputs["output"], self.expected["output"], rtol=1e-6, atol=1e-6
      )
      for address in pipeline.addresses:
        self.assertStartsWith(address, "127.0.0.1:")
      os.kill(processes[1].pid, 9)
      with self.assertRaisesRegex(
        stage_pipeline.StageError,
        rf"^stage 1 at {pipeline.addresses[1]} has ended, with exit code -9$",
      ):
        pipeline.run(self.request)
    for process in processes:
      self.assertIsNotNone(process._process.returncode)

  @tiers.slow
  def test_a_stage_that_cannot_be_loaded(self):
    process = stage_process.StageProcess(4, "/nowhere")
    self.addCleanup(process.stop)
    with self.assertRaisesRegex(
      RuntimeError, "^stage 4 could not be loaded: there is no /nowhere/stage.j"
    ):
      process.wait_until_ready()


if __name__ == "__main__":
  absltest.main()
