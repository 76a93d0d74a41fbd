"""A run whose tasks are killed and stopped at random: its losses.

    bazel run //benchmarks:random_kills -- --kills=50 --seed=1

`//estimator_mp:launch` starts a chief, two workers and an evaluator, which
train a small network on `stage:3`, and starts again what dies. The bound is a
run that nobody disturbs: all of its steps, with its losses, and a checkpoint
that is whole at any time.
"""

import collections
import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from benchmarks import figures
from tests.estimator_mp.distributed import recorded_program as program

import numpy as np
import tensorflow as tf
from absl import app, flags

_KILLS = flags.DEFINE_integer("kills", 50, "How many.", lower_bound=1)
_SEED = flags.DEFINE_integer("seed", 1, "Of who is hit, how and when.")
_OUT = flags.DEFINE_string("out", None, "Where to keep the logs and the files.")
_PROGRAM = "tests.estimator_mp.distributed.recorded_program"
_LAUNCHER = ("estimator_mp", "launch")
_TASKS = ("chief 0", "worker 0", "worker 1", "evaluator 0")
_MOST_STEPS_BETWEEN = 12
# One in so many comes while the run recovers from the one before.
_RUSHED = 5
_MOST_RUSHED_SECONDS = 5.0
# One in so many is a SIGSTOP, and a SIGCONT after some seconds.
_STOPPED = 4
_MOST_STOPPED_SECONDS = 4.0
# More than pass between two, also while only the evaluator is stopped.
_STEPS_PER_KILL = 20
_STALLED_SECONDS = 300.0
_RTOL = 1e-5


class _Run:
  """The cluster that the launcher runs."""

  def __init__(self, folder, steps):
    self.model_dir = os.path.join(folder, "model")
    os.makedirs(self.model_dir)
    self._log = open(os.path.join(folder, "launcher.log"), "w+")  # noqa: SIM115
    paths = os.pathsep.join(path for path in sys.path if path)
    self.launcher = subprocess.Popen(
      [
        *(sys.executable, "-m", *_LAUNCHER, "--tasks=3", "--evaluator"),
        *(f"--max_restarts={10 * _KILLS.value}", f"--log_dir={folder}/logs"),
        *("--", "-m", _PROGRAM, self.model_dir, str(steps)),
      ],
      stdout=self._log,
      stderr=subprocess.STDOUT,
      env=os.environ | {"PYTHONPATH": paths, "TF_CPP_MIN_LOG_LEVEL": "2"},
    )

  def __enter__(self):
    return self

  def __exit__(self, *error):
    if self.launcher.poll() is None:
      self.launcher.terminate()
      self.launcher.wait()
    self._log.close()

  def steps(self):
    """Returns how many steps have been done, those that were lost too."""
    return len(program.read(self.model_dir))

  def wait_for(self, steps):
    """Waits for as many steps; returns whether the run goes on."""
    end = time.monotonic() + _STALLED_SECONDS
    while self.steps() < steps and self.launcher.poll() is None:
      if time.monotonic() > end:
        raise RuntimeError(
          f"no step in {_STALLED_SECONDS:g} s: {self._log.name}"
        )
      time.sleep(0.05)
    return self.launcher.poll() is None

  def process(self, task):
    """Returns the number of a task's process; None if it has none now."""
    for pid in _descendants(self.launcher.pid):
      if _task_of(pid) == task and os.getsid(pid) == pid:
        return pid
    return None


def _descendants(pid):
  """Returns the processes that a process has started, and these."""
  found = []
  with contextlib.suppress(OSError):
    for thread in os.listdir(f"/proc/{pid}/task"):
      text = pathlib.Path(f"/proc/{pid}/task/{thread}/children").read_text()
      for child in map(int, text.split()):
        found += [child, *_descendants(child)]
  return found


def _task_of(pid):
  """Returns which task a process is, as "worker 1"; None for none."""
  with contextlib.suppress(OSError, ValueError, KeyError):
    text = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    variables = dict(
      entry.split(b"=", 1) for entry in text.split(b"\0") if b"=" in entry
    )
    task = json.loads(variables[b"TF_CONFIG"])["task"]
    return f"{task['type']} {task['index']}"
  return None


def _hit(run, draw):
  """Kills or stops a task; returns which, and how. None if it is not there."""
  task = draw.choice(_TASKS)
  pid = run.process(task)
  if pid is None:
    return None
  is_stopped = draw.randrange(_STOPPED) == 0
  with contextlib.suppress(ProcessLookupError):
    if not is_stopped:
      os.kill(pid, signal.SIGKILL)
      return task, "SIGKILL"
    os.kill(pid, signal.SIGSTOP)
    time.sleep(draw.uniform(0.5, _MOST_STOPPED_SECONDS))
    os.kill(pid, signal.SIGCONT)
    return task, "SIGSTOP"
  return None


def _check_checkpoint(model_dir):
  """Raises if the newest checkpoint is not whole."""
  newest = tf.train.latest_checkpoint(model_dir)
  if newest is not None:
    reader = tf.train.load_checkpoint(newest)
    for name in reader.get_variable_to_shape_map():
      reader.get_tensor(name)


def _disturb(run):
  """Hits tasks; returns how often each was, by task and signal."""
  draw = random.Random(_SEED.value)
  hits = collections.Counter()
  while hits.total() < _KILLS.value:
    if draw.randrange(_RUSHED):
      more = draw.randint(1, _MOST_STEPS_BETWEEN)
      is_going = run.wait_for(run.steps() + more)
    else:
      time.sleep(draw.uniform(0.0, _MOST_RUSHED_SECONDS))
      is_going = run.launcher.poll() is None
    if not is_going:
      raise RuntimeError(f"the run ended after {hits.total()} kills")
    hit = _hit(run, draw)
    if hit is not None:
      hits[hit] += 1
      _check_checkpoint(run.model_dir)
      print(
        f"{hits.total():>4} {' '.join(hit)}, step {run.steps()}", flush=True
      )
  return hits


def _calm_losses(folder, steps):
  """Returns the number and loss of each step of a run in one process."""
  calm_dir = os.path.join(folder, "calm")
  program.train(calm_dir, steps)
  return program.read(calm_dir)


def measure(folder):
  """Runs a cluster while its tasks are hit; returns what there is to say."""
  steps = _STEPS_PER_KILL * _KILLS.value
  began = time.monotonic()
  with _Run(folder, steps) as run:
    run.wait_for(1)
    hits = _disturb(run)
    code = run.launcher.wait()
    seconds = time.monotonic() - began
  found, expected = program.read(run.model_dir), _calm_losses(folder, steps)
  losses = np.array([loss for _, loss in found])
  should_be = np.array(program.expected_of(found, expected))
  newest = tf.train.latest_checkpoint(run.model_dir)
  return {
    "exit code": code,
    "hits": {" ".join(hit): n for hit, n in sorted(hits.items())},
    "seconds": round(seconds),
    "steps": len({step for step, _ in found}),
    "steps wanted": steps,
    "saved": int(tf.train.load_variable(newest, "global_step")),
    "done again": len(found) - len({step for step, _ in found}),
    "most lost by one": program.most_lost(found),
    "largest difference": float(np.max(np.abs(losses / should_be - 1))),
  }


def _figures(found):
  """Returns what `measure` found, as figures."""
  least = {"is_lower_better": True, "is_aim": True}
  hits = [
    figures.Figure(hit, "times", (count,))
    for hit, count in found["hits"].items()
  ]
  return [
    *hits,
    figures.Figure("the run", "s", (found["seconds"],)),
    figures.Figure(
      "steps in the end", "", (found["steps"],), (found["steps wanted"],)
    ),
    figures.Figure("steps done again", "", (found["done again"],)),
    figures.Figure(
      "most steps lost by one kill",
      "",
      (found["most lost by one"],),
      (program.SAVE_STEPS,),
      **least,
    ),
    figures.Figure(
      "largest difference of losses, relative",
      "",
      (found["largest difference"],),
      (_RTOL,),
      **least,
    ),
  ]


def main(argv):
  """Prints how the run went, and ends with 1 if it was not the calm one."""
  del argv
  with contextlib.ExitStack() as stack:
    folder = _OUT.value or stack.enter_context(tempfile.TemporaryDirectory())
    os.makedirs(folder, exist_ok=True)
    found = measure(folder)
  for name, value in found.items():
    print(f"{name:<20} {value}")
  is_equal = found["largest difference"] <= _RTOL
  has_all = found["steps"] == found["saved"] == found["steps wanted"]
  has_lost = found["most lost by one"] > program.SAVE_STEPS
  print(f"bound: all steps, differences up to {_RTOL}, 5 steps lost by one")
  figures.save(_figures(found))
  if found["exit code"] or not (is_equal and has_all) or has_lost:
    sys.exit(1)


if __name__ == "__main__":
  app.run(main)
