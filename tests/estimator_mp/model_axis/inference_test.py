"""Inference as data: which tensors are split if some variables are."""

from estimator_mp.model_axis import decisions, inference
from estimator_mp.model_axis.decisions import (
  OnCopies,
  OwnShard,
  Partial,
  PerPart,
  Reduction,
  Replicate,
  Shard,
)
from estimator_mp.model_axis.inference import Gather
from estimator_mp.model_axis.rules.table import TABLE
from tests.estimator_mp import drawn
from tests.estimator_mp.model_axis import random_graphs

import hypothesis
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1

_COLUMNS = Shard(1, (4, 2))
_ROWS = Shard(0, (4, 2))
# Parts can make a negative themselves, but what is split is gathered for it.
_ONLY_SOURCE_OF_NEG = decisions.Table(
  {name: rule for name, rule in TABLE.rules.items() if name != "Neg"},
  TABLE.sources,
)


def _handle(name, shape, dtype=tf.float32):
  return tf.raw_ops.VarHandleOp(
    dtype=dtype, shape=shape, shared_name=name, name=name
  )


def _value(name, *shape, dtype=tf.float32):
  """Makes a variable, and returns what is read of it."""
  return tf.raw_ops.ReadVariableOp(
    resource=_handle(name, shape, dtype), dtype=dtype, name=f"{name}/value"
  )


def _layer():
  """Makes [None, 6] of a kernel, "up", which is split by columns."""
  x = v1.placeholder(tf.float32, [None, 4], "x")
  return tf.matmul(x, _value("up", 4, 6), name="product")


def _infer(variables, **options):
  ops = v1.get_default_graph().get_operations()
  return inference.Inference(ops, TABLE).infer(variables, **options)


def _decided(inferred):
  return [op.name for op in inferred.decisions]


def _outputs(inferred):
  return {op.name: x.outputs for op, x in inferred.decisions.items()}


class _GraphTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.graph = self.enter_context(tf.Graph().as_default())

  def _op(self, name):
    return self.graph.get_operation_by_name(name)


class LayoutsTest(_GraphTest):
  def test_columns_then_rows(self):
    hidden = tf.nn.relu(_layer(), name="hidden")
    tf.nn.relu(tf.matmul(hidden, _value("down", 6, 4), name="out"))
    found = _infer({"up": _COLUMNS, "down": _ROWS})
    self.assertEqual(
      found.splits,
      {
        "up:0": _COLUMNS,
        "up/value:0": _COLUMNS,
        "product:0": _COLUMNS,
        "hidden:0": _COLUMNS,
        "down:0": _ROWS,
        "down/value:0": _ROWS,
      },
    )
    self.assertEqual(
      _outputs(found),
      {
        "up/value": (_COLUMNS,),
        "product": (_COLUMNS,),
        "hidden": (_COLUMNS,),
        "down/value": (_ROWS,),
        "out": (Partial(Reduction.SUM),),
      },
    )
    self.assertEqual(
      found.decisions[self._op("product")].operands, (Replicate(), _COLUMNS)
    )
    self.assertEmpty(found.gathers)
    self.assertEmpty(found.adopted)

  def test_each_after_what_it_reads(self):
    """Though the one that is made first is found last."""
    early = _handle("early", [4, 6])
    product = _layer()
    tf.raw_ops.AssignVariableOp(resource=early, value=product, name="write")
    found = _infer({"up": _COLUMNS, "early": _COLUMNS})
    self.assertEqual(_decided(found), ["up/value", "product", "write"])

  def test_a_switch_of_a_branch_is_made_after_its_reader(self):
    v1.disable_control_flow_v2()
    self.addCleanup(v1.enable_control_flow_v2)
    product = _layer()
    v1.cond(
      v1.placeholder(tf.bool, []),
      lambda: tf.nn.relu(product, name="then"),
      lambda: tf.exp(product, name="otherwise"),
    )
    found = _infer({"up": _COLUMNS})
    self.assertEqual(
      _decided(found),
      [
        "up/value",
        "product",
        "cond/then/Switch",
        "cond/then",
        "cond/otherwise/Switch",
        "cond/otherwise",
        "cond/Merge",
      ],
    )
    self.assertEqual(found.splits["cond/Merge:0"], _COLUMNS)
    self.assertEmpty(found.gathers)

  def test_an_op_without_a_rule_reads_a_whole_tensor(self):
    numbers, _ = tf.raw_ops.UniqueV2(x=_layer(), axis=[1], name="distinct")
    tf.nn.relu(numbers, name="after")
    found = _infer({"up": _COLUMNS})
    self.assertEqual(
      found.gathers, (Gather("product:0", "distinct", "UniqueV2"),)
    )
    self.assertEqual(_decided(found), ["up/value", "product"])
    self.assertNotIn("distinct:0", found.splits)

  def test_each_split_input_is_gathered(self):
    product = _layer()
    tf.raw_ops.Betainc(
      a=product, b=tf.transpose(product, name="turned"), x=0.5, name="out"
    )
    found = _infer({"up": _COLUMNS})
    self.assertEqual(
      found.gathers,
      (
        Gather("product:0", "out", "Betainc"),
        Gather("turned:0", "out", "Betainc"),
      ),
    )

  def test_what_other_ops_made_may_be_split(self):
    """A later part of the graph reads what an earlier one has split."""
    before = _layer()
    start = len(self.graph.get_operations())
    tf.nn.relu(before, name="after")
    ops = self.graph.get_operations()[start:]
    found = inference.Inference(ops, TABLE).infer({}, {"product:0": _COLUMNS})
    self.assertEqual(found.splits, {"product:0": _COLUMNS, "after:0": _COLUMNS})
    self.assertEqual(_decided(found), ["after"])

  def test_nothing_is_split(self):
    _layer()
    self.assertEqual(_infer({}), inference.Inferred({}, {}, (), {}))

  def test_an_op_with_a_gradient_of_its_own_reads_whole_tensors(self):
    with self.graph.gradient_override_map({"Relu": "Relu6"}):
      tf.nn.relu(_layer(), name="after")
    found = _infer({"up": _COLUMNS})
    self.assertEqual(found.gathers, (Gather("product:0", "after", "Relu"),))

  def test_a_loop_of_tensorflow_1_reads_whole_tensors(self):
    v1.disable_control_flow_v2()
    self.addCleanup(v1.enable_control_flow_v2)
    product = _layer()
    v1.while_loop(
      lambda i: i < 3.0, lambda i: i + tf.reduce_sum(product), [0.0]
    )
    found = _infer({"up": _COLUMNS})
    self.assertEqual(
      found.gathers, (Gather("product:0", "while/Sum/Enter", "Enter"),)
    )
    inner = next(op for op in self.graph.get_operations() if op.type == "Sum")
    splits = [_COLUMNS, None]
    looked_at = inference.Inference([inner], TABLE)
    self.assertIsNone(looked_at.decide(inner, splits))
    outer = tf.reduce_sum(product, [0, 1]).op
    self.assertIsNotNone(looked_at.decide(outer, splits))


class HandlesTest(_GraphTest):
  def test_an_op_on_a_handle_needs_a_rule(self):
    tf.raw_ops.ResourceScatterNdAdd(
      ref=_handle("table", [6, 4]), indices=[[1]], updates=[[0.0] * 4],
      name="add",
    )  # fmt: skip
    with self.assertRaisesWithLiteralMatch(
      inference.Unsplittable,
      "table cannot be split over the model axis: add works on it, and there "
      "is no rule for such an op (ResourceScatterNdAdd); keep it whole by the "
      "rule ('table', None) before others",
    ) as raised:
      _infer({"table": _ROWS})
    self.assertEqual(raised.exception.variable, "table")
    self.assertEqual(raised.exception.op, self._op("add"))

  def test_an_op_without_a_rule_may_work_on_a_copy(self):
    tf.raw_ops.ResourceScatterNdAdd(
      ref=_handle("table", [6, 4]), indices=[[1]], updates=[[0.0] * 4],
      name="add",
    )  # fmt: skip
    found = _infer({"table": _ROWS}, on_copies=True)
    whole = Replicate()
    self.assertEqual(
      found.decisions,
      {self._op("add"): OnCopies((OwnShard(), whole, whole), ())},
    )
    gather = Gather("table:0", "add", "ResourceScatterNdAdd")
    self.assertEqual(found.gathers, (gather,))

  def _momentum(self):
    """Updates "kernel" by "slot" and a whole gradient."""
    tf.raw_ops.ResourceApplyMomentum(
      var=_handle("kernel", [6, 4]), accum=_handle("slot", [6, 4]), lr=0.1,
      grad=v1.placeholder(tf.float32, [6, 4]), momentum=0.9, name="update",
    )  # fmt: skip

  def test_a_slot_is_adopted(self):
    self._momentum()
    found = _infer({"kernel": _ROWS}, adoptable=["slot"])
    self.assertEqual(found.adopted, {"slot": _ROWS})
    self.assertEqual(found.splits, {"kernel:0": _ROWS, "slot:0": _ROWS})
    self.assertEqual(
      found.decisions[self._op("update")].operands,
      (OwnShard(), OwnShard(), Replicate(), _ROWS, Replicate()),
    )

  def test_a_slot_that_is_to_be_whole(self):
    self._momentum()
    with self.assertRaisesRegex(inference.Unsplittable, "^kernel .* update"):
      _infer({"kernel": _ROWS})

  def test_a_slot_that_is_split_in_another_way(self):
    self._momentum()
    with self.assertRaisesRegex(inference.Unsplittable, "^kernel .* update"):
      _infer({"kernel": _ROWS, "slot": Shard(0, (3, 3))})

  def test_a_rule_must_give_each_part_its_shard(self):
    """Not the handle of the whole variable: there is none."""
    table = decisions.Table()
    table.rule("ReadVariableOp")(
      lambda op, splits: PerPart((Replicate(),), (_ROWS,))
    )
    _value("kernel", 6, 4)
    with self.assertRaisesRegex(inference.Unsplittable, "^kernel cannot"):
      ops = self.graph.get_operations()
      inference.Inference(ops, table).infer({"kernel": _ROWS})

  def test_what_is_behind_a_handle_is_on_one_device(self):
    """So ids that are split are gathered to look up rows of a whole table."""
    ids = tf.cast(_layer(), tf.int32, name="ids")
    tf.raw_ops.ResourceGather(
      resource=_handle("table", [9, 2]), indices=ids, dtype="float", name="rows"
    )
    found = _infer({"up": _COLUMNS})
    self.assertEqual(
      found.gathers, (Gather("ids:0", "rows", "ResourceGather"),)
    )


class AdoptionTest(_GraphTest):
  def test_what_meets_a_split_tensor_entry_by_entry(self):
    tf.nn.bias_add(_layer(), _value("bias", 6), name="sum")
    bias = Shard(0, (4, 2))
    found = _infer({"up": _COLUMNS}, adoptable=["bias"])
    self.assertEqual(found.adopted, {"bias": bias})
    self.assertEqual(found.splits["bias:0"], bias)
    self.assertEqual(found.splits["bias/value:0"], bias)
    self.assertEqual(
      _decided(found), ["up/value", "product", "bias/value", "sum"]
    )

  def test_what_somebody_decided_about_stays_whole(self):
    tf.nn.bias_add(_layer(), _value("bias", 6), name="sum")
    found = _infer({"up": _COLUMNS}, adoptable=["up"])
    self.assertEmpty(found.adopted)
    self.assertNotIn("bias/value:0", found.splits)
    # Each part reads a slice of it.
    self.assertEqual(
      found.decisions[self._op("sum")].operands, (_COLUMNS, _ROWS)
    )

  def test_the_first_reader_says_how(self):
    """The other one reads slices of it, gathered."""
    bias = _value("bias", 6)
    tf.nn.bias_add(_layer(), bias, name="first")
    other = tf.matmul(v1.placeholder(tf.float32, [3, 4]), _value("left", 4, 6))
    tf.nn.bias_add(other, bias, name="second")
    found = _infer(
      {"up": _COLUMNS, "left": Shard(1, (3, 3))}, adoptable=["bias"]
    )
    self.assertEqual(found.adopted, {"bias": _ROWS})

  def test_one_that_was_adopted_leads_to_the_next(self):
    tf.nn.bias_add(_layer(), _value("bias", 6))
    update = _value("average", 6) * 0.9
    tf.raw_ops.AssignVariableOp(
      resource=self._op("bias").outputs[0], value=update
    )
    found = _infer({"up": _COLUMNS}, adoptable=["bias", "average"])
    self.assertEqual(found.adopted, {"bias": _ROWS, "average": _ROWS})

  def test_what_is_computed_of_variables_alone(self):
    scale = tf.exp(tf.reshape(_value("scale", 6), [1, 6], name="row"))
    tf.multiply(_layer(), scale, name="scaled")
    found = _infer({"up": _COLUMNS}, adoptable=["scale"])
    self.assertEqual(found.adopted, {"scale": _ROWS})
    self.assertEqual(found.splits["row:0"], _COLUMNS)

  @parameterized.named_parameters(
    ("an_input", lambda: v1.placeholder(tf.float32, [6])),
    ("a_variable_that_stays_whole", lambda: _value("whole", 6)),
  )
  def test_nothing_is_adopted_beside_what_is_sliced(self, other):
    """The sum is made once, and sliced once."""
    tf.nn.bias_add(_layer(), _value("bias", 6) + other(), name="sum")
    self.assertEmpty(_infer({"up": _COLUMNS}, adoptable=["bias"]).adopted)

  def test_ops_of_others_are_not_made_in_parts(self):
    bias = _value("bias", 6) * 2.0
    start = len(self.graph.get_operations())
    tf.nn.bias_add(_layer(), bias, name="sum")
    ops = self.graph.get_operations()[start:]
    found = inference.Inference(ops, TABLE).infer(
      {"up": _COLUMNS}, adoptable=["bias"]
    )
    self.assertEmpty(found.adopted)

  def test_beside_what_is_split(self):
    """Of a sum of two variables one is decided about, one is adopted."""
    both = tf.add(_value("first", 6), _value("second", 6), name="both")
    tf.nn.bias_add(_layer(), both, name="sum")
    found = _infer(
      {"up": _COLUMNS, "first": _ROWS}, adoptable=["first", "second"]
    )
    self.assertEqual(found.adopted, {"second": _ROWS})
    self.assertEqual(found.splits["both:0"], _ROWS)

  @parameterized.parameters(((4, 2), {"second": _ROWS}), ((3, 3), {}))
  def test_what_is_split_already_has_to_be_split_like_that(
    self, sizes, adopted
  ):
    both = tf.negative(_value("first", 6)) + _value("second", 6)
    tf.nn.bias_add(_layer(), both)
    found = inference.Inference(
      self.graph.get_operations(), _ONLY_SOURCE_OF_NEG
    ).infer(
      {"up": _COLUMNS, "first": Shard(0, sizes)},
      adoptable=["second"],
    )
    self.assertEqual(found.adopted, adopted)

  def test_what_is_adopted_stays_so(self):
    """Though a reader that parts can make as well wants it in another way."""
    bias = _value("bias", 6)
    tf.nn.bias_add(_layer(), bias)
    other = tf.matmul(v1.placeholder(tf.float32, [3, 4]), _value("left", 4, 6))
    tf.nn.bias_add(other, tf.negative(bias))
    found = inference.Inference(
      self.graph.get_operations(), _ONLY_SOURCE_OF_NEG
    ).infer(
      {"up": _COLUMNS, "left": Shard(1, (3, 3))},
      adoptable=["bias"],
    )
    self.assertEqual(found.adopted, {"bias": _ROWS})


class RandomTest(_GraphTest):
  def _parts_draw(self, mask, draws):
    """Whether parts draw what a mask is made of, and get no slices of it."""
    tf.multiply(_layer(), mask, name="masked")
    found = _infer({"up": _COLUMNS})
    self.assertIn("masked", _decided(found))
    return [x.op in found.decisions for x in draws]

  def test_a_mask(self):
    mask = tf.random.uniform([6])
    self.assertEqual(self._parts_draw(mask, [mask]), [True])

  def test_a_mask_of_random_numbers(self):
    draws = [tf.random.uniform([6]), tf.random.normal([6])]
    mask = tf.floor(draws[0] + draws[1])
    self.assertEqual(self._parts_draw(mask, [*draws, mask]), [True] * 3)

  def test_numbers_that_follow_from_a_seed_are_the_plain_model_s(self):
    mask = tf.random.stateless_uniform([6], [1, 2])
    self.assertEqual(self._parts_draw(mask, [mask]), [False])

  @parameterized.parameters((64, True), (65, False))
  def test_the_most_sources(self, num_sources, are_in_parts):
    draws = [tf.random.uniform([6]) for _ in range(num_sources)]
    self.assertEqual(
      self._parts_draw(tf.stack(draws), draws), [are_in_parts] * num_sources
    )

  def test_one_mask_is_drawn_once(self):
    """As the first reader wants it; the other one's parts get slices."""
    mask = tf.random.uniform([6, 6])
    product = _layer()
    tf.multiply(product[:6], mask, name="first")
    tf.multiply(tf.transpose(product[:6]), mask, name="second")
    found = _infer({"up": _COLUMNS})
    self.assertEqual(found.splits[mask.name], _COLUMNS)
    self.assertIn("first", _decided(found))

  def _parts_draw_initial(self, value, *ways):
    write = tf.raw_ops.AssignVariableOp(
      resource=_handle("kernel", [6]), value=value
    )
    found = _infer({"kernel": _ROWS}, **{way: [write] for way in ways})
    self.assertIn(write, found.decisions)
    return value.op in found.decisions

  @parameterized.parameters((), ("drawn_values",))
  def test_initial_values(self, *ways):
    self.assertTrue(self._parts_draw_initial(tf.random.uniform([6]), *ways))

  def test_initial_values_of_the_plain_model(self):
    value = tf.random.uniform([6])
    self.assertFalse(self._parts_draw_initial(value, "whole_values"))

  @parameterized.parameters(((), False), (("drawn_values",), True))
  def test_initial_values_of_a_seed(self, ways, are_in_parts):
    value = tf.random.stateless_uniform([6], [1, 2])
    self.assertEqual(self._parts_draw_initial(value, *ways), are_in_parts)


class SourcesTest(_GraphTest):
  def test_a_source(self):
    op = tf.fill([6], 1.0).op
    self.assertEqual(inference.source(TABLE, op, _ROWS).outputs, (_ROWS,))

  def test_one_after_the_other(self):
    looked_at = inference.Inference([], TABLE)
    op = tf.fill([6, 6], 1.0).op
    for split in (_ROWS, _COLUMNS):
      self.assertEqual(looked_at.source(op, split).outputs, (split,))

  def test_an_op_with_a_gradient_of_its_own(self):
    with self.graph.gradient_override_map({"Exp": "Relu6"}):
      op = tf.exp(tf.zeros([6])).op
    self.assertIsNone(inference.source(TABLE, op, _ROWS))

  def test_nothing_makes_a_placeholder(self):
    op = v1.placeholder(tf.float32, [6]).op
    self.assertIsNone(inference.source(TABLE, op, _ROWS))

  def test_not_inside_of_a_loop(self):
    v1.disable_control_flow_v2()
    self.addCleanup(v1.enable_control_flow_v2)
    inner = []

    def body(i):
      inner.append(tf.zeros([6]) + 1.0)
      return i + inner[0][0]

    v1.while_loop(lambda i: i < 3.0, body, [0.0])
    self.assertIsNone(inference.source(TABLE, inner[0].op, _ROWS))

  @parameterized.named_parameters(
    ("constants", lambda: tf.fill([6], 1.0) * 2.0, True),
    ("random", lambda: tf.random.uniform([6]), False),
    ("of_random", lambda: tf.random.uniform([6]) * 2.0, False),
    ("input", lambda: v1.placeholder(tf.float32, [6]), False),
    ("of_input", lambda: 2.0 * v1.placeholder(tf.float32, [6]), False),
    (
      "of_one_number",
      lambda: tf.fill([6], v1.placeholder(tf.float32, [])),
      True,
    ),
  )
  def test_is_repeatable(self, build, expected):
    self.assertEqual(inference.is_repeatable(TABLE, build(), _ROWS), expected)

  def test_small_constants(self):
    small = inference.is_small_constant
    self.assertTrue(small(tf.constant(0.0, shape=[32, 32])))
    self.assertFalse(small(tf.constant(0.0, shape=[1025])))
    self.assertFalse(small(tf.constant(0.1, name="learning_rate")))
    self.assertFalse(small(tf.identity(1.0)))
    with v1.control_dependencies([tf.constant(1.0)]):
      self.assertFalse(small(tf.constant(1.0)))


class AnyGraphTest(absltest.TestCase):
  """What holds for whatever rules say."""

  @hypothesis.given(program=random_graphs.chains())
  @drawn.examples(50)
  def test_random_graphs(self, program):
    with tf.Graph().as_default() as graph:
      inputs = {
        name: _value(name, *shape, dtype=tf.float64)
        for name, shape in program.shapes.items()
      }
      program.build(**inputs)
      ops = graph.get_operations()
      looked_at = inference.Inference(ops, TABLE)
      found = looked_at.infer(program.splits, adoptable=program.shapes)
      variables = {**program.splits, **found.adopted}
      asked_for = looked_at.infer(variables)
      again = looked_at.infer(program.splits, adoptable=program.shapes)
    self._is_done_in_parts_or_gathers(ops, found)
    self._makes_all_splits(variables, found)
    self._has_parts_of_the_whole_size(program.shapes, graph, found)
    # Who was adopted might have been asked for.
    self.assertEqual(asked_for.splits, found.splits)
    self.assertEqual(asked_for.gathers, found.gathers)
    # What is remembered changes nothing.
    self.assertEqual(again, found)

  def _is_done_in_parts_or_gathers(self, ops, found):
    read = [
      Gather(x.name, op.name, op.type)
      for op in ops
      if op not in found.decisions
      for x in op.inputs
      if x.name in found.splits
    ]
    self.assertCountEqual(found.gathers, read)

  def _makes_all_splits(self, variables, found):
    made = {f"{name}:0": split for name, split in variables.items()}
    for op, decision in found.decisions.items():
      for tensor, output in zip(op.outputs, decision.outputs, strict=True):
        if isinstance(output, Shard):
          made[tensor.name] = output
    self.assertEqual(found.splits, made)

  def _has_parts_of_the_whole_size(self, shapes, graph, found):
    for name, split in found.splits.items():
      tensor = graph.get_tensor_by_name(name)
      is_handle = tensor.dtype == tf.resource
      shape = shapes[tensor.op.name] if is_handle else tensor.shape
      self.assertEqual(shape[split.axis], split.size, name)
    counts = {len(split.sizes) for split in found.splits.values()}
    self.assertLessEqual(len(counts), 1)


if __name__ == "__main__":
  absltest.main()
