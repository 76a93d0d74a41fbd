"""All slices of a step of two stages: the graph that the list of passes makes.

The batch plan is written down; what all slices do is `plan.finish_planner`'s,
which has tests of its own.
"""

import re

import estimator_mp
from estimator_mp import devices
from estimator_mp.capture import micro_batches
from estimator_mp.config.schedules.schedule import Phase
from estimator_mp.graph import device_assignment, traversal
from estimator_mp.graph import ledger as ledger_lib
from estimator_mp.lower.slicing import all_slices, slice_zero, slices
from estimator_mp.placement import contents
from estimator_mp.plan import finish_planner
from estimator_mp.plan.batch_plan import (
  BatchOps,
  BatchPlan,
  Cut,
  PartedOp,
  Rows,
)

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_EACH = Rows(0, 1)
_OWN = Cut(_EACH)


class AllSlicesTest(parameterized.TestCase):
  """y = x w on stage 0, the sum of tanh(y)^2 on stage 1, and an update."""

  def setUp(self):
    super().setUp()
    self._graph = self.enter_context(tf.Graph().as_default())

  def _build(self, mesh="stage:2", size=8, **fields):
    """Makes a step of two micro-batches, and keeps what is plain.

    Args:
      mesh: Its axes.
      size: Of the batch, as far as the graph knows.
      **fields: The other options of sharding.
    """
    config = estimator_mp.ShardingConfig(mesh, num_micro_batches=2, **fields)
    self._mesh = config.create_mesh()
    schedule = config.create_schedule()
    count = self._mesh.axis_size("data")
    self._on = self._mesh.stage_devices()
    self._x = v1.placeholder(tf.float32, [size, 3], "x")
    inputs = micro_batches.inputs_with_examples({"features": self._x})
    self._ledger = ledger_lib.Ledger(self._graph)
    with self._ledger.creating(ledger_lib.Role.CUT):
      cut = slices.Slices(inputs, 2 * count, count, "/device:CPU:0")
    zero = slice_zero.SliceZero(cut, self._ledger, lambda *_: None)
    self._all = all_slices.AllSlices(
      config, self._mesh, schedule, [self._x.op], cut, zero, self._ledger
    )
    with tf.device(self._on[0]):
      self._w = v1.get_variable(
        "w", [3, 2], initializer=v1.ones_initializer(), use_resource=True
      )
      y = tf.matmul(self._x, self._w, name="y")
    with tf.device(self._on[1]):
      bounded = tf.tanh(y, "bounded")
      squares = tf.square(bounded, "squares")
      loss = tf.reduce_sum(squares, name="loss")
    value = self._w.read_value()
    new = value - 0.1 * tf.gradients(loss, [self._w])[0]
    self._plain = [loss, new, value]
    parted = (
      PartedOp(y.op, (_OWN, None), (False,)),
      PartedOp(bounded.op, (_OWN,), (False,)),
      PartedOp(squares.op, (_OWN,), (False,)),
      PartedOp(loss.op, (_OWN, None), (True,)),
    )
    rows = dict.fromkeys([x.name for x in (y, bounded, squares)], _EACH)
    with ledger_lib.made_in(self._graph) as made:
      zero.split([], BatchPlan(parted, rows, frozenset()))
      (gradient,) = zero.gradients([loss], [self._w], None, tf.gradients)
    # What is made for an op is named after it.
    late = re.compile("bounded|squares|loss")
    stages = {op: int(bool(late.search(op.name))) for op in made}
    device_assignment.assign(stages, self._on)
    self._all.mirror()
    with tf.device(self._on[0]):
      change = 0.1 * gradient
      with tf.control_dependencies([squares]):
        train_op = self._w.assign_sub(change, read_value=False)
    spec = tf.estimator.EstimatorSpec("train", loss=loss, train_op=train_op)
    spec = self._all.redirect(spec, [train_op])
    ops = self._graph.get_operations()
    of_zero = self._all.of_slice_zero(
      spec,
      device_assignment.stages_of_devices(ops, [[x] for x in self._on]),
      BatchOps(traversal.descendants([self._x.op], ops), {self._x.op}, {}),
    )
    plan = finish_planner.plan_finish(of_zero, config, schedule, None)
    self._spec = self._all.finish(spec, of_zero, plan)

  @parameterized.named_parameters(
    ("stages", {}),
    ("replicas", {"mesh": "data:2,stage:2"}),
    ("shared_variables", {"mesh": "data:2,stage:2", "variables": "shared"}),
    ("open", {"size": None}),
    ("recomputed", {"recompute": "always"}),
    ("batched", {"weight_gradients": "batched"}),
    ("functions", {"cells": "functions"}),
  )
  def test_a_step_is_that_of_the_plain_graph(self, fields):
    self._build(**fields)
    count = 7 if fields.get("size", 8) is None else 8
    x = np.random.RandomState(5).randn(count, 3).astype(np.float32)
    devices.check_local_devices_exist(self._mesh.devices)
    start = v1.global_variables_initializer()
    for hook in self._spec.training_hooks:
      hook.begin()
    self._graph.finalize()
    config = v1.ConfigProto(device_count={"CPU": self._mesh.size})
    with v1.Session(config=config) as session:
      session.run(start)
      for hook in self._spec.training_hooks:
        hook.after_create_session(session, None)
      expected = session.run(self._plain, {self._x: x})
      fetches = [self._spec.loss, self._spec.train_op]
      loss, _ = session.run(fetches, {self._x: x})
      np.testing.assert_allclose(loss, expected[0], 1e-5)
      np.testing.assert_allclose(session.run(self._plain[2]), expected[1], 1e-5)

  def _plan(self):
    placement = contents.placement_of_stages(self._mesh, {}, {})
    return self._all.plan(placement, self._spec.train_op.name)

  def test_cells(self):
    self._build()
    plan = self._plan()
    (cells,) = plan.pipeline.cells
    found = {}
    for name, cell in cells.items():
      scope, _, op = name.rpartition("slice_by_estimator_mp/")
      if scope in ("", "micro_batch_1/"):
        found[op, cell.micro_batch] = (cell.stage, cell.phase)
      else:
        self.assertIn("gradients", scope)
        self.assertEqual(cell.phase, Phase.BACKWARD)
    expected = {"y": 0, "bounded": 1, "squares": 1, "loss": 1}
    self.assertEqual(
      found,
      {
        (op, m): (stage, Phase.FORWARD)
        for op, stage in expected.items()
        for m in range(2)
      },
    )
    self.assertEqual(plan.segments.count, 1)
    self.assertEqual((plan.mirrors, plan.train_op), ({}, "AssignSubVariableOp"))

  def _copies(self, name, mesh="stage:2", **fields):
    """Returns the ops of slices that stand for one of the plain graph."""
    self._build(mesh, **fields)
    return [
      op
      for op in self._graph.get_operations()
      if op.name.endswith(f"slice_by_estimator_mp/{name}")
    ]

  def test_slices_read_rows_and_the_variable_itself(self):
    copies = self._copies("y")
    plain = self._graph.get_operation_by_name("y")
    weight = plain.inputs[1]
    self.assertEqual([x.inputs[1] for x in copies], [weight] * 2)
    cuts = [x.inputs[0].op for x in copies]
    self.assertEqual([x.type for x in cuts], ["Slice"] * 2)
    self.assertContainsSubset(cuts, self._all.cuts_of_inputs)

  def test_what_is_executed_once_waits_for_all_slices(self):
    copies = self._copies("squares")
    self.assertLen(copies, 2)
    waits = self._spec.train_op.control_inputs
    self.assertContainsSubset(copies, waits)
    self.assertNotIn(self._graph.get_operation_by_name("squares"), waits)

  def test_replicas_are_on_devices_of_their_own(self):
    copies = self._copies("squares", "data:2,stage:2")
    on = [self._mesh.device(stage=1, data=r) for r in (0, 0, 1, 1)]
    self.assertEqual([x.device for x in copies], on)
    (sums,) = self._plan().gradient_sums
    self.assertLen(sums, 1)

  @parameterized.parameters(
    ("mirrored", {"w": ("replica_1/w:0",)}), ("shared", {})
  )
  def test_mirrors(self, variables, mirrors):
    copies = self._copies("y", "data:2,stage:2", variables=variables)
    self.assertEqual(self._plan().mirrors, mirrors)
    handles = [x.inputs[1].op.inputs[0].name for x in copies]
    self.assertEqual(handles, ["w:0"] * 2 + [*mirrors.get("w", ["w:0"])] * 2)

  def test_activations_are_computed_again(self):
    self._build(recompute="always")
    recomputed = self._plan().pipeline.recomputed
    self.assertEqual(
      dict(recomputed), {"recompute/slice_by_estimator_mp/bounded": 1}
    )


if __name__ == "__main__":
  absltest.main()
