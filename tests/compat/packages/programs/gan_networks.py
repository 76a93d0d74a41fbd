"""GANs of tensorflow-gan, as its Estimators train them."""

from tests.compat.packages import harness

import numpy as np
import tensorflow as tf
import tensorflow_gan as tfgan

_NOISE, _VALUES = 4, 6


def wasserstein(directory):
  """Two networks, each of which takes a step in turn."""
  return _model(
    directory,
    generator_loss_fn=tfgan.losses.wasserstein_generator_loss,
    discriminator_loss_fn=tfgan.losses.wasserstein_discriminator_loss,
  )


def least_squares(directory):
  """A discriminator that takes two steps to one of the generator."""
  return _model(
    directory,
    generator_loss_fn=tfgan.losses.least_squares_generator_loss,
    discriminator_loss_fn=tfgan.losses.least_squares_discriminator_loss,
    get_hooks_fn=tfgan.get_sequential_train_hooks(
      tfgan.GANTrainSteps(generator_train_steps=1, discriminator_train_steps=2)
    ),
  )


def _generator(noise, mode):
  is_training = mode == tf.estimator.ModeKeys.TRAIN
  net = tf.layers.dense(noise, 8, use_bias=False)
  net = tf.layers.batch_normalization(net, momentum=0.9, training=is_training)
  return tf.layers.dense(tf.nn.relu(net), _VALUES, tf.nn.tanh)


def _discriminator(values, unused_conditioning):
  net = tf.layers.dense(values, 8, tf.nn.leaky_relu)
  return tf.layers.dense(net, 1)


def _model(directory, **kwargs):
  estimator = tfgan.estimator.GANEstimator(
    generator_fn=_generator,
    discriminator_fn=_discriminator,
    generator_optimizer=tf.train.AdamOptimizer(0.01, 0.5),
    discriminator_optimizer=tf.train.AdamOptimizer(0.02, 0.5),
    use_loss_summaries=False,
    config=harness.run_config(directory),
    **kwargs,
  )
  return harness.Model(estimator, lambda: _data().repeat(), _data, ())


def _data():
  random = np.random.RandomState(1)
  noise = random.normal(size=[32, _NOISE]).astype(np.float32)
  real = random.normal(0.5, 0.1, [32, _VALUES]).astype(np.float32)
  return tf.data.Dataset.from_tensor_slices((noise, real)).batch(8)
