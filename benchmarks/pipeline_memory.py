"""Benchmark: the memory of activations, plain and in a pipeline.

The most bytes of tensors that were alive at once in a traced step, without
variables: of the plain model on one device, and of K stages with M
micro-batches, each stage on its own device. A split backward pass is compared
with a whole one where all stages have as many layers.

  ./bazelw run //benchmarks:pipeline_memory
"""

import estimator_mp
from benchmarks import encoder, figures, graphs

import numpy as np
import tensorflow as tf
from absl import app, flags

_STAGES = flags.DEFINE_integer("stages", 4, "Devices.")
_DEVICES = flags.DEFINE_list(
  "devices", [], "A device for each stage, such as gpu:0,gpu:1; CPUs without."
)
_SIZE = flags.DEFINE_integer("micro_batches", 16, "Micro-batches.")
_BATCH = flags.DEFINE_integer("batch", 256, "Examples.")
_LAYERS = flags.DEFINE_integer("layers", 16, "Layers of the MLP.")
_ENCODER_LAYERS = flags.DEFINE_integer("encoder_layers", 8, "And the encoder.")


def _mlp(features, labels, mode):
  net = features
  for _ in range(_LAYERS.value):
    net = tf.compat.v1.layers.dense(net, 256, tf.nn.relu)
  loss = tf.reduce_mean((tf.compat.v1.layers.dense(net, 1) - labels) ** 2)
  train_op = tf.compat.v1.train.GradientDescentOptimizer(0.01).minimize(
    loss, tf.compat.v1.train.get_global_step()
  )
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _measure(name, model_fn, features, labels):
  """Prints the peak of the plain run, and those of pipelines.

  Returns:
    The sum and the largest of each pipeline's, as parts of the plain one's.
  """
  found = []
  devices = _devices()
  plain = estimator_mp.ShardingConfig("stage:1", devices=devices[:1])
  with graphs.training_step(model_fn, features, labels, plain) as step:
    alone = step.trace().peak_live_bytes[0]
  print(f"{name}: plain {alone / 1e6:.2f} MB on one device")
  for schedule in ("gpipe", "1f1b"):
    for recompute in ("never", "always"):
      config = estimator_mp.ShardingConfig(
        f"stage:{_STAGES.value}",
        devices=devices,
        num_micro_batches=_SIZE.value,
        schedule=schedule,
        recompute=recompute,
      )
      with graphs.training_step(model_fn, features, labels, config) as step:
        trace = step.trace()
      peaks = trace.peak_live_bytes
      each = "/".join(f"{peak / 1e6:.2f}" for peak in peaks)
      live = "/".join(map(str, trace.live_micro_batches()))
      print(
        f"  {schedule:5} recompute={recompute:6} {each} MB, of plain: largest "
        f"{max(peaks) / alone:.3f}, sum {sum(peaks) / alone:.3f}; live "
        f"micro-batches {live}"
      )
      what = f"{name}, {schedule}, recompute={recompute}: peak bytes"
      least = (1.0,) if recompute == "never" else ()
      found += [
        figures.Figure(
          f"{what}, all devices / plain",
          "",
          (sum(peaks) / alone,),
          least,
          is_lower_better=True,
          # Of several devices not all have their peak at the same time.
          is_aim=True,
        ),
        figures.Figure(
          f"{what}, fullest device / plain", "", (max(peaks) / alone,)
        ),
      ]
  return found


def _devices():
  return _DEVICES.value or [f"/cpu:{i}" for i in range(_STAGES.value)]


def _measure_split(model_fn, features, labels):
  """Prints the peaks of 1f1b and zb1p, with as many layers on each stage.

  The automatic placement weighs time, so that the last stage, which has no
  table, gets more layers. They count for all the micro-batches that zb1p holds
  there.

  Returns:
    The largest peak of zb1p, as a part of that of 1f1b.
  """
  layers = range(_ENCODER_LAYERS.value)
  count = _STAGES.value
  rules = [
    (rf"^layer_{i}/", i * count // _ENCODER_LAYERS.value) for i in layers
  ]
  placement = [*rules, ("^embeddings", 0), ("^classifier", count - 1)]
  largest = {}
  for schedule in ("1f1b", "zb1p"):
    config = estimator_mp.ShardingConfig(
      f"stage:{count}",
      devices=_devices(),
      placement=placement,
      num_micro_batches=_SIZE.value,
      schedule=schedule,
    )
    with graphs.training_step(model_fn, features, labels, config) as step:
      peaks = step.trace().peak_live_bytes
    each = "/".join(f"{peak / 1e6:.2f}" for peak in peaks)
    print(f"  {schedule}, as many layers on each stage: {each} MB")
    largest[schedule] = max(peaks)
  return figures.Figure(
    "transformer, equal stages: peak bytes of the fullest device, zb1p / 1f1b",
    "",
    (largest["zb1p"] / largest["1f1b"],),
    (1.1,),
    is_lower_better=True,
    is_aim=True,
  )


def main(argv):
  """Measures both models."""
  del argv
  tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
  rng = np.random.RandomState(0)
  features = rng.randn(_BATCH.value, 256).astype(np.float32)
  found = _measure("MLP", _mlp, features, features[:, :1])
  words = rng.randint(encoder.VOCABULARY, size=[_BATCH.value, encoder.LENGTH])
  classes = rng.randint(2, size=[_BATCH.value]).astype(np.int32)
  model_fn = encoder.make_model_fn(_ENCODER_LAYERS.value)
  words = words.astype(np.int32)
  found += _measure("transformer", model_fn, words, classes)
  found.append(_measure_split(model_fn, words, classes))
  figures.save(found)


if __name__ == "__main__":
  app.run(main)
