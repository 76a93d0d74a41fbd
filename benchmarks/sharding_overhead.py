"""What sharding costs where it gains nothing: on one stage, and in building.

Three ratios, each measured in one process with both sides in turns:

- steps per second of a sharded run on one stage over the plain Estimator's;
- steps per second on two stages over the same model with `tf.device` by hand;
- the time of building a graph, sharded over plain (four stages).

The bound of the first two is 1: the same ops run. What lies above it is noise.

    bazel run //benchmarks:sharding_overhead
"""

import statistics
import tempfile
import time

import estimator_mp
from benchmarks import encoder, figures, turns

import tensorflow as tf
from absl import app, flags

_PAIRS = flags.DEFINE_integer("pairs", 7, "Pairs of runs.", lower_bound=1)
_STEPS = flags.DEFINE_integer("steps", 60, "Steps of a run.", lower_bound=3)
_LAYERS = flags.DEFINE_integer(
  "layers", 12, "Layers of the encoder whose graph is built.", lower_bound=1
)
_WARM_UP_STEPS = 10


class _Timer(tf.estimator.SessionRunHook):
  """Collects the seconds of each step."""

  def __init__(self):
    self.seconds = []

  def before_run(self, run_context):
    self._start = time.perf_counter()

  def after_run(self, run_context, run_values):
    self.seconds.append(time.perf_counter() - self._start)


def _steps_per_second(model_fn, config):
  """Returns the median speed of one run of an Estimator."""
  timer = _Timer()
  with tempfile.TemporaryDirectory() as folder:
    run_config = (
      tf.estimator.RunConfig(folder, tf_random_seed=1)
      if config is None
      else estimator_mp.run_config(config, folder, tf_random_seed=1)
    )
    estimator = tf.estimator.Estimator(model_fn, config=run_config)
    estimator.train(encoder.input_fn, steps=_STEPS.value, hooks=[timer])
  return 1 / statistics.median(timer.seconds[_WARM_UP_STEPS:])


def _build_seconds(model_fn, config):
  """Returns the time of one call of a model_fn."""
  arguments = {"mode": tf.estimator.ModeKeys.TRAIN}
  if config is not None:
    arguments["config"] = estimator_mp.run_config(config)
  with tf.Graph().as_default():
    tf.compat.v1.train.create_global_step()
    data = tf.compat.v1.data.make_one_shot_iterator(encoder.input_fn())
    features, labels = data.get_next()
    start = time.perf_counter()
    model_fn(features, labels, **arguments)
    return time.perf_counter() - start


def _compare(name, measure_first, measure_second, **bound):
  """Measures two sides in turns, prints their ratio, and returns it."""
  measured = turns.in_turns([measure_first, measure_second], _PAIRS.value)
  # The same ops run, so what is beyond 1 is noise, and no fault.
  return turns.print_ratio(name, *measured, bound=(1.0,), is_aim=True, **bound)


def main(argv):
  """Measures and prints the three ratios."""
  del argv
  tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
  one = estimator_mp.ShardingConfig("stage:1")
  two = estimator_mp.ShardingConfig("stage:2", placement=encoder.halves(2))
  four = estimator_mp.ShardingConfig("stage:4")
  small = encoder.make_model_fn(2)
  by_hand = encoder.make_model_fn(2, ("/cpu:0", "/cpu:1"))
  large = encoder.make_model_fn(_LAYERS.value)
  one_stage = _compare(
    "steps/s, sharded on one stage / plain (bound 1)",
    lambda: _steps_per_second(estimator_mp.shard_model_fn(small, one), one),
    lambda: _steps_per_second(small, None),
  )
  two_stages = _compare(
    "steps/s, sharded on two stages / tf.device by hand (bound 1)",
    lambda: _steps_per_second(estimator_mp.shard_model_fn(small, two), two),
    lambda: _steps_per_second(by_hand, two),
  )
  build = _compare(
    f"seconds to build {_LAYERS.value} layers, sharded / plain",
    lambda: _build_seconds(estimator_mp.shard_model_fn(large, four), four),
    lambda: _build_seconds(large, None),
    is_lower_better=True,
  )
  figures.save([one_stage, two_stages, build])


if __name__ == "__main__":
  app.run(main)
