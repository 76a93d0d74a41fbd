"""How much of ordinary models is in parts, by their finished graphs."""

import estimator_mp
from estimator_mp import partitioner
from tests import tiers
from tests.estimator_mp import parts
from tests.estimator_mp.models import catalogue, registry

import tensorflow as tf
from absl.testing import absltest, parameterized

_v1 = tf.compat.v1


class FinishedReportTest(parameterized.TestCase):
  @parameterized.named_parameters(
    *((name, name) for name in ("last_relevant_output", "masked_positions")),
    *tiers.sample(
      [
        (name, name)
        for name in (
          *("dynamic_rnn", "unique_ids", "sparse_matmul", "transformer"),
          *("clipped_positions", "two_heads", "mined_triplets"),
        )
      ]
    ),
  )
  def test_nearly_all_of_it_is_in_parts(self, name):
    model = catalogue.MODELS[name]
    with tf.Graph().as_default():
      batches = _v1.data.make_initializable_iterator(
        model.input_fn(registry.OPEN)
      )
      features, labels = batches.get_next()
      _v1.train.get_or_create_global_step()
      spec = parts.training_spec(model, features, labels)
      config = estimator_mp.ShardingConfig("data:2")
      examples = [
        x for x in tf.nest.flatten((features, labels)) if x.shape.rank
      ]
      found = partitioner.Partitioner(
        parts.inputs(*examples),
        [spec.loss, spec.train_op],
        config,
        config.create_mesh(),
      ).plan.segments
    self.assertGreater(found.share_in_parts, 0.9, found)


if __name__ == "__main__":
  absltest.main()
