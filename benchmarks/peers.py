"""Benchmark: beside other systems that train the same MLP on several devices.

- Stages: Lingvo's GPipe (Huang et al., 2019, arXiv:1811.06965), with as many
  stages and micro-batches. It recomputes forward passes; so does one of ours.
- The model axis: Mesh TensorFlow (Shazeer et al., 2018, arXiv:1811.02084), with
  the same dimensions split.

Both need the model written in their own layers. They run on the TensorFlow that
this project runs on, each in a process of its own, in an environment that
`./bazelw run` makes for this benchmark: tools/python/requirements_peers.txt.
They and ours take turns, with the same weights, the same batch and as many
threads, and their first losses are equal.

  ./bazelw run //benchmarks:peers
"""

import contextlib
import os

from benchmarks import asked_process, figures, mlp_sides
from benchmarks import mlp as mlp_lib
from benchmarks import pipeline_throughput as throughput

import tensorflow as tf
from absl import app, flags

_PEERS = flags.DEFINE_list(
  "peers", ["lingvo", "mesh_tensorflow"], "What to measure beside this."
)
_PYTHON = flags.DEFINE_string(
  "peers_python",
  None,
  "An interpreter that has them; without it the one that Bazel made.",
)
_FOLDER = "benchmarks.peer_models."
_MODEL_AXIS = "model:{}"
_MESH_TENSORFLOW = "Mesh TensorFlow"
# By what is printed: the default, and what GPipe does.
_OURS = {
  "1f1b": {},
  "gpipe with recomputation": {"schedule": "gpipe", "recompute": "always"},
}


def _python() -> str:
  """Returns the interpreter of the peers' environment."""
  if _PYTHON.value is not None:
    return str(_PYTHON.value)
  path = os.path.join(os.environ.get("RUNFILES_DIR", ""), "py_peers", "python3")
  if not os.path.exists(path):
    raise app.UsageError(
      "there is no environment with the peers; run this by ./bazelw run "
      "//benchmarks:peers, or name an interpreter with --peers_python"
    )
  return path


def _split(mlp: mlp_lib.Mlp) -> list[tuple[str, int]]:
  """Returns rules that split the units of every other layer."""
  return [
    (f"^{mlp.name(layer)}/kernel", 1 - layer % 2) for layer in range(mlp.layers)
  ]


def _add_process(sides, stack, name, program, **numbers) -> None:
  """Adds a peer's process as a side."""
  arguments = [f"--mlp={sides.mlp.to_json()}"]
  arguments += [f"--num_{key}={value}" for key, value in numbers.items()]
  process = stack.enter_context(
    asked_process.AskedProcess(_python(), _FOLDER + program, arguments)
  )
  sides.add_run(name, process.run, process.losses)


def _add_gpipe(sides, stack, threads) -> None:
  """Adds Lingvo's GPipe, and ours, for each number of micro-batches."""
  mesh = f"stage:{throughput.STAGES.value}"
  for count in throughput.MICRO_BATCHES.value:
    for name, options in _OURS.items():
      sides.add(
        f"{name}, M={count}",
        mlp_sides.sharded(
          sides.mlp,
          mesh,
          throughput.THREADS.value,
          devices=sides.devices,
          num_micro_batches=count,
          **options,
        ),
      )
    _add_process(
      sides,
      stack,
      f"Lingvo's GPipe, M={count}",
      "lingvo_gpipe",
      stages=throughput.STAGES.value,
      micro_batches=count,
      threads=threads,
    )


def _add_model_axis(sides, stack, threads) -> None:
  """Adds Mesh TensorFlow, and our model axis."""
  count = throughput.STAGES.value
  mesh = _MODEL_AXIS.format(count)
  sides.add(
    mesh,
    mlp_sides.sharded(
      sides.mlp,
      mesh,
      throughput.THREADS.value,
      devices=sides.devices,
      split=_split(sides.mlp),
    ),
  )
  _add_process(
    sides,
    stack,
    _MESH_TENSORFLOW,
    "mesh_tensorflow_mlp",
    devices=count,
    threads=threads,
  )


def _ratios(sides) -> list[figures.Figure]:
  """Returns our times divided by the peers'."""
  found = []
  if "lingvo" in _PEERS.value:
    found += [
      sides.ratio(f"{name}, M={count}", f"Lingvo's GPipe, M={count}")
      for count in throughput.MICRO_BATCHES.value
      for name in _OURS
    ]
  if "mesh_tensorflow" in _PEERS.value:
    mesh = _MODEL_AXIS.format(throughput.STAGES.value)
    found.append(sides.ratio(mesh, _MESH_TENSORFLOW))
  return found


def main(argv):
  """Measures and prints steps per second, and ratios, which are kept."""
  del argv
  throughput.check_flags()
  if throughput.DEVICES.value:
    raise app.UsageError("the peers run on CPUs only; leave --devices out")
  tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
  mlp = mlp_lib.Mlp(
    throughput.LAYERS.value, throughput.WIDTH.value, throughput.BATCH.value
  )
  # What run_config gives a session.
  threads = throughput.THREADS.value or max(
    throughput.STAGES.value, os.cpu_count() or 1
  )
  with contextlib.ExitStack() as stack:
    sides = throughput.Sides(stack, mlp)
    if "lingvo" in _PEERS.value:
      _add_gpipe(sides, stack, threads)
    if "mesh_tensorflow" in _PEERS.value:
      _add_model_axis(sides, stack, threads)
    sides.measure()
  ratios = _ratios(sides)
  print(throughput.limit_text(sides))
  figures.show([*sides.speeds(), *ratios])
  figures.save(ratios)


if __name__ == "__main__":
  app.run(main)
