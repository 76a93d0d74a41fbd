"""A task that answers, or does not, as a test wants it."""

from concurrent import futures

import grpc

_GET_STATUS = "/tensorflow.WorkerService/GetStatus"


class FakeTask:
  """Answers as TensorFlow's server does when it is asked for its status.

  Attributes:
    address: Where it listens.
  """

  def __init__(self, job="worker", index=0):
    self._answer = f"/job:{job}/replica:0/task:{index}/device:CPU:0".encode()
    self._start = 0
    self._server = grpc.server(futures.ThreadPoolExecutor(4))
    self._server.add_generic_rpc_handlers([self])
    port = self._server.add_insecure_port("localhost:0")
    self.address = f"localhost:{port}"
    self._server.start()

  def service(self, details):
    """Returns who handles a call: is what gRPC asks."""
    if details.method != _GET_STATUS:
      return None
    return grpc.unary_unary_rpc_method_handler(self._status)

  def _status(self, request, context):
    del request, context
    return self._answer + str(self._start).encode()

  def start_anew(self):
    """Answers as another process from now on."""
    self._start += 1

  def close(self):
    """Ends it."""
    self._server.stop(0).wait()
