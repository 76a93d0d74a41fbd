"""What fits its devices trains there; what does not is refused more memory."""

from unittest import mock

from estimator_mp.cli.sizing import capacity_flags, measurement, planning
from estimator_mp.distributed import network
from tests import tiers

from absl.testing import absltest

_ARGUMENTS = (
  "--stages=1",
  "--num_micro_batches=2",
  "--batch_size=4",
  '--sizes={"hidden_size": 256, "sequence_length": 32}',
)


def _measure(options, plan):
  """Measures in the network of the test, whoever reaches it."""
  with mock.patch.object(network, "outer_interfaces", tuple):
    return measurement.measure(options, plan)


def _planned(free_size, *flags):
  """Returns options, and the plan of a model of one stage."""
  options = capacity_flags.parse(["capacity", *_ARGUMENTS, *flags])
  return options, planning.plan_model(
    options, num_stages=1, free_size=free_size
  )


class MeasurementTest(absltest.TestCase):
  def test_nothing_is_measured_where_others_reach_it(self):
    with (
      mock.patch.object(network, "outer_interfaces", lambda: ("eth0",)),
      self.assertRaisesRegex(ValueError, r"all interfaces .*\(eth0\), .* own$"),
    ):
      measurement.measure(*_planned(1, "--memory_per_device=12MiB"))

  @tiers.slow
  def test_a_model_that_is_larger_than_the_memory_is_refused_it(self):
    options, plan = _planned(4, "--memory_per_device=12MiB")
    self.assertGreater(plan.peak, 5 * options.memory_per_device)
    measured = _measure(options, plan)
    self.assertFalse(measured.fits)
    self.assertLen(measured.peaks, 1)

  @tiers.slow
  def test_replicas_begin_with_the_same_variables(self):
    """Two processes of ZeRO; a variable that nobody has set ends a step."""
    options, plan = _planned(
      *(1, "--memory_per_device=40MiB", "--replicas=2", "--steps=2"),
      "--optimizer_state=sharded",
    )
    self.assertLess(plan.peak, options.memory_per_device)
    measured = _measure(options, plan)
    self.assertTrue(measured.fits)
    self.assertLess(measured.losses[1], measured.losses[0])
    self.assertLen(measured.peaks, 2)


if __name__ == "__main__":
  absltest.main()
