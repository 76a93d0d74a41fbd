"""Benchmark: prediction in micro-batches on stages that sleep.

A model of eight layers on four stages; with each micro-batch each stage sleeps,
as if it computed on a device of its own. So what is measured is how far stages
work at the same time, and not how fast a core is. Without micro-batches each
stage sleeps as long for the whole batch, one stage after the other. Both are
measured in turns.

  ./bazelw run //benchmarks:pipelined_prediction
"""

import functools
import statistics
import time

import estimator_mp
from benchmarks import figures, graphs

import numpy as np
import tensorflow as tf
from absl import app, flags

_SIZE = flags.DEFINE_integer("micro_batches", 8, "Micro-batches.")
_BATCH = flags.DEFINE_integer("batch", 64, "Examples.")
_SLEEP = flags.DEFINE_integer("sleep_ms", 20, "Of a stage, for a micro-batch.")
_PAIRS = flags.DEFINE_integer("pairs", 9, "Pairs of steps.")

_STAGES = 4
_WIDTH = 16


def _slowly(net, name):
  """Returns a tensor that a device is busy with, for each of its rows."""
  seconds_per_row = _SLEEP.value / 1000 * _SIZE.value / _BATCH.value

  def sleep(rows):
    time.sleep(seconds_per_row * len(rows))
    return rows

  found = tf.numpy_function(sleep, [net], net.dtype, name=name)
  found.set_shape(net.shape)
  return found


def _model_fn(features, labels, mode):
  """Eight layers, two on each stage."""
  del labels
  net = features
  for stage in range(_STAGES):
    with estimator_mp.stage(stage):
      for layer in range(2):
        name = f"layer_{2 * stage + layer}"
        net = tf.compat.v1.layers.dense(net, _WIDTH, tf.nn.relu, name=name)
      net = _slowly(net, f"sleep_{stage}")
  return tf.estimator.EstimatorSpec(mode, predictions={"net": net})


def main(argv):
  """Measures and prints the ratio, and its bound."""
  del argv
  tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
  x = np.random.RandomState(0).randn(_BATCH.value, _WIDTH).astype(np.float32)
  config = functools.partial(
    estimator_mp.ShardingConfig, f"stage:{_STAGES}", per_example=["^sleep_"]
  )
  step = functools.partial(
    graphs.step, tf.estimator.ModeKeys.PREDICT, _model_fn, x, x
  )
  with (
    step(config()) as first,
    step(config(num_micro_batches=_SIZE.value)) as second,
  ):
    pairs = [(first.seconds(), second.seconds()) for _ in range(_PAIRS.value)]
  ratios = sorted(one / other for one, other in pairs)
  bound = _SIZE.value * _STAGES / (_SIZE.value + _STAGES - 1)
  ratio = statistics.median(ratios)
  print(
    f"throughput with M={_SIZE.value} / without: {ratio:.3f} (from "
    f"{ratios[0]:.3f} to {ratios[-1]:.3f}), bound {bound:.3f}, "
    f"{ratio / bound:.3f} of it"
  )
  what = f"throughput with M={_SIZE.value} / without"
  figures.save([figures.Figure(what, "", ratios, (bound,))])


if __name__ == "__main__":
  app.run(main)
