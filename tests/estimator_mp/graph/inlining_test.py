"""What calls of functions do is done by ops of the graph."""

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
    inlining.inline(_calls(self._graph))
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
    inlining.inline(_calls(self._graph))
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
    inlining.inline(_calls(self._graph))
    self.assertEqual(self._run(result * 1, {}), 10)

  def test_returns_what_stands_for_outputs(self):
    x = _v1.placeholder(tf.float32, [])
    tf.function(lambda x: x + 1)(x)
    (call,) = _calls(self._graph)
    found = inlining.inline([call])
    self.assertEqual(list(found), [call.outputs[0].name])
    self.assertEqual(self._run(found[call.outputs[0].name], {x: 1.0}), 2)


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
