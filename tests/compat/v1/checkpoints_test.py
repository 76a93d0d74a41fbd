"""A checkpoint of TensorFlow 1.15.5 is restored, evaluated and trained on.

checkpoints.py has written them. The fast tier has every third of an area.
"""

import os

import compat

compat.install(v1=True, v1_packages=["tests.compat.v1"])

from tests import tiers  # noqa: E402
from tests.compat.v1 import checkpoints  # noqa: E402

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from absl.testing import absltest, parameterized  # noqa: E402
from tensorflow.python.framework import random_seed  # noqa: E402

_RELATIVE = 1e-5


def _all_models():
  return [
    (f"_{area}_{name}", area, name)
    for area in checkpoints.areas()
    for name in [*checkpoints.models_of(area)][:: 3 if tiers.FAST else 1]
    # One area only: GOLDEN_AREA=fused_cells.
    if os.environ.get("GOLDEN_AREA", area) == area
  ]


class CheckpointsTest(parameterized.TestCase):
  @parameterized.named_parameters(_all_models())
  def test_as_on_1_15(self, area, name):
    prefix = checkpoints.prefix_of(area, name)
    variables, found = checkpoints.restore(tf, random_seed, area, name)
    self.assertCountEqual(variables, tf.train.list_variables(prefix))
    wanted = checkpoints.results_of(area, name)
    self.assertCountEqual(found, wanted)
    for key, value in wanted.items():
      with self.subTest(key):
        scale = np.max(np.abs(value), initial=1e-3)
        np.testing.assert_allclose(
          found[key], value, rtol=_RELATIVE, atol=_RELATIVE * scale
        )


if __name__ == "__main__":
  absltest.main()
