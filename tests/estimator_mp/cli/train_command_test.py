"""The train command as a process: signals, a terminal, exit codes."""

import fcntl
import json
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import sys
import termios

from tests import tiers
from tests.compat import processes

from absl.testing import absltest

_COMMAND = (sys.executable, "-m", "estimator_mp", "train")
_ENDLESS = "--train_steps=1000000"


def _start(*arguments: str, **streams) -> subprocess.Popen[str]:
  streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
  return subprocess.Popen(
    [*_COMMAND, *arguments], env=processes.environment(), text=True, **streams
  )


def _read_until(stream, text: str) -> str:
  """Returns the lines up to the first one with a text."""
  lines = []
  for line in stream:
    lines.append(line)
    if text in line:
      break
  return "".join(lines)


class _TrainCase(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.model_dir = self.create_tempdir().full_path
    self.arguments = (
      "--model=mlp",
      f"--model_dir={self.model_dir}",
      "--log_every=1",
    )


@tiers.slow
class SignalTest(_TrainCase):
  def _interrupt(self, number: int, exit_code: int) -> int:
    """Sends a signal after five steps; returns the step that was saved."""
    with _start(*self.arguments, _ENDLESS) as process:
      before = _read_until(process.stdout, "step 5/")
      process.send_signal(number)
      after, errors = process.communicate(timeout=600)
    self.assertIn("step 5/1000000, loss ", before)
    self.assertEqual(process.returncode, exit_code, errors)
    name = signal.Signals(number).name
    stopping, last = _own(errors)
    self.assertStartsWith(stopping, f"{name}: stopping after this")
    stopped = re.fullmatch(
      rf"train: interrupted by {name}; {self.model_dir}/model.ckpt-(\d+) is "
      "saved, and the same command resumes from it",
      last,
    )
    assert stopped is not None, last
    step = int(stopped[1])
    self.assertGreaterEqual(step, 5)
    path = f"{self.model_dir}/model.ckpt-{step}.index"
    self.assertTrue(os.path.exists(path))
    position = os.path.join(self.model_dir, f"input_position-{step}.index")
    self.assertTrue(os.path.exists(position))
    self.assertNotIn("evaluation", after)
    return step

  def test_sigterm_saves(self):
    self._interrupt(signal.SIGTERM, 143)

  def test_ctrl_c_saves_and_the_next_run_resumes(self):
    step = self._interrupt(signal.SIGINT, 130)
    with _start(*self.arguments, f"--train_steps={step + 3}") as process:
      output, errors = process.communicate(timeout=600)
    self.assertEqual(process.returncode, 0, errors)
    steps = [int(x) for x in re.findall(r"^step (\d+)/", output, re.MULTILINE)]
    self.assertEqual(steps, [step + 1, step + 2, step + 3])
    result = json.loads(pathlib.Path(self.model_dir, "result.json").read_text())
    self.assertEqual(result["global_step"], step + 3)


@tiers.slow
class ClosedOutputTest(_TrainCase):
  """As in `train | head -1`: what was trained is saved, and said on stderr."""

  def _check_end(self, process, errors: str, reason: str) -> None:
    self.assertEqual(process.returncode, 1)
    (line,) = _own(errors)
    self.assertRegex(
      line,
      rf"^train: standard output cannot be written \({reason}\); send it to a"
      rf" file; {self.model_dir}/model\.ckpt-\d+ is saved, and the same command"
      " resumes from it$",
    )
    saved = line.partition("file; ")[2].partition(" ")[0]
    self.assertTrue(os.path.exists(f"{saved}.index"))

  def test_pipe_that_is_closed_while_training(self):
    with _start(*self.arguments, _ENDLESS) as process:
      _read_until(process.stdout, "step 5/")
      process.stdout.close()
      errors = process.stderr.read()
    self._check_end(process, errors, "Broken pipe")

  def test_full_disk(self):
    with (
      open("/dev/full", "w") as full,
      _start(*self.arguments, _ENDLESS, stdout=full) as process,
    ):
      errors = process.stderr.read()
    self._check_end(process, errors, "No space left on device")

  def test_ctrl_c_ends_both_ends_of_a_pipe(self):
    """`train | tee log`: the terminal sends the signal to both."""
    with _start(*self.arguments, _ENDLESS) as process:
      _read_until(process.stdout, "step 5/")
      process.send_signal(signal.SIGINT)
      process.stdout.close()
      errors = process.stderr.read()
    self.assertEqual(process.returncode, 130)
    self.assertRegex(
      _own(errors)[-1], "^train: interrupted by SIGINT; .* is saved"
    )


def _own(errors: str) -> list[str]:
  """Returns the lines without TensorFlow's own."""
  # TensorFlow with CUDA has a word of its own where there is no GPU.
  return [x for x in errors.splitlines() if not re.match("WARNING|[IE]0", x)]


@tiers.slow
class TerminalTest(absltest.TestCase):
  def test_terminal_gets_a_bar(self):
    ours, theirs = pty.openpty()
    # 24 lines of 90 columns.
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 90, 0, 0))
    model_dir = self.create_tempdir().full_path
    process = _start(
      "--model=mlp",
      "--train_steps=60",
      f"--model_dir={model_dir}",
      stdout=theirs,
      stderr=theirs,
    )
    os.close(theirs)
    output = b""
    while True:
      try:
        part = os.read(ours, 65536)
      except OSError:  # Linux says so when the other side is closed.
        break
      if not part:
        break
      output += part
    os.close(ours)
    self.assertEqual(process.wait(timeout=600), 0)
    text = output.decode()
    self.assertRegex(
      text,
      r"100% \|█+\| 60/60 steps, loss \d+\.\d{4}, \d+\.\d steps/s, 0:00:00",
    )
    self.assertNotIn("step 50/60", text)
    self.assertIn("evaluation at step 60: accuracy ", text)
    self.assertContainsInOrder(["stage  device", "60/60", "Finished."], text)


if __name__ == "__main__":
  absltest.main()
