"""Loops and branches in slices of the batch, of both kinds of control flow.

Each slice goes around a loop by itself, and so does its backward pass. The
steps are those of the plain graph, whether the batch has a static size or not,
and though slices differ in size.
"""

import collections
import itertools
import random

import estimator_mp
from estimator_mp import partitioner
from estimator_mp.graph import frames
from estimator_mp.propagate.layouts import is_whole
from tests import tiers
from tests.estimator_mp import parts, session_configs

import numpy as np
import tensorflow as tf
import tf_keras
from absl.testing import absltest, parameterized

_v1 = tf.compat.v1
_WIDTH = 6
_STEPS = 3
_CONFIGS = {
  "slices": estimator_mp.ShardingConfig(num_micro_batches=3, draws="whole"),
  "1f1b": estimator_mp.ShardingConfig(
    "stage:2", num_micro_batches=3, draws="whole"
  ),
  "replicas": estimator_mp.ShardingConfig(
    "data:2", variables="shared", draws="whole"
  ),
}


def _weight(shape=(_WIDTH, _WIDTH), name="weight", use_resource=True):
  return _v1.get_variable(
    name,
    shape,
    initializer=_v1.glorot_uniform_initializer(seed=4),
    use_resource=use_resource,
  )


def _sequences(x):
  """Four steps for each example."""
  return tf.reshape(tf.tile(x, [1, 4]), [-1, 4, _WIDTH])


def _rounds(count, body, *state, **options):
  """Returns the state after some rounds of a loop."""
  found = tf.while_loop(
    lambda i, *_: i < count,
    lambda i, *state: (i + 1, *body(i, *state)),
    [tf.constant(0), *state],
    **options,
  )
  return found[1] if len(state) == 1 else found[1:]


def _weights_of_rounds(x):
  weight = _weight()
  return _rounds(4, lambda i, h: [tf.tanh(tf.matmul(h, weight) + x)], x * 0)


def _reference_variable(x):
  weight = _weight(use_resource=False)
  return _rounds(4, lambda i, h: [tf.tanh(tf.matmul(h, weight))], x)


def _lstm(x):
  cell = _v1.nn.rnn_cell.BasicLSTMCell(_WIDTH)
  outputs, state = _v1.nn.dynamic_rnn(cell, _sequences(x), dtype=tf.float32)
  return state.h + tf.reduce_mean(outputs, 1)


def _both_directions(x):
  cells = [_v1.nn.rnn_cell.GRUCell(_WIDTH) for _ in range(2)]
  lengths = tf.reduce_sum(tf.cast(x[:, :4] > 0, tf.int32), 1)
  outputs, states = _v1.nn.bidirectional_dynamic_rnn(
    *cells, _sequences(x), lengths, dtype=tf.float32
  )
  return tf.add_n([*states, tf.reduce_mean(outputs[0], 1)])


def _keras_lstm(x):
  glorot = tf_keras.initializers.GlorotUniform
  return tf_keras.layers.LSTM(
    _WIDTH, kernel_initializer=glorot(3), recurrent_initializer=glorot(4)
  )(_sequences(x))


def _map(x):
  weight = _weight()
  columns = tf.map_fn(
    lambda column: tf.matmul(tf.reshape(column, [-1, 1]) * x, weight),
    tf.transpose(x),
  )
  return tf.reduce_mean(columns, 0)


def _scan(x):
  halves = tf.transpose(tf.reshape(x, [-1, 2, 3]), [1, 0, 2])
  found = tf.scan(lambda past, half: tf.tanh(past * 0.5 + half), halves)
  return tf.concat([found[0], found[-1]], 1)


def _state_that_grows(x):
  grown = _rounds(
    3,
    lambda i, h: [tf.concat([h, tf.reduce_sum(h, 1, keepdims=True)], 1)],
    x,
    shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, None])],
  )
  return x + tf.reduce_mean(grown, 1, keepdims=True)


def _loops_in_loops(x):
  weight = _weight()

  def body(i, h):
    inner = _rounds(2, lambda j, g: [tf.tanh(tf.matmul(g, weight))], h)
    return [tf.cond(tf.equal(i % 2, 0), lambda: inner + x, lambda: inner * 2)]

  return _rounds(3, body, x)


def _variable_of_a_branch_of_a_loop(x):
  weight = _weight([_WIDTH])

  def body(i, h):
    return [tf.cond(tf.equal(i % 2, 0), lambda: h + weight, lambda: h * 2.0)]

  return _rounds(3, body, x)


def _sum_of_rounds(x):
  weight, steps = _weight([_WIDTH]), _sequences(x)
  total = _rounds(
    3,
    lambda i, total: [total + tf.reduce_sum(steps[:, i] * weight, 0)],
    tf.fill([_WIDTH], 1.0),
  )
  return x + 0.1 * total


def _sizes_in_rounds(x):
  """What divides is a size of the whole batch, and a shape has a part's."""

  def body(i, h):
    count = tf.cast(tf.shape(h)[0], tf.float32)
    rows = tf.reshape(h, [tf.shape(h)[0], 2, 3])[:, 0]
    filled = tf.fill([tf.shape(x)[0], _WIDTH], 0.1)
    return [tf.matmul(rows / count, tf.ones([3, _WIDTH])) + filled * x]

  return _rounds(3, body, x)


def _greedy_decoding(x):
  table = _weight([9, _WIDTH])

  def body(i, tokens, h, array):
    h = tf.tanh(h + tf.gather(table, tokens))
    scores = tf.matmul(h, table, transpose_b=True)
    tokens = tf.argmax(scores, 1, tf.int32)
    return tokens, h, array.write(i, tokens)

  start = tf.zeros([tf.shape(x)[0]], tf.int32)
  _, h, array = _rounds(4, body, start, x, tf.TensorArray(tf.int32, 4))
  tokens = tf.cast(tf.transpose(array.stack()), tf.float32)
  return h + 0.01 * tf.reduce_sum(tokens, 1, keepdims=True)


def _branches(x):
  weight = _weight()
  h = tf.cond(
    tf.reduce_sum(x) > 0,
    lambda: tf.matmul(x, weight),
    lambda: tf.tanh(x) * 2.0,
  )
  is_large = tf.reduce_mean(x) > 0.1
  return h + tf.cond(is_large, lambda: tf.zeros_like(x), lambda: tf.nn.relu(h))


def _sums_of_branches(x):
  weight = _weight([_WIDTH])
  return x + 0.1 * tf.cond(
    tf.reduce_sum(x) > 0,
    lambda: tf.reduce_sum(x * weight, 0),
    lambda: weight * 2.0,
  )


def _statistics_in_a_branch(x):
  weight = _weight()

  def normalized():
    z = tf.matmul(x, weight)
    mean, variance = tf.nn.moments(z, [0])
    return (z - mean) * tf.math.rsqrt(variance + 0.1)

  return tf.cond(tf.reduce_sum(x) > 0, normalized, lambda: x * 0.5)


def _as_many_rounds_as_some_need(x):
  """Slices would need other numbers of rounds."""
  return _v1.while_loop(
    lambda h: tf.reduce_any(h > 0.5), lambda h: [h * 0.6], [x]
  )


def _as_many_rounds_as_the_largest_has(x):
  counts = tf.reduce_sum(tf.cast(x[:, :4] > 0, tf.int32), 1)
  weight = _weight()

  def body(i, h):
    return [tf.where((i < counts)[:, None], tf.tanh(tf.matmul(h, weight)), h)]

  return _rounds(tf.reduce_max(counts), body, x)


def _maximum_of_rounds(x):
  """Of what a loop makes in no round nothing is known of slices."""
  steps = _sequences(x)
  none = tf.cast(tf.reduce_min(tf.abs(x)) * 0, tf.int32)
  found = [
    _rounds(
      count,
      lambda i, _: [tf.reduce_max(steps[:, i], 0)],
      tf.fill([_WIDTH], -9.0),
    )
    for count in (none, 3)
  ]
  return x + 0.1 * tf.add_n(found)


def _variable_written_in_rounds(x):
  total = _v1.get_variable(
    "total", [], initializer=_v1.zeros_initializer(), trainable=False
  )

  def body(i, h):
    with tf.control_dependencies([total.assign_add(tf.reduce_mean(h))]):
      return [h * 0.9]

  return _rounds(3, body, x)


# Those of which the loop, or the branch, is in parts.
_IN_PARTS = [
  _loops_in_loops,
  _lstm,
  _branches,
  _both_directions,
  _sizes_in_rounds,
  _weights_of_rounds,
  _reference_variable,
  _keras_lstm,
  _map,
  _scan,
  _variable_of_a_branch_of_a_loop,
  _sum_of_rounds,
  _sums_of_branches,
  _statistics_in_a_branch,
]
# Those of which it may be executed once, as slices would need each other.
_ONCE = [
  _state_that_grows,
  _as_many_rounds_as_some_need,
  _maximum_of_rounds,
  _variable_written_in_rounds,
  _greedy_decoding,
  _as_many_rounds_as_the_largest_has,
]


def _cases(nets):
  """Yields each net with both control flows, sizes and meshes in turns."""
  configs = itertools.cycle(_CONFIGS)
  for net in nets:
    for is_v2, size in itertools.product((True, False), (None, 7)):
      if net is _keras_lstm and not is_v2:
        continue  # It does not run in a graph with v1 loops.
      name = f"{net.__name__[1:]}_{'v2' if is_v2 else 'v1'}_{size or 'open'}"
      config = next(configs)
      yield f"{name}_{config}", net, is_v2, size, config
    next(configs)


def _some(cases, last=15):
  """In the fast tier every fifth case of the first few nets."""
  cases = list(cases)
  return cases[:last:5] if tiers.FAST else cases


def _run(net, size, config=None, count=7):
  """Returns losses, variables after some steps, and the partitioner."""
  random.seed(3)
  with tf.Graph().as_default():
    _v1.set_random_seed(1)
    x = _v1.placeholder(tf.float32, [size, _WIDTH])
    y = _v1.placeholder(tf.float32, [size, 1])
    h = _v1.layers.dense(net(_v1.layers.dense(x, _WIDTH)), 1)
    loss = tf.reduce_mean(tf.square(h - y))
    fetches = [loss, _v1.train.MomentumOptimizer(0.05, 0.9).minimize(loss)]
    variables = _v1.global_variables()
    start = _v1.global_variables_initializer()
    options = session_configs.config(device_count={"CPU": 4})
    made = None
    if config is not None:
      options.allow_soft_placement = False
      made = partitioner.Partitioner(
        parts.inputs(x, y), fetches, config, config.create_mesh()
      )
      fetches = made.lower().fetches
    draws = np.random.RandomState(0)
    losses = []
    with _v1.Session(config=options) as session:
      session.run(start)
      for _ in range(_STEPS):
        feed = {x: draws.randn(count, _WIDTH), y: draws.randn(count, 1)}
        losses.append(session.run(fetches, feed)[0])
      return losses, session.run(variables), made


class ControlFlowTest(parameterized.TestCase):
  def _assert_same(self, net, is_v2, size, config, count=7):
    if not is_v2:
      _v1.disable_control_flow_v2()
      self.addCleanup(_v1.enable_control_flow_v2)
    losses, variables, _ = _run(net, size, count=count)
    found, values, made = _run(net, size, _CONFIGS[config], count)
    np.testing.assert_allclose(found, losses, 1e-5)
    for value, expected in zip(values, variables, strict=True):
      np.testing.assert_allclose(value, expected, 1e-4, 1e-5)
    return made

  @parameterized.named_parameters(_some(_cases(_IN_PARTS)))
  def test_in_parts(self, net, is_v2, size, config):
    made = self._assert_same(net, is_v2, size, config)
    heavy = [
      op for op in made.step.ops if op.type in ("MatMul", "Tanh", "TanhGrad")
    ]
    self.assertNotEmpty(heavy)
    self.assertEmpty(made.batch.refused)
    for op in heavy:
      layouts = [made.batch.layout(tensor) for tensor in op.outputs]
      self.assertFalse(all(map(is_whole, layouts)), op.name)

  @parameterized.named_parameters(_some(_cases(_ONCE), 5))
  def test_what_slices_need_of_each_other(self, net, is_v2, size, config):
    self._assert_same(net, is_v2, size, config)

  @parameterized.product(net=tiers.sample([_loops_in_loops, _lstm]))
  def test_slices_without_examples(self, net):
    self._assert_same(net, False, None, "slices", count=2)

  @parameterized.parameters(tiers.sample([False, True]))
  def test_a_loop_is_a_layer_among_others(self, is_v2):
    """What its gradient keeps, for loops of batches of any size, is none."""
    made = self._assert_same(_both_directions, is_v2, None, "1f1b")
    loops = frames.Frames(made.step.ops)
    stages = collections.defaultdict(set)
    for op in made.step.ops:
      if loops.loop(op) is not None and op in made.stages:
        stages[loops.loop(op)].add(made.stages[op])
    self.assertLen(stages, 4)
    self.assertEqual({len(own) for own in stages.values()}, {1})
    self.assertEqual({*made.stages.values()}, {0, 1})

  def test_slices_draw_numbers_of_their_own_in_each_round(self):
    config = estimator_mp.ShardingConfig(num_micro_batches=2)
    for size in (None, 6):
      with self.subTest(size=size), tf.Graph().as_default():
        x = _v1.placeholder(tf.float32, [size, 4])
        weight = _weight([4, 4])

        def body(i, drawn, x=x, weight=weight):
          noise = tf.random.uniform(tf.shape(x), seed=5)
          return [drawn + noise * 10.0 ** tf.cast(-4 * i, tf.float32) + 0 * x]

        drawn = _rounds(2, body, tf.zeros_like(x))
        loss = tf.reduce_mean(tf.matmul(drawn, weight))
        train_op = _v1.train.GradientDescentOptimizer(0.0).minimize(loss)
        with tf.control_dependencies([train_op]):
          seen = tf.identity(tf.reshape(drawn, [-1]))
        made = partitioner.Partitioner(
          parts.inputs(x), [loss, seen], config, config.create_mesh()
        )
        fetches = made.lower().fetches
        self.assertEmpty(made.batch.refused)
        with _v1.Session(config=session_configs.config()) as session:
          session.run(_v1.global_variables_initializer())
          values = session.run(fetches, {x: np.ones([6, 4])})[1]
        self.assertLen(set(values), 24)


if __name__ == "__main__":
  absltest.main()
