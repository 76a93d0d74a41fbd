"""Benchmark: the largest model that trains, by the number of stages.

Each stage is a task of a local cluster whose memory is limited, Python's and
TensorFlow's included. The model is layers of 2,048 units with Adam; a number of
layers is tried by training them.

  ./bazelw run //benchmarks:largest_model
  ./bazelw run //benchmarks:largest_model -- --mem_limit=1GiB --stages=1,2
"""

import os
import subprocess
import sys
import tempfile

from benchmarks import figures

from absl import app, flags

_STAGES = flags.DEFINE_list("stages", ["1", "2", "4", "8"], "Numbers of them.")
_LIMIT = flags.DEFINE_string("mem_limit", "800MiB", "The memory of each task.")
_UNITS = 2048
_PROGRAM = "tests.estimator_mp.distributed.large_program"


def _trains(stages, layers):
  """Returns whether so many stages train so many layers."""
  with tempfile.TemporaryDirectory() as folder:
    finished = subprocess.run(
      [
        *(sys.executable, "-m", "estimator_mp", "launch", f"--tasks={stages}"),
        *(f"--mem_limit={_LIMIT.value}", f"--log_dir={folder}/logs", "--"),
        *("-m", _PROGRAM, f"{folder}/model", f"stage:{stages}"),
        *(str(layers), str(_UNITS)),
      ],
      capture_output=True,
      env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
      check=False,
    )
  print(f"{stages} stages, {layers} layers: {finished.returncode}", flush=True)
  return finished.returncode == 0


def _largest(stages, guess):
  """Returns the most layers that so many stages train.

  Args:
    stages: How many.
    guess: A number of layers to begin with.
  """
  most, too_many = 0, None
  trial = guess
  while too_many is None or too_many - most > 1:
    if _trains(stages, trial):
      most = trial
    else:
      too_many = trial
    trial = 2 * most if too_many is None else (most + too_many) // 2
  return most


def main(argv):
  """Finds them, and prints the table."""
  del argv
  found = []
  each = 4
  for stages in map(int, _STAGES.value):
    layers = _largest(stages, each * stages)
    if not layers:
      raise app.UsageError(f"--mem_limit={_LIMIT.value} is too small")
    each = max(layers // stages, 1)
    found.append((stages, layers))
  first_stages, first_layers = found[0]
  size = _UNITS * (_UNITS + 1) / 1e6
  table = [
    figures.Figure(
      f"stages: {stages}, tasks of {_LIMIT.value}",
      "million parameters",
      (layers * size,),
      (first_layers * size * stages / first_stages,),
      is_aim=True,  # The last layer that fits may be one more.
    )
    for stages, layers in found
  ]
  figures.show(table)
  figures.save(table)


if __name__ == "__main__":
  app.run(main)
