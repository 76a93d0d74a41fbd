"""What a step really sends is what the plan says.

But for rows of tables: how many of them are whose is in the ids of a batch.
"""

import re

import estimator_mp
from estimator_mp.graph import shapes
from estimator_mp.planning import sharding_plan
from tests import tiers
from tests.estimator_mp.equality import bert
from tests.estimator_mp.model_axis import observed_steps
from tests.estimator_mp.models import catalogue, data

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1

# Unknown dimensions are planned for as these.
_BATCH = shapes.NOMINAL_BATCH


class TrafficTest(parameterized.TestCase):
  @parameterized.parameters(
    *tiers.sample(
      [
        ("mlp_sgd", 2),
        ("mlp_adam", 3),
        ("cnn", 2),
        ("transformer", 2),
        ("keras_functional", 3),
      ]
    )
  )
  def test_bytes_of_a_step_are_those_of_the_plan(self, name, num_parts):
    model = catalogue.PURE_NETWORKS[name]
    examples = {
      key: np.resize(value, [_BATCH, *value.shape[1:]])
      for key, value in {**data.FEATURES, "labels": data.LABELS}.items()
      if value.dtype.kind != "S"
    }
    with tf.Graph().as_default() as graph:
      step = observed_steps.ObservedStep.of_model(
        model.model_fn, model.params, examples, num_parts
      )
      plan = sharding_plan.get_plan(graph)
      measured = sum(num_bytes for _, num_bytes in step.sent())
    planned = [x for x in plan.splits.sent if x.kind != "exchange"]
    self.assertNotEmpty(planned)
    self.assertEqual(sum(x.num_bytes for x in planned), measured)

  @tiers.slow
  def test_what_layers_make_of_one_mask_is_sent_once(self):
    """Each layer of BERT makes what it adds to its scores, of the same mask."""
    with tf.Graph().as_default() as graph:
      v1.train.create_global_step()
      data = v1.data.make_one_shot_iterator(bert.input_fn())
      config = estimator_mp.ShardingConfig("model:2")
      model_fn = bert.make_model_fn(2)
      sharded = estimator_mp.shard_model_fn(model_fn, config)
      spec = sharded(*data.get_next(), tf.estimator.ModeKeys.TRAIN)
      step = observed_steps.ObservedStep(spec.train_op, {}, 2)
      sent = sharding_plan.get_plan(graph).splits.sent
    adder = "bert/layer_0/attention/self/ExpandDims"
    is_adder = re.compile("^bert/layer_./attention/self/ExpandDims")
    measured = [x.op for x in step.transfers if is_adder.match(x.op)]
    self.assertEqual(measured, [adder])
    planned = [x.tensor for x in sent if is_adder.match(x.tensor)]
    self.assertEqual(planned, [f"{adder}:0"])


if __name__ == "__main__":
  absltest.main()
