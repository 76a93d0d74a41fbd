"""What all slices do, planned for small graphs of slice 0."""

from estimator_mp.config.pipeline_options import PipelineOptions
from estimator_mp.config.schedules.schedule import Phase
from estimator_mp.pipeline.cells import Pass
from estimator_mp.plan import finish_planner
from estimator_mp.plan.batch_plan import BatchOps, Rows
from estimator_mp.plan.bridge import Bridge, Kind
from estimator_mp.plan.finish_plan import SliceZeroOps

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1
_FORWARD, _BACKWARD, _WEIGHT = Phase.FORWARD, Phase.BACKWARD, Phase.WEIGHT


class FinishPlannerTest(absltest.TestCase):
  """y = x w on stage 0 and its square on stage 1, of two examples a slice."""

  def setUp(self):
    super().setUp()
    self._graph = self.enter_context(tf.Graph().as_default())
    self._bridges: list[Bridge] = []
    self._backward: list[tf.Operation] = []
    self._stages: dict[tf.Operation, int] = {}
    x = v1.placeholder(tf.float32, [4, 3], "x")
    variable = v1.get_variable("w", [3, 5], use_resource=True)
    self._weight = variable.value()
    with tf.name_scope("zero/"):
      self._cut = self._bridge(
        Kind.CUT, v1.placeholder_with_default(x[:2], [2, 3], "cut"), Rows(0, 1)
      )
      self._read = self._bridge(Kind.READ, tf.identity(self._weight, "read"))
      self._y = self._put(0, tf.matmul(self._cut, self._read, name="y"))
      self._z = self._put(1, tf.square(self._y, "z"))
    self._template = {self._y.op, self._z.op}

  def _bridge(self, kind, tensor, rows=None, **more):
    self._bridges.append(Bridge(tensor.op, kind, rows, **more))
    return tensor

  def _put(self, stage, tensor, is_backward=False):
    """Places what slice 0 makes; returns it."""
    self._stages[tensor.op] = stage
    if is_backward:
      self._backward.append(tensor.op)
    return tensor

  def _add_gradient(self):
    """Adds the gradient of the weight: dz, dy and x^T dy, and their sum."""
    dz = self._put(1, tf.negative(self._z, name="dz"), True)
    dy = self._put(1, tf.multiply(dz, self._y, name="dy"), True)
    dx = tf.matmul(dy, self._read, transpose_b=True, name="dx")
    dw = tf.matmul(self._cut, dy, transpose_a=True, name="dw")
    for gradient in (dx, dw):
      self._put(0, gradient, True)
    self._bridge(Kind.JOIN, tf.identity(dx, "dx_all"), Rows(0, 1), request=0)
    self._bridge(Kind.SUM, tf.identity(dw, "sum"), request=0, of=self._weight)
    return dw

  def _plan(self, fetch, step=None, **options):
    ops = self._graph.get_operations()
    config = PipelineOptions("stage:2", num_micro_batches=2, **options)
    zero = SliceZeroOps(
      ops,
      self._bridges,
      self._template,
      dict.fromkeys(self._backward, 0),
      {},
      {},
      [],
      ops if step is None else step,
      [fetch.op],
      BatchOps({*ops}, set(), {}),
      self._stages,
      2,
      4,
    )
    return finish_planner.plan_finish(
      zero, config, config.create_schedule(), None
    )

  def _names(self, plan):
    return [[op.name.rpartition("/")[2] for op in x.ops] for x in plan.runs]

  def _passes(self, plan):
    return {
      op.name.rpartition("/")[2]: x
      for run in plan.runs
      for op, x in run.passes.items()
    }

  def test_what_is_joined_is_one_segment(self):
    joined = self._bridge(Kind.JOIN, tf.identity(self._z, "join"), Rows(0, 1))
    plan = self._plan(tf.reduce_sum(joined))
    self.assertEqual(self._names(plan), [["y", "z"]])
    self.assertEqual(plan.segments.count, 1)
    self.assertEqual(
      self._passes(plan), {"y": Pass(0, _FORWARD), "z": Pass(1, _FORWARD)}
    )

  def test_what_reads_the_whole_batch_is_the_next_one(self):
    joined = self._bridge(Kind.JOIN, tf.identity(self._z, "join"), Rows(0, 1))
    again = self._bridge(
      Kind.CUT, v1.placeholder_with_default(joined[:2], [2, 5]), Rows(0, 1)
    )
    last = self._put(1, tf.negative(again, name="last"))
    self._template.add(last.op)
    loss = self._bridge(Kind.JOIN, tf.identity(last, "all"), Rows(0, 1))
    plan = self._plan(loss)
    self.assertEqual(self._names(plan), [["y", "z"], ["last"]])

  def test_what_nothing_needs_is_left_out(self):
    unread = tf.negative(self._z, name="unread")
    joined = self._bridge(Kind.JOIN, tf.identity(self._z, "join"), Rows(0, 1))
    self._template.add(unread.op)
    plan = self._plan(joined)
    self.assertEqual(self._names(plan), [["y", "z"]])

  def test_what_a_step_does_not_run_is_in_no_segment(self):
    joined = self._bridge(Kind.JOIN, tf.identity(self._z, "join"), Rows(0, 1))
    self._bridge(Kind.JOIN, tf.identity(self._y, "other"), Rows(0, 1))
    plan = self._plan(joined, [self._y.op, joined.op])
    self.assertEqual(self._names(plan), [["y"]])
    self.assertEqual([*plan.own], [self._y.op, self._z.op])

  def test_gradients_pass_the_stages_backwards(self):
    self._add_gradient()
    plan = self._plan(self._z, weight_gradients="each")
    passes = self._passes(plan)
    self.assertEqual(passes["dy"], Pass(1, _BACKWARD))
    self.assertEqual(passes["dw"], Pass(0, _BACKWARD))
    self.assertLen(plan.runs[0].gradients, 1)

  def test_a_zero_bubble_schedule_has_a_weight_phase(self):
    self._add_gradient()
    plan = self._plan(self._z, schedule="zb1p", weight_gradients="each")
    self.assertEqual(self._passes(plan)["dw"], Pass(0, _WEIGHT))

  def test_several_multiply_at_once(self):
    dw = self._add_gradient()
    plan = self._plan(self._z, weight_gradients="batched")
    ((bridge, product),) = plan.runs[0].products.items()
    self.assertEqual((bridge.name, product.op), ("sum", dw.op))
    self.assertEqual(product.group, 2)
    self.assertNotIn(dw.op, plan.own)  # None does so for itself.
    (gradient,) = plan.runs[0].gradients
    self.assertEqual(plan.runs[0].made_of(gradient), [*dw.op.inputs])

  def test_slices_do_not_wait_for_what_is_done_once(self):
    once = tf.negative(self._weight, name="once")
    with tf.control_dependencies([once.op, self._y.op]):
      self._add_gradient()
    plan = self._plan(self._z)
    (dz,) = [op for op in plan.own if op.name == "dz"]
    self.assertCountEqual(dz.control_inputs, [once.op, self._y.op])
    self.assertEqual(plan.waits.of(dz), [self._y.op])
    self.assertEqual(plan.late, {0: [once.op]})

  def test_activations_are_computed_again(self):
    self._add_gradient()
    plan = self._plan(self._z, recompute="always")
    again = {
      stage: [op.name for op in ops]
      for stage, ops in plan.recomputation.again.items()
    }
    self.assertEqual(again, {1: ["zero/z"]})

  def test_a_schedule_is_found(self):
    self._add_gradient()
    plan = self._plan(self._z, schedule="auto")
    self.assertLen(plan.schedule.rows, 2)
    cells = [{(x.micro_batch, x.phase) for x in y} for y in plan.schedule.rows]
    self.assertEqual(
      cells, [{(m, phase) for m in range(2) for phase in Phase}] * 2
    )


if __name__ == "__main__":
  absltest.main()
