"""Cells of ops: which pass each op of a small graph is part of."""

from estimator_mp.config.schedules import orders
from estimator_mp.config.schedules.schedule import Phase
from estimator_mp.graph.waits import Waits
from estimator_mp.pipeline import cells
from estimator_mp.pipeline.cells import Ends, Pass
from tests.estimator_mp import graph_case

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1
_FORWARD = Phase.FORWARD
_BACKWARD = Phase.BACKWARD
_WEIGHT = Phase.WEIGHT


class _Chain:
  """Ops that are made one after the other, each with a stage.

  Attributes:
    ops: The ops, by name, in the order of the graph.
    stages: Their stages.
    backward: Those that are made for gradients.
  """

  def __init__(self):
    self.ops: dict[str, tf.Operation] = {}
    self.stages: dict[tf.Operation, int] = {}
    self.backward: set[tf.Operation] = set()

  def add(self, name, reads, stage=None, backward=False):
    """Returns a tensor that is made of others."""
    tensor = tf.add_n(reads, name) if reads else tf.ones([2], name=name)
    self.ops[name] = tensor.op
    if stage is not None:
      self.stages[tensor.op] = stage
    if backward:
      self.backward.add(tensor.op)
    return tensor

  def passes(self, *gradients):
    """Returns the passes, by the names of ops.

    Args:
      *gradients: The names of the ops that make the gradients of a variable.
    """
    found = cells.passes_of_ops(
      [*self.ops.values()],
      self.backward,
      self.stages,
      [[self.ops[name] for name in names] for names in gradients],
    )
    return {op.name: tuple(of_op) for op, of_op in found.items()}


class PassesTest(graph_case.GraphCase):
  def setUp(self):
    super().setUp()
    self._chain = _Chain()

  def test_an_op_is_in_the_pass_through_its_stage(self):
    add = self._chain.add
    x = add("x", [], 0)
    y = add("y", [x], 1)
    dy = add("dy", [y], 1, backward=True)
    add("dx", [dy, x], 0, backward=True)
    add("nowhere", [])
    self.assertEqual(
      self._chain.passes(),
      {
        "x": (0, _FORWARD),
        "y": (1, _FORWARD),
        "dy": (1, _BACKWARD),
        "dx": (0, _BACKWARD),
      },
    )

  def test_what_an_earlier_stage_reads_is_there_before(self):
    """A gather from an embedding that lives on the last stage."""
    add = self._chain.add
    rows = add("rows", [], 2)
    x = add("x", [rows], 0)
    add("y", [x, rows], 2)
    self.assertEqual(
      self._chain.passes(),
      {"rows": (0, _FORWARD), "x": (0, _FORWARD), "y": (2, _FORWARD)},
    )

  def test_what_the_backward_pass_of_a_later_stage_reads_is_there_before(self):
    add = self._chain.add
    x = add("x", [], 0)
    ones = add("ones", [x], 0, backward=True)
    add("dy", [ones], 1, backward=True)
    self.assertEqual(self._chain.passes()["ones"], (1, _BACKWARD))

  def test_what_reads_an_earlier_stages_backward_pass_comes_after_it(self):
    """The gradient of an embedding that lives on the last stage."""
    add = self._chain.add
    rows = add("rows", [], 2)
    x = add("x", [rows], 0)
    z = add("z", [add("y", [x], 1)], 2)
    dz = add("dz", [z], 2, backward=True)
    dy = add("dy", [dz], 1, backward=True)
    dx = add("dx", [dy], 0, backward=True)
    drows = add("drows", [dx], 2, backward=True)
    terms = add("nowhere", [drows, dz], backward=True)
    add("dtable", [terms], 2, backward=True)
    passes = self._chain.passes()
    self.assertEqual(
      [passes[name] for name in ("dz", "dy", "dx")],
      [(2, _BACKWARD), (1, _BACKWARD), (0, _BACKWARD)],
    )
    for name in ("drows", "nowhere", "dtable"):
      self.assertEqual(passes[name], (0, _BACKWARD))

  def test_what_the_forward_pass_reads_is_part_of_it(self):
    """A gradient penalty: the loss is made of a gradient."""
    add = self._chain.add
    x = add("x", [], 0)
    dx = add("dx", [x], 0, backward=True)
    add("loss", [dx], 1)
    self.assertEqual(self._chain.passes()["dx"], (0, _FORWARD))

  def test_a_size_is_measured_in_the_forward_pass_of_its_stage(self):
    """So that no activation is held for it."""
    chain = self._chain
    x = chain.add("x", [], 0)
    y = chain.add("y", [x], 1)
    dy = chain.add("dy", [y], 1, backward=True)
    for name, of in (("of_x", x), ("of_other_stage", y), ("of_gradient", dy)):
      measure = tf.raw_ops.Shape(input=of, name=name).op
      chain.ops[name], chain.stages[measure] = measure, 0
      chain.backward.add(measure)
    passes = chain.passes()
    self.assertEqual(passes["of_x"], (0, _FORWARD))
    self.assertEqual(passes["of_other_stage"], (0, _BACKWARD))
    self.assertEqual(passes["of_gradient"], (0, _BACKWARD))

  def test_a_v1_loop_is_in_one_pass(self):
    self.use_v1_control_flow()
    x = self._chain.add("x", [], 1)
    v1.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y * 2), (0, x))
    ops = self.ops()
    stages = dict.fromkeys(ops, 1)
    (merge, *_) = (op for op in ops if op.type == "Merge")
    stages[merge] = 0
    passes = cells.passes_of_ops(ops, set(), stages)
    self.assertEqual(set(passes.values()), {Pass(0, _FORWARD)})


class SplitTest(graph_case.GraphCase):
  def setUp(self):
    super().setUp()
    self._chain = _Chain()
    self._add("dz", [], 1)

  def _add(self, name, reads, stage):
    ops = self._chain.ops
    reads = [ops[read].outputs[0] for read in reads]
    return self._chain.add(name, reads, stage, backward=True)

  def _phases(self, *gradients):
    found = self._chain.passes(*gradients)
    return {name: phase for name, (_, phase) in found.items()}

  def test_only_what_no_other_stage_waits_for_is_put_off(self):
    self._add("dw", ["dz"], 1)
    self._add("dy", ["dz"], 1)
    self._add("dx", ["dy"], 0)
    self._add("dv", ["dx"], 0)
    self.assertEqual(
      self._phases(["dw"], ["dv"]),
      {
        "dz": _BACKWARD,
        "dw": _WEIGHT,
        "dy": _BACKWARD,
        # Nothing but the one gradient is made of it.
        "dx": _WEIGHT,
        "dv": _WEIGHT,
      },
    )

  def test_the_first_stage_has_both_parts(self):
    for name, reads in {"dw": "dz", "dy": "dz", "dv": "dy", "db": "dy"}.items():
      self._add(name, [reads], 1)
    phases = self._phases(["dw"], ["dv"], ["db"])
    self.assertEqual(
      [x for x in phases if phases[x] is _BACKWARD], ["dz", "dy"]
    )

  def test_a_weight_that_two_stages_use(self):
    """The sum of the terms is the gradient; it is made on one of them."""
    self._add("term", ["dz"], 1)
    self._add("dy", ["dz"], 0)
    self._add("other_term", ["dy"], 0)
    self._add("dw", ["term", "other_term"], 0)
    phases = self._phases(["dw"])
    self.assertEqual(phases["term"], _BACKWARD)
    self.assertEqual(phases["other_term"], _WEIGHT)
    self.assertEqual(phases["dw"], _WEIGHT)

  def test_one_tensor_for_two_variables(self):
    self._add("db", ["dz"], 1)
    self.assertEqual(self._phases(["db"], ["db"])["db"], _BACKWARD)

  def test_values_and_indices_are_one_gradient(self):
    self._add("rows", ["dz"], 1)
    self._add("values", ["rows"], 1)
    self._add("indices", ["rows"], 1)
    self._add("dw", ["dz"], 1)
    phases = self._phases(["values", "indices"], ["dw"])
    self.assertEqual(phases["dz"], _BACKWARD)
    self.assertEqual(phases["rows"], _WEIGHT)

  def test_what_leads_to_something_else_as_well(self):
    """The norm of a gradient, say, that a summary shows."""
    self._add("dw", ["dz"], 1)
    self._add("norm", ["dw"], 1)
    phases = self._phases(["dw"])
    self.assertEqual(phases["dw"], _BACKWARD)
    self.assertEqual(phases["norm"], _BACKWARD)

  def test_without_gradients_nothing_is_split(self):
    self._add("dw", ["dz"], 1)
    self.assertEqual(self._phases(), {"dz": _BACKWARD, "dw": _BACKWARD})


class EndsTest(graph_case.GraphCase):
  def setUp(self):
    super().setUp()
    self._chain = _Chain()

  def _ends(self, schedule):
    """Returns the names of the ends of each pass."""
    chain = self._chain
    passes = cells.passes_of_ops(
      [*chain.ops.values()], chain.backward, chain.stages
    )
    ends = cells.ends_of_passes(schedule, passes, chain.stages)
    return {
      tuple(of_pass): Ends(
        *(tuple(op.name for op in ops) for ops in (x.first, x.last))
      )
      for of_pass, x in ends.items()
    }

  def test_a_pass_begins_and_ends_where_it_touches_others(self):
    add = self._chain.add
    x = add("x", [], 0)
    left, right = add("left", [x], 0), add("right", [x], 0)
    both = add("both", [left, right], 1)
    add("dboth", [both, left], 1, backward=True)
    self.assertEqual(
      self._ends(orders.make_schedule("1f1b", 2, 2)),
      {
        (0, _FORWARD): Ends(("x",), ("left", "right")),
        (1, _FORWARD): Ends(("both",), ("both",)),
        (1, _BACKWARD): Ends(("dboth",), ("dboth",)),
      },
    )

  def test_ops_on_another_device_are_no_ends(self):
    """Unless the other stage is a virtual one, of the same device."""
    add = self._chain.add
    rows = add("rows", [], 2)
    add("x", [rows], 0)
    self.assertEqual(
      self._ends(orders.make_schedule("1f1b", 3, 2)),
      {(0, _FORWARD): Ends(("x",), ("x",))},
    )
    self.assertEqual(
      self._ends(orders.make_schedule("interleaved", 2, 2, 2)),
      {(0, _FORWARD): Ends(("rows",), ("x",))},
    )

  def test_nothing_ends_in_a_branch(self):
    self.use_v1_control_flow()
    x = v1.placeholder(tf.float32, [], "x")
    y = v1.cond(x > 0, lambda: tf.exp(x, "one"), lambda: tf.sin(x, "other"))
    ops = self.ops()
    passes = dict.fromkeys(ops, Pass(0, _FORWARD))
    ends = cells.ends_of_passes(
      orders.make_schedule("1f1b", 1, 1), passes, dict.fromkeys(ops, 0)
    )
    last = ends[Pass(0, _FORWARD)].last
    self.assertIn(y.op, last)
    self.assertNotIn("cond/one", [op.name for op in last])
    self.assertIn(x.op, ends[Pass(0, _FORWARD)].first)


class GatesTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.enterContext(tf.Graph().as_default())

  def _gated(self):
    """Returns gradients of an op, as TensorFlow's optimizers gate them."""
    pair = [tf.random.normal([2], name=name) for name in ("dx", "dw")]
    return pair, [x.op for x in tf.tuple(pair)]

  def _open(self, gated, made, stages):
    """Returns what gated ops are to wait for."""
    waits = Waits()
    cells.open_gates(gated, made, stages, waits)
    return [waits.of(op) for op in gated]

  def test_gradients_do_not_wait_for_each_other(self):
    pair, gated = self._gated()
    ops = [x.op for x in pair]
    waits = self._open(gated, ops, dict.fromkeys(ops, 1))
    self.assertEqual(waits, [[], []])
    self.assertTrue(all(op.control_inputs for op in gated))  # As yet.

  def test_what_else_they_wait_for_stays(self):
    pair, _ = self._gated()
    other = tf.no_op("other")
    with tf.control_dependencies([tf.group(*pair), other]):
      gated = [tf.identity(x).op for x in pair]
    ops = [x.op for x in pair]
    waits = self._open(gated, ops, dict.fromkeys(ops, 1))
    self.assertEqual(waits, [[other], [other]])

  def test_a_gate_that_waits_for_something_else_stays(self):
    """Updates that `minimize` is told to wait for."""
    (dx, dw), gated = self._gated()
    stages = {dx.op: 1, dw.op: 1}
    self.assertTrue(all(self._open(gated, {dx.op}, stages)))

  def test_a_gate_between_stages_stays(self):
    (dx, dw), gated = self._gated()
    stages = {dx.op: 0, dw.op: 1}
    self.assertTrue(all(self._open(gated, stages, stages)))


if __name__ == "__main__":
  absltest.main()
