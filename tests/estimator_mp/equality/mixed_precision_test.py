"""Half precision with a loss scale: sharded, it is the plain run of the dtype.

Activations are float16 or bfloat16 by casts written by hand, weights float32.
One batch has an infinite feature in its last micro-batch, another one a NaN in
its first: both are steps that change nothing but the scale.

A slice rounds each weight gradient once, and the sum over slices is made in
float32. So the two runs differ as two orders of the batch's examples do: by a
few units in the last place of half precision, of the largest gradient.
"""

import estimator_mp
from compat.contrib import mixed_precision as contrib
from tests import tiers
from tests.estimator_mp import parts, programs
from tests.estimator_mp.models import data

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_BATCH = ({name: data.ROWS[name] for name in ("x", "ids")}, data.LABELS)
_SIZE = 37  # Not a multiple of the number of micro-batches.
_STEPS = 8
_OVERFLOWS = {3: (_SIZE - 2, np.inf), 6: (3, np.nan)}
# Units in the last place: 2**-11 and 2**-8.
_ULP = {tf.float16: 4.9e-4, tf.bfloat16: 3.9e-3}
_SCALE = 2048.0


def _model_fn(dtype, train):
  """A table and four layers that compute in half precision."""

  def layer(net, name, units, activation=tf.tanh):
    with v1.variable_scope(name):
      kernel = parts.weight("kernel", [net.shape[-1], units])
      bias = v1.get_variable(
        "bias", [units], initializer=v1.zeros_initializer()
      )
    return activation(net @ tf.cast(kernel, dtype) + tf.cast(bias, dtype))

  def model_fn(features, labels, mode):
    table = parts.weight("table", [50, 8])
    words = tf.reduce_mean(tf.nn.embedding_lookup(table, features["ids"]), 1)
    net = tf.cast(tf.concat([features["x"], words], 1), dtype)
    for name in ("a", "b", "c"):
      net = layer(net, name, 16)
    logits = tf.cast(layer(net, "d", 1, tf.identity), tf.float32)
    loss = parts.mean_loss(labels, logits)
    return parts.spec(mode, loss, train(loss))

  return model_fn


def _momentum():
  return v1.train.MomentumOptimizer(0.2, 0.9)


def _dynamic(loss):
  del loss
  return v1.mixed_precision.MixedPrecisionLossScaleOptimizer(
    _momentum(), v1.mixed_precision.DynamicLossScale(_SCALE, 2)
  )


def _fixed(loss):
  del loss
  return v1.mixed_precision.MixedPrecisionLossScaleOptimizer(
    _momentum(), v1.mixed_precision.FixedLossScale(_SCALE)
  )


def _graph_rewrite(loss):
  del loss
  return v1.train.experimental.enable_mixed_precision_graph_rewrite(
    _momentum(), v1.mixed_precision.DynamicLossScale(_SCALE, 2)
  )


def _contrib(loss):
  """tf.contrib.mixed_precision, as in programs of TensorFlow 1."""
  del loss
  manager = contrib.ExponentialUpdateLossScaleManager(_SCALE, 2, 1, 2.0, 0.5)
  return contrib.LossScaleOptimizer(_momentum(), manager)


def _map(function, gradient):
  if isinstance(gradient, tf.IndexedSlices):
    values = function(gradient.values)
    return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
  return function(gradient)


def _by_hand(loss):
  """A scale of its own, clipping, and a cond around the update."""
  scale = parts.state("loss_scale", [], v1.constant_initializer(_SCALE))
  now = tf.identity(scale)
  variables = v1.trainable_variables()
  scaled = tf.gradients(loss * now, variables)
  gradients = [_map(lambda x: x / now, gradient) for gradient in scaled]
  is_finite = tf.reduce_all(
    [
      tf.reduce_all(tf.math.is_finite(getattr(gradient, "values", gradient)))
      for gradient in gradients
    ]
  )
  clipped, _ = tf.clip_by_global_norm(gradients, 0.5)

  def update():
    step = v1.train.get_global_step()
    pairs = zip(clipped, variables, strict=True)
    with tf.control_dependencies([_momentum().apply_gradients(pairs, step)]):
      return v1.assign(scale, now * 2).op

  return tf.cond(is_finite, update, lambda: v1.assign(scale, now / 2).op)


def _without_cond(loss):
  """What is not finite counts as zero, so that a step is never skipped."""
  variables = v1.trainable_variables()
  gradients = [
    tf.where(tf.math.is_finite(gradient), gradient / _SCALE, 0.0)
    for gradient in map(
      tf.convert_to_tensor, tf.gradients(loss * _SCALE, variables)
    )
  ]
  return _momentum().apply_gradients(
    zip(gradients, variables, strict=True), v1.train.get_global_step()
  )


_MESHES = {
  "stages": {"mesh": "stage:3"},
  "micro_batches": {"mesh": "stage:3", "num_micro_batches": 4},
  "uneven": {
    "mesh": "stage:2",
    "num_micro_batches": 3,
    "schedule": "gpipe",
  },
  "recompute": {
    "mesh": "stage:2",
    "num_micro_batches": 4,
    "recompute": "always",
  },
  "replicas": {"mesh": "data:2,stage:2", "num_micro_batches": 2},
  "zero_bubble": {
    "mesh": "stage:3",
    "num_micro_batches": 6,
    "schedule": "zb1p",
  },
  "shared": {"mesh": "data:2", "variables": "shared"},
  "zero": {
    "mesh": "data:2,stage:2",
    "num_micro_batches": 2,
    "optimizer_state": "sharded",
  },
  "model_axis": {"mesh": "stage:2,model:2", "num_micro_batches": 2},
}
_CASES = (
  ("dynamic_float16", tf.float16, _dynamic, "stages zero_bubble zero"),
  ("dynamic_bfloat16", tf.bfloat16, _dynamic, "uneven recompute replicas"),
  ("graph_rewrite", tf.float16, _graph_rewrite, "micro_batches shared"),
  ("contrib", tf.float16, _contrib, "uneven replicas"),
  ("by_hand_float16", tf.float16, _by_hand, "micro_batches model_axis zero"),
  ("by_hand_bfloat16", tf.bfloat16, _by_hand, "zero_bubble recompute"),
  ("without_cond", tf.float16, _without_cond, "model_axis micro_batches"),
)


def _batches(overflows):
  found = []
  for i in range(_STEPS):
    features, labels = programs.examples(_BATCH, i, i + _SIZE)
    x = features["x"].copy()
    if i in overflows:
      row, value = overflows[i]
      x[row, 2] = value
    found.append((features | {"x": x}, labels))
  return found


class MixedPrecisionTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.addCleanup(v1.mixed_precision.disable_mixed_precision_graph_rewrite)

  @parameterized.named_parameters(tiers.sample(_CASES))
  def test_steps_are_the_plain_ones(self, dtype, train, meshes):
    self._check(dtype, train, meshes.split(), _OVERFLOWS)

  @tiers.slow
  def test_a_fixed_scale(self):
    """No step is skipped, so that all have to be finite."""
    self._check(tf.float16, _fixed, ["micro_batches", "model_axis"], {})

  @tiers.slow
  def test_conds_of_tensorflow_1(self):
    """Switch and Merge instead of an If, as after disable_v2_behavior."""
    self.addCleanup(v1.enable_control_flow_v2)
    v1.disable_control_flow_v2()
    self._check(tf.float16, _dynamic, ["micro_batches", "zero"], _OVERFLOWS)

  def _check(self, dtype, train, meshes, overflows):
    model_fn = _model_fn(dtype, train)
    plain = programs.Program(model_fn, None, _BATCH)
    before = plain.variables()
    for mesh in meshes:
      with self.subTest(mesh):
        config = estimator_mp.ShardingConfig(**_MESHES[mesh])
        program = programs.Program(model_fn, config, _BATCH)
        plain.load(before)
        program.load(before)
        for i, batch in enumerate(_batches(overflows)):
          step, expected = program.step(batch), plain.step(batch)
          self._compare(step, expected, _ULP[dtype])
          if i in overflows and train is not _without_cond:
            self.assertEqual(expected.variables["global_step"], i - (i > 3))

  def _compare(self, step, expected, ulp):
    np.testing.assert_allclose(step.loss, expected.loss, rtol=ulp)
    self.assertCountEqual(step.variables, expected.variables)
    for name, value in expected.variables.items():
      if value.ndim == 0:  # Scales and counters.
        self.assertEqual(step.variables[name], value, name)
        continue
      scale = max(np.abs(value).max(), 0.01)
      np.testing.assert_allclose(
        step.variables[name] / scale,
        value / scale,
        rtol=0,
        atol=8 * ulp,
        err_msg=name,
      )


if __name__ == "__main__":
  absltest.main()
