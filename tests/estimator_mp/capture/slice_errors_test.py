"""Errors that only slices of a batch cause say so, others stay as they are."""

import traceback
import weakref

import estimator_mp
from estimator_mp.capture import batch_size
from tests import tiers
from tests.estimator_mp import programs, runs, zoo

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_BATCH = programs.examples(
  ({name: zoo.FEATURES[name] for name in ("x", "ids")}, zoo.LABELS), 0, 24
)
_ADVICE = (
  "; let model_fn take the number of examples from its features, as in "
  "tf.shape(x)[0], or use num_micro_batches=1"
)
_STEP_ADVICE = (
  "; let model_fn take the number of examples and their length from its "
  "features, as in tf.shape(x)[0], or use num_micro_batches=1"
)


def _config(mesh="stage:2", num_micro_batches=4, **fields):
  """What a fixed size leaves of examples, the graph does not tell: say mean."""
  fields = {"loss_reduction": "mean"} | fields
  return estimator_mp.ShardingConfig(
    mesh, num_micro_batches=num_micro_batches, **fields
  )


def _model(change):
  """Returns a model_fn that changes its input before two layers."""

  def model_fn(features, labels, mode):
    net = v1.layers.dense(change(features, labels), 8, tf.tanh, name="first")
    logits = v1.layers.dense(net, 1, name="last")
    labels = tf.cast(labels, tf.float32)
    loss = tf.reduce_mean(tf.square(logits - labels))
    optimizer = v1.train.GradientDescentOptimizer(0.1)
    train_op = optimizer.minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

  return model_fn


_plain = _model(lambda features, labels: features["x"])


def _asserted(features, labels):
  del labels
  x = features["x"]
  assert x.shape[0] == 24
  return x


def _raised(features, labels):
  del labels
  if features["x"].shape[0] != 24:
    raise ValueError("model_fn wants a batch_size of 24")
  return features["x"]


def _set_shape(features, labels):
  del labels
  x = tf.identity(features["x"])
  x.set_shape([24, 10])
  return x


def _keras_flat(features, labels):
  """The layer has seen other inputs already."""
  del labels
  layer = tf.keras.layers.Dense(4)
  layer(tf.zeros([1, 240]))
  return layer(tf.reshape(features["x"], [1, -1]))


def _lost_labels(features, labels):
  logits = tf.reduce_sum(features["x"], 1, keepdims=True)
  loss = tf.nn.sigmoid_cross_entropy_with_logits(tf.ones([24, 1]), logits)
  return features["x"] + loss * tf.cast(labels, tf.float32)


# Changes, and what is said of them for six examples, of 24, at a time.
BUILDS = (
  (
    "reshape",
    lambda features, _: tf.reshape(features["x"], [24, 10], name="mine"),
    "mine cannot be built for them: Cannot reshape a tensor with 60 elements "
    "to shape [24,10]",
  ),
  (
    "add",
    lambda features, _: features["x"] + tf.ones([24, 1]),
    "add cannot be built for them: Dimensions must be equal, but are 6 and 24 "
    "for",
  ),
  (
    "index",
    lambda features, _: features["x"] + features["x"][20],
    "strided_slice cannot be built for them: slice index 20 of dimension 0 "
    "out of bounds",
  ),
  (
    "concat",
    lambda features, _: tf.concat([features["x"], tf.ones([24, 1])], 1),
    "concat cannot be built for them: Dimension 0 in both shapes must be "
    "equal, but are 6 and 24",
  ),
  (
    "split",
    lambda features, _: tf.concat(tf.split(features["x"], 8), 0),
    "split cannot be built for them: Dimension size must be evenly divisible "
    "by 8 but is 6",
  ),
  (
    "set_shape",
    _set_shape,
    "it cannot be built for them: Dimension 0 in both shapes must be equal, "
    "but are 6 and 24. Shapes are [6,10] and [24,10]",
  ),
  (
    "labels",
    _lost_labels,
    "it cannot be built for them: `logits` and `labels` must have the same "
    "shape, received ((6, 1) vs (24, 1))",
  ),
  (
    "keras_layer",
    _keras_flat,
    'it cannot be built for them: Input 0 of layer "dense" is incompatible '
    "with the layer: expected axis -1 of input shape to have value 240, but "
    "received input with shape (1, 60)",
  ),
  (
    "raised",
    _raised,
    "it cannot be built for them: model_fn wants a batch_size of 24",
  ),
  (
    "asserted",
    _asserted,
    "it cannot be built for them: assert x.shape[0] == 24",
  ),
  (
    "debugging",
    lambda features, _: _same_rows(features["x"]),
    "it cannot be built for them: x has the shape of a batch",
  ),
)


def _same_rows(x):
  with tf.control_dependencies(
    [tf.debugging.assert_equal(x.shape[0], 24, "x has the shape of a batch")]
  ):
    return tf.identity(x)


def _raise(error):
  raise error


# What has nothing to do with the size of slices.
OTHER_ERRORS = (
  ("value", ValueError("mine")),
  ("type", TypeError("mine")),
  ("other_shape", ValueError("the shape [7, 11] is wrong")),
  ("size_without_number", ValueError("unknown size 'large'")),
  ("assertion", AssertionError("mine")),
  ("key", KeyError("a shape of 24")),
)


class BuildTest(parameterized.TestCase):
  def _build(self, change, is_static=True, **fields):
    return programs.Program(
      _model(change), _config(**fields), _BATCH, None, is_static
    )

  @parameterized.named_parameters(*BUILDS)
  def test_error(self, change, reason):
    with self.subTest("the plain model is built"):
      programs.Program(_model(change), None, _BATCH, None, True)
    with self.assertRaises(ValueError) as raised:
      self._build(change)
    text = str(raised.exception)
    self.assertStartsWith(
      text,
      f"num_micro_batches=4 gives model_fn 6 examples at a time, and {reason}",
    )
    self.assertEndsWith(text, _ADVICE)
    self.assertLen(text.splitlines(), 1)
    self.assertIsNotNone(raised.exception.__cause__)

  def test_replicas(self):
    with self.assertRaises(ValueError) as raised:
      self._build(_set_shape, mesh="data:2", num_micro_batches=1)
    self.assertEqual(
      str(raised.exception),
      "num_micro_batches=1 on data:2 gives model_fn 12 examples at a time, and "
      "it cannot be built for them: Dimension 0 in both shapes must be equal, "
      f"but are 12 and 24. Shapes are [12,10] and [24,10]{_ADVICE} and no data "
      "axis",
    )

  def test_rounds(self):
    with self.assertRaises(ValueError) as raised:
      self._build(
        _set_shape, num_micro_batches=2, gradient_accumulation_steps=2
      )
    text = str(raised.exception)
    self.assertStartsWith(
      text,
      "num_micro_batches=2 with gradient_accumulation_steps=2 gives model_fn 6 "
      "examples at a time, and ",
    )
    self.assertEndsWith(text, f"{_ADVICE} without gradient_accumulation_steps")

  def test_a_known_vector_that_was_cut(self):
    """The graph takes four weights for the batch."""

    def model_fn(features, labels, mode):
      by_class = tf.ones([1, 4]) * features["weights"]
      del by_class
      return _plain(features, labels, mode)

    config = _config(num_micro_batches=2)
    with tf.Graph().as_default():
      v1.train.create_global_step()
      features = {
        "weights": v1.placeholder(tf.float32, [4]),
        "x": v1.placeholder(tf.float32, [None, 10]),
      }
      labels = v1.placeholder(tf.int32, [None, 1])
      with self.assertRaises(ValueError) as raised:
        estimator_mp.shard_model_fn(model_fn, config)(
          features, labels, "train", config=estimator_mp.run_config(config)
        )
    self.assertEndsWith(
      str(raised.exception),
      f"{_ADVICE}; or, if features/weights holds no examples, say so: "
      'batch_axis=[("^features/weights$", None)]',
    )

  @parameterized.named_parameters(*OTHER_ERRORS)
  def test_other_errors_pass(self, error):
    with self.assertRaises(type(error)) as raised:
      self._build(lambda features, labels: _raise(error))
    self.assertIs(raised.exception, error)

  def test_errors_of_sharding_pass(self):
    """They speak of shapes and numbers, too."""

    def change(features, labels):
      del labels
      with estimator_mp.stage(24):
        return features["x"]

    with self.assertRaisesRegex(
      ValueError, "^stage 24 is outside of mesh stage:2, whose stage axis"
    ):
      self._build(change)

  def test_errors_of_a_batch_that_the_graph_does_not_know_pass(self):
    """The plain model has them as well: its shapes are the same."""
    with self.assertRaisesRegex(ValueError, "^Dimensions must be equal"):
      self._build(
        lambda features, _: features["x"] + tf.ones([6, 7]), is_static=False
      )


# Changes whose plain steps run on 24 examples, and what is said of slices.
STEPS = (
  (
    "reshape",
    lambda features, _: tf.reshape(features["x"], [24, 10], name="mine"),
    "mine cannot run on it: Input to reshape is a tensor with 60 values, but "
    "the requested shape has 240",
  ),
  (
    "add",
    lambda features, _: features["x"] + _ones_of_a_batch(features),
    "add",
  ),
  (
    "concat",
    lambda features, _: tf.concat(
      [features["x"], _ones_of_a_batch(features)], 1, name="mine"
    ),
    "mine cannot run on it: ConcatOp",
  ),
  (
    "slice",
    lambda features, _: tf.slice(features["x"], [0, 0], [24, 4], name="mine"),
    "mine cannot run on it: Expected size[0] in [0, 6], but got 24",
  ),
  (
    "matmul",
    lambda features, _: tf.matmul(tf.eye(24), features["x"], name="mine"),
    "mine cannot run on it: Matrix size-incompatible: In[0]: [24,24], In[1]: "
    "[6,10]",
  ),
  (
    "ensure_shape",
    lambda features, _: tf.ensure_shape(features["x"], [24, 10], name="mine"),
    "mine cannot run on it: Shape of tensor",
  ),
  (
    "gather",
    lambda features, _: tf.gather(features["x"], tf.range(24), name="mine"),
    "mine cannot run on it: indices[6] = 6 is not in [0, 6)",
  ),
  (
    "gather_nd",
    lambda features, _: tf.stack(
      [tf.gather_nd(features["x"], [[i, 0] for i in range(24)], name="mine")], 1
    ),
    "mine cannot run on it: indices[",
  ),
  (
    "cond",
    lambda features, _: tf.cond(
      tf.reduce_sum(features["x"]) < 1e9,
      lambda: tf.reshape(features["x"], [24, 10]),
      lambda: tf.zeros([24, 10]),
    ),
    "",
  ),
  (
    "map",
    lambda features, _: tf.map_fn(
      lambda i: features["x"][i], tf.range(24), tf.float32
    ),
    "",
  ),
)


def _ones_of_a_batch(features):
  """Returns 24 ones whose number the graph does not know."""
  del features
  return tf.reshape(tf.ones(v1.placeholder_with_default([24], [1])), [-1, 1])


class StepTest(parameterized.TestCase):
  @parameterized.named_parameters(*STEPS)
  def test_error(self, change, reason):
    with self.subTest("the plain model runs"):
      programs.Program(_model(change), None, _BATCH).step(_BATCH)
    program = programs.Program(_model(change), _config(), _BATCH)
    with self.assertRaises(tf.errors.InvalidArgumentError) as raised:
      program.step(_BATCH)
    text = str(raised.exception)
    self.assertStartsWith(
      text,
      "num_micro_batches=4 gives model_fn a part of the batch at a time, and "
      f"{reason}",
    )
    self.assertEndsWith(text, _STEP_ADVICE)
    self.assertLen(text.splitlines(), 1)
    cause = raised.exception.__cause__
    self.assertIsInstance(cause, tf.errors.InvalidArgumentError)
    self.assertIn("{{node ", cause.message)

  def test_replicas(self):
    """An op of a clone has the name that it has in the model."""
    batch = programs.examples((zoo.FEATURES, zoo.LABELS), 0, 30)

    def change(features, labels):
      del labels
      return tf.slice(features["x"], [0, 0], [8, 4], name="mine")

    program = programs.Program(_model(change), _config("data:2", 2), batch)
    with self.assertRaises(tf.errors.InvalidArgumentError) as raised:
      program.step(batch)  # In slices of 8, 8, 7 and 7.
    self.assertEqual(
      str(raised.exception),
      "num_micro_batches=2 on data:2 gives model_fn a part of the batch at a "
      "time, and mine cannot run on it: Expected size[0] in [0, 7], but got 8"
      f"{_STEP_ADVICE} and no data axis",
    )

  def test_padding_to_the_longest_example(self):
    """The longest one of a slice may be shorter than the longest of all."""

    def model_fn(features, labels, mode):
      words = features["words"].to_tensor()
      mask = features["mask"]  # Padded by input_fn.
      net = tf.multiply(tf.cast(words, tf.float32), mask, name="mine")
      net = tf.reduce_sum(net, axis=1, keepdims=True)
      return _plain({"x": tf.reshape(net, [-1, 1])}, labels, mode)

    def input_fn():
      lengths = [i % 3 + 1 for i in range(22)] + [7, 7]
      words = tf.ragged.constant([[1] * n for n in lengths])
      features = {"words": words, "mask": tf.sequence_mask(lengths, 7, "float")}
      return tf.data.Dataset.from_tensors((features, _BATCH[1]))

    folder = self.create_tempdir().full_path
    runs.train(model_fn, None, None, f"{folder}/plain", 1, input_fn)
    config = _config()
    model_fn = estimator_mp.shard_model_fn(model_fn, config)
    with self.assertRaisesRegex(
      tf.errors.InvalidArgumentError,
      "^num_micro_batches=4 gives model_fn a part of the batch at a time, and "
      ".*mine cannot run on it: .*; let model_fn take the number of examples "
      "and their length from its features,",
    ):
      runs.train(model_fn, config, None, f"{folder}/sharded", 1, input_fn)

  def _fails(self, model_fn, input_fn, config=None):
    """Returns the error that training a sharded Estimator ends with."""
    config = config or _config()
    folder = self.create_tempdir().full_path
    model_fn = estimator_mp.shard_model_fn(model_fn, config)
    with self.assertRaises(tf.errors.InvalidArgumentError) as raised:
      runs.train(model_fn, config, None, folder, 2, input_fn)
    return raised.exception

  def test_errors_of_the_input_pipeline_pass(self):
    """They speak of shapes as well, but they are those of the plain model."""

    def input_fn():
      data = tf.data.Dataset.range(24)
      data = data.map(lambda i: (tf.ones([10 + i // 3]), tf.ones([1])))
      data = data.map(lambda x, y: (tf.ensure_shape(x, [None]), y)).batch(24)
      return data.map(lambda x, y: ({"x": tf.ensure_shape(x, [None, 10])}, y))

    error = self._fails(_plain, input_fn)
    self.assertIn("Shapes are", error.message)
    self.assertNotIn("num_micro_batches", str(error))

  def test_errors_of_functions_of_the_input_pipeline_pass(self):
    def read(i):
      if i == 23:
        raise ValueError("a row has another shape")
      return np.ones([10], np.float32)

    def input_fn():
      data = tf.data.Dataset.range(24).map(
        lambda i: tf.ensure_shape(tf.py_function(read, [i], tf.float32), [10])
      )
      return data.map(lambda x: ({"x": x}, tf.ones([1]))).batch(24)

    error = self._fails(_plain, input_fn)
    self.assertIn("a row has another shape", error.message)
    self.assertNotIn("num_micro_batches", str(error))

  def test_errors_of_what_reads_no_slice_pass(self):
    def model_fn(features, labels, mode):
      weights = v1.get_variable("weights", [6])
      size = v1.placeholder_with_default([7], [1])
      made = tf.slice(weights, [0], size, name="mine")
      features = {"x": features["x"] * tf.reduce_max(made)}
      return _plain(features, labels, mode)

    program = programs.Program(model_fn, _config(), _BATCH)
    with self.assertRaisesRegex(
      tf.errors.InvalidArgumentError, "but got 7"
    ) as raised:
      program.step(_BATCH)
    self.assertNotIn("num_micro_batches", str(raised.exception))

  @parameterized.named_parameters(
    (
      "label",
      lambda features, labels: tf.expand_dims(
        tf.nn.sparse_softmax_cross_entropy_with_logits(
          labels[:, 0] + 10, features["x"]
        ),
        1,
      ),
    ),
    (
      "word",
      lambda features, labels: tf.gather(tf.eye(10), features["ids"])[:, 0],
    ),
    (
      "assertion",
      lambda features, labels: _same_rows_as_seven(features["x"]),
    ),
  )
  def test_errors_of_values_pass(self, change):
    program = programs.Program(_model(change), _config(), _BATCH)
    with self.assertRaises(tf.errors.InvalidArgumentError) as raised:
      program.step(_BATCH)
    self.assertIn("{{node", str(raised.exception))
    self.assertNotIn("num_micro_batches", str(raised.exception))


def _same_rows_as_seven(x):
  check = tf.debugging.assert_less(x, -9.0, "mine")
  with tf.control_dependencies([check]):
    return tf.identity(x)


def _sizes(**features):
  """Returns a batch of features of these sizes, and 24 labels."""
  made = {
    name: np.ones([size, 10], np.float32) for name, size in features.items()
  }
  return made, _BATCH[1]


class SizesTest(parameterized.TestCase):
  """Inputs of sizes that differ, when the graph does not know them."""

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("stages", "stage:2", {}),
        ("one_device", "stage:1", {}),
        ("replicas", "data:2", {"num_micro_batches": 1}),
        ("both", "data:2,stage:2", {"num_micro_batches": 2}),
        ("shared", "data:2", {"variables": "shared"}),
        ("owners", "data:2", {"optimizer_state": "sharded"}),
        (
          "interleaved",
          "stage:2",
          {"schedule": "interleaved", "num_virtual_stages": 2},
        ),
        ("recomputed", "stage:2", {"recompute": "always"}),
        ("accumulated", "stage:2", {"gradient_accumulation_steps": 2}),
        ("sum", "stage:2", {"loss_reduction": "sum"}),
      ]
    ),
  )
  def test_no_step_is_made(self, mesh, fields):
    def model_fn(features, labels, mode):
      net = features["x"]
      for name in "abc":
        net = v1.layers.dense(net, 4, tf.tanh, name=name)
      return _plain({"x": net}, labels, mode)

    batch = _sizes(a=24, x=24)
    program = programs.Program(model_fn, _config(mesh, **fields), batch)
    program.step(batch)
    before = program.variables()
    for sizes, name in (({"a": 8, "x": 24}, "a"), ({"a": 24, "x": 20}, "x")):
      with self.assertRaises(tf.errors.InvalidArgumentError) as raised:
        program.step(_sizes(**sizes))
      name = f"features/{name}"
      text = str(raised.exception)
      size = min(sizes.values())
      self.assertEqual(
        text,
        f"labels has 24 examples but {name} has {size}, so the batch cannot be "
        f"cut; say on which axis {name} has its examples, or None if it has "
        f'none: batch_axis=[("^{name}$", None)]',
      )
    after = program.variables()
    for name, value in before.items():
      np.testing.assert_array_equal(after[name], value, name)
    program.step(batch)

  def test_the_advice_is_right(self):
    """With it the model trains as the plain one, on all examples."""
    batch = _sizes(a=8, x=24)
    plain = programs.Program(_plain, None, batch)
    config = _config(batch_axis=[("^features/a$", None)])
    program = programs.Program(_plain, config, batch)
    program.load(plain.variables())
    step, expected = program.step(batch), plain.step(batch)
    self.assertAlmostEqual(step.loss, expected.loss, 5)
    programs.assert_same_variables(self, step.variables, expected.variables)

  def test_what_training_an_estimator_prints(self):
    def input_fn():
      data = tf.data.Dataset.from_tensors(_sizes(x=24))
      return data.map(
        lambda x, y: (x | {"a": tf.boolean_mask(x["x"], y[:, 0] > 0)}, y)
      )

    config = _config()
    model_fn = estimator_mp.shard_model_fn(_plain, config)
    folder = self.create_tempdir().full_path
    with self.assertRaises(tf.errors.InvalidArgumentError) as raised:
      runs.train(model_fn, config, None, folder, 2, input_fn)
    lines = traceback.format_exception(raised.exception)
    self.assertRegex(
      lines[-1],
      r"InvalidArgumentError: labels has 24 examples but features/a has \d+, "
      r"so the batch cannot be cut; say on which axis features/a has its "
      r"examples, or None if it has none: batch_axis=\[.+\]\n$",
    )
    # TensorFlow's own comes before it.
    self.assertIn("Graph execution error", "".join(lines[:-1]))

  def test_a_session_without_hooks_says_it_too(self):
    """The check is in the graph."""
    batch = _sizes(a=24, x=24)
    program = programs.Program(_plain, _config(), batch)
    del program.session.run
    with self.assertRaises(tf.errors.InvalidArgumentError) as raised:
      program.step(_sizes(a=8, x=24))
    self.assertStartsWith(
      batch_size.message_of_check(raised.exception.message),
      "labels has 24 examples but features/a has 8, so the batch cannot be cut",
    )

  def test_sessions_are_not_kept(self):
    program = programs.Program(_plain, _config(), _BATCH)
    session = weakref.ref(program.session)
    del program.session
    self.assertIsNone(session())


if __name__ == "__main__":
  absltest.main()
