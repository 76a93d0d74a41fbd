"""Which sessions are beside their cluster."""

from estimator_mp.session import distribution

import tensorflow as tf
from absl.testing import absltest, parameterized

_MODES = tf.estimator.ModeKeys


class _Masters(tf.estimator.RunConfig):
  """What TF_CONFIG says otherwise."""

  def __init__(self, master, evaluation_master):
    super().__init__()
    self._master, self._evaluation_master = master, evaluation_master


class IsBesideTest(parameterized.TestCase):
  @parameterized.parameters(
    ("", "", {_MODES.EVAL, _MODES.PREDICT}),
    ("grpc://a:1", "", {_MODES.EVAL}),
    ("", "grpc://a:1", {_MODES.PREDICT}),
    ("grpc://a:1", "grpc://a:1", set()),
  )
  def test_what_has_no_master(self, master, evaluation_master, expected):
    run_config = _Masters(master, evaluation_master)
    modes = _MODES.TRAIN, _MODES.EVAL, _MODES.PREDICT
    found = {x for x in modes if distribution.is_beside(run_config, x)}
    self.assertEqual(found, expected)

  def test_nobody_knows(self):
    self.assertFalse(distribution.is_beside(None, _MODES.EVAL))


if __name__ == "__main__":
  absltest.main()
