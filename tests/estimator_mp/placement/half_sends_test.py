"""Stages send activations and their gradients in half precision, if asked."""

import collections

import estimator_mp
from estimator_mp.observe import executed_graph
from estimator_mp.placement import half_sends
from tests import tiers
from tests.estimator_mp import parts, programs, runs
from tests.estimator_mp.models import catalogue, data

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_BATCH = (data.FEATURES, data.LABELS.astype(np.float32))
_BATCH_OF_24 = programs.examples(_BATCH, 0, 24)
_ULP = {"float16": 4.9e-4, "bfloat16": 3.9e-3}


def _forward(features):
  """Two stages; the second one also reads a weight and inputs of the first."""
  with estimator_mp.stage(0):
    x = features["x"] + 0.0
    tied = parts.weight("tied", [10, 16])
    hidden = tf.tanh(tf.matmul(x, tied))
    rows = tf.gather(features["ids"], 0, axis=1)
    penalty = tf.reduce_sum(tf.square(tied))
  with estimator_mp.stage(1):
    net = tf.tanh(tf.matmul(hidden, parts.weight("second", [16, 10]))) + x
    net = tf.matmul(net, tied) + hidden
    logits = tf.matmul(net, parts.weight("last", [16, 1]))
    logits += tf.cast(rows[:, None], tf.float32) / 50.0
  return logits, penalty


def _model_fn(features, labels, mode):
  logits, penalty = _forward(features)
  if mode == tf.estimator.ModeKeys.PREDICT:
    return tf.estimator.EstimatorSpec(mode, {"logits": logits})
  with estimator_mp.stage(1):
    loss = tf.reduce_mean(tf.square(logits - labels)) + 0.01 * penalty
  return parts.spec(mode, loss)


def _tape_model_fn(features, labels, mode):
  with tf.GradientTape() as tape:
    logits, penalty = _forward(features)
    with estimator_mp.stage(1):
      loss = tf.reduce_mean(tf.square(logits - labels)) + 0.01 * penalty
  variables = v1.trainable_variables()
  pairs = zip(tape.gradient(loss, variables), variables, strict=True)
  optimizer = v1.train.GradientDescentOptimizer(0.1)
  train_op = optimizer.apply_gradients(pairs, v1.train.get_global_step())
  return parts.spec(mode, loss, train_op)


def _sent(program):
  """Returns how many tensors each device sends each other one, by dtype."""
  found = collections.Counter()
  for graph in program.trace(_BATCH_OF_24).partition_graphs:
    for node in graph.node:
      source, destination = (
        node.attr[name].s.decode()[-1:]
        for name in ("send_device", "recv_device")
      )
      if node.op == "_Send" and source != destination:
        dtype = tf.dtypes.as_dtype(node.attr["T"].type).name
        found[source, destination, dtype] += 1
  return found


def _norm(gradients):
  return np.sqrt(sum(np.sum(np.square(x)) for x in gradients.values()))


def _config(dtype="bfloat16", mesh="stage:2", **fields):
  return estimator_mp.ShardingConfig(mesh, transfer_dtype=dtype, **fields)


class ConfigTest(absltest.TestCase):
  def test_one_stage_sends_nothing(self):
    with self.assertRaisesRegex(
      ValueError, "transfer_dtype='bfloat16' .* mesh data:2 has one stage"
    ):
      _config(mesh="data:2")


class FindTest(absltest.TestCase):
  def test_stages_of_one_device_send_each_other_nothing(self):
    """Such as the first and the third of virtual stages."""
    with tf.Graph().as_default() as graph:
      x = tf.compat.v1.placeholder(tf.float32, [4, 3])
      kernel = tf.compat.v1.get_variable("kernel", [3, 3])
      layers = [tf.matmul(x, kernel)]
      for _ in range(2):
        layers.append(tf.tanh(layers[-1]))
      ops = graph.get_operations()
      stages = {x.op: stage for stage, x in zip((0, 2, 3), layers, strict=True)}
      devices = ["/cpu:0", "/cpu:1"] * 2
      (send,) = half_sends.find_half_sends(ops, stages, devices, [x])
    self.assertEqual((send.source, send.destination), (2, 3))


class SentTest(parameterized.TestCase):
  def test_activations_and_their_gradients(self):
    """The hidden layer and its gradient, and nothing else."""
    sent, expected = (
      _sent(programs.Program(_model_fn, config, _BATCH_OF_24, is_static=True))
      for config in (_config(), _config("float32"))
    )
    self.assertEqual(sent["0", "1", "bfloat16"], 1)
    self.assertEqual(sent["1", "0", "bfloat16"], 1)
    forward, backward = ("0", "1", "float32"), ("1", "0", "float32")
    self.assertEqual(sent[forward], expected[forward] - 1)
    # All uses of the hidden layer have one gradient now.
    self.assertLess(sent[backward], expected[backward])
    for route, count in expected.items():
      if route not in (forward, backward):
        self.assertEqual(sent[route], count, route)

  def test_gradients_of_a_tape(self):
    """It has recorded other ops than those that are sent."""
    program = programs.Program(
      _tape_model_fn, _config(), _BATCH_OF_24, is_static=True
    )
    sent = _sent(program)
    self.assertEqual(sent["0", "1", "bfloat16"], 1)
    # Both terms of the gradient: a tape adds them where the layer is.
    self.assertEqual(sent["1", "0", "bfloat16"], 2)
    exact = programs.Program(
      _tape_model_fn, _config("float32"), _BATCH_OF_24, is_static=True
    )
    program.load(exact.variables())
    step, expected = program.step(_BATCH_OF_24), exact.step(_BATCH_OF_24)
    np.testing.assert_allclose(step.loss, expected.loss, rtol=0.02)
    self.assertNotEqual(step.loss, expected.loss)

  def test_bytes_are_planned_and_measured(self):
    """The table says half the bytes, and what it says is sent."""
    planned, measured = {}, {}
    for dtype in ("float32", "bfloat16"):
      program = programs.Program(
        _model_fn,
        _config(dtype, num_micro_batches=2),
        _BATCH_OF_24,
        is_static=True,
      )
      transfers = estimator_mp.get_placement(program.graph).transfers
      planned[dtype] = {x.tensor: x.num_bytes for x in transfers}
      measured[dtype] = {
        f"{x.op}:{x.output}"
        for x in executed_graph.measured_transfers(
          program.trace(_BATCH_OF_24).partition_graphs
        )
      }
    halves = planned["bfloat16"].keys() & measured["bfloat16"]
    halves -= planned["float32"].keys()
    one = 12 * 16 * 2  # Of 12 examples, 16 numbers of 2 bytes.
    # Two micro-batches, there and back.
    self.assertEqual([planned["bfloat16"][x] for x in halves], [one] * 4)

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("one_batch", {}),
        ("zero_bubble", {"num_micro_batches": 4, "schedule": "zb1p"}),
        (
          "interleaved",
          {
            "num_micro_batches": 4,
            "schedule": "interleaved",
            "num_virtual_stages": 2,
            "recompute": "always",
          },
        ),
        (
          "zero",
          {"mesh": "data:2,stage:2", "optimizer_state": "sharded"},
        ),
        ("model_axis", {"mesh": "stage:2,model:2", "num_micro_batches": 2}),
      ]
    )
  )
  def test_losses_and_gradients_are_near(self, fields):
    """A boundary rounds to half precision, there and back: a few units."""
    dtypes = tiers.sample(("bfloat16", "float16"))
    self._check("mlp_sgd", fields, dtypes)

  @parameterized.named_parameters(
    tiers.sample([(name, name) for name in ("cnn", "lstm")])
  )
  def test_models(self, name):
    fields = {
      "mesh": "stage:3",
      "placement": catalogue.PURE_NETWORKS[name].rules,
    }
    self._check(name, fields | {"num_micro_batches": 2}, ("bfloat16",))

  def _check(self, name, fields, dtypes):
    model = catalogue.PURE_NETWORKS[name]
    batch = programs.examples((data.FEATURES, data.LABELS), 0, 25)
    plain = programs.Program(model.model_fn, None, batch, model.params)
    before = plain.variables()
    for dtype in dtypes:
      with self.subTest(dtype):
        config = _config(dtype, **fields)
        program = programs.Program(model.model_fn, config, batch, model.params)
        plain.load(before)
        program.load(before)
        step, expected = program.step(batch), plain.step(batch)
        self._assert_near(step, expected, dtype)

  def _assert_near(self, step, expected, dtype):
    """Asserts that a step differs, by some units in the last place."""
    np.testing.assert_allclose(step.loss, expected.loss, rtol=_ULP[dtype])
    difference = {
      name: step.gradients[name] - gradient
      for name, gradient in expected.gradients.items()
    }
    distance = _norm(difference) / _norm(expected.gradients)
    # Terms of a gradient cancel out, and a ReLU near 0 may flip.
    self.assertBetween(distance, 1e-5, 12 * _ULP[dtype])

  def test_evaluation_and_prediction_send_float32(self):
    """They are the plain model's, whatever training sends."""
    model = catalogue.NETWORKS["mlp_adam"]
    config = _config()
    folder = self.create_tempdir().full_path
    runs.train(model.model_fn, None, model.params, folder, 1)
    served = []
    for model_fn, used in (
      (model.model_fn, None),
      (estimator_mp.shard_model_fn(model.model_fn, config), config),
    ):
      made = runs.make_estimator(model_fn, used, model.params, folder)
      served.append((made.evaluate(data.input_fn), runs.predict(made)))
    (metrics, logits), (expected, plain) = served
    self.assertEqual(metrics["loss"], expected["loss"])
    np.testing.assert_array_equal(logits, plain)


if __name__ == "__main__":
  absltest.main()
