"""Benchmark: what each model of the train command learns by its own defaults.

Each is trained by the command, in a process of its own, one after the other:
`//estimator_mp:train -- --model=NAME`. Printed are its figure on held-out data,
that of something plain that learned from the same data, and the time that it
took. The bounds: better than plain, within five minutes on two cores.

  ./bazelw run //benchmarks:default_runs
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from benchmarks import figures
from estimator_mp.cli import results
from model_fns.recipes import catalogue

from absl import app, flags

_MODELS = flags.DEFINE_list(
  "models", list(catalogue.ENTRIES), "The models to train."
)
_MOST_SECONDS = 300
_ROW = "{:<12} {:<14} {:>8} {:>8}  {:<44} {:>7}  {}"


def _run(model: str, model_dir: str) -> tuple[results.Result, float]:
  """Returns the result of a run of the command, and its seconds."""
  arguments = [f"--model={model}", f"--model_dir={model_dir}"]
  started = time.monotonic()
  finished = subprocess.run(
    [sys.executable, "-m", "estimator_mp", "train", *arguments],
    env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
    check=False,
  )
  seconds = time.monotonic() - started
  if finished.returncode:
    raise RuntimeError(f"--model={model} failed:\n{finished.stdout}")
  text = pathlib.Path(model_dir, "result.json").read_text(encoding="utf-8")
  return results.Result(**json.loads(text)), seconds


def _figures(
  model: str, result: results.Result, seconds: float
) -> list[figures.Figure]:
  """Returns what was learned, beside what is plain, and the time."""
  return [
    figures.Figure(
      f"{model}: {result.figure} (bound: {result.baseline})",
      "",
      (result.value,),
      (result.baseline_value,),
      is_lower_better=result.figure.startswith("perplexity"),
      is_aim=True,
    ),
    figures.Figure(
      f"{model}: the run",
      "s",
      (seconds,),
      (_MOST_SECONDS,),
      is_lower_better=True,
      is_aim=True,
    ),
  ]


def main(argv: list[str]) -> int:
  """Trains the models; the exit code is 1 if a bound is missed."""
  del argv
  heads = ("model", "figure", "learned", "plain", "by", "seconds", "within")
  print(_ROW.format(*heads), flush=True)
  missed = False
  found = []
  for model in _MODELS.value:
    with tempfile.TemporaryDirectory() as folder:
      result, seconds = _run(model, os.path.join(folder, "run"))
    is_within = result.beats_baseline and seconds < _MOST_SECONDS
    missed = missed or not is_within
    row = (
      model,
      result.figure,
      f"{result.value:.4f}",
      f"{result.baseline_value:.4f}",
      result.baseline,
      f"{seconds:.0f}",
      "the bounds" if is_within else "NO BOUND",
    )
    print(_ROW.format(*row), flush=True)
    found += _figures(model, result, seconds)
  figures.save(found)
  return int(missed)


if __name__ == "__main__":
  app.run(main)
