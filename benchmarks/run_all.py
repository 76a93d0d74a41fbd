"""Runs benchmarks, one after the other, and writes their tables into the page.

  ./bazelw run //benchmarks:all
  ./bazelw run //benchmarks:all -- --only=pipeline_throughput,peers

Each runs in a process of its own, with its own defaults; what comes after a
second `--` is for each of them: `-- --only=data_parallel -- --rounds=1`. The
table of a benchmark that fails, or goes beyond a bound, stays as it was. Let
the machine do nothing else meanwhile.
"""

import os
import subprocess
import sys
import tempfile
import time

from benchmarks import figures, page

import tensorflow as tf
from absl import app, flags

# As the page has them.
BENCHMARKS = (
  "pipeline_throughput",
  "peers",
  "data_parallel",
  "sharding_overhead",
  "plan_accuracy",
  "auto_mesh",
  "default_runs",
  "keras_applications",
  "pipeline_build",
  "pipeline_memory",
  "largest_model",
  "pipeline_schedules",
  "served_stages",
  "random_kills",
  "pinned_stages",
  "pipelined_prediction",
  "split_tables",
  "input_prefetching",
  "ordinary_models",
)
_ONLY = flags.DEFINE_list("only", [], "Names of benchmarks; all without.")
_PAGE = flags.DEFINE_string(
  "page",
  os.path.join(
    os.environ.get("BUILD_WORKSPACE_DIRECTORY", ""), "docs", "benchmarks.md"
  ),
  "The page to write into; nothing if empty.",
)


def _run(name: str, arguments: list[str]) -> list[figures.Figure] | None:
  """Runs a benchmark; returns what it found, None if it failed."""
  with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "figures.json")
    paths = os.pathsep.join(path for path in sys.path if path)
    finished = subprocess.run(
      [
        *(sys.executable, "-m", f"benchmarks.{name}"),
        *(f"--json={path}", *arguments),
      ],
      env=os.environ | {"PYTHONPATH": paths},
      check=False,
    )
    # Some end with 1 where a bound is missed, and have figures nevertheless.
    if not os.path.exists(path):
      print(f"{name} failed with exit code {finished.returncode}", flush=True)
      return None
    return figures.load(path)


def _caption(name: str, arguments: list[str]) -> str:
  """Returns where and how a benchmark was run."""
  command = f"./bazelw run //benchmarks:{name}"
  if arguments:
    command += f" -- {' '.join(arguments)}"
  day = time.strftime("%Y-%m-%d")
  return f"{day}, {page.machine()}, TensorFlow {tf.__version__},\n`{command}`"


def _write(name: str, content: str) -> None:
  """Writes a block into the page."""
  with open(_PAGE.value, encoding="utf-8") as file:
    text = page.replace_block(file.read(), name, content)
  with open(_PAGE.value, "w", encoding="utf-8") as file:
    file.write(text)


def main(argv: list[str]) -> int:
  """Runs them; the exit code is 1 if one failed, or went beyond a bound."""
  unknown = sorted({*_ONLY.value} - {*BENCHMARKS})
  if unknown:
    raise app.UsageError(
      f"--only has {', '.join(unknown)}; choose of {', '.join(BENCHMARKS)}"
    )
  wrong = []
  for name in _ONLY.value or BENCHMARKS:
    start = time.monotonic()
    print(f"=== {name}", flush=True)
    found = _run(name, argv[1:])
    print(f"=== {name}: {time.monotonic() - start:.0f} s", flush=True)
    if found is None or any(figure.is_fault for figure in found):
      wrong.append(name)
    elif _PAGE.value:
      _write(name, page.table(_caption(name, argv[1:]), found))
  if wrong:
    print(f"failed, or beyond a bound: {', '.join(wrong)}")
  return int(bool(wrong))


if __name__ == "__main__":
  app.run(main)
