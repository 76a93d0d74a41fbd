"""What functions write of what they get."""

import os

from estimator_mp.graph import variables as variables_lib

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


def _read_in_cond(a, b, positive):
  return tf.cond(positive, lambda: a + 1.0, lambda: 2.0 * b)


def _one_of_two(a, b, positive):
  return tf.cond(positive, lambda: a.assign_add(b) + 0.0, lambda: a + 0.0)


def _loop_that_reads(a, b, positive):
  del positive
  return tf.while_loop(lambda i: i < a, lambda i: i + b, [0.0])[0]


def _loop_that_writes(a, b, positive):
  del positive

  def body(i):
    with tf.control_dependencies([b.assign(a * i)]):
      return i + 1.0

  return tf.while_loop(lambda i: i < a, body, [0.0])[0]


def _cond_in_a_loop(a, b, positive):
  return tf.while_loop(
    lambda i: i < a, lambda i: i + _one_of_two(b, a, positive), [0.0]
  )[0]


def _loop_in_a_call(a, b, positive):
  return tf.function(_loop_that_writes)(a, b, positive)


def _call_that_reads(a, b, positive):
  return tf.function(_read_in_cond)(a, b, positive)


def _unknown_op(a, b, positive):
  del a, positive
  return tf.raw_ops.DestroyResourceOp(resource=b.handle).inputs[0]


def _switch(a, b, positive):
  number = tf.cast(positive, tf.int32)
  return tf.switch_case(
    number, [lambda: a + 0.0, lambda: b.assign_sub(a) + 0.0, lambda: 0.0]
  )


class WrittenStatesTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("read_in_cond", _read_in_cond, []),
    ("one_of_two", _one_of_two, ["a"]),
    ("loop_that_reads", _loop_that_reads, []),
    ("loop_that_writes", _loop_that_writes, ["b"]),
    ("cond_in_a_loop", _cond_in_a_loop, ["b"]),
    ("loop_in_a_call", _loop_in_a_call, ["b"]),
    ("call_that_reads", _call_that_reads, []),
    ("unknown_op", _unknown_op, ["b"]),
    ("switch", _switch, ["b"]),
  )
  def test_functions(self, build, written):
    with tf.Graph().as_default() as graph:
      a, b = (v1.get_variable(x, [], use_resource=True) for x in "ab")
      positive = v1.placeholder(tf.bool, [])
      num_ops = len(graph.get_operations())
      build(a, b, positive)
      found = {
        tensor.op.name
        for op in graph.get_operations()[num_ops:]
        for tensor in variables_lib.written_states(op)
      }
      self.assertCountEqual(found, written)

  @parameterized.named_parameters(
    ("assign", lambda v: v.assign(1.0), True),
    ("read", lambda v: v + 1.0, False),
    ("is_initialized", v1.is_variable_initialized, False),
    ("count", lambda v: v1.count_up_to(v, 3), True),
  )
  def test_references(self, build, is_written):
    with tf.Graph().as_default() as graph:
      first = tf.constant(0 if "count" in self.id() else 0.0)
      variable = v1.get_variable("v", initializer=first, use_resource=False)
      num_ops = len(graph.get_operations())
      build(variable)
      found = [
        tensor.op.name
        for op in graph.get_operations()[num_ops:]
        for tensor in variables_lib.written_states(op)
      ]
      self.assertEqual(found, ["v"] if is_written else [])

  @parameterized.parameters(False, True)
  def test_initial_writes_are_ops_after_init_from_checkpoint(self, is_resource):
    path = os.path.join(self.create_tempdir().full_path, "weights")
    with tf.Graph().as_default(), v1.Session() as session:
      saved = v1.get_variable("v", initializer=[1.0, 2.0])
      session.run(saved.initializer)
      v1.train.Saver([saved]).save(session, path, write_meta_graph=False)
    with tf.Graph().as_default(), v1.Session() as session:
      variable = v1.get_variable("v", [2], use_resource=is_resource)
      v1.train.init_from_checkpoint(path, {"v": "v"})
      session.run([*variables_lib.initial_writes()])
      self.assertEqual(session.run(variable).tolist(), [1.0, 2.0])
      self.assertContainsSubset(
        [type(x) for x in variables_lib.initial_writes()], [tf.Operation]
      )


if __name__ == "__main__":
  absltest.main()
