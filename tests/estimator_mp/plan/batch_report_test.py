"""What a plan says of the batch, as data."""

import json

from estimator_mp.config import placement
from estimator_mp.plan import batch_report, sharding_plan
from estimator_mp.plan.batch_plan import BY_SLICE, Rows
from estimator_mp.plan.batch_report import (
  Crossing,
  Moved,
  Once,
  Segments,
  Where,
  Why,
)

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1

_PYTHON = Once("layer/py.x", "PyFunc", Why.PYTHON)
_TOP = Once("TopKV2", "TopKV2", Why.ACROSS, Where.AFTER)
_LOOKUP = Once("lookup", "GatherV2", Why.ACROSS, Where.BEFORE)
_RESHAPE = Once("Reshape", "Reshape", Why.SIZES, Where.BEFORE)
_ROOT = Once("Sqrt", "Sqrt", Why.SUM)
_NORM = Once("bn", "FusedBatchNormV3", Why.MOMENTS)
_GRADIENT = Once("own", "IdentityN", Why.OWN_GRADIENT)


class SegmentsTest(parameterized.TestCase):
  def test_one_segment(self):
    found = Segments(
      1, flops=800, flops_in_parts=800, inputs=Moved(20), num_slices=4
    )
    self.assertEqual(
      str(found),
      "1 segment, no slice of the batch waits for another; 100% of "
      "floating-point operations are executed in parts\n"
      "cut in each step: 20 B per example of inputs, nothing of activations; "
      "joined: nothing",
    )

  def test_several_segments(self):
    found = Segments(
      3,
      (_PYTHON, _ROOT, _TOP, _LOOKUP),
      flops=800,
      flops_in_parts=600,
      inputs=Moved(20, 0, 1),
      cut=Moved(0, 0, 2),
      joined=Moved(1500, 8),
    )
    self.assertEqual(
      found.lines(),
      [
        "3 segments, all slices of the batch finish one before the next "
        "starts; 75.0% of floating-point operations are executed in parts",
        "cut in each step: 20 B per example and 1 tensor of unknown size of "
        "inputs, 2 tensors of unknown size of activations; joined: 1.50 kB per "
        "example and 8 B per slice",
        "  layer/py.x (PyFunc) ends a segment: Python code sees all examples; "
        "use per_example=['^layer/py\\\\.x$'] if it computes each example by "
        "itself",
        "  Sqrt (Sqrt) ends a segment: slices wait for a sum over all examples",
        "  TopKV2 (TopKV2) is executed once, on joined tensors: its rule does "
        "not hold along examples; use per_example=['^TopKV2$'] if it computes "
        "each example by itself",
        "  lookup (GatherV2) is executed once, before slices begin: slices "
        "do not share its work, but none waits for another",
      ],
    )

  def test_a_batch_of_known_size(self):
    found = Segments(
      1, inputs=Moved(20), joined=Moved(4, 8), num_slices=4, num_examples=32
    )
    self.assertEqual(
      found.lines()[1],
      "cut in each step: 640 B of inputs, nothing of activations; joined: "
      f"{4 * 32 + 8 * 4} B",
    )

  def test_nearly_all_is_not_all(self):
    found = Segments(1, flops=10**9, flops_in_parts=10**9 - 1)
    self.assertIn("; 99.9% of", found.lines()[0])

  def test_a_model_without_work_has_all_in_parts(self):
    self.assertEqual(Segments(1).share_in_parts, 1.0)

  def test_many_ops(self):
    lines = Segments(8, (_ROOT,) * 7).lines()
    self.assertLen(lines, 2 + 5 + 1)
    self.assertEqual(lines[-1], "  and 2 ops more")

  def test_json(self):
    found = Segments(2, (_TOP,), 10, 5, Moved(1, 2, 3), num_examples=8)
    values = json.loads(json.dumps(found.to_dict()))
    self.assertEqual(
      values,
      {
        "count": 2,
        "once": [
          {
            "name": "TopKV2",
            "type": "TopKV2",
            "where": "after",
            "help": "its rule does not hold along examples; use "
            "per_example=['^TopKV2$'] if it computes each example by itself",
          }
        ],
        "flops": 10,
        "flops_in_parts": 5,
        "inputs": {"per_example": 1, "per_slice": 2, "num_unknown": 3},
        "cut": {"per_example": 0, "per_slice": 0, "num_unknown": 0},
        "joined": {"per_example": 0, "per_slice": 0, "num_unknown": 0},
        "num_slices": 1,
        "num_examples": 8,
        "stopped_by": None,
      },
    )

  def test_the_plan_says_it(self):
    plan = sharding_plan.ShardingPlan(placement.Placement(()))
    table = str(plan)
    self.assertEqual(table, plan.placement.table())
    found = Segments(1)
    plan = sharding_plan.ShardingPlan(plan.placement, segments=found)
    self.assertEqual(str(plan), f"{table}\n\n{found}")
    self.assertIn(repr(found), repr(plan))


class CheckTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("nothing", (), "error"),
    ("allowed", (_PYTHON, _TOP), "allow"),
    # Slices exchange a statistic, and nothing is executed on joined tensors.
    ("statistics", (_ROOT, _NORM), "error"),
    ("before", (_LOOKUP,), "error"),
  )
  def test_passes(self, once, fallback):
    batch_report.check(Segments(3, once), fallback)

  @parameterized.named_parameters(
    (
      "between_segments",
      (_ROOT, _PYTHON),
      "'layer/py.x' (PyFunc) is executed once, on joined tensors, and ends a "
      "segment; use per_example=['^layer/py\\\\.x$'] if it computes each "
      'example by itself, or fallback="allow"',
    ),
    (
      "behind_the_last",
      (_TOP,),
      "'TopKV2' (TopKV2) is executed once, on joined tensors; use "
      "per_example=['^TopKV2$'] if it computes each example by itself, or "
      'fallback="allow"',
    ),
    (
      "nothing_to_say",
      (_GRADIENT,),
      "'own' (IdentityN) is executed once, on joined tensors, and ends a "
      'segment; use fallback="allow"',
    ),
    (
      "several",
      (_PYTHON, _GRADIENT, _TOP),
      "3 ops are executed once, on joined tensors: 'layer/py.x' (PyFunc), "
      "'own' (IdentityN), 'TopKV2' (TopKV2); use "
      "per_example=['^layer/py\\\\.x$', '^TopKV2$'] for those that compute "
      'each example by itself, or fallback="allow"',
    ),
    (
      "many",
      (_GRADIENT,) * 7,
      "7 ops are executed once, on joined tensors: "
      + ", ".join(["'own' (IdentityN)"] * 5)
      + ' and 2 more; use fallback="allow"',
    ),
  )
  def test_errors(self, once, message):
    with self.assertRaisesWithLiteralMatch(
      ValueError, f'fallback="error", but {message}'
    ):
      batch_report.check(Segments(3, once), "error")


class StoppedTest(absltest.TestCase):
  """Most of the work is executed once."""

  def setUp(self):
    super().setUp()
    self._found = Segments(
      0, (_LOOKUP,), flops=800, flops_in_parts=80, stopped_by=_RESHAPE
    )

  def test_the_warning(self):
    self.assertEqual(
      self._found.warning(),
      "slices of the batch share 10% of the floating-point operations; the "
      "rest is executed once on one device of each stage, as Reshape (Reshape) "
      "is: its sizes are not known for any number of examples; set dimensions "
      "that are none of examples, as by x.set_shape([None, 8]), write -1 for "
      "the number of examples, or use per_example=['^Reshape$'] if it computes "
      "each example by itself",
    )
    self.assertEqual(Segments(3, (_PYTHON,)).warning(), "")

  def test_the_error(self):
    with self.assertRaisesWithLiteralMatch(
      ValueError,
      "fallback=\"error\", but 'Reshape' (Reshape) is executed once, before "
      "slices begin; set dimensions that are none of examples, as by "
      "x.set_shape([None, 8]), write -1 for the number of examples, or use "
      "per_example=['^Reshape$'] if it computes each example by itself, or "
      'fallback="allow"',
    ):
      batch_report.check(self._found, "error")
    batch_report.check(self._found, "allow")

  def test_json(self):
    values = json.loads(json.dumps(self._found.to_dict()))
    self.assertEqual(values["stopped_by"]["name"], "Reshape")

  def test_the_op_that_stops_the_costliest(self):
    """It is the first on the way that could read parts."""
    with tf.Graph().as_default():
      x = v1.placeholder(tf.float32, [None, None], "x")
      words = tf.square(x, "words")
      start = tf.reshape(x, [-1, 3], "start")
      net = tf.matmul(start, tf.ones([3, 100]), name="net")
      tf.reduce_sum(net, name="total")
      ops = [y.op for y in (words, start, net)]
    whole = {words.op: True, start.op: False}
    self.assertIs(batch_report.stopping_op(ops, whole), start.op)
    self.assertIsNone(batch_report.stopping_op(ops, {}))
    self.assertIsNone(batch_report.stopping_op([], {}))


class MovedTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("nothing", [], Moved()),
    ("rows", [Crossing((None, 8), Rows(0, 1), 4)], Moved(32)),
    ("rows_of_each", [Crossing((None, 8), Rows(0, 3), 4)], Moved(96)),
    ("another_axis", [Crossing((5, None), Rows(1, 1), 8)], Moved(40)),
    ("known_size", [Crossing((32, 8), Rows(0, 1), 4)], Moved(32)),
    ("scalars", [Crossing((None,), Rows(0, 1), 4)], Moved(4)),
    ("share", [Crossing((), None, 4)], Moved(0, 4)),
    ("moments", [Crossing((None, 8), BY_SLICE, 4)], Moved(0, 32)),
    ("open", [Crossing((None, None), Rows(0, 1), 4)], Moved(0, 0, 1)),
    ("any_rows", [Crossing((None, 8), Rows(0, None), 4)], Moved(0, 0, 1)),
    ("any_rank", [Crossing(None, Rows(0, 1), 4)], Moved(0, 0, 1)),
    ("open_share", [Crossing((None,), None, 4)], Moved(0, 0, 1)),
    (
      "several",
      [
        Crossing((None, 8), Rows(0, 1), 4),
        Crossing((None,), Rows(0, 1), 8),
        Crossing((3,), None, 4),
        Crossing((None, 2), BY_SLICE, 4),
      ],
      Moved(40, 20),
    ),
  )
  def test_moved(self, crossings, expected):
    self.assertEqual(batch_report.moved(crossings), expected)


class GraphTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.enter_context(tf.Graph().as_default())
    self.x = v1.placeholder(tf.float32, [None, 4], "x")

  @parameterized.named_parameters(
    ("python", lambda x: _python(x), Why.PYTHON),
    ("eager_python", lambda x: tf.py_function(abs, [x], x.dtype), Why.PYTHON),
    ("no_rule", lambda x: tf.raw_ops.Lu(input=x)[0], Why.NO_RULE),
    (
      "state",
      lambda x: tf.random.uniform_candidate_sampler(
        tf.cast(x, tf.int64), 4, 2, True, 9
      )[0],
      Why.STATE,
    ),
    ("across", lambda x: tf.math.top_k(x, 2)[0], Why.ACROSS),
    ("reverse", lambda x: tf.reverse(x, [0]), Why.ACROSS),
    ("shuffle", tf.random.shuffle, Why.ACROSS),
    ("draw", lambda x: tf.random.categorical(x, 2), Why.RANDOM),
    ("own_gradient", lambda x: _own_gradient(x), Why.OWN_GRADIENT),
    ("function", lambda x: tf.function(_bodies)(x), Why.FUNCTION),
  )
  def test_why(self, build, expected):
    made = build(self.x)
    self.assertEqual(batch_report.why_once(made.op), expected)

  def test_flops(self):
    first = tf.matmul(self.x, tf.ones([4, 8]), name="first")
    python = tf.ensure_shape(_python(first), [None, 8])
    python.op.inputs[0].set_shape([None, 8])
    second = tf.matmul(python, tf.ones([8, 2]), name="second")
    whole = tf.argmax(second, 1, name="whole")
    ops = [first.op, python.op.inputs[0].op, second.op, whole.op]
    products = [2 * 32 * 4 * 8, 2 * 32 * 8 * 2]
    self.assertEqual(
      batch_report.flops(ops, {first.op}),
      (sum(products) + 32 * 8, products[0]),
    )

  def test_once_on_activations(self):
    net = tf.negative(self.x, "net")
    tf.argmax(net, 1, name="no_number")
    tf.square(net, "no_loss")
    loss = tf.reduce_sum(tf.abs(net, "later"), name="loss")
    ops = self.x.graph.get_operations()
    once = [op for op in ops if op.type not in ("Const", "Placeholder")]
    found = batch_report.once_on_activations(once, [loss.op], ops)
    self.assertEqual([op.name for op in found], ["net"])
    # What is executed in parts is not asked about.
    found = batch_report.once_on_activations(once[1:], [loss.op], ops)
    self.assertEqual([op.name for op in found], ["later"])


def _python(x):
  return tf.numpy_function(np.abs, [x], x.dtype, name="python")


def _own_gradient(x):
  return tf.custom_gradient(lambda x: (x, lambda d: d))(x)


def _bodies(x):
  return x + 1.0


if __name__ == "__main__":
  absltest.main()
