"""Checkpoints and SavedModels pass between TensorFlow 2.15 and 2.16+.

The golden files were written by TensorFlow 2.15.1 and 2.21.0 (golden.py says
how); whichever TensorFlow runs this test must read both, and predict what was
predicted when they were written.
"""

import os

import compat

from absl.testing import absltest, parameterized

compat.install()

from tests import tiers  # noqa: E402
from tests.compat import golden, models  # noqa: E402

import numpy as np  # noqa: E402

_FILES = os.path.join(
  os.path.dirname(os.path.abspath(__file__)), "golden_files"
)
_WRITTEN_BY = ("tf2.15", "tf2.21")


class GoldenTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (f"{name}_{written_by}", name, written_by)
    for number, name in enumerate(models.MODELS)
    # In the fast tier each has one, in turns.
    for written_by in (
      _WRITTEN_BY[number % 2 :: 2] if tiers.FAST else _WRITTEN_BY
    )
  )
  def test_reads(self, name, written_by):
    model = models.MODELS[name]
    directory = os.path.join(_FILES, written_by, name)
    expected = np.load(os.path.join(directory, golden.PREDICTIONS))
    self.assertGreater(expected.std(), 0.01)

    served = model.predict_saved_model(
      os.path.join(directory, golden.SAVED_MODEL)
    )
    np.testing.assert_allclose(served, expected, rtol=0, atol=1e-6)

    estimator = model.make(self.create_tempdir().full_path)
    rows = estimator.predict(
      model.input_fn,
      checkpoint_path=os.path.join(directory, golden.CHECKPOINT),
    )
    predicted = np.stack([row[model.prediction][-1] for row in rows])
    np.testing.assert_allclose(predicted, expected, rtol=0, atol=1e-6)


if __name__ == "__main__":
  absltest.main()
