"""tf.contrib.sparsemax, integrate and kernel_methods."""

import numpy as np
import tensorflow as tf
from tensorflow.contrib.kernel_methods.python.mappers import dense_kernel_mapper

_X = np.random.RandomState(1).normal(size=(4, 6)).astype(np.float32)
_LABELS = np.random.RandomState(2).dirichlet(np.ones(6), 4).astype(np.float32)
_LABELS[1] = np.eye(6)[2]


def _x(array=_X, dtype=np.float32):
  """A batch that depends on a variable, for gradients."""
  value = tf.placeholder_with_default(array.astype(dtype), [None, 6])
  return value * tf.get_variable("scale", initializer=np.ones(6, dtype))


def sparsemax():
  op = tf.contrib.sparsemax.sparsemax
  x = _x()
  return {"p": op(x), "narrow": op(0.1 * x), "large": op(30 * x)}


def sparsemax_of_doubles():
  return {"p": tf.contrib.sparsemax.sparsemax(_x(dtype=np.float64))}


def sparsemax_not_finite():
  rows = np.array(
    [
      [1, -np.inf, 0, 0.5],
      [np.inf, 0, 0, 0],
      [np.nan, 0, 0, 0],
      [-np.inf] * 4,
      [2, 2, 2, 2],
    ],
    np.float32,
  )
  x = tf.placeholder_with_default(rows, [None, 4])
  op = tf.contrib.sparsemax
  p = op.sparsemax(x)
  q = tf.one_hot([0, 0, 0, 0, 0], 4)
  return {"p": p, "losses": op.sparsemax_loss(x, p, q)}


def sparsemax_loss():
  op = tf.contrib.sparsemax
  x = _x()
  labels = tf.placeholder_with_default(_LABELS, [None, 6])
  loss = op.sparsemax_loss(x, op.sparsemax(x), labels)
  return {"losses": loss, "loss": tf.reduce_mean(loss)}


def _lorenz(y, t):
  sigma = tf.get_variable("sigma", initializer=10.0)
  return tf.stack(
    [
      sigma * (y[1] - y[0]),
      y[0] * (28.0 - y[2]) - y[1],
      y[0] * y[1] - 8 / 3 * y[2] + 0 * tf.cast(t, tf.float32),
    ]
  )


def odeint():
  start = tf.get_variable("start", initializer=np.float32([1.0, 0.5, -1.0]))
  with tf.variable_scope("", reuse=tf.AUTO_REUSE):
    _lorenz(start, 0.0)
    found, info = tf.contrib.integrate.odeint(
      _lorenz, start, [0.0, 0.1, 0.15, 0.4], rtol=1e-3, full_output=True
    )
  return dict(info, y=found, shape=np.array(found.shape.as_list()))


def odeint_of_time():
  """Of doubles; the derivative depends on the time."""
  rate = tf.get_variable("rate", initializer=np.float64(0.7))
  found, info = tf.contrib.integrate.odeint(
    lambda y, t: -rate * y * tf.cos(t),
    tf.constant([[1.0, 2.0]], tf.float64),
    tf.placeholder_with_default(np.array([0.5, 1.0, 3.0]), [None]),
    method="dopri5",
    options={
      "first_step": 0.01,
      "safety": 0.8,
      "ifactor": 5.0,
      "dfactor": 0.3,
      "max_num_steps": 50,
    },
    full_output=True,
  )
  return dict(info, y=found)


def odeint_complex():
  found = tf.contrib.integrate.odeint(
    lambda y, t: 1j * y, tf.constant([1.0 + 0.5j], tf.complex64), [0.0, 2.0]
  )
  return {"real": tf.real(found), "imag": tf.imag(found)}


def odeint_fixed():
  start = tf.get_variable("start", initializer=np.float32([1.0, 0.5, -1.0]))
  op = tf.contrib.integrate.odeint_fixed
  times = [0.0, 0.1, 0.15, 0.2]
  with tf.variable_scope("", reuse=tf.AUTO_REUSE):
    _lorenz(start, 0.0)
    return {
      "grid": op(_lorenz, start, times),
      "steps": op(_lorenz, start, times, 0.02),
      "each": op(_lorenz, start, times, [0.05, 0.01, 0.03], "midpoint"),
      "midpoint": op(_lorenz, start, times, method="midpoint"),
    }


def fourier_features():
  mapper = tf.contrib.kernel_methods.RandomFourierFeatureMapper
  x = _x()
  one = mapper(6, 10, stddev=3.0, seed=4, name="one")
  refused = "no"
  try:
    one.map(x[:, :5])
  except dense_kernel_mapper.InvalidShapeError:
    refused = "yes"
  return {
    "one": one.map(x),
    "default": mapper(6, 3).map(x),
    "name": one.name,
    "refused": refused,
    "sizes": np.array([one.input_dim, one.output_dim]),
    "is_one": isinstance(one, dense_kernel_mapper.DenseKernelMapper),
  }


def multiclass_hinge_loss():
  op = tf.contrib.kernel_methods.sparse_multiclass_hinge_loss
  x = _x()
  labels = tf.placeholder_with_default(np.array([2, 0, 5, 5]), [4])
  weights = np.float32([0.5, 0.0, 1.0, 2.0])
  return {
    "mean": op(labels, x),
    "column": op(tf.cast(labels, tf.int32)[:, tf.newaxis], x, 0.3),
    "weighted": op(labels, x, weights),
    "weights_in_a_column": op(labels, x, weights[:, np.newaxis]),
    "total": tf.losses.get_total_loss(),
    "each": op(labels, x, reduction=tf.losses.Reduction.NONE),
  }
