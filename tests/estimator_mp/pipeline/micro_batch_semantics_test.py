"""What micro-batches do to batch statistics, summaries and errors."""

import functools
import itertools

import estimator_mp
from estimator_mp.observe import trace_hook
from tests import tiers
from tests.estimator_mp import parts, programs, runs
from tests.estimator_mp.models import catalogue, data

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_BATCH = (
  {name: data.FEATURES[name] for name in ("x", "ids", "image")},
  data.LABELS,
)
_MOVING = ("moving_mean", "moving_variance")


def _config(mesh="stage:2", num_micro_batches=4, **fields):
  return estimator_mp.ShardingConfig(
    mesh, num_micro_batches=num_micro_batches, **fields
  )


def _spec(mode, logits, labels, optimizer=None, **fields):
  loss = parts.mean_loss(labels, logits)
  optimizer = optimizer or v1.train.GradientDescentOptimizer(0.1)
  with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
    train_op = optimizer.minimize(loss, v1.train.get_global_step())
  return tf.estimator.EstimatorSpec(
    mode, loss=loss, train_op=train_op, **fields
  )


def _normalized(features, labels, mode):
  """Six channels: as many as a micro-batch of a quarter of 24 has examples."""
  net = v1.layers.dense(features["x"], 6, use_bias=False, name="first")
  net = v1.layers.batch_normalization(
    net[:, None, None], training=True, momentum=0.9, name="norm"
  )[:, 0, 0]
  return _spec(mode, v1.layers.dense(tf.nn.relu(net), 1, name="last"), labels)


class BatchNormTest(parameterized.TestCase):
  @parameterized.named_parameters(
    tiers.sample(
      [("uneven", False, 22), ("static", True, 24), ("dynamic", False, 24)]
    )
  )
  def test_moving_averages(self, is_static, size):
    """They move once, by the mean of the micro-batches' statistics."""
    batch = programs.examples(_BATCH, 0, size)
    config = _config(batch_norm="per_micro_batch")
    program = programs.Program(_normalized, config, batch, None, is_static)
    before = program.variables()
    step = program.step(batch)
    pieces = np.array_split(batch[0]["x"] @ before["first/kernel"], 4)
    shares = np.array([len(piece) / size for piece in pieces])
    of_sample = functools.partial(np.var, ddof=1)
    for name, statistic in zip(_MOVING, (np.mean, of_sample), strict=True):
      expected = 0.9 * before[f"norm/{name}"] + 0.1 * np.sum(
        [s * statistic(p, 0) for s, p in zip(shares, pieces, strict=True)], 0
      )
      np.testing.assert_allclose(
        step.variables[f"norm/{name}"], expected, rtol=1e-6, atol=1e-7
      )

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("dynamic", "stage:2", "1f1b", False),
        ("static", "stage:3", "gpipe", True),
      ]
    )
  )
  def test_gradients(self, mesh, schedule, is_static):
    """They are the mean of those of the micro-batches by themselves."""
    model_fn = catalogue.MODELS["cnn_with_batch_norm"].model_fn
    batch = programs.examples(_BATCH, 0, 24)
    plain = programs.Program(model_fn, None, batch)
    before = plain.variables()
    alone = []
    for m in range(4):
      plain.load(before)
      alone.append(plain.step(programs.examples(batch, 6 * m, 6 * m + 6)))
    config = _config(mesh, schedule=schedule, batch_norm="per_micro_batch")
    program = programs.Program(model_fn, config, batch, None, is_static)
    program.load(before)
    step = program.step(batch)
    programs.assert_same_gradients(
      self,
      step.gradients,
      {n: np.mean([a.gradients[n] for a in alone], 0) for n in step.gradients},
      [a.gradients for a in alone],
    )
    self.assertAlmostEqual(step.loss, np.mean([a.loss for a in alone]), 5)
    moving = [name for name in before if name.endswith(_MOVING)]
    self.assertLen(moving, 4)
    for name in moving:
      expected = np.mean([a.variables[name] for a in alone], 0)
      np.testing.assert_allclose(step.variables[name], expected, rtol=1e-5)


_IMAGES = np.random.RandomState(1).randn(24, 2, 3, 4).astype(np.float32)


def _fused(is_first=False, factor=None, dtype=tf.float32, offset=None):
  """Returns a model of a fused batch normalization that keeps its moments.

  Args:
    is_first: Whether channels are the first dimension of an example.
    factor: How much of the old moments the new ones replace.
    dtype: That of the images.
    offset: What is added to these; by default a weight.
  """

  def model_fn(features, labels, mode):
    moved = parts.weight("bias", [2, 3, 4]) if offset is None else offset
    x = tf.cast(features + moved, dtype)
    scale, shift = (parts.weight(name, [4]) for name in ("scale", "shift"))
    moments = [parts.state(name, [4]) for name in _MOVING]
    options = {"data_format": "NHWC"}
    if is_first:
      options, x = {"data_format": "NCHW"}, tf.transpose(x, [0, 3, 1, 2])
    if factor is not None:
      options |= dict(zip(("mean", "variance"), moments, strict=True))
      options["exponential_avg_factor"] = factor
    y, *new = v1.nn.fused_batch_norm(x, scale + 1.0, shift, **options)
    if is_first:
      y = tf.transpose(y, [0, 2, 3, 1])
    labels = tf.cast(labels, tf.float32)[:, :, tf.newaxis, tf.newaxis]
    loss = tf.reduce_mean(tf.square(tf.cast(y, tf.float32) - 3.0 + labels))
    updates = [x.assign(y) for x, y in zip(moments, new, strict=True)]
    with tf.control_dependencies(updates):
      return parts.spec(mode, loss)

  return model_fn


class WholeBatchNormTest(parameterized.TestCase):
  @parameterized.named_parameters(
    # A mean that is large beside the deviations shows how they are computed.
    ("far_from_zero", {"offset": 300.0}, {}, 1e-3),
    ("half", {"dtype": tf.float16}, {}, 3e-3),
    ("of_moving_moments", {"factor": 0.25}, {}),
    # The plain op exists for GPUs only; slices have no such op.
    ("channels_first", {}, {"is_first": True}),
  )
  def test_slices_exchange_moments(self, fields, of_sharded, rtol=1e-4):
    """Also if there are more slices than examples."""
    batch = (_IMAGES, data.LABELS[:24])
    plain = programs.Program(_fused(**fields), None, batch)
    config = _config("data:2", 2)
    program = programs.Program(_fused(**fields, **of_sharded), config, batch)
    batches = [programs.examples(batch, 0, size) for size in (24, 22, 3)]
    programs.assert_same_steps(self, plain, program, batches, rtol)


class GradientsTest(parameterized.TestCase):
  @parameterized.parameters(tiers.sample([True, False]))
  def test_one_that_no_example_changes_is_added_up(self, is_static):
    """Where the graph knows the batch, all slices make the same constant."""

    def model_fn(features, labels, mode):
      bias = parts.state("bias", [])
      net = v1.layers.dense(features["x"], 8, tf.tanh, name="first")
      net = v1.layers.dense(net, 1, use_bias=False, name="last") + bias
      loss = tf.reduce_sum(net) + 0.0 * tf.cast(
        tf.reduce_sum(labels), net.dtype
      )
      (gradient,) = tf.gradients(loss, [bias])
      with tf.control_dependencies([loss]):  # It reads the bias first.
        update = bias.assign_sub(gradient)
      return parts.spec(mode, loss, tf.group(parts.descend(loss), update))

    batch = programs.examples(_BATCH, 0, 24)
    plain, program = programs.plain_and_sharded(
      model_fn, _config(), batch, is_static=is_static
    )
    programs.assert_same_steps(self, plain, program, [batch])


class OptimizerTest(absltest.TestCase):
  def test_sparse_gradients_reach_the_optimizer(self):
    def model_fn(features, labels, mode):
      table = v1.get_variable("table", [50, 8])
      net = tf.nn.embedding_lookup(table, features["ids"])
      net = v1.layers.dense(tf.reduce_mean(net, 1), 8, name="first")
      logits = v1.layers.dense(net, 1, name="last")
      return _spec(mode, logits, labels, v1.train.AdamOptimizer())

    batch = programs.examples(_BATCH, 0, 24)
    program = programs.Program(model_fn, _config(), batch)
    self.assertIsInstance(program.gradients["table"], tf.IndexedSlices)
    step = program.step(batch, program.gradients["table"].indices)
    self.assertLen(step.fetched, batch[0]["ids"].size)


class SummariesTest(absltest.TestCase):
  def test_scalars_are_means_over_the_batch(self):
    def model_fn(features, labels, mode):
      net = v1.layers.dense(features["x"], 8, name="first")
      logits = v1.layers.dense(net, 1, name="last")
      right = tf.equal(tf.cast(logits > 0, tf.int32), labels)
      v1.summary.scalar("accuracy", tf.reduce_mean(tf.cast(right, tf.float32)))
      spec = _spec(mode, logits, labels)
      v1.summary.scalar("my_loss", spec.loss)
      v1.summary.scalar("half_loss", spec.loss / 2)
      return spec

    def scalars(program, batch):
      with program.graph.as_default():
        texts = v1.get_collection(v1.GraphKeys.SUMMARIES)
      step = program.step(batch, texts)
      found = {"loss": step.loss}
      for text in step.fetched:
        for value in v1.Summary.FromString(text).value:
          found[value.tag] = value.simple_value
      return found

    plain, program = programs.plain_and_sharded(model_fn, _config(), _BATCH)
    for size in (24, 22, 3):
      batch = programs.examples(_BATCH, 0, size)
      expected, found = scalars(plain, batch), scalars(program, batch)
      self.assertCountEqual(
        expected, ["accuracy", "my_loss", "half_loss", "loss"]
      )
      for name, value in expected.items():
        self.assertAlmostEqual(found[name], value, 5, f"{name}, {size}")


class OrderTest(parameterized.TestCase):
  @parameterized.named_parameters(
    tiers.sample([(x, x) for x in ("zb1p", "gpipe", "1f1b")])
  )
  def test_cells_run_in_the_order_of_the_schedule(self, schedule):
    config = _config("stage:3", schedule=schedule)
    folder = self.create_tempdir().full_path
    model = catalogue.NETWORKS["mlp_sgd"]
    estimator = runs.make_estimator(
      estimator_mp.shard_model_fn(model.model_fn, config),
      config,
      model.params,
      folder,
    )
    hook = trace_hook.TraceHook([2], folder)
    estimator.train(lambda: data.input_fn().repeat(), steps=2, hooks=[hook])
    (trace,) = hook.traces
    for device, row in enumerate(config.create_schedule().rows):
      spans = [s for s in trace.spans if s.device == device]
      spans.sort(key=lambda span: span.start)
      self.assertEqual([span.cell for span in spans], [*row])
      for span, following in itertools.pairwise(spans):
        self.assertLessEqual(span.end, following.start)


class ErrorsTest(absltest.TestCase):
  def test_what_is_asserted_of_the_batch(self):
    """A layer of each slice waits for it."""

    def model_fn(features, labels, mode):
      net = v1.layers.dense(features["x"], 8, tf.tanh, name="first")
      largest = tf.reduce_max(features["x"])
      check = tf.debugging.assert_less(largest, 100.0, "x is too large")
      with tf.control_dependencies([check]):
        net = tf.identity(net)
      return _spec(mode, v1.layers.dense(net, 1, name="last"), labels)

    batch = programs.examples(_BATCH, 0, 24)
    plain, program = programs.plain_and_sharded(model_fn, _config(), batch)
    programs.assert_same_steps(self, plain, program, [batch])
    wrong = ({name: x + 100 for name, x in batch[0].items()}, batch[1])
    with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "too large"):
      program.step(wrong)

  def test_other_errors_of_model_fn_pass(self):
    def model_fn(features, labels, mode):
      del features, labels, mode
      raise ValueError("mine")

    batch = programs.examples(_BATCH, 0, 24)
    with self.assertRaisesRegex(ValueError, "^mine$"):
      programs.Program(model_fn, _config(), batch, is_static=True)


if __name__ == "__main__":
  absltest.main()
