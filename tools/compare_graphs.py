"""Compares the graphs of two versions of the project, node by node.

    python3 tools/compare_graphs.py HEAD~1                # with the work tree
    python3 tools/compare_graphs.py HEAD~1 --only=lstm    # only these graphs

What changes the code but nothing that it does leaves every graph as it was:
nodes with their devices, inputs and attributes, and functions. The graphs are
those of the networks of tests/estimator_mp/models in all of `CONFIGS`, trained
and evaluated. What cannot be built has the same error in both versions.

Each version builds its own models, each graph in a process, so that the
numbers in the names of functions are the same. The exit code is 1 if a graph
differs, and 2 if a version cannot be built.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import dataclasses
import difflib
import gzip
import inspect
import itertools
import multiprocessing
import os
import pathlib
import random
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_DATA, _STAGES, _BOTH = "data:2", "stage:2", "data:2,stage:2"
CONFIGS: Mapping[str, Mapping[str, Any]] = {
  "stages": {"mesh": "stage:3"},
  "gpipe": {"mesh": _STAGES, "num_micro_batches": 4, "schedule": "gpipe"},
  "1f1b": {"mesh": _STAGES, "num_micro_batches": 4},
  "zb1p": {"mesh": _STAGES, "num_micro_batches": 4, "schedule": "zb1p"},
  "interleaved": {
    "mesh": _STAGES,
    "num_micro_batches": 4,
    "schedule": "interleaved",
    "num_virtual_stages": 2,
  },
  "batched": {
    "mesh": _STAGES,
    "num_micro_batches": 4,
    "weight_gradients": "batched",
  },
  "recomputed": {
    "mesh": _STAGES,
    "num_micro_batches": 4,
    "recompute": "always",
  },
  "half": {
    "mesh": _STAGES,
    "num_micro_batches": 2,
    "transfer_dtype": "bfloat16",
  },
  "replicas": {"mesh": _DATA},
  "ring": {"mesh": "data:3", "aggregation": "ring"},
  "zero": {"mesh": _DATA, "optimizer_state": "sharded"},
  "rounds": {
    "mesh": _DATA,
    "num_micro_batches": 2,
    "draws": "whole",
    "batch_norm": "per_micro_batch",
  },
  "hybrid": {"mesh": _BOTH, "num_micro_batches": 2},
  "prefetched": {
    "mesh": _BOTH,
    "num_micro_batches": 2,
    "prefetch_inputs": True,
  },
  "model_axis": {"mesh": "model:2"},
  "tables": {"mesh": _DATA, "split": ((r"embedding", "mod"),)},
  "all_axes": {"mesh": "data:2,stage:2,model:2", "num_micro_batches": 2},
}
MODES = ("train", "eval")
_HERE = str(pathlib.Path(__file__).resolve().parents[1])
# Tables have names that are others each time.
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclasses.dataclass(frozen=True, order=True)
class Case:
  """One graph.

  Attributes:
    model: The name of the model.
    config: The name of what it is sharded by, in `CONFIGS`.
    mode: "train" or "eval".
  """

  model: str
  config: str
  mode: str

  def __str__(self) -> str:
    return f"{self.model}-{self.config}-{self.mode}"


def cases(models: Sequence[str], only: str = "") -> list[Case]:
  """Returns the graphs to compare.

  Args:
    models: The names of models.
    only: The text that names have to contain; empty for all.
  """
  found = itertools.starmap(Case, itertools.product(models, CONFIGS, MODES))
  return [case for case in found if only in str(case)]


def build(case: Case) -> list[str]:
  """Returns the nodes and functions of a graph as texts, in order.

  Args:
    case: Which graph.

  Returns:
    The texts; or the one line of the error, if it cannot be built.
  """
  import estimator_mp
  from tests.estimator_mp.models import catalogue, data

  import tensorflow as tf

  model = catalogue.NETWORKS[case.model]
  random.seed(5)  # Layers draw their seeds from here.
  with tf.Graph().as_default() as graph:
    tf.compat.v1.set_random_seed(5)
    tf.compat.v1.train.create_global_step()
    input_fn: Any = data.input_fn
    examples = tf.compat.v1.data.make_one_shot_iterator(input_fn())
    features, labels = examples.get_next()
    try:
      config = estimator_mp.ShardingConfig(**CONFIGS[case.config])
      possible = {
        "mode": case.mode,
        "params": model.params,
        "config": estimator_mp.run_config(config),
      }
      names = inspect.signature(model.model_fn).parameters.keys()
      arguments = {k: v for k, v in possible.items() if k in names}
      sharded = estimator_mp.shard_model_fn(model.model_fn, config)
      sharded(features, labels, **arguments)
    except ValueError as error:
      return [f"{type(error).__name__}: {' '.join(str(error).split())}"]
    found = graph.as_graph_def()
  texts = map(str, [*found.node, *found.library.function])
  return [_UUID.sub("uuid", text) for text in texts]


def _write(case: Case, folder: str) -> None:
  texts = build(case)
  with gzip.open(os.path.join(folder, f"{case}.gz"), "wt", 1) as file:
    file.write("\0".join(texts))


def write(folder: str, only: str) -> None:
  """Writes the graphs of the version that Python imports.

  Args:
    folder: Where to, a file for each.
    only: The text that names have to contain; empty for all.

  Raises:
    RuntimeError: If a graph's process has an error that is no `ValueError`.
    SystemExit: If there is no such graph.
  """
  import estimator_mp  # It brings tf.estimator, which models need.
  from tests.estimator_mp.models import catalogue

  del estimator_mp
  found = cases([*catalogue.NETWORKS], only)
  if not found:
    sys.exit(
      f"--only={only} is part of no graph's name; they are such as "
      f"{cases([*catalogue.NETWORKS])[0]}"
    )
  context = multiprocessing.get_context("forkserver")
  context.set_forkserver_preload(
    ["estimator_mp", "tests.estimator_mp.models.catalogue"]
  )

  def write_apart(case: Case) -> None:
    process = context.Process(target=_write, args=(case, folder))
    process.start()
    process.join()
    if process.exitcode:
      raise RuntimeError(f"{case}: the process ended with {process.exitcode}")

  with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    for _ in pool.map(write_apart, found):
      continue


def differences(old: str, new: str) -> dict[str, str]:
  """Compares two folders of graphs.

  Args:
    old: The graphs of a version.
    new: Those of another.

  Returns:
    For each graph that differs, in order, what its first difference is.
  """
  names = sorted({*os.listdir(old), *os.listdir(new)})
  found = {}
  for name in names:
    texts = [_read(os.path.join(folder, name)) for folder in (old, new)]
    difference = first_difference(*texts)
    if difference:
      found[name.removesuffix(".gz")] = difference
  return found


def _read(path: str) -> list[str]:
  if not os.path.exists(path):
    return []
  with gzip.open(path, "rt") as file:
    return file.read().split("\0")


def first_difference(old: Sequence[str], new: Sequence[str]) -> str:
  """Returns where two graphs differ first; "" if they do not.

  Args:
    old: The nodes and functions of a graph as texts.
    new: Those of another.
  """
  pairs = itertools.zip_longest(old, new, fillvalue="")
  for number, (before, after) in enumerate(pairs):
    if before != after:
      name = (before or after).partition("\n")[0]
      lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), lineterm="", n=0
      )
      changes = [" ".join(line.split()) for line in lines][3:7]
      return (
        f"{len(old)} nodes, now {len(new)}; number {number} ({name}):"
        f" {', '.join(changes)}"
      )
  return ""


@contextlib.contextmanager
def _version(commit: str) -> Iterator[str]:
  """Yields a folder with a commit of the repository, which then goes."""
  with tempfile.TemporaryDirectory() as folder:
    tree = os.path.join(folder, "tree")
    git = ["git", "-C", _HERE, "worktree"]
    subprocess.check_call([*git, "add", "--quiet", "--detach", tree, commit])
    try:
      yield tree
    finally:
      subprocess.check_call([*git, "remove", "--force", tree])


def _graphs_of(tree: str, folder: str, only: str) -> None:
  """Writes the graphs of a version into a new folder."""
  os.mkdir(folder)
  environment = os.environ | {
    "PYTHONPATH": tree,
    "PYTHONHASHSEED": "0",
    "TF_CPP_MIN_LOG_LEVEL": "3",
  }
  program = [sys.executable, os.path.abspath(__file__), "--write", folder]
  subprocess.check_call(
    [*program, "--only", only], cwd=tree, env=environment, stderr=sys.stderr
  )


def main(arguments: Sequence[str] | None = None) -> int:
  """Runs the command.

  Args:
    arguments: Those of the command line, without the command.

  Returns:
    The exit code.
  """
  parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
  parser.add_argument("commit", nargs="?", default="HEAD", help="the other one")
  parser.add_argument("--only", default="", help="a part of graphs' names")
  parser.add_argument("--write", help=argparse.SUPPRESS)
  given = parser.parse_args(arguments)
  if given.write:
    write(given.write, given.only)
    return 0
  try:
    return _compare(given.commit, given.only)
  except subprocess.CalledProcessError as error:  # It has said why.
    print(f"failed: {shlex.join(error.cmd)}", file=sys.stderr)
    return 2


def _compare(commit: str, only: str) -> int:
  """Compares a commit with the work tree; returns the exit code."""
  with tempfile.TemporaryDirectory() as root, _version(commit) as tree:
    old, new = os.path.join(root, "old"), os.path.join(root, "new")
    _graphs_of(tree, old, only)
    _graphs_of(_HERE, new, only)
    found = differences(old, new)
    number = len(os.listdir(new))
  for name, difference in found.items():
    print(f"{name}: {difference}")
  print(f"{number} graphs, {len(found)} differ")
  return 1 if found else 0


if __name__ == "__main__":
  sys.exit(main())
