"""What devices send each other for decisions that are written down here."""

from estimator_mp.collectives.exchange import RowOwners
from estimator_mp.model_axis import costs, inference
from estimator_mp.model_axis.decisions import (
  Composite,
  LookUp,
  Owned,
  OwnShard,
  Partial,
  PerPart,
  Replicate,
  Resized,
  Shard,
  Shifted,
  Table,
)
from estimator_mp.model_axis.split_plan import SplitPlan, SplitVariable

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1

_TABLE = Table()


@_TABLE.source("Fill")
def _fill(op, split):
  return PerPart((Resized(split.axis, split.sizes), Replicate()), (split,))


def _inferred(ops, splits, decisions):
  gathers = tuple(
    inference.Gather(tensor.name, op.name, op.type)
    for op in ops
    for tensor in op.inputs
    if tensor.name in splits and op not in decisions
  )
  return inference.Inferred(splits, decisions, gathers, {})


def _entries(sent):
  return [
    (x.kind, x.tensor, x.op, x.forward_bytes, x.backward_bytes) for x in sent
  ]


class BytesSentTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.graph = self.enter_context(tf.Graph().as_default())

  def _sent(self, splits, decisions, num_parts=3, differentiated=(), sizes=()):
    ops = self.graph.get_operations()
    return _entries(
      costs.Traffic(ops, num_parts, _TABLE, differentiated, dict(sizes)).sent(
        _inferred(ops, splits, decisions)
      )
    )

  def test_a_column_row_pair_sends_one_tensor_to_all_and_sums_one(self):
    x = v1.placeholder(tf.float32, [5, 4], "x")
    up = v1.placeholder(tf.float32, [4, 7], "up")
    down = v1.placeholder(tf.float32, [7, 6], "down")
    hidden = tf.matmul(x, up, name="hidden")
    output = tf.matmul(hidden, down, name="output")
    twice = tf.matmul(x, up, name="twice")
    columns, rows = Shard(1, (3, 2, 2)), Shard(0, (3, 2, 2))
    sent = self._sent(
      {"up:0": columns, "down:0": rows, "hidden:0": columns},
      {
        hidden.op: PerPart((Replicate(), columns), (columns,)),
        output.op: PerPart((columns, rows), (Partial(),)),
        twice.op: PerPart((Replicate(), columns), (columns,)),
      },
      differentiated=["hidden:0", "output:0", "x:0"],
    )
    self.assertEqual(
      sent,
      [
        ("broadcast", "x:0", "hidden", 2 * 5 * 4 * 4, 2 * 5 * 4 * 4),
        ("sum", "output:0", "output", 2 * 5 * 6 * 4, 2 * 5 * 6 * 4),
      ],
    )

  def test_a_tensor_is_gathered_once_for_all_readers(self):
    x = v1.placeholder(tf.float32, [5, 7], "x")
    tf.linalg.diag(x, name="one")
    other = tf.exp(x, name="other")
    split = Shard(1, (3, 2, 2))
    sent = self._sent(
      {"x:0": split}, {other.op: PerPart((Replicate(),), (Replicate(),))}
    )
    self.assertEqual(
      sent,
      [
        ("gather", "x:0", "one", 5 * 4 * 4, 0),
        # The first device has gathered it; the other two do so themselves.
        ("broadcast", "x:0", "other", 2 * 5 * 7 * 4 - 5 * 4 * 4, 0),
      ],
    )

  def test_whole_tensors_are_sliced_and_other_splits_are_gathered_first(self):
    x = v1.placeholder(tf.float32, [4, 6], "x")
    y = v1.placeholder(tf.float32, [4, 6], "y")
    total = tf.add(x, y, name="total")
    rows, columns = Shard(0, (2, 1, 1)), Shard(1, (2, 2, 2))
    sent = self._sent(
      {"x:0": columns},
      {total.op: PerPart((rows, rows), (rows,))},
      differentiated=["x:0"],
    )
    self.assertEqual(
      sent,
      [
        ("gather", "x:0", "total", 4 * 4 * 4, 4 * 4 * 4),
        ("slice", "x:0", "total", 2 * 6 * 4, 2 * 6 * 4),
        ("slice", "y:0", "total", 2 * 6 * 4, 0),
      ],
    )

  def test_what_parts_make_of_nothing_is_not_sent(self):
    x = v1.placeholder(tf.float32, [None, 6], "x")
    rows = v1.placeholder(tf.int32, [], "rows")
    ones = tf.fill([rows, 6], 1.0, name="ones")
    total = tf.add(x, ones, name="total")
    split = Shard(1, (2, 2, 2))
    sent = self._sent(
      {"x:0": split}, {total.op: PerPart((split, split), (split,))}
    )
    self.assertEqual(
      sent, [("broadcast", "ones/dims:0", "total", 2 * 2 * 4, 0)]
    )

  def test_small_constants_are_not_sent(self):
    x = v1.placeholder(tf.float32, [3, 6], "x")
    maximum = tf.maximum(x, 0.5, name="maximum")
    large = tf.constant(0.5, shape=[2000, 3, 1], name="large")
    total = tf.add(x, large, name="total")
    split = Shard(1, (2, 2, 2))
    sent = self._sent(
      {"x:0": split},
      {
        maximum.op: PerPart((split, Replicate()), (split,)),
        total.op: PerPart((split, Replicate()), (split.at(2),)),
      },
    )
    self.assertEqual(
      sent, [("broadcast", "large:0", "total", 2 * 2000 * 3 * 4, 0)]
    )

  def test_unknown_dimensions_are_nominal_unless_bytes_are_given(self):
    x = v1.placeholder(tf.float32, [None, 6], "x")
    tf.linalg.diag(x, name="diag")
    split = Shard(1, (2, 2, 2))
    self.assertEqual(
      self._sent({"x:0": split}, {}),
      [("gather", "x:0", "diag", 32 * 4 * 4, 0)],
    )
    self.assertEqual(
      self._sent({"x:0": split}, {}, sizes={"x:0": 600}),
      [("gather", "x:0", "diag", 400, 0)],
    )

  def test_indices_go_to_all_parts_and_exchanges_go_both_ways(self):
    ids = v1.placeholder(tf.int64, [5], "ids")
    logits = v1.placeholder(tf.float32, [5, 6], "logits")
    loss = tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(
      features=logits, labels=ids, name="loss"
    ).loss
    split = Shard(1, (2, 2, 2))
    decision = Composite(
      (split, Shifted((0, 2, 4))),
      (Replicate(), split),
      lambda op, inputs, on_part: [],
      (tf.TensorShape([5]), tf.TensorShape([5])),
    )
    sent = self._sent(
      {"logits:0": split}, {loss.op: decision}, differentiated=["loss:0"]
    )
    self.assertEqual(
      sent,
      [
        ("broadcast", "ids:0", "loss", 2 * 5 * 8, 0),
        ("exchange", "loss:0", "loss", 2 * 2 * 2 * 5 * 4, 2 * 2 * 2 * 5 * 4),
      ],
    )

  def test_ids_go_to_the_rows_that_others_have_and_these_come_back(self):
    v1.enable_resource_variables()
    table = v1.get_variable("table", [10, 4], use_resource=True)
    ids = v1.placeholder(tf.int64, [20], "ids")
    few = v1.placeholder(tf.int64, [5], "few")
    rows = tf.raw_ops.ResourceGather(
      resource=table.handle, indices=ids, dtype=tf.float32, name="rows"
    )
    fewer = tf.raw_ops.ResourceGather(
      resource=table.handle, indices=few, dtype=tf.float32, name="fewer"
    )
    decision = LookUp(RowOwners((4, 3, 3)))
    sent = self._sent(
      {"table:0": Shard(0, (4, 3, 3))},
      {rows.op: decision, fewer.op: decision},
      differentiated=["rows:0"],
    )
    each = 4 * 4 + 8
    self.assertEqual(
      sent,
      [
        ("exchange", "rows:0", "rows", 6 * each, 0),
        ("exchange", "fewer:0", "fewer", 3 * each, 0),
      ],
    )

  def test_an_update_of_rows_goes_to_those_who_have_them(self):
    v1.enable_resource_variables()
    table = v1.get_variable("table", [10, 4], use_resource=True)
    ids = v1.placeholder(tf.int64, [5], "ids")
    gradient = v1.placeholder(tf.float32, [5, 4], "gradient")
    update = tf.raw_ops.ResourceScatterAdd(
      resource=table.handle, indices=ids, updates=gradient, name="update"
    )
    rows = RowOwners((4, 3, 3))
    decision = PerPart((OwnShard(), Owned(rows, 1), Owned(rows, 1)), ())
    sent = self._sent({"table:0": Shard(0, (4, 3, 3))}, {update: decision})
    self.assertEqual(
      sent, [("exchange", "ids:0", "update", 3 * (4 * 4 + 8), 0)]
    )


class TensorsWithGradientsTest(absltest.TestCase):
  def test_gradients_go_through_floats_that_variables_and_targets_join(self):
    with tf.Graph().as_default() as graph:
      v1.enable_resource_variables()
      x = v1.placeholder(tf.float32, [5, 4], "x")
      kernel = v1.get_variable("kernel", [4, 3], use_resource=True)
      features = tf.exp(x, name="features")
      product = tf.matmul(features, kernel, name="product")
      tf.cast(product > 0, tf.int32, name="prediction")
      stopped = tf.stop_gradient(product, name="stopped")
      tf.exp(stopped, name="after_stop")
      loss = tf.reduce_mean(product, name="loss")
      tf.exp(product, name="aside")
      ops = graph.get_operations()
      found = costs.tensors_with_gradients(ops, ["kernel"], [loss.op])
    self.assertContainsSubset(["product:0", "loss:0"], found)
    self.assertNoCommonElements(
      {"features:0", "prediction:0", "stopped:0", "after_stop:0", "aside:0"},
      found,
    )


class SplitPlanTest(absltest.TestCase):
  def test_lines_and_data_say_shards_and_what_is_sent(self):
    plan = SplitPlan(
      (
        SplitVariable("layer/kernel", (4, 7), 1, (3, 2, 2), 112),
        SplitVariable("table", (9, 4), 0, (3, 3, 3), 144),
      ),
      (costs.Sent("sum", "y:0", "y", "MatMul", 2_000, 1_000),),
      (inference.Gather("z:0", "reader", "Foo"),),
    )
    self.assertEqual(
      plan.lines(),
      [
        "variable      shape  axis   shards  bytes",
        "layer/kernel  4 x 7     1  3, 2, 2  112 B",
        "table         9 x 4     0    3 x 3  144 B",
        "",
        "sent over the model axis each training step: 3.00 kB",
        "  kind  tensor  for     forward  backward",
        "  sum   y:0     MatMul  2.00 kB   1.00 kB",
      ],
    )
    self.assertEqual(
      plan.to_dict(),
      {
        "variables": [
          {
            "name": "layer/kernel",
            "shape": (4, 7),
            "axis": 1,
            "sizes": (3, 2, 2),
            "num_bytes": 112,
          },
          {
            "name": "table",
            "shape": (9, 4),
            "axis": 0,
            "sizes": (3, 3, 3),
            "num_bytes": 144,
          },
        ],
        "sent": [
          {
            "kind": "sum",
            "tensor": "y:0",
            "op": "y",
            "type": "MatMul",
            "forward_bytes": 2_000,
            "backward_bytes": 1_000,
          }
        ],
        "gathers": [{"tensor": "z:0", "reader": "reader", "type": "Foo"}],
      },
    )

  def test_slots_and_what_is_small_have_one_line_each(self):
    plan = SplitPlan(
      (
        SplitVariable("kernel", (4, 6), 1, (3, 3), 96),
        SplitVariable("kernel/Adam", (4, 6), 1, (3, 3), 96),
        SplitVariable("kernel/Adam_1", (4, 6), 1, (3, 3), 96),
        SplitVariable("kernels", (4, 6), 1, (3, 3), 96),
      ),
      (
        costs.Sent("sum", "y:0", "y", "MatMul", 50, 50),
        costs.Sent("sum", "norm:0", "norm", "L2Loss", 4, 0),
        costs.Sent("sum", "norm_1:0", "norm_1", "L2Loss", 4, 0),
      ),
    )
    self.assertEqual(
      plan.lines(),
      [
        "variable  shape  axis  shards  bytes",
        "kernel    4 x 6     1   2 x 3   96 B",
        "kernels   4 x 6     1   2 x 3   96 B",
        "and 2 slots of optimizers, split as their variables: 192 B",
        "",
        "sent over the model axis each training step: 108 B",
        "  kind  tensor  for     forward  backward",
        "  sum   y:0     MatMul     50 B      50 B",
        "  and 2 tensors of less than 100 B each: 8 B",
      ],
    )

  def test_what_is_on_all_devices_is_not_sent_again_later(self):
    variable = SplitVariable("kernel", (4,), 0, (2, 2), 16)
    first = SplitPlan(
      (variable,), (costs.Sent("broadcast", "x:0", "y", "MatMul", 8, 8),)
    )
    later = SplitPlan(
      (variable,),
      (
        costs.Sent("broadcast", "x:0", "z", "Mul", 8, 0),
        costs.Sent("sum", "norm:0", "norm", "Sum", 4, 0),
      ),
    )
    total = first.and_then(later)
    self.assertEqual(total.variables, (variable,))
    self.assertEqual([x.tensor for x in total.sent], ["x:0", "norm:0"])
    self.assertEqual(total.num_bytes, 20)


if __name__ == "__main__":
  absltest.main()
