"""Rules of a program for gradients: equal, or an error that names the op."""

from unittest import mock

import estimator_mp
from estimator_mp.pipeline import own_gradients
from tests import tiers
from tests.estimator_mp import batch_models, programs

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_MESHES = {
  "micro_batches": ("stage:2", 4),
  "replicas": ("data:2", 1),
  "both": ("data:2,stage:2", 2),
}


def _matmul(of_net, of_kernel):
  """A product that changes what reaches its input, and its kernel."""

  @tf.custom_gradient
  def matmul(net, kernel):
    def backward(gradient):
      return (
        tf.matmul(of_net(gradient), kernel, transpose_b=True),
        of_kernel(net, gradient),
      )

    return tf.matmul(net, kernel), backward

  return matmul


def _same(gradient):
  return gradient


def _product(net, gradient):
  return tf.matmul(net, gradient, transpose_a=True)


def _mean_product(net, gradient):
  return tf.reduce_mean(net[:, :, None] * gradient[:, None], 0)


def _of_kernel(change):
  return _matmul(_same, lambda net, gradient: change(_product(net, gradient)))


def _of_examples(change):
  return _matmul(change, _product)


def _model(layer, loss_of=None, read=tf.identity):
  """Two layers, the first of which has a gradient of its own."""

  def model_fn(features, labels, mode):
    first = v1.get_variable("first", [10, 8])
    net = tf.tanh(layer(features["x"], read(first)))
    bias = v1.get_variable("bias", [8], initializer=v1.ones_initializer())
    net = layer(net + bias, v1.get_variable("second", [8, 8]))
    logits = tf.matmul(tf.tanh(net), v1.get_variable("last", [8, 1]))
    if loss_of is None:
      loss = tf.reduce_mean(
        tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
      )
    else:
      loss = loss_of(labels, logits)
    optimizer = v1.train.MomentumOptimizer(0.1, 0.9)
    train_op = optimizer.minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

  return model_fn


@tf.custom_gradient
def _mean_square(labels, logits):
  size = tf.cast(tf.size(logits), tf.float32)

  def backward(gradient):
    scaled = gradient / size
    return tf.zeros_like(labels), scaled * tf.clip_by_value(
      2 * (logits - labels), -1.0, 1.0
    )

  return tf.reduce_sum(tf.square(logits - labels)) / size, backward


@tf.RegisterGradient("OwnGradientsTestStraightThrough")
def _straight_through(op, gradient):
  del op
  return tf.clip_by_value(gradient, -1e-3, 1e-3)


def _rounded(net, kernel):
  override = {"Round": "OwnGradientsTestStraightThrough"}
  with tf.compat.v1.get_default_graph().gradient_override_map(override):
    return tf.round(tf.matmul(net, kernel) * 8) / 8


@tf.recompute_grad
def _normalized(net, kernel):
  """Computed again, and the rows of a kernel have a norm."""
  return tf.nn.relu(tf.matmul(net, tf.nn.l2_normalize(kernel, 0)))


def _by_gradients(net, kernel):
  """Its rule asks TensorFlow."""

  @tf.custom_gradient
  def layer(net, kernel):
    result = tf.nn.silu(tf.matmul(net, kernel))

    def backward(gradient):
      found = v1.gradients(result, [net, kernel], 0.5 * gradient)
      return found[0], 2.0 * found[1]

    return result, backward

  return layer(net, kernel)


def _of_sums(gradient):
  first, *others = tf.split(tf.transpose(gradient), 4)
  parts = [first * 2.0, others[0] / 3.0, -others[1], tf.zeros_like(first)]
  return tf.cast(tf.transpose(tf.concat(parts, 0)), tf.float32)


_EQUAL = {
  "each_element": _model(_of_examples(lambda x: tf.clip_by_value(x, -2e-3, 1))),
  "each_example": _model(_of_examples(lambda x: tf.clip_by_norm(x, 2e-3, 1))),
  "reversed": _model(_of_examples(lambda x: -0.5 * x)),
  "for_kernels": _model(_matmul(_same, lambda x, y: _product(x, tf.sign(y)))),
  "sums": _model(_of_kernel(_of_sums)),
  "einsum": _model(_matmul(_same, lambda x, y: tf.einsum("ni,nj->ij", x, y))),
  "loss": _model(tf.matmul, _mean_square),
  "override_map": _model(_rounded),
  "recompute": _model(_normalized),
  "by_gradients": _model(_by_gradients),
  "silu": _model(lambda x, kernel: tf.nn.silu(tf.matmul(x, kernel))),
}


@tf.custom_gradient
def _clipped_read(kernel):
  return tf.identity(kernel), lambda gradient: tf.clip_by_norm(gradient, 1e-2)


@tf.custom_gradient
def _clipped_loss(loss):
  return tf.identity(loss), lambda gradient: tf.clip_by_value(gradient, 0, 0.3)


_REFUSED = {
  "norm": (
    _model(_of_examples(lambda x: tf.clip_by_norm(x, 2e-3))),
    r"clip_by_norm/Greater \(Greater\)",
  ),
  "norm_of_features": (
    _model(_of_examples(lambda x: tf.nn.l2_normalize(x, 0))),
    r"l2_normalize/\S+ \(\w+\)",
  ),
  "largest": (
    _model(_of_examples(lambda x: x / tf.reduce_max(tf.abs(x)))),
    r"Max \(Max\)",
  ),
  "centered": (
    _model(_of_examples(lambda x: x - tf.reduce_sum(x, 0) / 24.0)),
    r"sub \(Sub\)",
  ),
  "mean": (
    _model(_matmul(_same, _mean_product)),
    r"Mean \(Mean\)",
  ),
  "first_example": (
    _model(_matmul(_same, lambda x, y: tf.transpose(x[:1]) * y[0])),
    r"strided_slice\S* \(StridedSlice\)",
  ),
  "kernel": (
    _model(_of_kernel(lambda x: tf.clip_by_value(x, -1e-2, 1e-2))),
    r"clip_by_value\S* \(\w+\)",
  ),
  "variable": (
    _model(tf.matmul, read=_clipped_read),
    r"clip_by_norm/\S+ \(\w+\)",
  ),
  "decay": (
    _model(_of_kernel(lambda x: x + 0.01 * tf.ones_like(x))),
    r"add\w* \(AddV2\)",
  ),
  "by_size": (
    _model(
      _matmul(
        _same,
        lambda x, y: _product(x, y) / tf.cast(tf.shape(y)[0], tf.float32),
      )
    ),
    r"truediv \(RealDiv\)",
  ),
  "loss": (
    _model(
      tf.matmul,
      lambda labels, logits: _clipped_loss(
        tf.reduce_mean(tf.square(logits - labels))
      ),
    ),
    r"clip_by_value\S* \(\w+\)",
  ),
  "python": (
    _model(
      _of_kernel(
        lambda x: tf.ensure_shape(
          v1.py_func(lambda y: np.sign(y), [x], tf.float32), x.shape
        )
      )
    ),
    r"PyFunc\S* \(\w+\)",
  ),
}


def _over_meshes(names):
  """Each name on each mesh, and which of these gate a change."""
  cases, kept = [], []
  for number, name in enumerate(names):
    for other, mesh in enumerate(_MESHES):
      cases.append((f"{name}_{mesh}", name, mesh))
      if number % len(_MESHES) == other:
        kept.append(cases[-1][0])
  return cases, kept


def _in_function(layer):
  return tf.function(layer)


def _in_cond(layer):
  return lambda net, kernel: tf.cond(
    tf.reduce_sum(kernel) > -1e9,
    lambda: layer(net, kernel),
    lambda: tf.matmul(net, kernel),
  )


def _in_loop(layer):
  """The first product comes once more out of a loop."""

  def looped(net, kernel):
    def body(step, _):
      return step + 1, tf.ensure_shape(layer(net, kernel), [None, 8])

    start = 0, tf.matmul(net, kernel)
    return tf.while_loop(lambda step, _: step < 1, body, start)[1]

  return looped


_EQUAL_CASES, _EQUAL_KEPT = _over_meshes(_EQUAL)
_REFUSED_CASES, _REFUSED_KEPT = _over_meshes(_REFUSED)
_WITHIN = (_in_function, _in_cond, _in_loop)


def _config(mesh, num_micro_batches):
  """Says of a loss with a rule of its own, which the graph does not, a mean."""
  return estimator_mp.ShardingConfig(
    mesh, num_micro_batches=num_micro_batches, loss_reduction="mean"
  )


class OwnGradientsTest(parameterized.TestCase):
  @parameterized.named_parameters(tiers.sample(_EQUAL_CASES))
  def test_what_is_equal(self, name, mesh):
    model_fn = _EQUAL[name]
    axes, num_micro_batches = _MESHES[mesh]
    self._check(model_fn, axes, num_micro_batches)

  def _check(self, model_fn, mesh, num_micro_batches):
    config = _config(mesh, num_micro_batches)
    plain = programs.Program(model_fn, None, batch_models.BATCH)
    program = programs.Program(model_fn, config, batch_models.BATCH)
    program.load(plain.variables())
    for size in (24, 23):
      batch = programs.examples(batch_models.BATCH, 4, 4 + size)
      step, expected = program.step(batch), plain.step(batch)
      np.testing.assert_allclose(step.loss, expected.loss, rtol=1e-5)
      programs.assert_same_gradients(
        self, step.gradients, expected.gradients, [expected.gradients], 1e-5
      )
      programs.assert_same_variables(
        self, step.variables, expected.variables, 1e-5
      )

  @parameterized.named_parameters(tiers.sample(_REFUSED_CASES))
  def test_what_is_not(self, name, mesh):
    model_fn, named = _REFUSED[name]
    batch = programs.examples(batch_models.BATCH, 0, 24)
    with self.assertRaisesRegex(
      ValueError,
      rf"{named}, of a gradient that the program computes by a rule of its "
      r"own .* do not add up to, .* num_micro_batches=1 and no data axis",
    ):
      programs.Program(model_fn, _config(*_MESHES[mesh]), batch)

  @parameterized.parameters(tiers.sample(_WITHIN))
  def test_what_is_equal_in_functions(self, within):
    layer = within(_of_examples(lambda x: -0.5 * tf.clip_by_norm(x, 2e-3, 1)))
    self._with_either_control_flow(
      lambda: self._check(_model(layer), "data:2", 2)
    )

  @parameterized.parameters(tiers.sample(_WITHIN))
  def test_what_is_not_in_functions(self, within):
    layer = within(_of_examples(lambda x: tf.clip_by_norm(x, 2e-3)))
    batch = programs.examples(batch_models.BATCH, 0, 24)

    def check():
      for is_static in (False, True):
        with self.assertRaisesRegex(
          ValueError,
          r"clip_by_norm/Greater \(Greater\), of a gradient",
        ):
          programs.Program(
            _model(layer), _config("data:2", 2), batch, None, is_static
          )

    self._with_either_control_flow(check)

  def _with_either_control_flow(self, check):
    switches = v1.disable_control_flow_v2, v1.enable_control_flow_v2
    self.addCleanup(switches[v1.control_flow_v2_enabled()])
    for switch in switches:
      switch()
      with self.subTest(switch.__name__):
        check()

  def test_the_same_without_slices(self):
    for name in ("norm", "variable"):
      self._check(_REFUSED[name][0], "stage:2", 1)

  @parameterized.named_parameters(
    tiers.sample([(name, model_fn) for name, (model_fn, _) in _REFUSED.items()])
  )
  def test_what_is_refused_would_differ(self, model_fn):
    """What slices add up to is another gradient than the plain one."""
    batch = programs.examples(batch_models.BATCH, 0, 24)
    config = _config("data:2", 1)
    plain = programs.Program(model_fn, None, batch_models.BATCH)
    with mock.patch.object(own_gradients, "have_rules", return_value=False):
      program = programs.Program(model_fn, config, batch)
    program.load(plain.variables())
    found, expected = (x.step(batch).gradients for x in (program, plain))
    differences = [
      np.abs(found[key] - expected[key]).max() / np.abs(expected[key]).max()
      for key in expected
    ]
    self.assertGreater(max(differences), 1e-3)


if __name__ == "__main__":
  absltest.main()
