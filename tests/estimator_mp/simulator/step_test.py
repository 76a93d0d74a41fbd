"""Simulated steps of plain data: times, memory, sums, bounds."""

import dataclasses
import time

from estimator_mp.config.schedules import orders
from estimator_mp.machines.machine import Device, Link, Machine
from estimator_mp.simulator import step as step_lib
from estimator_mp.simulator import sums
from estimator_mp.simulator.step import StageWork, Step

from absl.testing import absltest, parameterized

_DEVICE = Device("GPU", {"float32": 1e12}, 16e9, 1e12, 0.0)
_HOST = Link("host", 8, 1e9, 0.0)
_NETWORK = Link("cluster", 4096, 1e8, 0.0, shared=8)
_MACHINE = Machine("test", _DEVICE, (_HOST, _NETWORK))


def _step(stages, count, work, schedule="1f1b", **fields):
  """Returns a step of equal stages on a mesh of one axis of stages."""
  fields.setdefault("axes", {"stage": stages})
  fields.setdefault("machine", _MACHINE)
  order = orders.make_schedule(schedule, stages, count)
  return Step((work,) * stages, order, **fields)


class PipelineTest(parameterized.TestCase):
  @parameterized.parameters((2, 4), (4, 4), (4, 32))
  def test_a_bubble_is_that_of_the_formula(self, stages, count):
    result = step_lib.simulate(_step(stages, count, StageWork(1.0, 2.0)))
    self.assertAlmostEqual(result.seconds, 3.0 * (count + stages - 1))
    bubble = (stages - 1) / (count + stages - 1)
    self.assertAlmostEqual(result.bubble, bubble)
    self.assertAlmostEqual(result.bound_seconds, 3.0 * count)

  def test_recomputation_adds_a_forward_pass_and_frees_memory(self):
    work = StageWork(1.0, 2.0, kept_bytes=100.0, input_bytes=10.0)
    kept = step_lib.simulate(_step(2, 4, work))
    again = step_lib.simulate(_step(2, 4, work, recompute="always"))
    self.assertAlmostEqual(again.seconds / kept.seconds, 4 / 3)
    self.assertEqual([x.live_bytes for x in kept.devices], [200.0, 100.0])
    self.assertEqual([x.live_bytes for x in again.devices], [120.0, 110.0])

  def test_recomputation_while_gradients_are_waited_for(self):
    step = _step(2, 1, StageWork(1.0, 2.0), recompute="always")
    self.assertAlmostEqual(step_lib.simulate(step).seconds, 8.0)
    early = dataclasses.replace(step, recomputes_early=True)
    # The first stage has nothing else to do meanwhile.
    self.assertAlmostEqual(step_lib.simulate(early).seconds, 7.0)

  def test_the_last_micro_batch_of_gpipe_is_not_recomputed(self):
    work = StageWork(1.0, 2.0)
    step = _step(1, 2, work, "gpipe", recompute="except_last")
    self.assertAlmostEqual(step_lib.simulate(step).seconds, 7.0)

  def test_what_is_sent_is_waited_for(self):
    work = StageWork(1.0, 1.0, sent_bytes=1e9)
    result = step_lib.simulate(_step(2, 1, work))
    self.assertAlmostEqual(result.seconds, 2.0 + 1.0 + 1.0 + 2.0)
    self.assertEqual(result.devices[0].sent_bytes, {"host": 1e9})

  def test_devices_of_a_host_share_its_network(self):
    # Stages are eight devices apart, so eight of a host send at once.
    work = StageWork(1.0, 1.0, sent_bytes=1e7)
    axes = {"stage": 2, "model": 8}
    result = step_lib.simulate(_step(2, 1, work, axes=axes))
    self.assertAlmostEqual(result.seconds, 4.0 + 2 * 8 * 0.1)

  def test_a_device_that_does_not_compute_while_it_sends(self):
    slow = dataclasses.replace(_HOST, overlaps=False)
    machine = Machine("test", _DEVICE, (slow,))
    work = StageWork(1.0, 1.0, sent_bytes=1e9)
    waits = step_lib.simulate(_step(2, 8, work, machine=machine))
    overlaps = step_lib.simulate(_step(2, 8, work))
    self.assertGreater(waits.seconds, overlaps.seconds)

  def test_no_link(self):
    machine = Machine("test", _DEVICE, (_HOST,))
    with self.assertRaisesRegex(ValueError, "no link between devices 0 and 15"):
      step_lib.simulate(
        _step(
          1,
          1,
          StageWork(1, 1, gradient_bytes=1),
          axes={"data": 16},
          machine=machine,
        )
      )

  def test_thousands_of_devices_take_seconds(self):
    start = time.monotonic()
    order = orders.make_schedule("interleaved", 8, 512, 12)
    work = StageWork(1.0, 2.0, gradient_bytes=1e9)
    axes = {"data": 64, "stage": 8, "model": 8}
    result = step_lib.simulate(Step((work,) * 96, order, _MACHINE, axes))
    self.assertGreater(result.seconds, 3 * 12 * 512)
    self.assertLess(time.monotonic() - start, 10)


class ReplicasTest(parameterized.TestCase):
  @parameterized.parameters(
    ("ring", 2 * 3 / 4), ("copy", 2 * 3), ("tree", 2 * 2), ("nccl", 2 * 3 / 4)
  )
  def test_bytes_of_algorithms(self, algorithm, transfers):
    machine = Machine(
      "test", dataclasses.replace(_DEVICE, memory_bandwidth=1e30), (_HOST,)
    )
    found = sums.seconds(algorithm, 1e9, range(4), machine)
    self.assertAlmostEqual(found, transfers)

  def test_rings_of_nccl_use_all_cards_of_a_host(self):
    network = dataclasses.replace(_NETWORK, shared=2)
    device = dataclasses.replace(_DEVICE, memory_bandwidth=1e30)
    machine = Machine("test", device, (_HOST, network))
    one = sums.seconds("nccl", 1e8, range(0, 16, 8), machine)
    eight = sums.seconds("nccl", 1e8, range(16), machine)
    self.assertAlmostEqual(one, 1.0)
    self.assertAlmostEqual(eight, 2 * 15 / 16 / 4)

  def test_trees_of_nccl_take_few_steps(self):
    network = dataclasses.replace(_NETWORK, latency=1e-3)
    machine = Machine("test", _DEVICE, (_HOST, network))
    found = sums.seconds("nccl", 8.0, range(4096), machine)
    self.assertAlmostEqual(found, 2 * 12 * 1e-3, places=5)

  def test_updates_and_slots_that_are_sharded(self):
    work = StageWork(1.0, 1.0, update=1.0, slot_bytes=80.0, weight_bytes=40.0)
    step = _step(1, 1, work, axes={"data": 4})
    whole = step_lib.simulate(step)
    sharded = step_lib.simulate(dataclasses.replace(step, shards_slots=True))
    self.assertAlmostEqual(whole.seconds - sharded.seconds, 0.75)
    self.assertEqual(whole.devices[0].weight_bytes, 120.0)
    self.assertEqual(sharded.devices[0].weight_bytes, 60.0)

  def test_sums_overlap_the_backward_pass(self):
    work = StageWork(1.0, 10.0, gradient_bytes=1e9)
    step = _step(1, 1, work, axes={"data": 2}, num_buckets=10)
    result = step_lib.simulate(step)
    self.assertLess(result.seconds, 11.0 + 0.2)
    self.assertGreater(result.seconds, 11.0 + 0.05)

  def test_slices_of_nothing(self):
    """All of a model is executed once; recomputing takes no time, either."""
    work = StageWork(0.0, 0.0, update=1.0)
    result = step_lib.simulate(_step(1, 4, work, recompute="always"))
    self.assertAlmostEqual(result.seconds, 1.0)

  def test_virtual_devices_share_cores(self):
    cores = dataclasses.replace(_DEVICE, kind="CPU", cores=2)
    machine = Machine("test", cores, (_HOST,))
    work = StageWork(0.5, 0.5)
    step = _step(1, 1, work, axes={"data": 4}, machine=machine)
    result = step_lib.simulate(step)
    self.assertAlmostEqual(result.seconds, 4.0)
    self.assertIn("cores", result.bound_by)
    self.assertIn("4e+03 ms a step, bound by the cores", result.summary())
    # What is not split is on one device of a model axis.
    work = StageWork(0.5, 0.5, update=0.5, others=0.25, other_updates=0.125)
    step = _step(1, 2, work, axes={"model": 2}, machine=machine)
    self.assertAlmostEqual(step_lib.simulate(step).seconds, 3.125)
    # Of 1.25 seconds of a slice, 0.5 are half of what the cores can do.
    work = dataclasses.replace(work, of_one_core=0.5)
    step = _step(1, 2, work, axes={"model": 2}, machine=machine)
    self.assertAlmostEqual(step_lib.simulate(step).seconds, 2.625)


if __name__ == "__main__":
  absltest.main()
