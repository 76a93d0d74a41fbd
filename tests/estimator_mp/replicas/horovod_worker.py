"""One process of the runs that horovod_test.py starts.

  horovodrun --gloo -np 2 -H localhost:2 \
    python -m tests.estimator_mp.replicas.horovod_worker \
      --run=train --folder=FOLDER

Each process writes what it saw to FOLDER.
"""

import dataclasses
import os
import re
import runpy

import estimator_mp
from estimator_mp import toolbox
from estimator_mp.replicas import horovod as horovod_aggregation
from model_fns import datasets
from model_fns.images import cifar10_cnn

import numpy as np
import tensorflow as tf
from absl import app, flags

v1 = tf.compat.v1

_FOLDER = flags.DEFINE_string("folder", None, "Where to write.", required=True)
_RUN = flags.DEFINE_enum(
  "run", "train", ["plain", "train", "collectives", "guide"], "What to do."
)

_BATCH_SIZE = 64
_STEPS = 30
_CONFIGS = {
  "stages": estimator_mp.ShardingConfig("stage:2", aggregation="horovod"),
  "pipeline": estimator_mp.ShardingConfig(
    "stage:2", aggregation="horovod", num_micro_batches=4
  ),
}


@dataclasses.dataclass(frozen=True)
class _Process:
  """Which one of how many processes this is."""

  rank: int = 0
  size: int = 1


class _Recorder(tf.estimator.SessionRunHook):
  """Keeps the losses of steps, and the variables after the last one."""

  def __init__(self):
    self.losses = []
    self.variables = {}
    self._loss = None
    self._values = {}

  def begin(self):
    self._loss = v1.get_collection(v1.GraphKeys.LOSSES)[-1]
    self._values = {v.op.name: v.value() for v in v1.global_variables()}

  def before_run(self, run_context):
    return tf.estimator.SessionRunArgs(self._loss)

  def after_run(self, run_context, run_values):
    self.losses.append(run_values.results)

  def end(self, session):
    self.variables = session.run(self._values)


def _model_fn(seed):
  """Returns a model_fn of cifar10_cnn; without dropout, which is random."""

  def model_fn(features, labels, mode):
    net = features["image"]
    for block in cifar10_cnn.layers(10, seed):
      net = block(net, training=False)
    loss = v1.losses.sparse_softmax_cross_entropy(labels[:, 0], net)
    train_op = v1.train.MomentumOptimizer(0.02, 0.9).minimize(
      loss, v1.train.get_global_step()
    )
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

  return model_fn


def _input_fn(process, skipped_steps):
  """Returns this process's examples of the batches that a plain run gets."""
  batches = datasets.load("digits").train_input_fn(_BATCH_SIZE, seed=3)

  def input_fn():
    examples = batches().skip(skipped_steps).unbatch()
    own = examples.shard(process.size, process.rank)
    return own.batch(_BATCH_SIZE // process.size, drop_remainder=True)

  return input_fn


def _train(process, name, config):
  """Trains in two parts; the second one resumes where process 0 stopped."""
  sharded = _model_fn(seed=5)
  run_config = tf.estimator.RunConfig
  if config is not None:
    # Other initial values in each process: all have to get those of process 0.
    model_fn = _model_fn(seed=5 + process.rank)
    sharded = estimator_mp.shard_model_fn(model_fn, config)

    def run_config(**kwargs):
      return estimator_mp.run_config(config, **kwargs)

  losses = []
  observed = toolbox.PlacementVerificationHook()
  for part in range(2):
    recorder = _Recorder()
    made = {"save_checkpoints_steps": None, "save_checkpoints_secs": None}
    if process.rank == 0:
      folder = os.path.join(_FOLDER.value, name)
      made = {"save_checkpoints_steps": _STEPS, "model_dir": folder}
    estimator = tf.estimator.Estimator(sharded, config=run_config(**made))
    estimator.train(
      _input_fn(process, part * _STEPS // 2),
      steps=_STEPS // 2,
      hooks=[recorder, observed],
    )
    losses += recorder.losses
  reductions = [
    found.op_types.get("HorovodAllreduce", 0)
    for found in observed.observed.values()
    if found.variables
  ]
  _write(
    process,
    name,
    losses=losses,
    reductions=reductions,
    **{f"variable/{key}": x for key, x in recorder.variables.items()},
  )


def _reduce(process):
  """Reduces gradients of all kinds; the sparse one of process 1 is empty."""
  rows = 3 * (1 - process.rank)
  with tf.Graph().as_default():
    fed = {
      v1.placeholder(tf.float32, [2, 3]): np.full([2, 3], process.rank + 1),
      v1.placeholder(tf.float16, [None]): np.full([2], process.rank + 1),
      v1.placeholder(tf.float32, [None, 4]): np.ones([rows, 4]),
      v1.placeholder(tf.int64, [None]): np.arange(rows),
    }
    fixed, unknown, values, indices = fed
    with tf.device("/cpu:1"):
      gradients = [
        fixed * 2,
        tf.constant([1.0, 2.0]) * (process.rank + 1),
        None,
        tf.IndexedSlices(values * 2, indices, tf.constant([9, 4], tf.int64)),
        # As the one above: TensorFlow may take one for the other.
        tf.constant([1.0, 2.0]) * (process.rank + 1),
        unknown * 2,
      ]
    means = horovod_aggregation.reduce_gradients(gradients)
    sums = horovod_aggregation.reduce_gradients(gradients, "sum")
    loss = horovod_aggregation.reduce_loss(tf.reduce_sum(fixed))
    fetches = {"loss": loss}
    for kind, reduced in (("mean", means), ("sum", sums)):
      for index, gradient in enumerate(reduced):
        if isinstance(gradient, tf.IndexedSlices):
          fetches[f"{kind}{index}/indices"] = gradient.indices
          gradient = gradient.values
        if gradient is not None:
          # What is fetched itself is never taken for constant.
          fetches[f"{kind}{index}"] = gradient * tf.cast(
            tf.reduce_sum(fixed) > 0, gradient.dtype
          )
    other = fixed + 1
    session_config = v1.ConfigProto(
      allow_soft_placement=False,
      device_count={"CPU": 2},
      use_per_session_threads=True,
    )
    with v1.Session(config=session_config) as session:
      session.run(fetches, fed)
      # Process 0 prepares its graph again; process 1 has no reason to.
      more = [other] if process.rank == 0 else []
      found, _ = session.run([fetches, more], fed)
  _write(process, "collectives", **found)


def _differ(process):
  """Keeps what is raised if process 1 has another variable."""
  message = "nothing"
  with tf.Graph().as_default():
    v1.train.create_global_step()
    v1.get_variable("weights" if process.rank == 0 else "other", [2])
    hook = horovod_aggregation.BroadcastHook()
    try:
      v1.train.MonitoredSession(hooks=[hook]).close()
    except RuntimeError as error:
      message = str(error)
  _write(process, "differ", message=message)


def _follow_guide(process):
  """Runs the program of docs/horovod.md."""
  root = os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)
  with open(os.path.join(root, "docs", "horovod.md"), encoding="utf-8") as file:
    (program,) = re.findall(r"```python\n(.*?)```", file.read(), re.S)
  os.makedirs(os.path.join(_FOLDER.value, "guide"), exist_ok=True)
  os.chdir(os.path.join(_FOLDER.value, "guide"))
  path = f"train_{process.rank}.py"
  with open(path, "w", encoding="utf-8") as file:
    file.write(program)
  names = runpy.run_path(path)
  checkpoint = names["estimator"].latest_checkpoint()
  _write(process, "guide", checkpoint=os.path.basename(checkpoint or ""))


def _write(process, name, **arrays):
  path = os.path.join(_FOLDER.value, f"{name}_{process.rank}.npz")
  np.savez(path, **arrays)


def main(argv):
  del argv
  if _RUN.value == "plain":
    _train(_Process(), "plain", None)
    return
  horovod = horovod_aggregation.load_horovod()
  process = _Process(horovod.rank(), horovod.size())
  if _RUN.value == "train":
    for name, config in _CONFIGS.items():
      _train(process, name, config)
  elif _RUN.value == "guide":
    _follow_guide(process)
  else:
    _reduce(process)
    _differ(process)


if __name__ == "__main__":
  app.run(main)
