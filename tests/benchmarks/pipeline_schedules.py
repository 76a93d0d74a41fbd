"""Benchmark: how much of a schedule's bound a pipeline reaches.

The stages of this model sleep for a fixed time per micro-batch, so that two
cores can play any number of devices. One device takes M * K * (forward +
backward), measured in turns with the others; K devices can at best be
M * K / (M + K - 1) times as fast. A measured value above the bound would be a
mistake of the measurement.

  ./bazelw run //tests/benchmarks:pipeline_schedules
"""

import contextlib
import statistics
import time

import estimator_mp
from tests.benchmarks import graphs, turns

import numpy as np
import tensorflow as tf
from absl import app, flags

_FORWARD = flags.DEFINE_float("forward_ms", 20.0, "Milliseconds per forward.")
_STEPS = flags.DEFINE_integer("steps", 5, "Steps to take the median of.")
_VIRTUAL = 2
_STAGES = flags.DEFINE_integer("stages", 4, "Devices.")
_SIZES = flags.DEFINE_multi_integer(
  "micro_batches", [4, 8, 16, 32], "Micro-batches."
)


def _sleeping(net, forward_seconds, backward_seconds):
  """Returns net, after a while; so does its gradient."""

  def sleep(array, seconds):
    time.sleep(seconds)
    return array

  @tf.custom_gradient
  def layer(tensor):
    def gradient(upstream):
      result = tf.numpy_function(
        lambda x: sleep(x, backward_seconds), [upstream], tf.float32
      )
      result.set_shape(tensor.shape)
      return result

    result = tf.numpy_function(
      lambda x: sleep(x, forward_seconds), [tensor], tf.float32
    )
    result.set_shape(tensor.shape)
    return result, gradient

  return layer(net)


def make_model_fn(num_layers, forward_seconds, backward_seconds):
  """Returns a model_fn whose layers sleep.

  Args:
    num_layers: How many.
    forward_seconds: How long each sleeps for a micro-batch.
    backward_seconds: And how long in its gradient.
  """

  def model_fn(features, labels, mode):
    net = features["x"]
    for index in range(num_layers):
      with tf.compat.v1.variable_scope(f"layer_{index}"):
        kernel = tf.compat.v1.get_variable("kernel", [4, 4])
        # After the weights, so that the first layer has a gradient to sleep in.
        net = _sleeping(net @ kernel, forward_seconds, backward_seconds)
    loss = tf.reduce_mean((net - labels) ** 2)
    train_op = tf.compat.v1.train.GradientDescentOptimizer(0.01).minimize(
      loss, tf.compat.v1.train.get_global_step()
    )
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

  return model_fn


def _training_step(stages, micro_batches, schedule, ratio, virtual=1):
  """Returns a graph whose steps are measured, as a context manager."""
  layers = _STAGES.value * virtual
  forward = _FORWARD.value / 1000 / virtual
  rules = tuple((f"^layer_{i}/", i % layers) for i in range(layers))
  config = estimator_mp.ShardingConfig(
    f"stage:{stages}",
    placement="auto" if stages == 1 else rules,
    num_micro_batches=micro_batches,
    schedule=schedule,
    num_virtual_stages=virtual if stages > 1 else 1,
  )
  rng = np.random.RandomState(0)
  x = rng.randn(micro_batches, 4).astype(np.float32)
  model_fn = make_model_fn(layers, forward, forward * ratio)
  return graphs.training_step(model_fn, {"x": x}, x, config)


def main(argv):
  """Measures and prints speed-ups beside their bounds."""
  del argv
  tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
  stages = _STAGES.value
  for ratio in (1, 2):
    print(f"backward = {ratio} x forward ({_FORWARD.value:g} ms), K={stages}")
    for size in _SIZES.value:
      with contextlib.ExitStack() as stack:
        steps = {
          name: stack.enter_context(_training_step(*arguments))
          for name, arguments in (
            ("alone", (1, size, "1f1b", ratio)),
            ("gpipe", (stages, size, "gpipe", ratio)),
            ("1f1b", (stages, size, "1f1b", ratio)),
            ("interleaved", (stages, size, "interleaved", ratio, _VIRTUAL)),
          )
        }
        measured = turns.in_turns(
          [step.seconds for step in steps.values()], _STEPS.value
        )
      alone, *others = measured
      for name, seconds in zip([*steps][1:], others, strict=True):
        virtual = _VIRTUAL if name == "interleaved" else 1
        bound = size * stages / (size + (stages - 1) / virtual)
        speed_up = statistics.median(
          one / other for one, other in zip(alone, seconds, strict=True)
        )
        print(
          f"  M={size:2} {name:11} speed-up {speed_up:.3f}, bound "
          f"{bound:.3f}, reached {speed_up / bound:.3f}"
        )


if __name__ == "__main__":
  app.run(main)
