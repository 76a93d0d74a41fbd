"""How long requests take through stages that are served in processes.

Each of K stages sleeps, so that any number of cores will do. The bound: M
requests take at least (M + K - 1) sleeps, and should take at most 1.15 times
that.

    bazel run //benchmarks:served_stages

The sleep is an op of the SavedModel, that of `tf.data`'s SleepDataset, so that
what is measured is the chain as it is, with no hook.
"""

import os
import statistics
import tempfile
import time

import estimator_mp
from benchmarks import figures
from estimator_mp import toolbox

import numpy as np
import tensorflow as tf
from absl import app, flags

v1 = tf.compat.v1
_STAGES = flags.DEFINE_integer("stages", 3, "How many.", lower_bound=1)
_REQUESTS = flags.DEFINE_integer("requests", 16, "How many.", lower_bound=1)
_MS = flags.DEFINE_integer("ms", 20, "How long each sleeps.", lower_bound=1)
_ROUNDS = flags.DEFINE_integer("rounds", 7, "How often.", lower_bound=1)


def sleeping(tensor, microseconds):
  """Returns a tensor after some time, in any process."""
  kind = {"output_types": [tensor.dtype], "output_shapes": [tensor.shape]}
  one = tf.raw_ops.TensorDataset(
    components=[tensor], output_shapes=kind["output_shapes"]
  )
  slow = tf.raw_ops.SleepDataset(
    input_dataset=one,
    sleep_microseconds=tf.constant(microseconds, tf.int64),
    **kind,
  )
  # It would sleep again before it says that there is no other element.
  first = tf.raw_ops.TakeDataset(
    input_dataset=slow, count=tf.constant(1, tf.int64), **kind
  )
  (result,) = tf.raw_ops.DatasetToSingleElement(dataset=first, **kind)
  return result


def model_fn(features, labels, mode, params):
  """A dense layer and a sleep on each stage."""
  net = features["x"]
  for stage in range(params["stages"]):
    net = v1.layers.dense(net, 8, tf.tanh, name=f"layer{stage}")
    if mode == tf.estimator.ModeKeys.PREDICT:
      with tf.name_scope(f"layer{stage}/"):
        net = sleeping(net, params["microseconds"])
  if mode == tf.estimator.ModeKeys.PREDICT:
    return tf.estimator.EstimatorSpec(mode, {"output": net})
  loss = tf.reduce_mean((net - labels) ** 2)
  step = v1.train.get_global_step()
  train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn():
  """Two examples."""
  x = np.ones([2, 8], np.float32)
  return tf.data.Dataset.from_tensors(({"x": x}, x))


def receiver_fn():
  """Takes one feature."""
  x = {"x": v1.placeholder(tf.float32, [None, 8], "x")}
  return tf.estimator.export.ServingInputReceiver(x, x)


def export(folder, stages, microseconds):
  """Returns the folder of exported stages that sleep."""
  rules = [(f"^layer{stage}/", stage) for stage in range(stages)]
  config = estimator_mp.ShardingConfig(f"stage:{stages}", placement=rules)
  estimator = tf.estimator.Estimator(
    estimator_mp.shard_model_fn(model_fn, config),
    config=estimator_mp.run_config(config, os.path.join(folder, "model")),
    params={"stages": stages, "microseconds": microseconds},
  )
  estimator.train(input_fn, steps=1)
  return estimator_mp.export_stages(estimator, folder, receiver_fn)


def main(argv):
  """Measures, and prints the times."""
  del argv
  v1.logging.set_verbosity(v1.logging.ERROR)
  request = {"x": np.ones([4, 8], np.float32)}
  count, sleep = _REQUESTS.value, _MS.value / 1e3
  bound = (count + _STAGES.value - 1) * sleep
  with tempfile.TemporaryDirectory() as folder:
    path = export(folder, _STAGES.value, _MS.value * 1000)
    with toolbox.StagePipeline(path) as pipeline:
      list(pipeline.predict([request] * 3))
      seconds = []
      for _ in range(_ROUNDS.value):
        start = time.perf_counter()
        list(pipeline.predict([request] * count))
        seconds.append(time.perf_counter() - start)
      start = time.perf_counter()
      for _ in range(count):
        pipeline.run(request)
      apart = time.perf_counter() - start
  ratios = sorted(x / bound for x in seconds)
  print(
    f"{count} requests, {_STAGES.value} stages of {_MS.value} ms: "
    f"{statistics.median(seconds) * 1e3:.0f} ms, "
    f"{statistics.median(ratios):.3f} times the bound of {bound * 1e3:.0f} ms "
    f"(from {ratios[0]:.3f} to {ratios[-1]:.3f}); one after the other "
    f"{apart * 1e3:.0f} ms"
  )
  what = f"{count} requests, {_STAGES.value} stages of {_MS.value} ms"
  milliseconds = [1e3 * x for x in seconds]
  figures.save(
    [
      figures.Figure(
        what, "ms", milliseconds, (1e3 * bound,), is_lower_better=True
      ),
      figures.Figure(f"{what}, one after the other", "ms", (1e3 * apart,)),
    ]
  )


if __name__ == "__main__":
  app.run(main)
