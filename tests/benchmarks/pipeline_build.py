"""How long graphs with micro-batches take to build, and how large they are.

The bounds: a graph with 32 micro-batches takes at most twice as long as one
with a single one, for a model of middle size; the encoder of 12 layers with 16
micro-batches takes less than 20 seconds.

    bazel run //tests/benchmarks:pipeline_build
"""

import cProfile
import pstats
import statistics
import time

import estimator_mp
from tests.benchmarks import encoder, figures

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


def main(argv):
  """Builds, and prints times and sizes."""
  del argv
  tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
  _build(*_CASES[0])  # What is made once per process.
  print("layers  mesh     micro-batches  seconds      ops")
  found = []
  for num_layers, mesh, num_micro_batches in _CASES:
    builds = [
      _build(num_layers, mesh, num_micro_batches) for _ in range(_REPEATS.value)
    ]
    seconds = statistics.median(seconds for seconds, _ in builds)
    print(
      f"{num_layers:6}  {mesh}  {num_micro_batches:13}  {seconds:7.2f}  "
      f"{builds[0][1]:7}"
    )
    what = f"{num_layers} layers, {mesh}, M={num_micro_batches}: building"
    rounds = tuple(seconds for seconds, _ in builds)
    found.append(figures.Figure(what, "s", rounds))
  figures.save(found)
  if _PROFILE.value:
    profile = cProfile.Profile()
    profile.runcall(_build, *_CASES[-1])
    pstats.Stats(profile).sort_stats("cumulative").print_stats(_PROFILE.value)


if __name__ == "__main__":
  app.run(main)
