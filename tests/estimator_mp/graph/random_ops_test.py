"""Random ops: each micro-batch draws numbers of its own, wherever they are."""

import dataclasses
import functools
import re

import estimator_mp
from tests import tiers
from tests.estimator_mp import parts, programs
from tests.estimator_mp.models import data

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_BATCH = programs.examples(({"x": data.FEATURES["x"]}, data.LABELS), 0, 24)


def _nested_functions(x):
  inner = tf.function(lambda y: tf.nn.dropout(y, 0.5))
  return tf.function(lambda y: inner(y) * 1.5)(x)


def _cond(x):
  return tf.cond(
    tf.reduce_max(x) < 100.0, lambda: tf.nn.dropout(x, 0.5), lambda: x
  )


def _shared_cond(x):
  step = v1.train.get_global_step()
  return tf.cond(
    step < 100,
    lambda: tf.nn.dropout(x, 0.5),
    lambda: tf.nn.dropout(x, 0.1),
  )


def _loop(x):
  _, x = tf.while_loop(
    lambda i, _: i < 2,
    lambda i, y: (i + 1, tf.nn.dropout(y, 0.3)),
    [tf.constant(0), x],
  )
  return x


def _loop_in_a_function(x):
  return tf.function(_loop)(x)


def _map(x):
  return tf.map_fn(
    lambda row: tf.nn.dropout(row, 0.5), x, parallel_iterations=1
  )


def _keras_in_a_function(x):
  layer = tf.keras.layers.Dropout(0.5, seed=7)
  return tf.function(lambda y: layer(y, training=True))(x)


def _stateless(x):
  return tf.nn.experimental.stateless_dropout(x, 0.5, seed=[3, 4])


def _stateless_of_step(x):
  step = tf.cast(v1.train.get_global_step(), tf.int32)
  mask = tf.random.stateless_uniform(tf.shape(x), tf.stack([step, 4])) > 0.5
  return x * tf.cast(mask, tf.float32)


def _stateless_op_of_v1(x):
  mask = tf.raw_ops.StatelessRandomUniform(shape=tf.shape(x), seed=[1, 2])
  return tf.where(mask > 0.5, x, tf.zeros_like(x))


def _stateless_in_a_loop(x):
  def body(i, y):
    seed = tf.stack([i, 5])
    return i + 1, tf.nn.experimental.stateless_dropout(y, 0.3, seed)

  return tf.while_loop(lambda i, _: i < 2, body, [tf.constant(0), x])[1]


def _generator(x):
  generator = tf.random.Generator.from_seed(5)
  mask = generator.uniform(tf.shape(x)) > 0.5
  return x * tf.cast(mask, tf.float32)


def _generator_in_a_function(x):
  generator = tf.random.Generator.from_seed(5)

  def dropout(y):
    mask = generator.uniform(tf.shape(y)) > 0.5
    return y * tf.cast(mask, tf.float32)

  return tf.function(dropout)(x)


def _v1_function(x):
  """As graphs of TensorFlow 1 have them: the op has the function's name."""
  with tf.Graph().as_default() as graph:
    rows = v1.placeholder(tf.float32, [None, 16])
    tf.function(
      lambda y: y * tf.floor(tf.random.uniform(tf.shape(y), seed=3) + 0.5)
    )(rows)
  (function,) = graph.as_graph_def().library.function
  function.signature.name = "my_dropout"
  definition = v1.GraphDef()
  definition.library.function.append(function)
  definition.node.add(name="call", op="my_dropout", input=["x"])
  for version in ("producer", "min_consumer"):
    found = getattr(graph.graph_def_versions, version)
    setattr(definition.versions, version, found)
  (y,) = tf.graph_util.import_graph_def(definition, {"x": x}, ["call:0"])
  return tf.ensure_shape(y, [None, 16])


_EVERYWHERE = {
  "nested_functions": _nested_functions,
  "cond": _cond,
  "shared_cond": _shared_cond,
  "loop": _loop,
  "loop_in_a_function": _loop_in_a_function,
  "map": _map,
  "v1_function": _v1_function,
  "keras_in_a_function": _keras_in_a_function,
  "stateless": _stateless,
  "stateless_of_step": _stateless_of_step,
  "stateless_op_of_v1": _stateless_op_of_v1,
  "stateless_in_a_loop": _stateless_in_a_loop,
  "generator": _generator,
  "generator_in_a_function": _generator_in_a_function,
}


def _model(drop, features, labels, mode):
  net = v1.layers.dense(features["x"], 16, name="first")
  ones = net * 0.0 + 1.0
  mask = tf.identity(drop(ones), name="mask")
  net = v1.layers.dense(net * mask, 16, name="second")
  logits = v1.layers.dense(net, 1, name="last")
  loss = tf.reduce_mean((logits - tf.cast(labels, tf.float32)) ** 2)
  return parts.spec(mode, loss)


def _masks(graph):
  """Returns the masks of all micro-batches, those of replica 0 first."""
  names = [op.name for op in graph.get_operations()]
  copies = re.compile(r"(slice|micro|replica)_.*/mask")
  found = [n for n in names if copies.fullmatch(n)]
  found = [n for n in found if "recompute" not in n]
  found.sort(key=lambda n: (n.startswith(("micro", "replica")), n[:7], n))
  return [graph.get_tensor_by_name(f"{n}:0") for n in found or ["mask"]]


def _program(drop, mesh="stage:2", count=4, is_static=False, seed=11, **fields):
  config = estimator_mp.ShardingConfig(mesh, num_micro_batches=count, **fields)
  model_fn = functools.partial(_model, drop)
  return programs.Program(
    model_fn, config, _BATCH, is_static=is_static, seed=seed
  )


def _step(program):
  """Returns a step, with the masks of all micro-batches."""
  step = program.step(_BATCH, _masks(program.graph))
  if len(step.fetched) == 1:  # Drawn once, for the whole batch.
    masks = np.split(step.fetched[0], 4)
    step = dataclasses.replace(step, fetched=masks)
  return step


# Where draws are, and whether in control flow of TensorFlow 1.
_CASES = [
  *((name, drop, False) for name, drop in _EVERYWHERE.items()),
  ("v1_cond", _cond, True),
  ("v1_loop", _loop, True),
  ("v1_map", _map, True),
]


class MasksTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (name, drop, is_v1, number % 3 == 1)
    for number, (name, drop, is_v1) in tiers.sample(enumerate(_CASES))
  )
  def test_differ_and_follow_from_the_seed(self, drop, is_v1, is_static):
    """The plain model with these masks as a feature gives the same step."""
    if is_v1:
      v1.disable_control_flow_v2()
      self.addCleanup(v1.enable_control_flow_v2)
    program = _program(drop, is_static=is_static, recompute="always")
    start = program.variables()
    step = _step(program)
    masks = step.fetched
    self._check_masks(masks)
    others = _step(_program(drop, "data:2", 2, is_static)).fetched
    np.testing.assert_array_equal(others, masks)
    features = _BATCH[0] | {"mask": np.concatenate(masks)}

    def model_fn(features, labels, mode):
      return _model(lambda _: features["mask"], features, labels, mode)

    plain = programs.Program(model_fn, None, (features, _BATCH[1]))
    plain.load({name: start[name] for name in plain.variables()})
    expected = plain.step((features, _BATCH[1]))
    np.testing.assert_allclose(step.loss, expected.loss, rtol=1e-5)
    programs.assert_same_gradients(
      self, step.gradients, expected.gradients, [], rtol=1e-5
    )

  def _check_masks(self, masks):
    self.assertLen(masks, 4)
    for i, mask in enumerate(masks):
      self.assertBetween((mask == 0).mean(), 0.1, 0.9)
      for j in range(i):
        self.assertTrue((mask != masks[j]).any(), (i, j))

  @tiers.slow
  def test_another_seed_draws_others(self):
    drop = _nested_functions
    masks, again, others = (
      np.array(_step(_program(drop, seed=seed)).fetched)
      for seed in (11, 11, 12)
    )
    np.testing.assert_array_equal(again, masks)
    self.assertTrue((others != masks).any())

  def test_all_at_once(self):
    """As the plain model draws them."""
    plain = programs.Program(
      functools.partial(_model, _stateless), None, _BATCH
    )
    expected = plain.step(_BATCH, "mask:0").fetched
    masks = _step(_program(_stateless, draws="whole")).fetched
    np.testing.assert_array_equal(np.concatenate(masks), expected)

  def test_a_tensor_fetched_by_name_has_the_numbers_of_the_step(self):
    """It is the plain op's, but reads what slices have drawn."""
    sharded = _program(_stateless)
    fetched = [sharded.graph.get_tensor_by_name("mask:0")]
    fetched += _masks(sharded.graph)
    found, *slices = sharded.step(_BATCH, fetched).fetched
    np.testing.assert_array_equal(found, np.concatenate(slices))

  @parameterized.named_parameters(
    tiers.sample([("recomputed", "always"), ("kept", "never")])
  )
  def test_pooling_that_chooses_its_rows_once(self, recompute):
    """The seed says which, for all examples of all steps."""

    def model_fn(features, labels, mode):
      net = v1.layers.dense(features["x"], 64, name="zero")
      net = tf.reshape(net, [-1, 8, 8, 1])
      pooled, _, _ = tf.nn.fractional_max_pool(net, 1.4, True, seed=3)
      net = tf.reshape(pooled, [-1, 25])
      return _model(lambda ones: ones, {"x": net}, labels, mode)

    config = estimator_mp.ShardingConfig(
      "stage:2", num_micro_batches=4, recompute=recompute
    )
    plain = programs.Program(model_fn, None, _BATCH)
    program = programs.Program(model_fn, config, _BATCH)
    programs.assert_same_steps(self, plain, program, [_BATCH])


class GeneratorTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("micro_batches", "stage:2", 4), ("replicas", "data:2", 2)
  )
  def test_moves_as_in_the_plain_model(self, mesh, count):
    model_fn = functools.partial(_model, _generator)
    config = estimator_mp.ShardingConfig(mesh, num_micro_batches=count)
    moves = []
    for c in (None, config):
      program = programs.Program(model_fn, c, _BATCH)
      (name,) = [n for n in program.variables() if n.endswith("StateVar")]
      before = program.variables()[name]
      moves.append(program.step(_BATCH).variables[name] - before)
    np.testing.assert_array_equal(moves[0], [24 * 16 * 256, 0, 0])
    np.testing.assert_array_equal(moves[1], moves[0])


class OneMicroBatchTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (name, _EVERYWHERE[name]) for name in ("loop", "stateless", "generator")
  )
  def test_draws_what_the_plain_model_does(self, drop):
    model_fn = functools.partial(_model, drop)
    steps = [
      program.step(_BATCH, _masks(program.graph))
      for program in (
        programs.Program(model_fn, None, _BATCH),
        _program(drop, count=1),
      )
    ]
    np.testing.assert_array_equal(steps[0].fetched, steps[1].fetched)
    self.assertEqual(steps[0].loss, steps[1].loss)


if __name__ == "__main__":
  absltest.main()
