"""Writes into docs/architecture.md how a training step is planned and lowered.

    python -m tools.draw_step

shards a small model on a mesh of all axes, and records what the conductor
calls, in this order. So the table is what the code does.
"""

import argparse
import dataclasses
import os
import pathlib
import sys
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any

import estimator_mp

import tensorflow as tf

v1 = tf.compat.v1
_ROOT = pathlib.Path(__file__).resolve().parents[1]
_GUIDE = pathlib.Path("docs", "architecture.md")
_BEGIN = "<!-- step: begin (written by tools/draw_step.py) -->\n"
_END = "<!-- step: end -->"
_PACKAGE = os.path.dirname(estimator_mp.__file__) + os.sep
_CONDUCTOR = "conductor"
_PLANS = ("capture", "placement", "plan")
_LOWERS = ("graph", "lower", "replicas")
# Between a function and who calls it; they are of Python.
_BETWEEN = ("contextlib.py", "functools.py")
# Functions that only return known facts, or that run before the step.
_QUERIES = ("__init__", "batch", "is_replaced", "joined", "mirrors", "role")


def _model_fn(features: Any, labels: Any, mode: str) -> Any:
  net = v1.layers.dense(features["x"], 8, tf.nn.relu)
  net = v1.layers.dense(net, 8, tf.nn.relu)
  loss = tf.reduce_mean((v1.layers.dense(net, 1) - labels) ** 2)
  step = v1.train.get_or_create_global_step()
  update = v1.train.AdamOptimizer().minimize(loss, step)
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=update)


@dataclasses.dataclass(frozen=True)
class Call:
  """A call from one module of the package into another.

  Attributes:
    caller: The module and the function that call.
    callee: The module and the function that are called.
  """

  caller: tuple[str, str]
  callee: tuple[str, str]


def read_calls() -> list[Call]:
  """Returns the calls of a step's planning, each of them once, in order."""
  calls: dict[Call, None] = {}

  def on_call(frame: FrameType, event: str, argument: Any) -> None:
    del argument
    if event != "call" or not _is_ours(frame.f_code):
      return
    caller = frame.f_back
    while caller is not None and _is_between(caller.f_code):
      caller = caller.f_back
    if caller is not None and _is_ours(caller.f_code):
      call = Call(_function(caller), _function(frame))
      if call.caller[0] != call.callee[0]:
        calls[call] = None

  config = estimator_mp.ShardingConfig(
    "data:2,stage:2,model:2", num_micro_batches=2
  )
  sharded = estimator_mp.shard_model_fn(_model_fn, config)
  with tf.Graph().as_default():
    features = {"x": v1.placeholder(tf.float32, [16, 4])}
    labels = v1.placeholder(tf.float32, [16, 1])
    before = sys.getprofile()
    sys.setprofile(on_call)
    try:
      sharded(features, labels, mode=tf.estimator.ModeKeys.TRAIN)
    finally:
      sys.setprofile(before)
  return [*calls]


def _is_between(code: CodeType) -> bool:
  """Whether code is of Python, or a comprehension of the function around it."""
  return code.co_filename.endswith(_BETWEEN) or code.co_name.startswith("<")


def _is_ours(code: CodeType) -> bool:
  return code.co_filename.startswith(_PACKAGE)


def _function(frame: FrameType) -> tuple[str, str]:
  """Returns a module's name in the package, and that of its function."""
  path = os.path.relpath(frame.f_code.co_filename, _PACKAGE)
  name, owner = frame.f_code.co_name, frame.f_locals.get("self")
  if owner is not None:
    name = f"{type(owner).__name__}.{name}"
  return path.removesuffix(".py").replace(os.sep, "."), name


def table(calls: Sequence[Call]) -> str:
  """Returns the table of calls in the guide, in Markdown."""
  methods: dict[str, dict[str, list[str]]] = {}
  modules: dict[str, None] = {}
  for call in calls:
    (module, function), folder = call.callee, call.callee[0].partition(".")[0]
    is_query = function.rpartition(".")[2] in _QUERIES
    if call.caller[0] == _CONDUCTOR and not is_query:
      for folders in (_PLANS, _LOWERS):
        if folder in folders:
          method = call.caller[1].rpartition(".")[2]
          cells = methods.setdefault(method, {})
          found = cells.setdefault(folders[0], [])
          found.append(f"`{module}.{function}`")
          modules[module] = None
  lines = ["| the conductor's | decides by | edits by |", "| --- | --- | --- |"]
  for method, cells in methods.items():
    row = (", ".join(cells.get(x[0], [])) for x in (_PLANS, _LOWERS))
    lines.append(f"| `{method}` | {' | '.join(row)} |")
  lines += ["", f"These are {len(modules)} modules.", ""]
  return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
  """Writes the table.

  Args:
    arguments: Those of the command line, without the command.
  """
  parser = argparse.ArgumentParser(description="Writes the way of a step.")
  parser.add_argument("--root", default=str(_ROOT), help="the repository")
  guide = pathlib.Path(parser.parse_args(arguments).root) / _GUIDE
  before, rest = guide.read_text(encoding="utf-8").split(_BEGIN)
  after = rest.split(_END)[1]
  text = f"{before}{_BEGIN}{table(read_calls())}{_END}{after}"
  guide.write_text(text, encoding="utf-8")


if __name__ == "__main__":
  main()
