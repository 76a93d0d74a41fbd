"""Which activations are computed again, as plain data."""

import estimator_mp
from estimator_mp.pipeline import recomputation

from absl.testing import absltest


class PolicyTest(absltest.TestCase):
  def test_the_last_micro_batch_of_each_round_goes_back_at_once(self):
    config = estimator_mp.ShardingConfig(
      "stage:2",
      num_micro_batches=2,
      gradient_accumulation_steps=3,
      schedule="gpipe",
    )
    policy = recomputation.make_policy("except_last", config.create_schedule())
    self.assertEqual(policy.kept_micro_batches, {1, 3, 5})


if __name__ == "__main__":
  absltest.main()
