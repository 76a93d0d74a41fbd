"""What a RunConfig says counts, whoever makes one of it."""

import json
import os
from unittest import mock

import estimator_mp
from estimator_mp.session import distribution, session_config

import tensorflow as tf
from absl.testing import absltest, parameterized

_CLUSTER = {"chief": ["a:1"], "worker": ["b:1"]}
_MODES = tf.estimator.ModeKeys


class RunConfigTest(parameterized.TestCase):
  @parameterized.product(given=[False, True], said=[False, True])
  def test_the_position_is_saved_if_either_says_so(self, given, said):
    config = estimator_mp.ShardingConfig("stage:1")
    before = estimator_mp.run_config(config, save_input_position=given)
    made = session_config.for_sharded_run(before, config, said)
    self.assertEqual(session_config.saves_input_position(made), given or said)

  @parameterized.parameters(
    (_MODES.TRAIN, False), (_MODES.PREDICT, False), (_MODES.EVAL, True)
  )
  def test_a_task_evaluates_beside_its_cluster(self, mode, expected):
    """Its RunConfig has a master, and no evaluation_master."""
    task = {"cluster": _CLUSTER, "task": {"type": "worker", "index": 0}}
    with mock.patch.dict(os.environ, {"TF_CONFIG": json.dumps(task)}):
      config = tf.estimator.RunConfig()
    self.assertEqual(distribution.is_beside(config, mode), expected)


if __name__ == "__main__":
  absltest.main()
