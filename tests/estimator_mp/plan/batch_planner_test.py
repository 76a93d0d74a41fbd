"""What is done in parts of the batch, as data."""

from estimator_mp.capture import micro_batches
from estimator_mp.plan import batch_planner
from estimator_mp.plan.batch_plan import Cut, Places, Rows, Size

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_SIZES = (("static", 8), ("open", None))
_ROWS = Rows(0, 1)


def _plan(build, size, per_example=()):
  """Plans what `build` makes of features [size, 6] and labels [size]."""
  with tf.Graph().as_default() as graph:
    inputs = {
      "features": v1.placeholder(tf.float32, [size, 6], "x"),
      "labels": v1.placeholder(tf.int32, [size], "y"),
    }
    planner = batch_planner.BatchPlanner(
      micro_batches.inputs_with_examples(inputs),
      graph.get_operations(),
      per_example,
    )
    first = len(graph.get_operations())
    build(inputs["features"], inputs["labels"])
    plan = planner.plan(graph.get_operations()[first:])
  return {parted.op.name: parted for parted in plan.ops}, plan


def _kernel(rows, columns):
  return v1.get_variable("kernel", [rows, columns], use_resource=True)


@parameterized.named_parameters(*_SIZES)
class PlanTest(parameterized.TestCase):
  def test_a_layer(self, size):
    def build(x, y):
      tf.nn.relu(tf.matmul(x, _kernel(6, 4), name="product"), "relu")

    ops, plan = _plan(build, size)
    self.assertSameElements(ops, ["product", "relu"])
    self.assertEqual(ops["product"].reads, (Cut(_ROWS), None))
    self.assertEqual(plan.rows, {"product:0": _ROWS, "relu:0": _ROWS})
    self.assertNotIn((True,), [x.shares for x in plan.ops])

  def test_what_sparse_features_look_up_is_cut(self, size):
    """Only the session says how many they are, but not how many examples."""

    def build(x, y):
      shape = tf.cast(tf.stack([tf.shape(y)[0], -1]), tf.int64)
      ids = tf.sparse.reshape(tf.sparse.from_dense(y[:, tf.newaxis]), shape)
      table = v1.get_variable("table", [9, 4], use_resource=True)
      found = v1.nn.safe_embedding_lookup_sparse(table, ids, combiner="sum")
      tf.add(tf.matmul(x, _kernel(6, 4), name="product"), found, "added")

    ops, plan = _plan(build, size)
    self.assertEqual(ops["added"].reads, (Cut(_ROWS), Cut(_ROWS)))
    self.assertEqual(plan.rows["added:0"], _ROWS)

  def test_sums_and_means_over_examples(self, size):
    def build(x, y):
      net = tf.matmul(x, _kernel(6, 4), name="product")
      tf.reduce_mean(net, name="mean")
      tf.reduce_sum(net, 0, name="sum")
      tf.reduce_mean(net, 1, name="of_each")

    ops, plan = _plan(build, size)
    shares = {name for name, x in ops.items() if x.shares == (True,)}
    self.assertEqual(shares, {"mean", "sum"})
    self.assertEqual(ops["mean"].divisor, _ROWS)
    self.assertEqual(ops["mean"].counted, (1,))
    self.assertIsNone(ops["sum"].divisor)
    self.assertEqual(plan.rows["of_each:0"], _ROWS)

  def test_what_compares_examples(self, size):
    def build(x, y):
      net = tf.matmul(x, _kernel(6, 4), name="product")
      tf.nn.softmax(tf.transpose(net), name="over_examples")
      tf.math.top_k(net[:, 0], 2, name="hardest")
      tf.gather(net, [1, 0], name="places")
      tf.cumsum(net, name="running")
      net[::-1]

    ops, _ = _plan(build, size)
    self.assertIn("product", ops)
    self.assertIn("transpose", ops)  # Examples along its second axis.
    self.assertEmpty({"over_examples", "places", "running"} & ops.keys())
    self.assertNotIn("hardest", ops)

  def test_inputs_wait_for_no_slice(self, size):
    def build(x, y):
      labels = tf.one_hot(y, 4, name="labels")
      tf.reduce_sum(labels, name="number")
      weights = tf.square(x, name="weights")
      tf.reduce_sum(weights, name="total")
      tf.multiply(tf.matmul(x, _kernel(6, 4)), labels, name="product")

    ops, plan = _plan(build, size)
    self.assertNotIn("number", ops)
    self.assertNotIn("weights", ops)  # Nothing reads parts of it.
    self.assertEqual({op.name for op in plan.of_inputs}, {"labels"})
    self.assertEqual(ops["product"].reads, (Cut(_ROWS), Cut(_ROWS)))
    self.assertNotIn((True,), [x.shares for x in plan.ops])

  def test_shapes_that_name_the_size(self, size):
    def build(x, y):
      net = tf.matmul(x, _kernel(6, 4))
      number = tf.shape(net)[0]
      tf.reshape(net, tf.stack([number, 2, 2]), name="named")
      tf.reshape(net, [-1, 2, 2], name="follows")

    ops, _ = _plan(build, size)
    self.assertEqual(ops["named"].reads, (Cut(_ROWS), Size(0, 1)))
    self.assertEqual(ops["follows"].reads, (Cut(_ROWS), None))

  def test_rows_that_each_example_takes_of_its_own(self, size):
    """BERT's way; whatever else is added to indices is not understood."""

    def build(x, y):
      net = tf.reshape(tf.matmul(x, _kernel(6, 8)), [-1, 2], name="flat")
      where = tf.stack([y, 3 - y], 1, name="where")
      begins = tf.range(0, tf.shape(y)[0]) * 4
      begins = tf.reshape(begins, [-1, 1], name="begins")
      for name, offsets in (("own", begins), ("next", begins + 1)):
        indices = tf.reshape(where + offsets, [-1])
        tf.gather(net, indices, name=name)
      tf.gather(net, tf.reshape(begins + where, [-1]), name="turned")

    ops, plan = _plan(build, size)
    self.assertNotIn("next", ops)
    for name in ("own", "turned"):
      rows, places, axis = ops[name].reads
      self.assertEqual(rows, Cut(Rows(0, size and 4)))
      self.assertIsInstance(places, Places)
      self.assertEqual(places.rows, Rows(0, size and 2))
      self.assertEqual(places.taken.name, "where:0")
      self.assertEqual(places.offsets.shape.rank, 1)
      self.assertIsNone(axis)
      self.assertEqual(plan.rows[f"{name}:0"].axis, 0)

  def test_later_ops_read_what_earlier_ones_make(self, size):
    with tf.Graph().as_default() as graph:
      x = v1.placeholder(tf.float32, [size, 6], "x")
      inputs = micro_batches.inputs_with_examples({"features": x})
      planner = batch_planner.BatchPlanner(inputs, graph.get_operations())
      before = len(graph.get_operations())
      net = tf.matmul(x, _kernel(6, 4), name="product")
      ops = graph.get_operations()
      planner.plan(ops[before:])
      tf.square(net, name="square")
      plan = planner.plan(graph.get_operations()[len(ops) :])
    self.assertEqual([x.op.name for x in plan.ops], ["square"])

  def test_what_the_user_says(self, size):
    def build(x, y):
      net = tf.matmul(x, _kernel(6, 4))
      made = tf.numpy_function(np.square, [net], tf.float32, name="square")
      made.set_shape([size, 4])
      tf.nn.relu(made, name="relu")

    ops, _ = _plan(build, size)
    self.assertNotIn("square", ops)
    ops, _ = _plan(build, size, ["^square"])
    self.assertIn("square", ops)

  def test_what_waits_for_the_batch(self, size):
    def build(x, y):
      kernel = tf.identity(_kernel(6, 4))
      with tf.control_dependencies([tf.reduce_max(x)]):
        tf.matmul(x, kernel, name="product")

    ops, _ = _plan(build, size)
    self.assertNotIn("product", ops)


class OpenSizesTest(absltest.TestCase):
  def test_rows_that_only_the_session_counts(self):
    """Words of examples, laid one after another."""
    with tf.Graph().as_default() as graph:
      x = v1.placeholder(tf.float32, [None, None, 6], "x")
      inputs = micro_batches.inputs_with_examples({"features": x})
      planner = batch_planner.BatchPlanner(inputs, graph.get_operations())
      before = len(graph.get_operations())
      net = tf.tanh(x * v1.get_variable("scale", [6], use_resource=True))
      shape = tf.shape(net)
      tf.reshape(net, tf.stack([shape[0] * shape[1], 6]), name="words")
      plan = planner.plan(graph.get_operations()[before:])
    self.assertEqual(plan.rows["words:0"], Rows(0, None))


if __name__ == "__main__":
  absltest.main()
