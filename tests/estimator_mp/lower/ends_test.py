"""Ends: what is executed once reads what all slices make, bridge by bridge."""

import estimator_mp
from estimator_mp import devices
from estimator_mp.capture import micro_batches
from estimator_mp.config.schedules import orders
from estimator_mp.config.schedules.schedule import Phase
from estimator_mp.graph import clones as clones_lib
from estimator_mp.graph import ledger as ledger_lib
from estimator_mp.lower import accumulation
from estimator_mp.lower import replicas as replicas_lib
from estimator_mp.lower.slicing import bridges as bridges_lib
from estimator_mp.lower.slicing import ends, runs, slices
from estimator_mp.pipeline.cells import Pass
from estimator_mp.plan.batch_plan import BY_SLICE, Rows
from estimator_mp.plan.finish_plan import RunPlan

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_EACH = Rows(0, 1)


class EndsTest(parameterized.TestCase):
  """What slices make are placeholders, named by the slice."""

  def setUp(self):
    super().setUp()
    self._graph = self.enter_context(tf.Graph().as_default())
    self.enter_context(v1.device("/device:CPU:0"))
    self._feed = {}

  def _start(self, num_micro_batches=2, num_replicas=1, size=4, **fields):
    """Makes the slices of a batch x [size, 3], of clones without an op."""
    self._x = v1.placeholder(tf.float32, [size, 3], "x")
    self._feed[self._x] = np.zeros([size or 5, 3])
    count = num_micro_batches * num_replicas
    inputs = micro_batches.inputs_with_examples({"features": self._x})
    self._slices = slices.Slices(inputs, count, num_replicas, "/device:CPU:0")
    config = estimator_mp.ShardingConfig(f"data:{num_replicas}", **fields)
    self._ledger = ledger_lib.Ledger(self._graph)
    self._replicas = replicas_lib.Replicas(
      config, config.create_mesh(), self._ledger
    )
    self._schedule = orders.make_schedule("gpipe", 1, num_micro_batches)
    self._clones = clones_lib.Clones(self._replicas.homes(num_micro_batches))
    if tf.is_tensor(self._slices.sizes[0]):
      self._clones.pair(self._slices.sizes[0], self._slices.sizes[1:])
    self._bridges = bridges_lib.Bridges(None if size is None else size // count)

  def _made(self, name, *values):
    """Returns what slice 0 makes; `values` are those of all slices."""
    values = [np.asarray(x, np.float32) for x in values]
    first, *others = (
      v1.placeholder(tf.float32, x.shape, f"{name}_{number}")
      for number, x in enumerate(values)
    )
    self._clones.pair(first, others)
    self._feed |= dict(zip([first, *others], values, strict=True))
    return first

  def _fill(self, *of_runs):
    filled = ends.Ends(
      self._slices,
      self._clones,
      self._replicas,
      self._ledger,
      accumulation.Accumulation(self._clones, self._schedule),
      False,
    )
    self._found = filled.fill([*self._bridges.all.values()], of_runs)
    return filled

  def _run(self, fetches):
    names = [f"/device:CPU:{r}" for r in range(self._replicas.count)]
    devices.check_local_devices_exist(names)
    config = v1.ConfigProto(device_count={"CPU": len(names)})
    with v1.Session(config=config) as session:
      return session.run(fetches, self._feed)

  def test_rows_are_joined(self):
    self._start()
    part = self._made("y", [[1.0], [2.0]], [[3.0], [4.0]])
    joined = self._bridges.join(part, _EACH, tf.TensorShape([4, 1]))
    reader = tf.negative(joined)
    self._fill()
    concat = reader.op.inputs[0]
    self.assertEqual([x.op.name for x in concat.op.inputs[:2]], ["y_0", "y_1"])
    self.assertEqual(concat.shape.as_list(), [4, 1])
    # A hook may fetch the bridge by its name.
    found = self._run([reader, joined])
    np.testing.assert_array_equal(found[0], [[-1], [-2], [-3], [-4]])
    np.testing.assert_array_equal(found[1], -found[0])
    self.assertEqual(self._found, {})

  def test_rows_of_an_open_batch(self):
    self._start(size=None)
    part = self._made("y", np.ones([6, 2]), 2 * np.ones([4, 2]))
    joined = self._bridges.join(part, Rows(0, 2), tf.TensorShape([None, 2]))
    reader = tf.identity(joined)
    self._fill()
    self.assertEqual(self._run(reader)[:, 0].tolist(), [1.0] * 6 + [2.0] * 4)

  def test_what_each_slice_has_one_of(self):
    self._start()
    part = self._made("mean", [[1.0, 2.0]], [[3.0, 4.0]])
    joined = self._bridges.join(part, BY_SLICE, tf.TensorShape([None, 2]))
    reader = tf.identity(joined)
    self._fill()
    self.assertEqual(self._run(reader).tolist(), [[1, 2], [3, 4]])

  def test_shares_are_added_up(self):
    self._start()
    self._bridges.request = 3
    total = self._bridges.sum(self._made("loss", 1.0, 2.0))
    self._bridges.request = None
    reader = tf.negative(total)
    self._fill()
    whole = reader.op.inputs[0]
    self.assertEqual(whole.op.type, "AddN")
    self.assertEqual(self._found, {3: [whole]})
    self.assertEqual(self._run([reader, total]), [-3.0, 3.0])

  def test_what_slices_read_is_left(self):
    self._start()
    cut = self._bridges.cut(self._x, _EACH)
    read = self._bridges.read(tf.constant(1.0, name="w"))
    readers = [tf.negative(x) for x in (cut, read)]
    self._fill()
    self.assertEqual([x.op.inputs[0] for x in readers], [cut, read])

  def _gradient(self, name, *values):
    """Returns the bridge of a gradient of a new variable, for request 0."""
    variable = v1.get_variable(name, np.shape(values[0]), use_resource=True)
    self._bridges.request = 0
    part = self._made(f"of_{name}", *values)
    total = self._bridges.sum(part, variable.handle)
    self._bridges.request = None
    return total

  def test_gradients_are_added_up_as_they_come(self):
    self._start(3, size=6)
    total = self._gradient("v", [1.0, 2.0], [3.0, 4.0], [5.0, 6.0])
    reader = tf.negative(total)
    filled = self._fill()
    whole = reader.op.inputs[0]
    first, last = whole.op.inputs
    self.assertEqual(last.op.name, "of_v_2")
    self.assertEqual([x.op.name for x in first.op.inputs], ["of_v_0", "of_v_1"])
    self.assertEqual(self._found, {0: [whole]})
    self.assertEqual(filled.sums, [()])  # There is one replica.
    self.assertEqual(self._run(reader).tolist(), [-9.0, -12.0])
    passes = self._ledger.with_role(ledger_lib.Role.PASS)
    self.assertContainsSubset([whole.op, first.op], passes)

  def test_gradients_of_replicas(self):
    self._start(2, 2, 8)
    total = self._gradient("v", *([float(x)] * 2 for x in (1, 2, 3, 4)))
    reader = tf.negative(total)
    filled = self._fill()
    self.assertEqual(self._run(reader).tolist(), [-10.0, -10.0])
    ((planned,),) = filled.sums
    self.assertEqual(planned.bucket.gradients, (0,))

  def test_gradients_of_one_run_are_summed_over_replicas_together(self):
    self._start(2, 2, 8)
    totals = [
      self._gradient(name, *([float(x)] for x in (1, 2, 3, 4)))
      for name in ("a", "b", "c")
    ]
    own = [self._bridges.all[x.op.name] for x in totals[:2]]
    ops = [x.source.op for x in own]
    passes = dict.fromkeys(ops, Pass(0, Phase.BACKWARD))
    run = runs.Run(
      RunPlan(ops, own, {}, passes),
      self._schedule,
      dict.fromkeys(ops, 0),
      self._clones,
    )
    filled = self._fill(run)
    together, alone = filled.sums
    numbers = [x for planned in together for x in planned.bucket.gradients]
    self.assertCountEqual(numbers, [0, 1])
    self.assertLen(alone, 1)
    self.assertEqual(self._run(totals), [[10.0]] * 3)

  @parameterized.parameters(1, 2)
  def test_rows_of_a_table(self, num_replicas):
    """A sparse gradient is the rows that all slices list."""
    count = 2 * num_replicas
    self._start(2, num_replicas, count)
    table = v1.get_variable("table", [9, 1], use_resource=True)
    read = self._bridges.read(table.handle)
    indices = tf.cast(self._made("ids", *([n] for n in range(count))), tf.int32)
    others = [
      tf.cast(x, tf.int32) for x in self._clones.of(indices.op.inputs[0])
    ]
    self._clones.pair(indices, others)
    values = self._made("values", *([[10.0 * n]] for n in range(count)))
    bridge = self._bridges.all[read.op.name]
    found = self._bridges.back(
      bridge, tf.IndexedSlices(values, indices, tf.constant([9, 1]))
    )
    readers = [tf.identity(x) for x in (found.values, found.indices)]
    self._fill()
    rows, ids = self._run(readers)
    self.assertEqual(
      dict(zip(ids.tolist(), rows[:, 0].tolist(), strict=True)),
      {n: 10.0 * n for n in range(count)},
    )


if __name__ == "__main__":
  absltest.main()
