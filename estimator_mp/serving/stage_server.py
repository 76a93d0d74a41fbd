"""A server of one stage, over gRPC.

It computes one request at a time, and reads the next ones meanwhile. So a
request has the stage's device for itself, and several stages work on several
requests at the same time. There is no authentication, and nothing is encrypted:
it listens on this machine alone unless it is told otherwise.
"""

import json
import threading
from concurrent import futures
from typing import Any

from estimator_mp.serving import messages, stage_runner

import grpc
import tensorflow as tf

LOOPBACK = "127.0.0.1"
_MOST_WAITING = 256
# One computes, others read what comes and write what goes.
_THREADS = 4


class StageServer:
  """Serves one stage until it is stopped.

  Attributes:
    address: Where it listens: host:port.
    runner: The stage.
  """

  def __init__(self, folder: str, listen: str = LOOPBACK, port: int = 0):
    """Loads the stage and begins to listen.

    Args:
      folder: The folder of the stage.
      listen: The address to listen on, or the name of this machine.
      port: The port; 0 for one that is free.

    Raises:
      ValueError: If the stage cannot be loaded, or it cannot listen there.
    """
    self.runner = stage_runner.StageRunner(folder)
    self._computing = threading.Lock()
    self._server = grpc.server(
      futures.ThreadPoolExecutor(_THREADS),
      maximum_concurrent_rpcs=_MOST_WAITING,
      options=[*messages.OPTIONS, ("grpc.so_reuseport", 0)],
    )
    handlers = {
      messages.RUN: grpc.unary_unary_rpc_method_handler(self._run),
      messages.DESCRIBE: grpc.unary_unary_rpc_method_handler(self._describe),
    }
    self._server.add_generic_rpc_handlers(
      [grpc.method_handlers_generic_handler(messages.SERVICE, handlers)]
    )
    host = f"[{listen}]" if ":" in listen else listen
    try:
      bound = self._server.add_insecure_port(f"{host}:{port}")
    except RuntimeError:
      bound = 0
    if not bound:
      self.runner.close()
      raise ValueError(
        f"cannot listen on {listen}:{port}; another program may have the port, "
        "or this machine no such address"
      )
    self.address = f"{host}:{bound}"
    self._server.start()

  def stop(self) -> None:
    """Ends it; requests that are under way fail."""
    self._server.stop(grace=None).wait()
    self.runner.close()

  def _run(self, message: bytes, context: Any) -> bytes:
    """Computes a request."""
    if not context.is_active():  # Whoever waited for it has given up.
      return b""
    try:
      signature, inputs = messages.decode(message)
      with self._computing:
        outputs = self.runner.run(signature, inputs)
      return messages.encode(signature, outputs)
    except (ValueError, tf.errors.InvalidArgumentError) as error:
      code = grpc.StatusCode.INVALID_ARGUMENT
      context.abort(code, messages.one_line(error))
    except tf.errors.OpError as error:
      context.abort(grpc.StatusCode.INTERNAL, messages.one_line(error))
    return b""

  def _describe(self, message: bytes, context: Any) -> bytes:
    """Says which stage of which chain it serves."""
    del message, context
    return json.dumps(self.runner.description).encode()
