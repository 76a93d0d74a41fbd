"""Benchmark: how much of a schedule's bound a pipeline reaches.

The stages of this model sleep for a fixed time per micro-batch and phase, so
that two cores can play any number of devices. One device takes
M * K * (F + B + W), measured in turns with the others: F for a forward pass, B
for what earlier stages wait for of a backward pass, and W for what only weights
need. Where a schedule does not split backward passes, a stage sleeps once for
both, as the formulas of its paper have it: a graph may send what others wait
for before the rest is done. The bound is how many times as fast the schedule is
in simulation, where nothing else takes time. A measured value above it would be
a mistake of the measurement.

  ./bazelw run //benchmarks:pipeline_schedules
"""

import contextlib
import statistics
import time

import estimator_mp
from benchmarks import figures, graphs, turns
from estimator_mp.config.schedules import orders
from estimator_mp.pipeline import simulation

import numpy as np
import tensorflow as tf
from absl import app, flags

_FORWARD = flags.DEFINE_float("forward_ms", 20.0, "Milliseconds per forward.")
_STEPS = flags.DEFINE_integer("steps", 5, "Steps to take the median of.")
_STAGES = flags.DEFINE_integer("stages", 4, "Devices.")
_SIZES = flags.DEFINE_multi_integer("micro_batches", [8], "Micro-batches.")
# F, B and W, in forwards.
_RATIOS = ((1.0, 1.0, 1.0), (1.0, 1.2, 0.8))
# The stages of each device.
_SCHEDULES = {
  "gpipe": 1,
  "1f1b": 1,
  "interleaved": 2,
  "zb1p": 1,
  "zb2p": 1,
  "zbv": 2,
}


def _sleeping(tensor, seconds):
  """Returns a tensor, after a while."""
  if not seconds:
    return tensor

  def sleep(array):
    time.sleep(seconds)
    return array

  result = tf.numpy_function(sleep, [tensor], tf.float32, name="sleep")
  result.set_shape(tensor.shape)
  return result


def _layer(net, kernel, bias, times):
  """Returns what a dense layer makes, each phase of which sleeps.

  Args:
    net: What it reads, of shape [examples, width].
    kernel: Its kernel, of shape [width, width].
    bias: Its bias, of shape [width].
    times: The seconds of its F, B and W.
  """
  forward, backward, weight = times

  @tf.custom_gradient
  def layer(net, kernel, bias):
    def gradient(upstream):
      # Both weights' gradients need it, so it is B on the first stage, too.
      upstream = _sleeping(upstream, backward)
      of_kernel = tf.matmul(net, _sleeping(upstream, weight), transpose_a=True)
      of_net = tf.matmul(upstream, kernel, transpose_b=True)
      return of_net, of_kernel, tf.reduce_sum(upstream, 0)

    return _sleeping(tf.matmul(net, kernel) + bias, forward), gradient

  return layer(net, kernel, bias)


def _make_model_fn(num_layers, times):
  """Returns a model_fn whose layers sleep.

  Args:
    num_layers: How many.
    times: The seconds of each for a micro-batch: F, B and W.
  """

  def model_fn(features, labels, mode):
    net = features["x"]
    for index in range(num_layers):
      with tf.compat.v1.variable_scope(f"layer_{index}"):
        kernel = tf.compat.v1.get_variable("kernel", [4, 4])
        bias = tf.compat.v1.get_variable("bias", [4])
        net = _layer(net, kernel, bias, times)
    loss = tf.reduce_mean((net - labels) ** 2)
    train_op = tf.compat.v1.train.GradientDescentOptimizer(0.01).minimize(
      loss, tf.compat.v1.train.get_global_step()
    )
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

  return model_fn


def _training_step(stages, micro_batches, schedule, times):
  """Returns a graph whose steps are measured, as a context manager."""
  virtual = _SCHEDULES[schedule] if stages > 1 else 1
  layers = _STAGES.value * virtual
  rules = tuple((f"^layer_{i}/", i) for i in range(layers))
  forward, backward, weight = (time / virtual for time in times)
  if not orders.ORDERS[schedule].splits_backward:
    backward, weight = backward + weight, 0.0
  config = estimator_mp.ShardingConfig(
    f"stage:{stages}",
    placement="auto" if stages == 1 else rules,
    num_micro_batches=micro_batches,
    schedule=schedule,
    num_virtual_stages=virtual,
    per_example=["/sleep"],
    # The sleep of a weight's gradient is to come as often as the formulas say.
    weight_gradients="each",
  )
  rng = np.random.RandomState(0)
  x = rng.randn(micro_batches, 4).astype(np.float32)
  model_fn = _make_model_fn(layers, (forward, backward, weight))
  return graphs.training_step(model_fn, {"x": x}, x, config)


def _measured(micro_batches, times):
  """Returns the seconds of steps: those of one device, and by schedule."""
  with contextlib.ExitStack() as stack:
    alone = _training_step(1, micro_batches, "1f1b", times)
    steps = [alone] + [
      _training_step(_STAGES.value, micro_batches, name, times)
      for name in _SCHEDULES
    ]
    alone, *others = turns.in_turns(
      [stack.enter_context(step).seconds for step in steps], _STEPS.value
    )
  return alone, dict(zip(_SCHEDULES, others, strict=True))


def _simulated(name, micro_batches, times):
  """Returns the simulated seconds of a schedule's step."""
  schedule = orders.make_schedule(
    name, _STAGES.value, micro_batches, _SCHEDULES[name]
  )
  return simulation.simulate(schedule, *times).makespan


def _ratio(firsts, seconds):
  """Returns the median ratio of what two sides had in each round."""
  return statistics.median(
    first / second for first, second in zip(firsts, seconds, strict=True)
  )


def main(argv):
  """Measures and prints speed-ups beside their bounds."""
  del argv
  tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
  stages = _STAGES.value
  found = []
  for ratio in _RATIOS:
    times = [_FORWARD.value / 1000 * share for share in ratio]
    shares = " : ".join(f"{share:g}" for share in ratio)
    print(f"F : B : W = {shares}, F = {_FORWARD.value:g} ms, K={stages}")
    for size in _SIZES.value:
      alone, measured = _measured(size, times)
      simulated = {name: _simulated(name, size, times) for name in measured}
      for name, seconds in measured.items():
        speed_up = _ratio(alone, seconds)
        bound = stages * size * sum(times) / simulated[name]
        print(
          f"  M={size:2} {name:11} speed-up {speed_up:.3f}, bound "
          f"{bound:.3f}, reached {speed_up / bound:.3f}"
        )
        what = f"F : B : W = {shares}, M={size}, {name}: speed-up"
        found.append(figures.ratio(what, alone, seconds, bound=(bound,)))
      gained = _ratio(measured["1f1b"], measured["zb1p"])
      promised = simulated["1f1b"] / simulated["zb1p"]
      print(
        f"  M={size:2} zb1p makes {gained:.3f} times the steps of 1f1b; the "
        f"formulas promise {promised:.3f}"
      )
      what = f"F : B : W = {shares}, M={size}: steps/s of zb1p / 1f1b"
      found.append(
        figures.ratio(
          what,
          measured["1f1b"],
          measured["zb1p"],
          bound=(promised,),
          is_aim=True,
        )
      )
  figures.save(found)


if __name__ == "__main__":
  app.run(main)
