"""Tests of the rules for ops that work entry by entry."""

from estimator_mp.model_axis.decisions import Split
from tests.estimator_mp.model_axis import sinking

import numpy as np
import tensorflow as tf
from absl.testing import absltest

_rng = np.random.RandomState(3)


def _floats(*shape):
  return _rng.randn(*shape).astype(np.float32)


class ElementwiseTest(absltest.TestCase):
  def test_a_chain_stays_split(self):
    sinking.check(
      self,
      lambda x, b: tf.nn.relu(x + b) * 2.0,
      {"x": _floats(4, 5), "b": _floats(5)},
      {"x": Split(1, (3, 2))},
      unknown={"x": [0]},
    )


if __name__ == "__main__":
  absltest.main()
