"""Ways to train the MLP of `mlp`, which take turns: ours, and plain ones."""

import contextlib

import estimator_mp
from benchmarks import graphs
from benchmarks import mlp as mlp_lib

import tensorflow as tf

v1 = tf.compat.v1


def make_model_fn(mlp: mlp_lib.Mlp):
  """Returns a model_fn of it, with its initial weights."""

  def model_fn(features, labels, mode):
    net = features
    for layer in range(mlp.layers):
      with v1.variable_scope(mlp.name(layer)):
        net = _dense(mlp, layer, net)
    loss = tf.reduce_mean((net - labels) ** 2)
    optimizer = v1.train.GradientDescentOptimizer(mlp_lib.LEARNING_RATE)
    train_op = optimizer.minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

  return model_fn


def _variables(mlp, layer):
  kernel = v1.get_variable("kernel", initializer=mlp.kernel(layer))
  bias = v1.get_variable(
    "bias", [mlp.width], initializer=v1.zeros_initializer()
  )
  return kernel, bias


def _dense(mlp, layer, net, variables=None):
  kernel, bias = variables or _variables(mlp, layer)
  return tf.nn.relu(tf.nn.bias_add(tf.matmul(net, kernel), bias))


def plain(mlp: mlp_lib.Mlp, threads: int, device: str = "/cpu:0"):
  """Yields the step on one device.

  Args:
    mlp: The MLP.
    threads: How many ops may run at a time, with a thread each.
    device: The device.

  Returns:
    A context with a `graphs.Step`.
  """
  config = estimator_mp.ShardingConfig("stage:1", devices=(device,))
  return graphs.training_step(
    make_model_fn(mlp), mlp.features(), mlp.labels(), config, 1, threads
  )


def sharded(mlp: mlp_lib.Mlp, mesh: str, threads: int = 0, **options):
  """Yields the step of a mesh, by this project.

  Args:
    mlp: The MLP.
    mesh: The mesh. With stages each has as many layers.
    threads: How many ops may run at a time; 0 for what `run_config` says.
    **options: Further options of `ShardingConfig`.

  Returns:
    A context with a `graphs.Step`.
  """
  axis, _, size = mesh.partition(":")
  if axis == "stage":
    stages = int(size) * options.get("num_virtual_stages", 1)
    options["placement"] = tuple(
      (f"^{mlp.name(layer)}/", mlp.stage(layer, stages))
      for layer in range(mlp.layers)
    )
  config = estimator_mp.ShardingConfig(mesh, **options)
  return graphs.training_step(
    make_model_fn(mlp), mlp.features(), mlp.labels(), config, 1, threads
  )


@contextlib.contextmanager
def by_hand(mlp: mlp_lib.Mlp, devices, micro_batches: int, threads: int = 0):
  """Yields the step with micro-batches as one would write them.

  The layers are on devices by `tf.device`, gradients go where their ops are,
  and each variable adds its gradients up. Nothing orders the micro-batches.

  Args:
    mlp: The MLP.
    devices: The devices.
    micro_batches: How many.
    threads: How many ops may run at a time; 0 for what `run_config` says.

  Yields:
    A `graphs.Step`.
  """
  # For its session only: the devices, and hard placement.
  session_config = estimator_mp.run_config(
    estimator_mp.ShardingConfig(f"stage:{len(devices)}", devices=devices)
  ).session_config
  session_config.intra_op_parallelism_threads = 1
  if threads:
    session_config.inter_op_parallelism_threads = threads
  with tf.Graph().as_default():
    train_op, loss = _by_hand_ops(mlp, devices, micro_batches)
    with v1.Session(config=session_config) as session:
      session.run(v1.global_variables_initializer())
      found = graphs.Step(session, train_op, loss=loss)
      found.seconds()
      yield found


def _by_hand_ops(mlp, devices, micro_batches):
  """Returns the update and the loss."""
  places = [
    devices[mlp.stage(layer, len(devices))] for layer in range(mlp.layers)
  ]
  layers = []
  for layer, place in enumerate(places):
    with tf.device(place), v1.variable_scope(mlp.name(layer)):
      layers.append(_variables(mlp, layer))
  variables = [variable for layer in layers for variable in layer]
  with tf.device(places[0]):
    features, labels = graphs.batch_of(mlp.features(), mlp.labels())
    features = tf.split(features, micro_batches)
  with tf.device(places[-1]):
    labels = tf.split(labels, micro_batches)
  losses, gradients = [], []
  for net, label in zip(features, labels, strict=True):
    for layer, place in enumerate(places):
      with tf.device(place):
        net = _dense(mlp, layer, net, layers[layer])
    with tf.device(places[-1]):
      losses.append(tf.reduce_mean((net - label) ** 2) / micro_batches)
    gradients.append(
      v1.gradients(losses[-1], variables, colocate_gradients_with_ops=True)
    )
  optimizer = v1.train.GradientDescentOptimizer(mlp_lib.LEARNING_RATE)
  sums = []
  for variable, parts in zip(
    variables, zip(*gradients, strict=True), strict=True
  ):
    with tf.device(variable.device):
      sums.append(tf.add_n(parts))
  train_op = optimizer.apply_gradients(zip(sums, variables, strict=True))
  with tf.device(places[-1]):
    return train_op, tf.add_n(losses)
