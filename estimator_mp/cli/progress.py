"""The output of a training run: header, placement, progress, evaluations.

Progress is a bar on a terminal, and plain lines elsewhere.
"""

import contextlib
import importlib.util
import math
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TextIO

import estimator_mp
from estimator_mp.cli import train_flags

import tensorflow as tf

if TYPE_CHECKING:
  import tqdm

# The first steps of a session also optimise the graph and fill the input
# pipeline; they say nothing about the speed of the others.
_WARM_UP_STEPS = 2
_BAR_REFRESH_SECONDS = 0.1
_BAR_FORMAT = "{percentage:3.0f}% |{bar}| {n_fmt}/{total_fmt} steps{postfix}"


class ProgressHook(tf.estimator.SessionRunHook):
  """Shows steps, loss, steps per second and time left; measures the speed.

  The time of a step is the time of its `Session.run`. Put the hook before a
  `CheckpointSaverHook`: the time that saving and evaluating take is then not
  counted. The loss is fetched only in steps that show it.

  Attributes:
    step: The global step after the last step that ran.
    is_closed: Whether something could not be written; then nothing more is
      shown.
  """

  def __init__(
    self,
    train_steps: int,
    log_every: int,
    stream: TextIO | None = None,
    on_closed: Callable[[OSError], None] = lambda error: None,
  ):
    """Makes the hook.

    Args:
      train_steps: The global step at which training ends.
      log_every: Steps between two lines where `stream` is not a terminal.
      stream: Where to show progress; standard output by default.
      on_closed: Called if nothing can be written there, as when the other end
        of a pipe is closed. What is written after that is lost.
    """
    self._on_closed = on_closed
    self.is_closed = False
    self._train_steps = train_steps
    self._log_every = log_every
    self._stream = stream or sys.stdout
    self._bar: tqdm.tqdm | None = None
    self._loss: tf.Tensor | None = None
    self._global_step: tf.Tensor | None = None
    self._first_step = 0
    self.step = 0
    self._seconds = 0.0
    self._started = 0.0
    self._shown = -math.inf
    self._shows_this_step = False

  @property
  def steps_per_second(self) -> float | None:
    """The speed of this session's steps; None before its third step.

    The first two steps are left out, as is the time between steps, in which
    checkpoints are saved and evaluated.
    """
    steps = self.step - self._first_step - _WARM_UP_STEPS
    return steps / self._seconds if steps > 0 and self._seconds else None

  def write(self, text: str) -> None:
    """Writes a line above the bar, or after the lines so far.

    Args:
      text: The line, without its end.
    """
    with self._writing():
      if self._bar is not None:
        self._bar.write(text, file=self._stream)
      else:
        print(text, file=self._stream)
      self._stream.flush()

  def close(self) -> None:
    """Ends the bar, if there is one; `end` does so after complete training."""
    bar, self._bar = self._bar, None
    if bar is not None:
      with self._writing():
        bar.close()

  @contextlib.contextmanager
  def _writing(self) -> Iterator[None]:
    """Tells `on_closed` if what is done inside cannot be written."""
    try:
      yield
    except OSError as error:
      self.is_closed = True
      detach(self._stream)
      self._on_closed(error)

  def begin(self) -> None:
    """Finds the loss, which Estimator puts into the collection of losses."""
    losses = tf.compat.v1.losses.get_losses()
    self._loss = losses[-1] if losses else None
    self._global_step = tf.compat.v1.train.get_global_step()

  def after_create_session(
    self, session: tf.compat.v1.Session, coord: tf.train.Coordinator
  ) -> None:
    """Reads the step that the session starts from."""
    self._first_step = self.step = int(session.run(self._global_step))
    self._seconds = 0.0
    self._shown = -math.inf
    if self._stream.isatty():
      import tqdm

      with self._writing():
        self._bar = tqdm.tqdm(
          total=self._train_steps,
          initial=self.step,
          file=self._stream,
          bar_format=_BAR_FORMAT,
          ncols=_columns(),
        )

  def before_run(
    self, run_context: tf.estimator.SessionRunContext
  ) -> tf.estimator.SessionRunArgs:
    """Starts the clock, and asks for the loss if this step shows it."""
    self._started = time.monotonic()
    self._shows_this_step = self._shows(self.step + 1)
    fetches = self._loss if self._shows_this_step else None
    return tf.estimator.SessionRunArgs(fetches)

  def after_run(
    self,
    run_context: tf.estimator.SessionRunContext,
    run_values: tf.estimator.SessionRunValues,
  ) -> None:
    """Stops the clock, and shows the step if it is time to."""
    seconds = time.monotonic() - self._started
    self.step += 1
    if self.step > self._first_step + _WARM_UP_STEPS:
      self._seconds += seconds
    if self._shows_this_step:
      self._shown = self._started
      self._show(run_values.results)

  def end(self, session: tf.compat.v1.Session) -> None:
    """Ends the bar."""
    self.close()

  def _shows(self, step: int) -> bool:
    if step in (self._first_step + 1, self._train_steps):
      return True
    if self._bar is not None:
      return self._started - self._shown >= _BAR_REFRESH_SECONDS
    return step % self._log_every == 0

  def _show(self, loss: float | None) -> None:
    facts = []
    if loss is not None:
      facts.append(f"loss {loss:.4f}")
    speed = self.steps_per_second
    if speed:
      left = (self._train_steps - self.step) / speed
      facts += [f"{speed:.1f} steps/s", f"{_clock(left)} left"]
    if self._bar is not None:
      self._bar.n = self.step
      self._bar.ncols = _columns()
      with self._writing():
        self._bar.set_postfix_str(", ".join(facts))
    else:
      self.write(", ".join([f"step {self.step}/{self._train_steps}", *facts]))


def check_bar(stream: TextIO) -> None:
  """Raises if a stream would get a bar, and there is nothing to draw it with.

  Args:
    stream: Where progress is to be shown.

  Raises:
    ValueError: If it is a terminal, and tqdm is not installed.
  """
  if stream.isatty() and importlib.util.find_spec("tqdm") is None:
    raise ValueError(
      "a bar of progress needs tqdm; pip install 'estimator-mp[train]', or send"
      " the output through a pipe, such as | cat"
    )


def detach(stream: TextIO) -> None:
  """Lets what is written to a stream vanish, also when the process ends.

  Args:
    stream: A stream that cannot be written to any more. One without a file
      descriptor stays as it is.
  """
  with contextlib.suppress(OSError, ValueError):
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _columns() -> int:
  """Returns the terminal's width now; 80 where it does not say."""
  return shutil.get_terminal_size().columns


def _clock(seconds: float) -> str:
  """Returns a duration such as "0:07" or "1:02:03"."""
  minutes, seconds = divmod(math.ceil(seconds), 60)
  hours, minutes = divmod(minutes, 60)
  if hours:
    return f"{hours}:{minutes:02}:{seconds:02}"
  return f"{minutes}:{seconds:02}"


def tensorboard_command(model_dir: str) -> str:
  """Returns the command that shows a run in TensorBoard.

  Args:
    model_dir: The directory of the run.
  """
  command = f"tensorboard --logdir={shlex.quote(model_dir)}"
  if importlib.util.find_spec("tensorboard") is None:
    return f"pip install tensorboard && {command}"
  return command


def header(
  options: train_flags.TrainOptions,
  mesh: estimator_mp.Mesh,
  data: str,
  trained: int,
) -> list[str]:
  """Returns lines about what a run is going to do.

  Args:
    options: The options of the run.
    mesh: The devices.
    data: The data, in a line.
    trained: The global step from which it goes on.
  """
  replicas = mesh.axis_size("data")
  batches = f"batches of {options.batch_size}"
  if replicas > 1:
    of_replica = options.batch_size // replicas
    batches += f" ({of_replica} for each of {replicas} replicas)"
  facts = [
    ("model", options.model),
    ("dataset", data),
    ("mesh", f"{mesh} ({', '.join(mesh.devices)})"),
    (
      "steps",
      f"{trained} to {max(trained, options.train_steps)}, {batches},"
      f" {options.optimizer} at {options.learning_rate}, seed {options.seed}",
    ),
    ("model_dir", options.model_dir),
    ("TensorFlow", tf.__version__),
  ]
  return [f"  {name:<12} {value}" for name, value in facts]


class PlacementTableHook(tf.estimator.SessionRunHook):
  """Shows where the layers are, once the graph is built."""

  def __init__(self, progress: ProgressHook):
    self._progress = progress

  def begin(self) -> None:
    """Shows the placement of the graph that was just built."""
    graph = tf.compat.v1.get_default_graph()
    table = estimator_mp.get_placement(graph).table()
    self._progress.write(f"\n{table}\n")


class EvaluationReport(tf.estimator.Exporter):
  """Shows every evaluation; Estimator tells its exporters of each one."""

  name = "evaluation_report"

  def __init__(
    self, progress: ProgressHook, outcome: Callable[[Mapping[str, Any]], str]
  ):
    self._progress = progress
    self._outcome = outcome

  def export(
    self,
    estimator: tf.estimator.Estimator,
    export_path: str,
    checkpoint_path: str,
    eval_result: Mapping[str, Any],
    is_the_final_export: bool,
  ) -> None:
    """Shows an evaluation; exports nothing."""
    self._progress.write(
      f"evaluation at step {eval_result['global_step']}:"
      f" {self._outcome(eval_result)}"
    )
