"""Which variables are split if one is, what is gathered, and what is sent."""

import estimator_mp
from estimator_mp.planning import sharding_plan
from estimator_mp.planning.split_plan import (
  Gather,
  Sent,
  SplitPlan,
  SplitVariable,
)
from tests.estimator_mp import graph_case, parts

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


def _averaged(hidden, x):
  bias, average = (parts.weight(name, [6]) for name in ("bias", "average"))
  net = tf.nn.bias_add(hidden, bias)
  with tf.control_dependencies([average.assign(0.9 * average + 0.1 * bias)]):
    return tf.identity(net)


def _beside_an_input(hidden, x):
  """The sum is made once, and sliced once."""
  return hidden + (parts.weight("bias", [6]) + tf.concat([x[0], x[1, :2]], 0))


def _branches(hidden, x):
  is_late = v1.train.get_global_step() > 1
  return v1.cond(is_late, lambda: tf.nn.relu(hidden), lambda: tf.exp(hidden))


def _loop(hidden, x):
  return v1.while_loop(
    lambda i: i < 3.0, lambda i: i + tf.reduce_sum(hidden), [0.0]
  )


def _distinct(hidden, x):
  return tf.cast(tf.raw_ops.UniqueV2(x=hidden, axis=[1])[1], tf.float32)


def _lookup(hidden, x):
  return tf.gather(parts.weight("kept", [9, 2]), tf.cast(hidden, tf.int32))


def _normed(hidden, x):
  """Each device has the moments of its own channels."""
  scale, offset = (parts.weight(name, [6]) for name in ("scale", "offset"))
  images = tf.reshape(hidden, [-1, 1, 1, 6])
  return v1.nn.fused_batch_norm(images, scale, offset)[0]


def _with_a_gradient_of_its_own(hidden, x):
  with v1.get_default_graph().gradient_override_map({"Relu": "Relu6"}):
    return tf.nn.relu(hidden)


def _updated_by_hand(hidden, x):
  table = parts.state("down", [6, 4])
  update = tf.raw_ops.ResourceScatterNdAdd(
    ref=table.handle, indices=[[1, 0]], updates=[0.0], name="update"
  )
  with tf.control_dependencies([update]):
    return tf.identity(hidden)


_KEPT = lambda h, x: h + parts.weight("kept", [6])  # noqa: E731


class LayoutsTest(graph_case.GraphCase):
  """A model of [8, 6], whose columns are split as those of a kernel "up"."""

  def _plan(self, make, *rules, x=(8, 4)):
    """Returns the split plan of what a function makes."""

    def model_fn(features, labels, mode):
      del labels
      hidden = tf.matmul(features, parts.weight("up", [4, 6]), name="hidden")
      loss = tf.reduce_mean(make(hidden, features)) + tf.reduce_mean(hidden)
      return parts.spec(mode, loss, v1.train.MomentumOptimizer(0.1, 0.9))

    v1.train.create_global_step()
    config = estimator_mp.ShardingConfig("model:2", split=[("^up$", 1), *rules])
    features = v1.placeholder(tf.float32, x, "x")
    estimator_mp.shard_model_fn(model_fn, config)(features, None, "train")
    return sharding_plan.get_plan(self.graph).splits

  @parameterized.named_parameters(
    (
      "bias",
      lambda h, x: tf.nn.bias_add(h, parts.weight("bias", [6])),
      {"bias": 0},
    ),
    (
      "of_variables_alone",
      lambda h, x: h * tf.exp(parts.weight("scale", [6])[None]),
      {"scale": 0},
    ),
    ("beside_what_is_sliced", _beside_an_input),
    ("batch_norm", _normed, {"scale": 0, "offset": 0}),
    ("kept_by_a_rule", _KEPT),
    ("average", _averaged, {"bias": 0, "average": 0}),
    ("branches", _branches),
    ("no_rule", _distinct, (), ["UniqueV2"]),
    ("gradient_of_its_own", _with_a_gradient_of_its_own),
    ("loop", _loop, (), ["Enter"]),
    # And the backward pass reads ids as a list.
    ("ids_of_a_whole_table", _lookup, (), ["ResourceGather", "Reshape"]),
  )
  def test_variables_and_gathers(self, make, adopted=(), gathers=()):
    """Slots, and what meets a split tensor entry by entry, are split as it."""
    self.use_v1_control_flow()
    rules = [("kept", None)] if make in (_KEPT, _lookup) else []
    plan = self._plan(make, *rules)
    axes = {"up": 1, **dict(adopted)}
    found = {x.name: x.axis for x in plan.variables}
    for name in axes.keys() - {"average"}:
      self.assertEqual(found.pop(f"{name}/Momentum"), axes[name])
    self.assertEqual(found, axes)
    self.assertCountEqual([x.type for x in plan.gathers], gathers)

  def _large(self, plan):
    """Returns kinds, readers and bytes of what is sent, but for scalars."""
    return [
      (x.kind, x.type, x.forward_bytes, x.backward_bytes)
      for x in plan.sent
      if x.num_bytes > 16
    ]

  def test_a_column_and_a_row_parallel_layer(self):
    """Features have no gradients; the sum's go to both parts.

    The loss is linear in what parts add up: so they add up one number.
    """
    down = lambda h, x: tf.tanh(h) @ parts.weight("down", [6, 4])  # noqa: E731
    plan = self._plan(down, ("down", 0))
    size = 8 * 4 * 4
    self.assertEqual(
      self._large(plan),
      [("broadcast", "MatMul", size, 0), ("broadcast", "MatMul", 0, size)],
    )

  def test_rows_of_a_table(self):
    """Ids go to the half of the rows that others have; a batch is nominal."""

    def look_up(hidden, x):
      table = parts.weight("down", [10, 4])
      ids = v1.placeholder(tf.int64, [20])
      return tf.add_n(
        [tf.reduce_sum(tf.gather(table, some)) for some in (ids, ids[:5])]
      )

    plan = self._plan(look_up, ("down", "div"), x=(None, 4))
    each = 4 * 4 + 8
    self.assertEqual(
      self._large(plan),
      [
        ("broadcast", "MatMul", 32 * 4 * 4, 0),
        ("exchange", "ResourceGather", 5 * each, 0),
        ("exchange", "ResourceGather", 2 * each, 0),
        ("exchange", "ResourceSparseApplyMomentum", 5 * each, 0),
      ],
    )

  def test_what_has_no_rule_keeps_a_variable_whole(self):
    with self.assertRaisesRegex(
      ValueError, r"^down cannot be split .* update .*ResourceScatterNdAdd"
    ):
      self._plan(_updated_by_hand, ("down", 0))


class SplitPlanTest(absltest.TestCase):
  def test_lines_and_data_say_shards_and_what_is_sent(self):
    """Slots and what is small have one line each."""
    plan = SplitPlan(
      (
        SplitVariable("kernel", (4, 7), 1, (3, 2, 2), 112),
        SplitVariable("kernel/Adam", (4, 7), 1, (3, 2, 2), 112),
        SplitVariable("kernels", (9, 4), 0, (3, 3, 3), 144),
      ),
      (
        Sent("sum", "y:0", "y", "MatMul", 2_000, 1_000),
        Sent("sum", "norm:0", "norm", "L2Loss", 4, 0),
        Sent("sum", "norm_1:0", "norm_1", "L2Loss", 4, 0),
      ),
      (Gather("z:0", "reader", "Foo"),),
    )
    self.assertEqual(
      plan.lines(),
      [
        "variable  shape  axis   shards  bytes",
        "kernel    4 x 7     1  3, 2, 2  112 B",
        "kernels   9 x 4     0    3 x 3  144 B",
        "and 1 slot of optimizers, split as their variables: 112 B",
        "",
        "sent over the model axis each training step: 3.01 kB",
        "  kind  tensor  for     forward  backward",
        "  sum   y:0     MatMul  2.00 kB   1.00 kB",
        "  and 2 tensors of less than 100 B each: 8 B",
      ],
    )
    data = plan.to_dict()
    self.assertEqual(data["variables"][0]["sizes"], (3, 2, 2))
    self.assertEqual(data["sent"][0]["backward_bytes"], 1_000)
    self.assertEqual(data["gathers"][0]["type"], "Foo")


if __name__ == "__main__":
  absltest.main()
