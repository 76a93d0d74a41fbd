"""A model axis anywhere in a mesh, and of three devices.

With all other options equality/pairs_test has it.
"""

import estimator_mp
from tests import tiers
from tests.estimator_mp.models import catalogue, data

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
  dataset = tf.data.Dataset.from_tensor_slices((data.FEATURES, data.LABELS))
  return dataset.repeat().batch(24)


class CompositionTest(parameterized.TestCase):
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("uneven", "stage:2,model:3", {"batch_norm": "per_micro_batch"}),
        (
          "zero_in_another_order",
          "model:2,data:2",
          {"optimizer_state": "sharded"},
        ),
        ("all_axes", "model:2,data:2,stage:2", {"aggregation": "tree"}),
        ("one_position", "model:1,stage:2", {}),
      ]
    )
  )
  def test_equal_to_the_plain_model(self, mesh, fields):
    model = catalogue.PURE_NETWORKS["mlp_adam"]
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
