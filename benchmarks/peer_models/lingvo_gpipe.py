"""Trains the MLP by Lingvo's GPipe, in the environment of `peers`.

It is Lingvo's PipeliningLayer (Huang et al., 2019, arXiv:1811.06965), with the
cluster, the placement of variables and the gradients of Lingvo's trainer, and
without Lingvo's assertions and checks of numbers, which would cost it time.

Lingvo's own kernels need a newer C library than many machines have. GPipe uses
none of them, so a module takes their place whose functions only raise.
"""

import sys
import types

from benchmarks import asked_process
from benchmarks import mlp as mlp_lib

import tensorflow as tf
from absl import app, flags

v1 = tf.compat.v1

_MLP = flags.DEFINE_string("mlp", None, "The MLP, as JSON.", required=True)
_STAGES = flags.DEFINE_integer("num_stages", 2, "Devices.")
_MICRO_BATCHES = flags.DEFINE_integer("num_micro_batches", 4, "M.")
_THREADS = flags.DEFINE_integer("num_threads", 2, "Ops at a time.")
_KERNELS = "lingvo.core.ops.gen_x_ops"


class _NoKernels(types.ModuleType):
  """Has any function, and each raises when it is called."""

  def __getattr__(self, name):
    if name.startswith("__"):
      raise AttributeError(name)

    def missing(*args, **kwargs):
      raise NotImplementedError(f"Lingvo's op {name} is not here")

    return missing


def _import_lingvo():
  """Returns the modules of Lingvo; before flags are parsed, as it has some."""
  sys.modules[_KERNELS] = _NoKernels(_KERNELS)
  from lingvo.core import cluster_factory, gpipe, layers, py_utils

  return cluster_factory, gpipe, layers, py_utils


_CLUSTERS, _GPIPE, _LAYERS, _UTILS = _import_lingvo()


def _pipeline(mlp):
  """Returns the parameters of the pipeline."""
  cells = []
  for stage in range(_STAGES.value):
    subs = [
      _LAYERS.FCLayer.Params().Set(
        name=mlp.name(layer),
        input_dim=mlp.width,
        output_dim=mlp.width,
        activation="RELU",
      )
      for layer in range(mlp.layers)
      if mlp.stage(layer, _STAGES.value) == stage
    ]
    cell = _GPIPE.FeatureExtractionLayer.Params()
    cells.append(cell.Set(name=f"cell_{stage}", sub=subs))
  return _GPIPE.PipeliningLayer.Params().Set(
    name="pipeline",
    num_micro_batches=_MICRO_BATCHES.value,
    cell_tpl=cells,
  )


def _training_ops(mlp, cluster):
  """Returns the update, the loss, and assignments of the initial weights."""
  data = tf.data.Dataset.from_tensors((mlp.features(), mlp.labels())).repeat()
  features, labels = v1.data.make_one_shot_iterator(data).get_next()
  with v1.device(cluster.GetPlacer()):
    _UTILS.GetOrCreateGlobalStepVar()
    pipeline = _pipeline(mlp).Instantiate()
  outputs = pipeline.FProp(pipeline.theta, features)
  with tf.device(cluster.WorkerDeviceInModelSplit(_STAGES.value - 1)):
    loss = tf.reduce_mean((outputs - labels) ** 2)
  optimizer = v1.train.GradientDescentOptimizer(mlp_lib.LEARNING_RATE)
  train_op = optimizer.minimize(loss, colocate_gradients_with_ops=True)
  assignments = []
  for layer in range(mlp.layers):
    cell = pipeline.vars[f"cell_{mlp.stage(layer, _STAGES.value)}"]
    kernel = cell[mlp.name(layer)].w
    assignments.append(kernel.assign(mlp.kernel(layer)).op)
  return train_op, loss, assignments


def main(argv):
  """Trains as asked."""
  del argv
  v1.disable_v2_behavior()
  mlp = mlp_lib.Mlp.from_json(_MLP.value)
  cluster = _CLUSTERS.ForTestingWorker(
    mode="sync",
    job="trainer_client",
    cpus=_STAGES.value,
    split_size=_STAGES.value,
  )
  config = v1.ConfigProto(
    device_count={"CPU": _STAGES.value},
    inter_op_parallelism_threads=_THREADS.value,
    intra_op_parallelism_threads=1,
  )
  with tf.Graph().as_default(), cluster:
    train_op, loss, assignments = _training_ops(mlp, cluster)
    with v1.Session(config=config) as session:
      session.run(v1.global_variables_initializer())
      session.run(assignments)
      call = session.make_callable([loss, train_op])
      asked_process.answer(lambda: call()[0])


if __name__ == "__main__":
  # Lingvo's flags, at its own defaults for accelerators.
  flags.FLAGS.set_default("enable_asserts", False)
  flags.FLAGS.set_default("enable_check_numerics", False)
  app.run(main)
