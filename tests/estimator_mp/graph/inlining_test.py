"""What calls, branches and loops do is done by ops of the graph."""

from compat.private import graph_reads
from estimator_mp.graph import op_types
from estimator_mp.graph.calls import inlining
from tests.estimator_mp import session_configs

import numpy as np
import tensorflow as tf
from absl.testing import absltest

_v1 = tf.compat.v1


def _calls(graph):
  return [
    op for op in graph.get_operations() if op.type in op_types.FUNCTION_CALLS
  ]


class InliningTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    graph = tf.Graph()
    self.enter_context(graph.as_default())
    self._graph = graph

  def _run(self, fetches, feed, steps=1):
    with _v1.Session(config=session_configs.config()) as session:
      session.run(_v1.global_variables_initializer())
      return [session.run(fetches, feed) for _ in range(steps)][-1]

  def test_functions_of_functions_and_their_gradients(self):
    inner = tf.function(lambda x: tf.tanh(x) * x)
    outer = tf.function(lambda x: inner(x) + inner(2 * x))
    x = _v1.placeholder(tf.float32, [None])
    y = outer(x)
    fetches = [y * 1, _v1.gradients(y, x)[0] * 1]
    feed = {x: np.array([0.5, -1.5, 2], np.float32)}
    expected = self._run(fetches, feed)
    inlining.inline(_calls(self._graph), op_types.FUNCTION_CALLS)
    reached = [op for fetch in fetches for op in _ancestors(fetch.op)]
    self.assertNoCommonElements(
      {op.type for op in reached}, op_types.FUNCTION_CALLS
    )
    for found, value in zip(self._run(fetches, feed), expected, strict=True):
      np.testing.assert_array_equal(found, value)

  def test_whoever_reads_a_call_runs_all_that_it_does(self):
    count = _v1.get_variable("count", [], initializer=tf.zeros_initializer())

    @tf.function
    def counted(x):
      count.assign_add(1.0)
      return 2 * x

    x = _v1.placeholder(tf.float32, [])
    read = counted(x) + 1
    with tf.control_dependencies([counted(x).op]):
      waits = tf.constant(1.0)
    inlining.inline(_calls(self._graph), op_types.FUNCTION_CALLS)
    for fetch, expected in ((read, 7.0), (waits, 1.0)):
      with _v1.Session(config=session_configs.config()) as session:
        session.run(_v1.global_variables_initializer())
        self.assertEqual(session.run(fetch, {x: 3.0}), expected)
        self.assertEqual(session.run(count), 1)

  def test_what_a_call_waits_for_is_before_what_it_does(self):
    log = _v1.get_variable("log", [], initializer=tf.ones_initializer())
    doubled = tf.function(lambda: log.assign(2 * log.read_value()))
    with tf.control_dependencies([log.assign_add(4.0)]):
      result = doubled()
    inlining.inline(_calls(self._graph), op_types.FUNCTION_CALLS)
    self.assertEqual(self._run(result * 1, {}), 10)

  def test_returns_what_stands_for_outputs(self):
    x = _v1.placeholder(tf.float32, [])
    tf.function(lambda x: x + 1)(x)
    (call,) = _calls(self._graph)
    found = inlining.inline([call], op_types.FUNCTION_CALLS)
    self.assertEqual(list(found), [call.outputs[0].name])
    self.assertEqual(self._run(found[call.outputs[0].name], {x: 1.0}), 2)

  def _inline_all(self):
    ops = self._graph.get_operations()
    calls = [op for op in ops if op.type in op_types.FUNCTIONAL]
    return inlining.inline(calls, inlining.INLINED)

  def test_loops_and_their_gradients(self):
    x = _v1.placeholder(tf.float32, [None, 2])
    weight = _v1.placeholder(tf.float32, [2, 2])
    _, y = tf.while_loop(
      lambda i, y: i < 3,
      lambda i, y: (
        i + 1,
        tf.cond(
          tf.equal(i, 1), lambda: tf.tanh(y), lambda: tf.matmul(y, weight)
        ),
      ),
      [tf.constant(0), x],
    )
    fetches = [y * 1, *(g * 1 for g in _v1.gradients(y, [x, weight]))]
    feed = {x: [[1, 2], [-1, 0.5], [0, 1]], weight: [[0.5, 1], [-1, 0.2]]}
    expected = self._run(fetches, feed)
    self._inline_all()
    reached = [op for fetch in fetches for op in _ancestors(fetch.op)]
    self.assertNoCommonElements(
      {op.type for op in reached}, op_types.FUNCTIONAL
    )
    for found, value in zip(self._run(fetches, feed), expected, strict=True):
      np.testing.assert_array_equal(found, value)

  def test_a_loop_whose_state_grows(self):
    x = _v1.placeholder(tf.float32, [2])
    (y,) = tf.while_loop(
      lambda y: tf.size(y) < 10,
      lambda y: [tf.concat([y, y], 0)],
      [x],
      [tf.TensorShape([None])],
    )
    read = y * 1
    self._inline_all()
    self.assertEqual(self._run(read, {x: [3.0, 4.0]}).tolist(), [3, 4] * 8)

  def test_branches_write_what_they_wrote(self):
    count = _v1.get_variable("count", [], initializer=tf.zeros_initializer())
    flag = _v1.placeholder(tf.bool, [])
    branch = tf.cond(flag, lambda: count.assign_add(1.0).op, lambda: tf.no_op())
    with tf.control_dependencies([branch]):
      after = tf.constant(5.0)
    self._inline_all()
    for value in (True, False):
      with _v1.Session(config=session_configs.config()) as session:
        session.run(_v1.global_variables_initializer())
        self.assertEqual(session.run(after, {flag: value}), 5)
        self.assertEqual(session.run(count), value)

  def test_rounds_write_one_after_the_other(self):
    log = _v1.get_variable("log", [], initializer=tf.ones_initializer())

    def body(i):
      with tf.control_dependencies([log.assign(2 * log + 1)]):
        return [i + 1]

    (rounds,) = tf.while_loop(lambda i: i < 4, body, [tf.constant(0)])
    read = rounds * 1
    self._inline_all()
    with _v1.Session(config=session_configs.config()) as session:
      session.run(_v1.global_variables_initializer())
      self.assertEqual(session.run(read), 4)
      self.assertEqual(session.run(log), 31)

  def test_gradients_stay_known_as_such(self):
    x = _v1.placeholder(tf.float32, [])
    (y,) = tf.while_loop(lambda y: y < 9, lambda y: [y * y], [x])
    gradient = _v1.gradients(y, x)[0] * 1
    self._inline_all()
    loops = {
      graph_reads.outermost_loop(op): op
      for op in _ancestors(gradient.op)
      if graph_reads.outermost_loop(op) is not None
    }
    self.assertLen(loops, 2)
    self.assertCountEqual(
      map(graph_reads.is_of_gradient, loops.values()), [True, False]
    )


def _ancestors(op):
  found, todo = set(), [op]
  while todo:
    op = todo.pop()
    if op not in found:
      found.add(op)
      todo += [x.op for x in op.inputs] + list(op.control_inputs)
  return found


if __name__ == "__main__":
  absltest.main()
