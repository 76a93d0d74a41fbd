"""Optimizers and kernels that look at a whole variable, which is split.

Each is the plain one, or is refused with an error that says what to do.
"""

import estimator_mp
from tests import tiers
from tests.estimator_mp import parts, programs, shapes

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


def _dense(net, units, name, activation=tf.tanh):
  with v1.variable_scope(name, reuse=v1.AUTO_REUSE):
    bias = v1.get_variable("bias", [units], initializer=v1.zeros_initializer())
    net = tf.matmul(net, parts.weight("kernel", [net.shape[-1], units])) + bias
    return activation(net)


def _logits(net):
  return _dense(
    _dense(_dense(net, 12, "up"), 9, "down"), 1, "last", tf.identity
  )


def _trained(mode, net, labels, optimizer=None):
  logits = _dense(net, 1, "last", tf.identity)
  return parts.spec(mode, parts.mean_loss(labels, logits), optimizer)


def _then_step(*updates):
  with tf.control_dependencies([tf.group(*updates)]):
    return v1.assign_add(v1.train.get_global_step(), 1).op


def _by_hand(update):
  """Returns a model that updates each variable in a way of its own."""

  def model_fn(features, labels, mode):
    loss = parts.mean_loss(labels, _logits(features["x"]))
    variables = v1.trainable_variables()
    gradients = tf.gradients(loss, variables)
    updates = [
      update(gradient, variable)
      for gradient, variable in zip(gradients, variables, strict=True)
    ]
    return parts.spec(mode, loss, _then_step(*tf.nest.flatten(updates)))

  return model_fn


def _slot(variable, name, shape=None):
  shape = variable.shape if shape is None else shape
  return v1.get_variable(
    f"{variable.op.name}/{name}",
    shape,
    initializer=v1.zeros_initializer(),
    trainable=False,
  )


def _lamb(gradient, variable):
  m, v = _slot(variable, "m"), _slot(variable, "v")
  next_m = 0.9 * m + 0.1 * gradient
  next_v = 0.99 * v + 0.01 * tf.square(gradient)
  step = next_m / (tf.sqrt(next_v) + 1e-3)
  if "bias" not in variable.op.name:
    step += 0.1 * variable
  ratio = tf.math.divide_no_nan(tf.norm(variable), tf.norm(step))
  ratio = tf.where(ratio > 0.0, ratio, 1.0)
  return [
    v1.assign_sub(variable, 0.1 * ratio * step),
    v1.assign(m, next_m),
    v1.assign(v, next_v),
  ]


def _adafactor(gradient, variable):
  if variable.shape.rank != 2:
    return v1.assign_sub(variable, 0.1 * gradient)
  rows = _slot(variable, "rows", variable.shape[:1])
  columns = _slot(variable, "columns", variable.shape[1:])
  squares = tf.square(gradient) + 1e-6
  by_row = 0.9 * rows + 0.1 * tf.reduce_mean(squares, 1)
  by_column = 0.9 * columns + 0.1 * tf.reduce_mean(squares, 0)
  by_row_now = by_row / tf.reduce_mean(by_row)
  step = gradient * tf.math.rsqrt(by_row_now[:, None] * by_column)
  step /= tf.maximum(1.0, tf.sqrt(tf.reduce_mean(tf.square(step))))
  scale = tf.sqrt(tf.reduce_mean(tf.square(variable)))
  return [
    v1.assign_sub(variable, 0.1 * scale * step),
    v1.assign(rows, by_row),
    v1.assign(columns, by_column),
  ]


def _curvature(features, labels, mode):
  loss = parts.mean_loss(labels, _logits(features["x"]))
  variables = v1.trainable_variables()
  gradients = tf.gradients(loss, variables)
  constants = [tf.stop_gradient(gradient) for gradient in gradients]
  products = tf.gradients(gradients, variables, constants)
  updates = [
    v1.assign_sub(variable, 0.1 * (gradient + product))
    for variable, gradient, product in zip(
      variables, gradients, products, strict=True
    )
  ]
  return parts.spec(mode, loss, _then_step(*updates))


def _recomputed(features, labels, mode):
  """The gradient of its own reads the kernel once more."""
  kernel = parts.weight("kernel", [10, 10])
  layer = tf.recompute_grad(lambda net: tf.tanh(tf.matmul(net, kernel)))
  net = _dense(layer(features["x"]), 8, "down")
  return _trained(mode, net, labels)


def _pieces(features, labels, mode):
  """A kernel is used twice: transposed, sliced, reshaped, joined."""
  kernel = parts.weight("kernel", [10, 12])
  first = tf.matmul(features["x"], tf.reshape(kernel[:, :6], [10, 6]))
  second = tf.matmul(features["x"][:, :4], kernel[2:6, ::2])
  both = tf.concat([kernel[:, 6:], tf.reverse(kernel, [1])], axis=1)
  net = tf.concat([first, second, tf.matmul(features["x"], both)], axis=1)
  back = tf.matmul(tf.tanh(net[:, :12]), kernel, transpose_b=True)
  return _trained(mode, back, labels)


def _normalized_weights(features, labels, mode):
  direction = parts.weight("direction", [10, 12])
  length = v1.get_variable("length", [12], initializer=v1.ones_initializer())
  net = features["x"] @ (length * tf.nn.l2_normalize(direction, axis=0))
  net = tf.nn.l2_normalize(tf.tanh(net), axis=1)
  return _trained(mode, net, labels)


def _looked_up_with_a_norm(features, labels, mode):
  table = parts.weight("table", [50, 8])
  found = tf.nn.embedding_lookup(table, features["ids"], max_norm=0.5)
  net = tf.reduce_mean(found, axis=1)
  loss = parts.mean_loss(labels, _dense(net, 1, "last", tf.identity))
  optimizer = v1.train.AdagradOptimizer(0.1)
  clipped = [
    (tf.clip_by_norm(gradient, 0.01), variable)
    for gradient, variable in optimizer.compute_gradients(loss)
  ]
  step = v1.train.get_global_step()
  return parts.spec(mode, loss, optimizer.apply_gradients(clipped, step))


def _unused_half(features, labels, mode):
  """As a mean without its deviation: the second part has no gradient."""
  mean, _ = tf.split(_dense(features["x"], 8, "up"), 2, axis=1)
  return _trained(mode, mean, labels)


def _unused_columns(features, labels, mode):
  """The gradient of the table is of the rows that were looked up."""
  rows = tf.gather(parts.weight("table", [50, 8]), features["ids"][:, 0])
  _, used = tf.split(rows, 2, axis=1)
  optimizer = v1.train.MomentumOptimizer(0.2, 0.9)
  return _trained(mode, used, labels, optimizer)


def _shared_minimum(features, labels, mode):
  """The gradient of a minimum is shared by the zeros of all parts."""
  net = _dense(features["x"], 7, "up", tf.nn.relu)
  net -= 0.5 * tf.reduce_min(net, axis=1, keepdims=True)
  return _trained(mode, net, labels)


def _loops(features, labels, mode):
  kernel = parts.weight("kernel", [8, 8])
  _, net = tf.while_loop(
    lambda i, _: i < 3,
    lambda i, state: (i + 1, tf.tanh(tf.matmul(state, kernel))),
    [tf.constant(0), _dense(features["x"], 8, "first")],
  )
  return _trained(mode, net, labels)


_EQUAL = {
  "lamb": _by_hand(_lamb),
  "adafactor": _by_hand(_adafactor),
  "curvature": _curvature,
  "recomputed": _recomputed,
  "pieces": _pieces,
  "normalized_weights": _normalized_weights,
  "looked_up_with_a_norm": _looked_up_with_a_norm,
  "unused_half": _unused_half,
  "unused_columns": _unused_columns,
  "shared_minimum": _shared_minimum,
}


def _rules(names, axis, num_parts):
  """Returns a rule for each matrix that is no slot, for one of its axes."""
  return tuple(
    (f"^{name}$", axis)
    for name, value in names.items()
    if np.ndim(value) == 2
    and value.shape[axis] >= num_parts
    and not any(name.startswith(f"{other}/") for other in names)
  )


class TrapsTest(parameterized.TestCase):
  @parameterized.named_parameters((name, name) for name in tiers.sample(_EQUAL))
  def test_is_the_plain_model(self, name):
    plain = programs.Program(_EQUAL[name], None, shapes.BATCH)
    before = plain.variables()
    batches = [
      programs.examples(shapes.BATCH, start, start + 24) for start in (0, 9, 20)
    ]
    steps = [plain.step(batch) for batch in batches]
    for mesh, split in tiers.sample(
      [
        ("model:2", _rules(before, 1, 2)),  # Columns.
        ("model:3", _rules(before, 0, 3)),  # Rows.
      ]
    ):
      config = estimator_mp.ShardingConfig(mesh, split=split)
      with self.subTest(config=config):
        program = programs.Program(_EQUAL[name], config, shapes.BATCH)
        program.load(before)
        for batch, expected in zip(batches, steps, strict=True):
          step = program.step(batch)
          np.testing.assert_allclose(step.loss, expected.loss, rtol=1e-5)
          programs.assert_same_variables(
            self, step.variables, expected.variables, 1e-4
          )

  def test_a_loop_on_a_shard_is_refused_by_name(self):
    config = estimator_mp.ShardingConfig("model:2", split=[("^kernel$", 1)])
    with self.assertRaisesRegex(
      ValueError, r"kernel cannot be split .* while works on it.*keep it whole"
    ):
      programs.Program(_loops, config, shapes.BATCH)


class HooksTest(absltest.TestCase):
  """What a session is asked for by objects that model_fn has kept."""

  def setUp(self):
    super().setUp()
    kept = {}

    def model_fn(features, labels, mode):
      spec = parts.spec(mode, parts.mean_loss(labels, _logits(features["x"])))
      kernel = next(
        v for v in v1.trainable_variables() if v.op.name == "up/kernel"
      )
      kept["kernel"] = kernel
      kept["value"] = v1.placeholder(tf.float32, kernel.shape)
      kept["assigned"] = kernel.assign(2.0 * kept["value"])
      kept["is_initialized"] = v1.is_variable_initialized(kernel)
      return spec

    self.kept = kept
    self.program = programs.Program(
      model_fn,
      estimator_mp.ShardingConfig("model:2", split=[("^up/kernel$", 0)]),
      shapes.BATCH,
    )
    self.value = np.arange(120.0).reshape([10, 12]).astype(np.float32)

  def test_a_variable_is_fetched_whole(self):
    run = self.program.session.run
    whole = self.program.variables()["up/kernel"]
    np.testing.assert_array_equal(run(self.kept["kernel"]), whole)
    self.assertTrue(run(self.kept["is_initialized"]))

  def test_what_was_assigned_is_fetched_whole(self):
    found = self.program.session.run(
      self.kept["assigned"], {self.kept["value"]: self.value}
    )
    np.testing.assert_array_equal(found, 2.0 * self.value)
    found = self.program.variables()["up/kernel"]
    np.testing.assert_array_equal(found, 2.0 * self.value)

  def test_a_whole_value_is_loaded(self):
    with self.program.graph.as_default():
      self.kept["kernel"].load(self.value, self.program.session)
    found = self.program.variables()["up/kernel"]
    np.testing.assert_array_equal(found, self.value)


if __name__ == "__main__":
  absltest.main()
