"""Benchmark: the throughput of two stages with and without micro-batches.

Two CPU devices, one thread for each op, on a machine with two cores. Without
micro-batches one device waits while the other one works; with M of them a step
can at best be 2 * M / (M + 1) times as fast. Both are measured in turns. The
rest of the bound goes where the trace says: the devices are busy for longer
than the plain run (smaller matrices, adding gradients up), or idle for longer
than the schedule has it.

  ./bazelw run //tests/benchmarks:pipeline_throughput
"""

import statistics

import estimator_mp
from tests.benchmarks import graphs

import numpy as np
import tensorflow as tf
from absl import app, flags

_SIZE = flags.DEFINE_integer("micro_batches", 8, "Micro-batches.")
_BATCH = flags.DEFINE_integer("batch", 1024, "Examples.")
_WIDTH = flags.DEFINE_integer("width", 1024, "Units of each layer.")
_PAIRS = flags.DEFINE_integer("pairs", 7, "Pairs of steps.")


def _mlp(features, labels, mode):
  net = features
  for _ in range(8):
    net = tf.compat.v1.layers.dense(net, _WIDTH.value, tf.nn.relu)
  loss = tf.reduce_mean((net - labels) ** 2)
  train_op = tf.compat.v1.train.GradientDescentOptimizer(0.01).minimize(
    loss, tf.compat.v1.train.get_global_step()
  )
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _busy(trace):
  """Returns the milliseconds that each device ran ops."""
  return [
    sum(end - start for start, end in trace.busy_intervals(device)) / 1000
    for device in range(2)
  ]


def main(argv):
  """Measures and prints the ratio, its bound, and what is between them."""
  del argv
  tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
  rng = np.random.RandomState(0)
  x = rng.randn(_BATCH.value, _WIDTH.value).astype(np.float32)
  # Four layers on each device.
  rules = ((r"^dense(_[123])?/", 0), (r"^dense_[4567]/", 1))
  plain = estimator_mp.ShardingConfig("stage:2", placement=rules)
  piped = estimator_mp.ShardingConfig(
    "stage:2", placement=rules, num_micro_batches=_SIZE.value
  )
  with (
    graphs.training_step(_mlp, x, x, plain, 1) as first,
    graphs.training_step(_mlp, x, x, piped, 1) as second,
  ):
    pairs = [(first.seconds(), second.seconds()) for _ in range(_PAIRS.value)]
    traces = first.trace(), second.trace()
  ratios = sorted(one / other for one, other in pairs)
  bound = 2 * _SIZE.value / (_SIZE.value + 1)
  print(
    f"throughput with M={_SIZE.value} / without: "
    f"{statistics.median(ratios):.3f} (from {ratios[0]:.3f} to "
    f"{ratios[-1]:.3f}), bound {bound:.3f}"
  )
  for name, trace in zip(("without", "with"), traces, strict=True):
    busy = "/".join(f"{ms:.0f}" for ms in _busy(trace))
    print(f"  {name}: step {trace.makespan / 1000:.0f} ms, busy {busy} ms")


if __name__ == "__main__":
  app.run(main)
