"""A model axis beside all else: schedules, recompute, replicas, ZeRO, sums."""

import estimator_mp
from tests import tiers
from tests.estimator_mp import zoo

import tensorflow as tf
from absl.testing import absltest, parameterized

# Megatron-LM's pair, and a layer by itself; the rest of the model is whole.
_SPLIT = (
  ("^dense/kernel", 1),
  ("^dense_1/kernel", 0),
  ("^dense_2/kernel", 1),
  (".*", None),
)


def _input_fn():
  data = tf.data.Dataset.from_tensor_slices((zoo.FEATURES, zoo.LABELS))
  return data.repeat().batch(24)


@tiers.newest_only
class CompositionTest(parameterized.TestCase):
  @parameterized.named_parameters(
    tiers.sample(
      [
        (
          "interleaved",
          "model:2,stage:2",
          {
            "schedule": "interleaved",
            "num_virtual_stages": 2,
            "num_micro_batches": 4,
          },
        ),
        (
          "a_v",
          "model:2,stage:2",
          {"schedule": "zbv", "num_virtual_stages": 2, "num_micro_batches": 3},
        ),
        ("recompute", "stage:2,model:2", {"recompute": "always"}),
        (
          "rounds",
          "model:2,stage:2",
          {
            "schedule": "gpipe",
            "recompute": "except_last",
            "num_micro_batches": 3,
            "gradient_accumulation_steps": 2,
          },
        ),
        ("uneven", "stage:2,model:3", {"batch_norm": "per_micro_batch"}),
        ("by_shard", "model:2", {"initial_values": "by_shard"}),
        ("zero", "data:2,model:2", {"optimizer_state": "sharded"}),
        (
          "zero_in_another_order",
          "model:2,data:2",
          {"optimizer_state": "sharded", "num_micro_batches": 1},
        ),
        ("shared", "model:2,data:2", {"variables": "shared"}),
        (
          "ring",
          "model:3,data:2",
          {"aggregation": "ring", "bucket_bytes": 1000, "chunk_bytes": 1000},
        ),
        ("collective", "data:2,model:2", {"aggregation": "collective"}),
        ("all_axes", "model:2,data:2,stage:2", {"aggregation": "tree"}),
        ("one_position", "model:1,stage:2", {}),
      ]
    )
  )
  def test_equal_to_the_plain_model(self, mesh, fields):
    model = zoo.PURE_MODELS["mlp_adam"]
    config = estimator_mp.ShardingConfig(
      mesh, split=_SPLIT, **{"num_micro_batches": 2} | fields
    )
    compared = estimator_mp.compare(
      model.model_fn, _input_fn, config, 2, params=model.params
    )
    self.assertTrue(compared.ok, compared.text())
    self.assertLen(compared.steps, 2)


if __name__ == "__main__":
  absltest.main()
