"""A server of one stage, over gRPC.

It computes one request at a time, and reads the next ones meanwhile. So a
request has the stage's device for itself, and several stages work on several
requests at the same time. There is no authentication, and nothing is encrypted:
it listens on this machine alone unless it is told otherwise.
"""

import dataclasses
import json
import threading
from collections.abc import Callable, Mapping
from concurrent import futures
from typing import Any

from estimator_mp.serving import messages, pipeline_file

import grpc
import tensorflow as tf

v1 = tf.compat.v1
_SERVE = "serve"
LOOPBACK = "127.0.0.1"
_MOST_WAITING = 256
# One computes, others read requests and write answers.
_THREADS = 4


class StageRunner:
  """Computes one stage.

  Attributes:
    description: The description in the folder of the stage.
  """

  def __init__(self, folder: str):
    """Loads the SavedModel.

    Args:
      folder: The folder of the stage.

    Raises:
      ValueError: If it is no folder of a stage, or cannot be loaded.
    """
    self.description = pipeline_file.read_stage(folder)
    config = v1.ConfigProto(
      device_count={"CPU": self.description.devices},
      allow_soft_placement=self.description.devices == 1,
    )
    self._session = v1.Session(graph=tf.Graph(), config=config)
    try:
      with self._session.graph.as_default():
        loaded = v1.saved_model.load(self._session, [_SERVE], folder)
    except (OSError, RuntimeError, tf.errors.OpError) as error:
      raise ValueError(f"{folder} cannot be loaded: {error}") from error
    self._signatures = dict(loaded.signature_def)
    self._callables: dict[str, Callable[..., Any]] = {
      name: self._session.make_callable(
        [x.name for _, x in sorted(signature.outputs.items())],
        feed_list=[x.name for _, x in sorted(signature.inputs.items())],
      )
      for name, signature in self._signatures.items()
    }

  @property
  def longest_request(self) -> int:
    """The bytes of the longest request that its signatures allow."""
    return messages.longest_request(self._signatures.values())

  def run(self, signature: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the outputs of a signature, as arrays.

    Args:
      signature: Its name.
      inputs: An array for each of its inputs.

    Raises:
      ValueError: If there is no such signature, or the inputs are not its own.
      tf.errors.OpError: If an op fails.
    """
    definition = self._signatures.get(signature)
    if definition is None:
      known = ", ".join(sorted(self._signatures))
      raise ValueError(f"{signature!r} is not a signature; there are {known}")
    if set(definition.inputs) != set(inputs):
      raise ValueError(
        f"{signature} takes {', '.join(sorted(definition.inputs))}, but was "
        f"given {', '.join(sorted(inputs))}"
      )
    arrays = self._callables[signature](*(inputs[x] for x in sorted(inputs)))
    return dict(zip(sorted(definition.outputs), arrays, strict=True))

  def close(self) -> None:
    """Ends the session."""
    self._session.close()


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
    self.runner = StageRunner(folder)
    self._computing = threading.Lock()
    self._server = grpc.server(
      futures.ThreadPoolExecutor(_THREADS),
      maximum_concurrent_rpcs=_MOST_WAITING,
      options=[
        *messages.channel_options(self.runner.longest_request),
        ("grpc.so_reuseport", 0),
      ],
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
    if not context.is_active():  # The caller has given up.
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
    return json.dumps(dataclasses.asdict(self.runner.description)).encode()
