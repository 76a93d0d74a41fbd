"""The placement that training saved, for evaluation and prediction."""

from estimator_mp.config.placement import Placement
from estimator_mp.graph import colocation
from estimator_mp.placement import known, unplaced

import tensorflow as tf
from absl.testing import absltest


class SavedTest(absltest.TestCase):
  def test_variables_that_share_a_device_go_where_most_bytes_are(self):
    """They do where decoding in a loop uses both, which training does not."""
    with tf.Graph().as_default() as graph:
      large = tf.compat.v1.get_variable("large", [9, 9], use_resource=True)
      with tf.compat.v1.colocate_with(large.handle.op):
        small = tf.compat.v1.get_variable("small", [2], use_resource=True)
      ops = graph.get_operations()
    groups = colocation.ColocationGroups()
    groups.add(ops)
    saved = Placement((), {"large": 0, "small": 1})
    request = unplaced.Unplaced(ops, [], groups, ops)
    stages = known.stages_of_saved(request, saved, "predict")
    self.assertEqual(stages[large.handle.op], 0)
    self.assertEqual(stages[small.handle.op], 0)


if __name__ == "__main__":
  absltest.main()
