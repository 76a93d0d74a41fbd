"""StagePipeline: the client of a chain of stages."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from typing import Any

from estimator_mp import json_values
from estimator_mp.serving import chain, messages, pipeline_file, stage_process
from estimator_mp.serving.pipeline_file import TensorSpec

import grpc


class StageError(RuntimeError):
  """A stage cannot be reached, or failed; the one-line text says which."""


class StagePipeline:
  """Sends requests through the stages that `export_stages` has exported.

      with StagePipeline(folder) as pipeline:
        for outputs in pipeline.predict({"x": x} for x in batches):
          print(outputs["logits"])

  Several requests are in flight at a time, so that the stages work at the same
  time. It is a context manager; `close` ends it, too.

  Attributes:
    inputs: The inputs of a request, by name.
    outputs: The outputs of a request, by name.
    addresses: The addresses of the stages, in order.
  """

  def __init__(
    self,
    folder: str,
    addresses: Sequence[str] = (),
    signature: str = "serving_default",
    in_flight: int | None = None,
    deadline_seconds: float = 60.0,
  ):
    """Starts the stages, or finds them, and waits until all are there.

    Args:
      folder: The result of `export_stages`, or its export_dir_base.
      addresses: host:port of a server for each stage, in order, such as
        `//estimator_mp:serve_stage` is. Without them each stage is started in
        a process of its own on this machine.
      signature: The export output that is asked for.
      in_flight: How many requests may be under way; None for two for each
        stage.
      deadline_seconds: How long one stage may take for a request, with the
        requests that it has to wait for.

    Raises:
      ValueError: If the folder holds no chain, or the rest does not suit it.
      StageError: If a stage cannot be loaded or reached, or is of another
        chain.
    """
    folder = pipeline_file.find(folder)
    self._pipeline = pipeline_file.read(folder)
    self._signature = chain.signature_of(self._pipeline, signature)
    stages = self._pipeline.stages
    in_flight = 2 * len(stages) if in_flight is None else in_flight
    _check(addresses, stages, in_flight, deadline_seconds)
    self.inputs: Mapping[str, TensorSpec] = self._signature.inputs
    self.outputs: Mapping[str, TensorSpec] = {
      name: self._signature.output_spec(name)
      for name in self._signature.outputs
    }
    self.addresses: tuple[str, ...] = tuple(addresses)
    self._in_flight = in_flight
    self._deadline = deadline_seconds
    self._processes: dict[int, stage_process.StageProcess] = {}
    self._channels: dict[int, Any] = {}
    self._calls: dict[int, Any] = {}
    self._threads = futures.ThreadPoolExecutor(in_flight)
    try:
      if not addresses:
        self._start_processes(folder)
      self._connect()
    except BaseException:
      self.close()
      raise

  def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the outputs of one request, as arrays by name.

    Args:
      inputs: An array for each of `self.inputs`.

    Raises:
      ValueError: If the inputs are not those of the model.
      StageError: If a stage fails.
    """
    checked = chain.checked_inputs(self.inputs, inputs)
    return chain.run(self._signature, checked, self._call)

  def predict(
    self, requests: Iterable[Mapping[str, Any]]
  ) -> Iterator[dict[str, Any]]:
    """Yields the outputs of requests, in their order.

    Only requests in flight are held, so there may be very many.

    Args:
      requests: The inputs of each, as for `run`.

    Raises:
      ValueError: If the inputs are not those of the model.
      StageError: If a stage fails; requests in flight are lost.
    """

    def start(request: Mapping[str, Any]) -> Any:
      return self._threads.submit(self.run, request)

    return chain.in_order(requests, start, self._in_flight)

  def close(self) -> None:
    """Ends all processes that were started; requests in flight fail."""
    for channel in self._channels.values():
      channel.close()
    self._threads.shutdown(cancel_futures=True)
    for process in self._processes.values():
      process.stop()
    self._channels, self._processes = {}, {}

  def __enter__(self) -> "StagePipeline":
    return self

  def __exit__(self, *exception: object) -> None:
    self.close()

  def _start_processes(self, folder: str) -> None:
    """Starts all stages at once, and waits for them."""
    for stage in self._pipeline.stages:
      self._processes[stage.stage] = stage_process.StageProcess(
        stage.stage, os.path.join(folder, stage.folder)
      )
    for process in self._processes.values():
      try:
        process.wait_until_ready()
      except RuntimeError as error:
        raise StageError(str(error)) from error
    self.addresses = tuple(x.address for x in self._processes.values())

  def _connect(self) -> None:
    """Asks each server whether it serves the stage."""
    options = messages.channel_options()
    if self._processes:
      options.append(("grpc.enable_http_proxy", 0))
    for stage, address in zip(
      self._pipeline.stages, self.addresses, strict=True
    ):
      channel = grpc.insecure_channel(address, options)
      self._channels[stage.stage] = channel
      run, describe = (
        channel.unary_unary(f"/{messages.SERVICE}/{method}")
        for method in (messages.RUN, messages.DESCRIBE)
      )
      self._calls[stage.stage] = run
      try:
        answer = json_values.parse(describe(b"", timeout=self._deadline))
      except (grpc.RpcError, ValueError) as error:
        raise self._error(stage.stage, error) from error
      expected = (self._pipeline.identity, stage.stage)
      there = (answer.get("pipeline"), answer.get("stage"))
      if there != expected:
        raise StageError(
          f"{self._name(stage.stage)} serves stage {there[1]} of the chain "
          f"{there[0]}, and not stage {expected[1]} of {expected[0]}; give the "
          "addresses in the order of the stages, of servers of this export"
        )

  def _call(
    self, stage: int, signature: str, inputs: chain.Arrays
  ) -> dict[str, Any]:
    """Lets a stage compute a request."""
    message = messages.encode(signature, inputs)
    try:
      answer = self._calls[stage](message, timeout=self._deadline)
    except (grpc.RpcError, ValueError) as error:
      raise self._error(stage, error) from error
    return messages.decode(answer)[1]

  def _name(self, stage: int) -> str:
    """Returns the name of a stage in messages."""
    numbers = [x.stage for x in self._pipeline.stages]
    return f"stage {stage} at {self.addresses[numbers.index(stage)]}"

  def _error(self, stage: int, error: Any) -> StageError:
    """Returns the error for a failed call."""
    name = self._name(stage)
    code = error.code() if isinstance(error, grpc.RpcError) else None
    process = self._processes.get(stage)
    if code == grpc.StatusCode.DEADLINE_EXCEEDED:
      return StageError(
        f"{name} has not answered in {self._deadline:g} s; give it a longer "
        "deadline, or fewer requests in flight"
      )
    if code == grpc.StatusCode.UNAVAILABLE:
      exit_code = process.exit_code() if process else None
      if exit_code is not None:
        return StageError(f"{name} has ended, with exit code {exit_code}")
      reason = messages.one_line(error.details()).rpartition(": ")[2]
      return StageError(f"{name} is not reachable: {reason}")
    if code == grpc.StatusCode.UNIMPLEMENTED:
      return StageError(f"{name} is not a server of a stage")
    details = error.details() if code else error
    return StageError(f"{name} failed: {messages.one_line(details)}")


def _check(
  addresses: Sequence[str],
  stages: Sequence[pipeline_file.Stage],
  in_flight: int,
  deadline_seconds: float,
) -> None:
  """Raises if the arguments of a pipeline do not suit its stages."""
  if addresses and len(addresses) != len(stages):
    raise ValueError(
      f"there are {len(addresses)} address(es) for {len(stages)} stage(s); "
      "give one for each, in the order of the stages"
    )
  for address in addresses:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
      raise ValueError(
        f"the address {address!r} is not host:port; write it like "
        "127.0.0.1:8500"
      )
  if in_flight < 1:
    raise ValueError(f"in_flight={in_flight} is too small; use 1 or more")
  if deadline_seconds <= 0:
    raise ValueError(
      f"deadline_seconds={deadline_seconds} is too small; use such as 60"
    )
