"""How long graphs with micro-batches take to build, and how large they are.

The aims: a graph with 32 micro-batches takes at most 1.5 times as long as one
with a single one, for an encoder of 4 layers; that of 12 layers on four stages
and 16 micro-batches takes less than 20 seconds, and its process less than 2 GB;
and a BERT of six layers on `model:4` takes at most 2.5 times the CPU time of
the plain model_fn.

    bazel run //benchmarks:pipeline_build
"""

import concurrent.futures
import cProfile
import gc
import multiprocessing
import pstats
import resource
import statistics
import time

import estimator_mp
from benchmarks import encoder, figures
from tests.estimator_mp.equality import bert

import tensorflow as tf
from absl import app, flags

_REPEATS = flags.DEFINE_integer("repeats", 3, "Builds of each.", lower_bound=1)
_PROFILE = flags.DEFINE_integer(
  "profile", 0, "Lines of a profile of the largest graph.", lower_bound=0
)
_CASES = (
  (4, "stage:2", 1),
  (4, "stage:2", 8),
  (4, "stage:2", 32),
  (12, "stage:4", 1),
  (12, "stage:4", 16),
)
_BERT_LAYERS = 6


def _build(num_layers, mesh, num_micro_batches):
  """Returns the seconds of one call of a model_fn, and the ops of its graph."""
  config = estimator_mp.ShardingConfig(
    mesh, num_micro_batches=num_micro_batches
  )
  model_fn = estimator_mp.shard_model_fn(
    encoder.make_model_fn(num_layers), config
  )
  run_config = estimator_mp.run_config(config)
  with tf.Graph().as_default() as graph:
    tf.compat.v1.train.create_global_step()
    data = tf.compat.v1.data.make_one_shot_iterator(encoder.input_fn())
    features, labels = data.get_next()
    start = time.perf_counter()
    model_fn(features, labels, tf.estimator.ModeKeys.TRAIN, run_config)
    return time.perf_counter() - start, len(graph.get_operations())


def _build_alone(*case):
  """Returns seconds, ops and the most bytes that this process has held."""
  tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
  seconds, num_ops = _build(*case)
  # Of Linux, in KiB.
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
  return seconds, num_ops, peak


def _build_bert(mesh):
  """Returns the CPU time of one call of a BERT's model_fn, and its ops.

  Args:
    mesh: The mesh; "" for the plain model_fn.
  """
  model_fn = bert.make_model_fn(_BERT_LAYERS)
  if mesh:
    config = estimator_mp.ShardingConfig(mesh)
    model_fn = estimator_mp.shard_model_fn(model_fn, config)
  with tf.Graph().as_default() as graph:
    tf.compat.v1.train.create_global_step()
    data = tf.compat.v1.data.make_one_shot_iterator(bert.input_fn())
    features, labels = data.get_next()
    gc.collect()  # Of the graph before.
    start = time.process_time()
    model_fn(features, labels, tf.estimator.ModeKeys.TRAIN)
    return time.process_time() - start, len(graph.get_operations())


def _bert_on_model_axis():
  """Returns how many times as long BERT takes on the model axis."""
  meshes = ("", "model:4")
  for mesh in meshes:
    _build_bert(mesh)  # What is made once per process.
  builds = [
    {mesh: _build_bert(mesh) for mesh in meshes} for _ in range(_REPEATS.value)
  ]
  least = {mesh: min(x[mesh][0] for x in builds) for mesh in meshes}
  for mesh in meshes:
    print(
      f"BERT of {_BERT_LAYERS} layers, {mesh or 'plain'}: "
      f"{least[mesh]:.2f} s of CPU time, {builds[0][mesh][1]} ops"
    )
  return figures.Figure(
    f"BERT of {_BERT_LAYERS} layers, model:4 / plain: CPU time of building, "
    "the least of each",
    "",
    (least["model:4"] / least[""],),
    (2.5,),
    is_lower_better=True,
    is_aim=True,
  )


def _name(num_layers, mesh, num_micro_batches):
  return f"{num_layers} layers, {mesh}, M={num_micro_batches}"


def _print(case, seconds, num_ops):
  num_layers, mesh, num_micro_batches = case
  print(
    f"{num_layers:6}  {mesh}  {num_micro_batches:13}  "
    f"{seconds:7.2f}  {num_ops:7}"
  )


def _largest():
  """Returns figures of the largest graph, built in a process of its own."""
  case = _CASES[-1]
  with concurrent.futures.ProcessPoolExecutor(
    1, multiprocessing.get_context("spawn")
  ) as pool:
    seconds, num_ops, peak = pool.submit(_build_alone, *case).result()
  _print(case, seconds, num_ops)
  print(f"        in a process of {peak / 1e6:.0f} MB")
  return [
    figures.Figure(
      f"{_name(*case)}: {what}",
      unit,
      (value,),
      (aim,),
      is_lower_better=True,
      is_aim=True,
    )
    for what, unit, value, aim in (
      ("building alone", "s", seconds, 20.0),
      ("the process's most bytes", "MB", peak / 1e6, 2000.0),
    )
  ]


def main(argv):
  """Builds, and prints times and sizes."""
  del argv
  tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
  _build(*_CASES[0])  # What is made once per process.
  print("layers  mesh     micro-batches  seconds      ops")
  # In turns: the machine is as busy for all of them.
  builds = [
    {case: _build(*case) for case in _CASES} for _ in range(_REPEATS.value)
  ]
  found = []
  for case in _CASES:
    rounds = tuple(build[case][0] for build in builds)
    _print(case, statistics.median(rounds), builds[0][case][1])
    found.append(figures.Figure(f"{_name(*case)}: building", "s", rounds))
  one = min(build[_CASES[0]][0] for build in builds)
  least = min(build[_CASES[2]][0] for build in builds)
  found.append(
    figures.Figure(
      f"{_name(*_CASES[2])} / M=1: building, the least of each",
      "",
      (least / one,),
      (1.5,),
      is_lower_better=True,
      is_aim=True,
    )
  )
  figures.save([*found, _bert_on_model_axis(), *_largest()])
  if _PROFILE.value:
    profile = cProfile.Profile()
    profile.runcall(_build, *_CASES[-1])
    pstats.Stats(profile).sort_stats("cumulative").print_stats(_PROFILE.value)


if __name__ == "__main__":
  app.run(main)
