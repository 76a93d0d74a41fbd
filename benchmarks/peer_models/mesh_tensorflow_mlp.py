"""Trains the MLP by Mesh TensorFlow, in the environment of `peers`.

Shazeer et al., 2018, arXiv:1811.02084. The units of every other layer are split
over the devices, as in Megatron-LM's pairs of layers: that is the layout with
the fewest sums. Its authors' PlacementMeshImpl is the one for CPUs.

Mesh TensorFlow imports `tf.estimator`, which TensorFlow 2.16 and later have by
`compat`.
"""

import compat
from benchmarks import asked_process
from benchmarks import mlp as mlp_lib

compat.install()

import mesh_tensorflow as mtf  # noqa: E402 It imports tf.estimator.
import tensorflow as tf  # noqa: E402
from absl import app, flags  # noqa: E402

v1 = tf.compat.v1

_MLP = flags.DEFINE_string("mlp", None, "The MLP, as JSON.", required=True)
_DEVICES = flags.DEFINE_integer("num_devices", 2, "Devices.")
_THREADS = flags.DEFINE_integer("num_threads", 2, "Ops at a time.")


def _training_ops(mlp):
  """Returns the update, the loss, and the copy of weights to their slices."""
  data = tf.data.Dataset.from_tensors((mlp.features(), mlp.labels())).repeat()
  features, labels = v1.data.make_one_shot_iterator(data).get_next()
  graph = mtf.Graph()
  mesh = mtf.Mesh(graph, "mesh")
  batch = mtf.Dimension("batch", mlp.batch)
  # A tensor has each name once, so layers alternate.
  units = [mtf.Dimension(name, mlp.width) for name in ("whole", "split")]
  net = mtf.import_tf_tensor(mesh, features, mtf.Shape([batch, units[0]]))
  last = mtf.Shape([batch, units[mlp.layers % 2]])
  for layer in range(mlp.layers):
    net = mtf.layers.dense(
      net,
      [units[(layer + 1) % 2]],
      reduced_dims=[units[layer % 2]],
      activation=mtf.relu,
      kernel_initializer=v1.constant_initializer(mlp.kernel(layer)),
      name=mlp.name(layer),
    )
  off = net - mtf.import_tf_tensor(mesh, labels, last)
  loss = mtf.reduce_mean(mtf.square(off))
  variables = graph.trainable_variables
  gradients = mtf.gradients([loss], [x.outputs[0] for x in variables])
  optimizer = mtf.optimize.SgdOptimizer(mlp_lib.LEARNING_RATE)
  updates = optimizer.apply_grads(gradients, variables)
  implementation = mtf.placement_mesh_impl.PlacementMeshImpl(
    [("model", _DEVICES.value)],
    [("split", "model")],
    [f"/cpu:{index}" for index in range(_DEVICES.value)],
  )
  # Variables of one shape would become one, which each step cuts again.
  lowering = mtf.Lowering(graph, {mesh: implementation}, autostack=False)
  train_op = tf.group([lowering.lowered_operation(x) for x in updates])
  loss = lowering.export_to_tf_tensor(loss)
  return train_op, loss, lowering.copy_masters_to_slices()


def main(argv):
  """Trains as asked."""
  del argv
  v1.disable_v2_behavior()
  # A variable of TensorFlow 1's kind may be updated while a gradient reads it:
  # nothing in Mesh TensorFlow orders the two, and the losses come out wrong.
  v1.enable_resource_variables()
  config = v1.ConfigProto(
    device_count={"CPU": _DEVICES.value},
    inter_op_parallelism_threads=_THREADS.value,
    intra_op_parallelism_threads=1,
  )
  with tf.Graph().as_default():
    v1.train.create_global_step()
    train_op, loss, copy = _training_ops(mlp_lib.Mlp.from_json(_MLP.value))
    with v1.Session(config=config) as session:
      session.run(v1.global_variables_initializer())
      session.run(copy)
      call = session.make_callable([loss, train_op])
      asked_process.answer(lambda: call()[0])


if __name__ == "__main__":
  app.run(main)
