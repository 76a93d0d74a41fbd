"""What fits its devices trains there; what does not is refused more memory."""

from estimator_mp.cli.sizing import capacity_flags, measurement, planning
from tests import tiers

from absl.testing import absltest

_ARGUMENTS = (
  "--stages=1",
  "--num_micro_batches=2",
  "--batch_size=4",
  '--sizes={"hidden_size": 256, "sequence_length": 32}',
)


class MeasurementTest(absltest.TestCase):
  @tiers.slow
  def test_a_model_that_is_larger_than_the_memory_is_refused_it(self):
    options = capacity_flags.parse(
      ["capacity", "--memory_per_device=12MiB", *_ARGUMENTS]
    )
    plan = planning.plan_model(options, num_stages=1, free_size=4)
    self.assertGreater(plan.peak, 5 * options.num_bytes)
    measured = measurement.measure(options, plan)
    self.assertFalse(measured.fits)
    self.assertLen(measured.peaks, 1)

  @tiers.slow
  def test_replicas_begin_with_the_same_variables(self):
    """Two processes of ZeRO; a variable that nobody has set ends a step."""
    options = capacity_flags.parse(
      [
        "capacity",
        "--memory_per_device=40MiB",
        "--replicas=2",
        "--optimizer_state=sharded",
        "--steps=2",
        *_ARGUMENTS,
      ]
    )
    plan = planning.plan_model(options, num_stages=1, free_size=1)
    self.assertLess(plan.peak, options.num_bytes)
    measured = measurement.measure(options, plan)
    self.assertTrue(measured.fits)
    self.assertLess(measured.losses[1], measured.losses[0])
    self.assertLen(measured.peaks, 2)


if __name__ == "__main__":
  absltest.main()
