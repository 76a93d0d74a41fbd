"""The predict command: examples, in requests, through the stages."""

import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from types import FrameType

from estimator_mp.cli import commands
from estimator_mp.cli.prediction import examples, predict_flags
from estimator_mp.serving.pipeline_file import TensorSpec
from estimator_mp.serving.stage_pipeline import StagePipeline

import numpy as np


def predict(options: predict_flags.PredictOptions) -> tuple[int, int, float]:
  """Predicts, and writes or prints the predictions.

  Args:
    options: The options of the command.

  Returns:
    How many examples and requests there were, and the seconds without those
    that the stages took to start.

  Raises:
    ValueError: If an option, or a file, is wrong.
    StageError: If a stage cannot be reached, or fails.
  """
  with StagePipeline(
    options.stages,
    options.addresses,
    options.signature,
    options.in_flight,
    options.deadline,
  ) as pipeline:
    names = _output_names(options.outputs, pipeline.outputs)
    begin = time.monotonic()
    sizes: list[int] = []
    requests = examples.read(
      options.examples, pipeline.inputs, options.batch_size
    )

    def counted() -> Iterator[Mapping[str, np.ndarray]]:
      for request in requests:
        sizes.append(_num_rows(request, pipeline.inputs))
        yield request

    def rows() -> Iterator[Mapping[str, np.ndarray]]:
      for number, outputs in enumerate(pipeline.predict(counted())):
        predictions = {name: outputs[name] for name in names}
        _check_rows(predictions, pipeline.outputs, sizes[number])
        yield predictions

    examples.write(options.out, rows(), sys.stdout)
    return sum(sizes), len(sizes), time.monotonic() - begin


def _output_names(
  wanted: tuple[str, ...], outputs: Mapping[str, TensorSpec]
) -> tuple[str, ...]:
  """Returns the names of the outputs to keep."""
  for name in wanted:
    if name not in outputs:
      raise commands.FlagsError(
        f"--outputs has {name}, but the model's outputs are "
        f"{', '.join(outputs)}"
      )
  return wanted or tuple(outputs)


def _num_rows(
  request: Mapping[str, np.ndarray], inputs: Mapping[str, TensorSpec]
) -> int:
  """Returns how many examples a request has."""
  return max(
    (len(x) for name, x in request.items() if inputs[name].shape != ()),
    default=0,
  )


def _check_rows(
  outputs: Mapping[str, np.ndarray],
  specs: Mapping[str, TensorSpec],
  count: int,
) -> None:
  """Raises if an output has no row for each example."""
  for name, array in outputs.items():
    shape = specs[name].shape
    if np.shape(array)[:1] != (count,) or (shape and shape[0] is not None):
      others = [x for x in outputs if x != name]
      advice = f"--outputs={','.join(others)}" if others else "StagePipeline"
      raise commands.FlagsError(
        f"the output {name!r} has the shape {[*np.shape(array)]}, and no row "
        f"for each of {count} examples; use {advice}"
      )


def run_command(options: predict_flags.PredictOptions) -> int:
  """Predicts.

  Args:
    options: The options of the command.

  Returns:
    The exit code: 0; 130 after Ctrl-C, and 143 after SIGTERM.

  Raises:
    ValueError: If an option, or a file, is wrong.
    StageError: If a stage cannot be reached, or fails.
  """
  # An error is one line of this command, and none of gRPC's.
  os.environ.setdefault("GRPC_VERBOSITY", "NONE")
  received: list[int] = []

  def interrupt(number: int, frame: FrameType | None) -> None:
    received.append(number)
    raise KeyboardInterrupt

  for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, interrupt)
  try:
    count, requests, seconds = predict(options)
  except KeyboardInterrupt:
    name = signal.Signals(received[0]).name
    code = 128 + received[0]
    return commands.print_error("predict", f"interrupted by {name}", code)
  if options.out is not None:
    print(
      f"{count} examples in {requests} requests, {seconds:.2f} s\n{options.out}"
    )
  return 0
