"""Small models of tf.keras.applications learn what they learn by `fit`.

`benchmarks/keras_applications.py` does so for eleven of them.
"""

import model_fns
from tests import tiers
from tests.model_fns.keras_models import applications, fits

import numpy as np
from absl.testing import absltest, parameterized

_STEPS = 3


class ApplicationsTest(parameterized.TestCase):
  @tiers.slow
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("mobile_net_on_two_stages", "MobileNet", "stage:2"),
        ("mobile_net_v2_on_two_stages", "MobileNetV2", "stage:2"),
        ("vgg16", "VGG16", None),
      ]
    )
  )
  def test_losses_are_those_of_fit(self, name, mesh):
    model = applications.make(name)
    made = fits.estimator(
      model_fns.keras(model, mesh),
      mesh,
      model_dir=self.create_tempdir().full_path,
    )
    losses = fits.train(made, lambda: applications.dataset(name), _STEPS)
    expected = fits.fit(model, applications.dataset(name), steps=_STEPS)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)


if __name__ == "__main__":
  absltest.main()
