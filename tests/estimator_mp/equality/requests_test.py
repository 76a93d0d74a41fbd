"""However a program asks for gradients, sharding it changes nothing."""

from tests import tiers
from tests.estimator_mp import zoo
from tests.estimator_mp.equality import transparency

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
TRAIN = tf.estimator.ModeKeys.TRAIN
_GAN_RULES = ((r"^generator/", 0), (r"^critic/a/", 1), (r".", 2))


def _floats(labels):
  return tf.cast(labels, tf.float32)


def _loss(logits, labels):
  return tf.reduce_mean(
    tf.nn.sigmoid_cross_entropy_with_logits(_floats(labels), logits)
  )


def _apply(gradients, variables, optimizer=None):
  optimizer = optimizer or v1.train.AdamOptimizer(0.01)
  return optimizer.apply_gradients(
    zip(gradients, variables, strict=True), v1.train.get_global_step()
  )


def _gan_losses(features):
  """Returns the losses of a critic and of a generator, who share it."""
  fake = zoo.net(features["x"][:, ::-1], "generator", 10)
  on_fake = zoo.net(fake, "critic")
  on_real = zoo.net(features["x"], "critic")
  ones, zeros = tf.ones_like(on_real), tf.zeros_like(on_fake)
  cross_entropy = tf.nn.sigmoid_cross_entropy_with_logits
  critic_loss = tf.reduce_mean(
    cross_entropy(ones, on_real) + cross_entropy(zeros, on_fake)
  )
  generator_loss = tf.reduce_mean(cross_entropy(ones, on_fake))
  return fake, on_fake, on_real, critic_loss, generator_loss


class _RunsFirst(tf.estimator.SessionRunHook):
  """Runs an op in a session step of its own before each step, as TF-GAN."""

  def __init__(self, op):
    self._op = op

  def before_run(self, run_context):
    run_context.session.run(self._op)


def gan(features, labels, mode):
  """Two optimizers that take turns."""
  _, on_fake, _, critic_loss, generator_loss = _gan_losses(features)
  loss = critic_loss + generator_loss
  if mode != TRAIN:
    return zoo.spec(mode, on_fake, labels, None)
  critic_op = v1.train.AdamOptimizer(0.01).minimize(
    critic_loss, var_list=v1.trainable_variables("critic/")
  )
  generator_op = v1.train.MomentumOptimizer(0.1, 0.9).minimize(
    generator_loss,
    v1.train.get_global_step(),
    v1.trainable_variables("generator/"),
  )
  return tf.estimator.EstimatorSpec(
    mode, None, loss, generator_op, training_hooks=[_RunsFirst(critic_op)]
  )


def gradient_penalty(features, labels, mode):
  """WGAN-GP: the critic's loss holds a gradient of the critic."""
  fake, on_fake, on_real, _, _ = _gan_losses(features)
  if mode != TRAIN:
    return zoo.spec(mode, on_fake, labels, None)
  share = tf.random.uniform([tf.shape(fake)[0], 1], seed=3)
  mixed = share * features["x"] + (1 - share) * fake
  (slope,) = tf.gradients(zoo.net(mixed, "critic"), [mixed])
  norm = tf.sqrt(tf.reduce_sum(tf.square(slope), axis=1) + 1e-8)
  critic_loss = tf.reduce_mean(on_fake - on_real)
  critic_loss += 10 * tf.reduce_mean(tf.square(norm - 1))
  critic = v1.train.AdamOptimizer(0.01, 0.5)
  critic_op = critic.minimize(
    critic_loss, var_list=v1.trainable_variables("critic/")
  )
  with tf.control_dependencies([critic_op]):
    train_op = v1.train.AdamOptimizer(0.01, 0.5).minimize(
      -tf.reduce_mean(on_fake),
      v1.train.get_global_step(),
      v1.trainable_variables("generator/"),
    )
  return tf.estimator.EstimatorSpec(mode, None, critic_loss, train_op)


def _cut_in_two(loss, features):
  """The loss' gradients first by the last layer, then by what it fed on."""
  graph = v1.get_default_graph()
  hidden = graph.get_tensor_by_name("net/b/Tanh:0")
  first = v1.trainable_variables("net/[ab]/")
  last = v1.trainable_variables("net/c/")
  *upper, inner = tf.gradients(loss, [*last, hidden])
  lower = v1.gradients(
    hidden, first, grad_ys=[inner], stop_gradients=[features["x"]]
  )
  return _apply([*lower, *upper], [*first, *last])


def _gradients_twice(loss, features):
  """The same gradients twice, gated and aggregated in two ways."""
  variables = v1.trainable_variables()
  first = v1.gradients(loss, variables, gate_gradients=True)
  second = v1.gradients(
    2 * loss,
    variables,
    aggregation_method=tf.AggregationMethod.EXPERIMENTAL_ACCUMULATE_N,
  )
  both = [a + b for a, b in zip(first, second, strict=True)]
  return _apply(both, variables)


def _persistent_tape(features, labels, mode):
  """A tape that is asked twice, for two sets of variables."""
  with tf.GradientTape(persistent=True) as tape:
    logits = zoo.net(features["x"])
    loss = None if labels is None else _loss(logits, labels)

  def train(same_loss):
    variables = v1.trainable_variables()
    lower, upper = variables[:2], variables[2:]
    gradients = tape.gradient(loss, lower) + tape.gradient(loss, upper)
    return _apply(gradients, variables)

  return zoo.spec(mode, logits, labels, train)


def _tape_of_a_tape(features, labels, mode):
  """A gradient penalty by one tape inside another."""
  with tf.GradientTape() as outer:
    with tf.GradientTape() as inner:
      inner.watch(features["x"])
      logits = zoo.net(features["x"])
    slope = inner.gradient(logits, features["x"])
    loss = tf.reduce_mean(tf.square(slope))
    if labels is not None:
      loss += _loss(logits, labels)

  def train(same_loss):
    variables = v1.trainable_variables()
    return _apply(outer.gradient(loss, variables), variables)

  return zoo.spec(mode, logits, labels, train)


@tf.custom_gradient
def _reverse(tensor):
  return tf.identity(tensor), lambda gradient: -0.5 * gradient


@tf.custom_gradient
def _clipped_matmul(tensor, kernel):
  def backward(gradient):
    gradient = tf.clip_by_norm(gradient, 1.0)
    return (
      tf.matmul(gradient, kernel, transpose_b=True),
      tf.matmul(tensor, gradient, transpose_a=True),
    )

  return tf.matmul(tensor, kernel), backward


def custom_gradient(features, labels, mode):
  """Layers with gradients of their own, one of which makes an adversary."""
  net = v1.layers.dense(features["x"], 16, tf.tanh, name="net/a")
  kernel = v1.get_variable("net/b/kernel", [16, 8])
  net = tf.tanh(_clipped_matmul(net, kernel))
  other = v1.layers.dense(_reverse(net), 1, name="adversary")
  logits = v1.layers.dense(net, 1, name="net/c")

  def train(loss):
    total = loss + tf.reduce_mean(tf.square(other - features["x"][:, :1]))
    optimizer = v1.train.AdamOptimizer(0.01)
    return optimizer.minimize(total, v1.train.get_global_step())

  return zoo.spec(mode, logits, labels, train)


def recompute(features, labels, mode):
  """Layers whose activations are computed again for the gradients."""
  kernels = [
    v1.get_variable(f"net/{name}/kernel", shape)
    for name, shape in (("a", [10, 16]), ("b", [16, 8]), ("c", [8, 1]))
  ]

  @tf.recompute_grad
  def block(tensor, kernel):
    return tf.tanh(tf.matmul(tensor, kernel))

  net = features["x"]
  for kernel in kernels[:2]:
    net = block(net, tf.convert_to_tensor(kernel))
  logits = tf.matmul(net, kernels[2])
  return zoo.spec(mode, logits, labels, zoo.minimize(v1.train.AdamOptimizer()))


class RequestsTest(transparency.TransparencyTestCase):
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("gan", zoo.Model(gan, _GAN_RULES)),
        ("gradient_penalty", zoo.Model(gradient_penalty, _GAN_RULES)),
        ("tape_of_a_tape", zoo.Model(_tape_of_a_tape, zoo.NET_RULES)),
        ("persistent_tape", zoo.Model(_persistent_tape, zoo.NET_RULES)),
        ("gradients_by_parts", zoo.net_trained_by(_cut_in_two)),
        ("gradients_twice", zoo.net_trained_by(_gradients_twice)),
        ("custom_gradient", zoo.Model(custom_gradient, zoo.NET_RULES)),
        ("recompute_grad", zoo.Model(recompute, zoo.NET_RULES)),
      ]
    )
  )
  def test_gradients(self, model):
    self.assert_transparent(model, trains_only=True)


if __name__ == "__main__":
  absltest.main()
