"""Rankings of plain data: what wins where, and what does not fit."""

from estimator_mp.machines.machine import Device, Link, Machine
from estimator_mp.search import ranking
from estimator_mp.simulator.step import StageWork

from absl.testing import absltest

_DEVICE = Device("GPU", {"float32": 1e12}, 1e9, 1e12, 0.0)
_FAST = Machine("fast", _DEVICE, (Link("host", 4096, 1e12, 0.0),))
_SLOW = Machine("slow", _DEVICE, (Link("host", 4096, 1e6, 0.0),))
_LAYERS = 8


def _work(launch=0.0, gradients=1e6, weights=1e6, kept=1e6):
  """Returns the work of eight equal layers, by stages, slices and parts."""

  def work_of(num_stages, fraction, num_parts):
    if _LAYERS % num_stages or num_parts > 1:
      return None
    layers = _LAYERS / num_stages
    seconds = launch + layers * fraction
    return [
      StageWork(
        seconds,
        seconds,
        seconds,
        sent_bytes=1e5 * fraction,
        kept_bytes=layers * kept * fraction,
        weight_bytes=layers * weights,
        gradient_bytes=layers * gradients,
      )
    ] * num_stages

  return work_of


class RankingTest(absltest.TestCase):
  def test_replicas_where_links_are_fast(self):
    found = ranking.rank(_work(), 64, 4, _FAST)
    self.assertEqual(found.best.mesh, "data:4")
    self.assertAlmostEqual(found.bound_seconds, 24 / 4)
    self.assertLess(found.found[0].step.seconds, 1.01 * found.bound_seconds)

  def test_stages_where_gradients_are_much_to_send(self):
    found = ranking.rank(_work(gradients=1e8), 64, 4, _SLOW)
    self.assertEqual(found.best.mesh, "stage:4")
    self.assertGreater(found.best.options["num_micro_batches"], 4)

  def test_one_device_where_all_else_is_overhead(self):
    slow = _work(launch=1000.0)
    self.assertEqual(ranking.rank(slow, 64, 4, _SLOW).best.mesh, "stage:1")

  def test_memory_leaves_few(self):
    heavy = _work(weights=2e8)
    found = ranking.rank(heavy, 64, 4, _FAST)
    self.assertIn("stage:4", found.best.mesh)
    self.assertGreater(found.num_too_large, 0)
    for x in found.found:
      self.assertLessEqual(x.step.memory_bytes, 1e9)

  def test_nothing_fits(self):
    expected = (
      "no mesh of 4 device.s. holds the model: with estimator_mp.ShardingConfig"
      r".* a device lacks 1\.\d+ GB of 1\.00 GB; use more devices"
    )
    with self.assertRaisesRegex(ValueError, expected):
      ranking.rank(_work(weights=1e9), 64, 4, _FAST)

  def test_none_of_all_is_faster(self):
    every = list(ranking.every_step(_work(launch=0.1), 16, 4, _SLOW))
    times = [ranking.price(*x).step.seconds for x in every]
    best = ranking.rank(_work(launch=0.1), 16, 4, _SLOW).found[0]
    self.assertLessEqual(best.step.seconds, 1.05 * min(times))

  def test_the_table_ends_with_the_line_to_paste(self):
    text = ranking.rank(_work(gradients=1e8), 64, 4, _SLOW).table()
    self.assertRegex(
      text.splitlines()[-1],
      r'^estimator_mp.ShardingConfig\(mesh="stage:4", num_micro_batches=\d+',
    )
    self.assertIn("configurations", text)


if __name__ == "__main__":
  absltest.main()
