"""What models of tests are made of."""

import inspect

from estimator_mp.graph import batch_inputs

import tensorflow as tf

v1 = tf.compat.v1
layers = v1.layers


def weight(name, shape, **fields):
  """Returns a variable with small initial values."""
  initializer = v1.truncated_normal_initializer(stddev=0.3)
  return v1.get_variable(name, shape, initializer=initializer, **fields)


def inputs(*tensors):
  """Returns tensors as features whose first dimension is of examples."""
  return [batch_inputs.Input(x.op.name, x, 0) for x in tensors]


def training_spec(model, features, labels):
  """Returns what the model_fn of a model of the catalogue returns to train."""
  known = {
    "features": features,
    "labels": labels,
    "mode": tf.estimator.ModeKeys.TRAIN,
    "params": model.params,
    "config": tf.estimator.RunConfig(),
  }
  asked = inspect.signature(model.model_fn).parameters
  return model.model_fn(**{k: x for k, x in known.items() if k in asked})


def layer(net, name, units, activation=tf.tanh, **fields):
  """Returns a layer's activations, without a bias.

  Args:
    net: [..., width].
    name: The name of its weights.
    units: The width of the activations.
    activation: The activation; None for none.
    **fields: Of the variable.
  """
  net = net @ weight(name, [net.shape[-1], units], **fields)
  return net if activation is None else activation(net)


def state(name, shape=(), initializer=None, dtype=tf.float32):
  """Returns a variable that no optimizer trains, of zeros."""
  initializer = initializer or v1.zeros_initializer()
  return v1.get_variable(name, shape, dtype, initializer, trainable=False)


def tower(x, width=8, scope="tower"):
  """Returns the activations of two layers; the same scope is made once."""
  with v1.variable_scope(scope, reuse=v1.AUTO_REUSE):
    net = layers.dense(x, 16, tf.tanh, name="first")
    return layers.dense(net, width, tf.tanh, name="second")


def logits(x, units=1):
  """Returns the outputs of three layers."""
  return layers.dense(tower(x), units, name="head")


def losses(labels, outputs):
  """Returns the loss of each example: [batch, 1]."""
  return tf.nn.sigmoid_cross_entropy_with_logits(labels, outputs)


def mean_loss(labels, outputs):
  """Returns the mean loss; the labels may be whole numbers."""
  return tf.reduce_mean(losses(tf.cast(labels, tf.float32), outputs))


def loss_of(labels, net):
  """Returns the mean loss of one more layer with one output."""
  return mean_loss(labels, layers.dense(net, 1, name="head"))


def class_losses(classes, outputs):
  """Returns the loss of each example: [batch]."""
  return tf.nn.sparse_softmax_cross_entropy_with_logits(classes, outputs)


def descend(loss, rate=0.1):
  """Returns the update of plain gradient descent."""
  optimizer = v1.train.GradientDescentOptimizer(rate)
  return optimizer.minimize(loss, v1.train.get_global_step())


def apply(optimizer, gradients, variables):
  """Returns the update of variables by some gradients, which is a step."""
  pairs = zip(gradients, variables, strict=True)
  return optimizer.apply_gradients(pairs, v1.train.get_global_step())


def spec(mode, loss, train_op=None, **fields):
  """Returns what a model_fn does.

  Args:
    mode: The mode.
    loss: The loss.
    train_op: What trains, or an optimizer that does; plain descent by default.
    **fields: Further fields of the EstimatorSpec.
  """
  if train_op is None:
    train_op = descend(loss)
  elif isinstance(train_op, v1.train.Optimizer):
    train_op = train_op.minimize(loss, v1.train.get_global_step())
  return tf.estimator.EstimatorSpec(
    mode, loss=loss, train_op=train_op, **fields
  )
