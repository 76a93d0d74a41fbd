"""Who reads the gradients of all processes, and who those of its own."""

from estimator_mp.planning import gradient_reads

import tensorflow as tf
from absl.testing import absltest

_v1 = tf.compat.v1


def _found(build):
  """Returns the gradient reads of a graph, by the names of tensors."""
  with tf.Graph().as_default() as graph:
    with gradient_reads.heard(graph) as requests:
      build()
    found = gradient_reads.find(graph, requests)
  return {x.tensor.name: x for x in found}


def _readers(read):
  return {op.name for op, _ in read.readers}


class GradientReadsTest(absltest.TestCase):
  def test_all_that_is_made_of_gradients_reads_those_of_all_processes(self):
    kept = {}

    def build():
      x = _v1.placeholder(tf.float32, [None, 3])
      kernel = _v1.get_variable("kernel", [3, 2])
      loss = tf.reduce_sum(tf.tanh(tf.matmul(x, kernel)))
      kept["gradient"], of_x = tf.gradients(loss, [kernel, x])
      _v1.summary.histogram("seen", kept["gradient"])
      clipped, _ = tf.clip_by_global_norm([kept["gradient"]], 1.0)
      kernel.assign_sub(clipped[0])
      tf.identity(of_x, "of_x")

    (read,) = _found(build).values()
    self.assertIs(read.tensor, kept["gradient"])
    self.assertFalse(read.is_rows)
    self.assertEqual(
      _readers(read),
      {
        "seen",
        "global_norm/L2Loss",
        "clip_by_global_norm/mul_1",
      },
    )

  def test_of_a_sparse_gradient_values_and_indices_are_rows(self):
    def build():
      table = _v1.get_variable("table", [9, 2])
      ids = _v1.placeholder(tf.int32, [None])
      loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, ids)))
      _v1.train.AdagradOptimizer(0.1).minimize(loss)
      tf.identity(ids, "seen")

    values, indices = _found(build).values()
    self.assertTrue(values.is_rows and indices.is_rows)
    self.assertEqual(values.tensor.dtype, tf.float32)
    self.assertEqual(indices.tensor.dtype, tf.int32)
    for read in (values, indices):
      self.assertNotEmpty(read.readers)
      self.assertNotIn("seen", _readers(read))

  def test_what_a_further_gradient_is_taken_of_is_of_the_process(self):
    def build():
      kernel = _v1.get_variable("kernel", [3])
      x = _v1.placeholder(tf.float32, [3])
      loss = tf.reduce_sum(tf.exp(kernel * x))
      (first,) = tf.gradients(loss, [kernel])
      size = tf.reduce_sum(tf.square(first, "square"))
      weight = tf.stop_gradient(tf.norm(first, name="norm"))
      (second,) = tf.gradients(loss * weight + size, [kernel])
      kernel.assign_sub(tf.add(first, second, "update"))

    first, second = _found(build).values()
    self.assertEqual(_readers(first), {"norm/mul", "update"})
    self.assertEqual(_readers(second), {"update"})

  def test_an_update_before_a_further_request(self):
    """As a critic is updated before a generator asks for gradients."""

    def build():
      x = _v1.placeholder(tf.float32, [3])
      kernels = [_v1.get_variable(f"k{i}", [3]) for i in range(2)]
      waits = []
      for kernel in kernels:
        with tf.control_dependencies(waits):
          loss = tf.reduce_sum(x * kernels[0].read_value() * kernel)
          (gradient,) = tf.gradients(loss, [kernel])
          waits = [kernel.assign_sub(gradient)]

    self.assertLen(_found(build), 2)

  def test_a_gradient_inside_of_a_loop(self):
    _v1.disable_control_flow_v2()
    self.addCleanup(_v1.enable_control_flow_v2)

    def build():
      kernel = _v1.get_variable("kernel", [])

      def body(i, total):
        (gradient,) = tf.gradients(tf.exp(kernel), [kernel])
        return i + 1, total + gradient

      _v1.while_loop(lambda i, _: i < 3, body, [0, 0.0])

    with self.assertRaisesRegex(ValueError, "call tf.gradients outside of tf."):
      _found(build)


if __name__ == "__main__":
  absltest.main()
