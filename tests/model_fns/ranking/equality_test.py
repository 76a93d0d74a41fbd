"""Ranking models on any mesh are those on one device."""

import functools

import estimator_mp
from tests import tiers
from tests.estimator_mp import programs
from tests.estimator_mp.models import registry
from tests.model_fns.ranking import logs

import numpy as np
from absl.testing import absltest, parameterized

_BATCH = (logs.FEATURES, logs.LABELS)
# Of one batch, 47 examples.
_SIZES = (48, 47, *(48,) * (0 if tiers.FAST else 18))


def _tables(way):
  return {"split": ((r"tables/", way),)}


_CASES = [
  ("dlrm_stages", "dlrm", "stage:2", {"num_micro_batches": 4}),
  ("dlrm_model", "dlrm", "model:2", {}),
  ("dlrm_hybrid", "dlrm", "data:2", _tables("div")),
  ("dlrm_both", "dlrm", "stage:2,model:2", {"num_micro_batches": 4}),
  ("deepfm_stages", "deepfm", "stage:2", {"num_micro_batches": 4}),
  ("deepfm_model", "deepfm", "model:2", {"num_micro_batches": 4}),
  ("deepfm_hybrid", "deepfm", "data:2", _tables("whole")),
  (
    "deepfm_both",
    "deepfm",
    "stage:2,model:2",
    {"num_micro_batches": 4, **_tables("div")},
  ),
  ("wide_deep_stages", "wide_deep", "stage:2", {"num_micro_batches": 4}),
  ("wide_deep_model", "wide_deep", "model:2", {}),
  (
    "wide_deep_hybrid",
    "wide_deep",
    "data:4",
    {"num_micro_batches": 2, **_tables("div")},
  ),
  ("wide_deep_both", "wide_deep", "stage:2,model:2", {"num_micro_batches": 4}),
]


@functools.cache
def _model(name):
  return registry.Model.of_batch(logs.MODELS[name](), *_BATCH)


class EqualityTest(parameterized.TestCase):
  @parameterized.named_parameters(tiers.sample(_CASES))
  def test_twenty_steps(self, model, mesh, fields):
    config = estimator_mp.ShardingConfig(mesh, **fields)
    programs.assert_as_plain(
      self, _model(model), config, _SIZES, starts_alike=True
    )

  @tiers.slow
  def test_batches_without_values_and_of_one_example(self):
    """Replicas then have none of a table's ids, or no example at all."""
    model_fn = logs.MODELS["wide_deep"]()
    config = estimator_mp.ShardingConfig("data:4", **_tables("div"))
    plain, sharded = (
      programs.Program(model_fn, c, _BATCH) for c in (None, config)
    )
    features, labels = _BATCH
    no_values = {
      **features,
      "tags": np.full_like(features["tags"], -1),
      "words": np.full_like(features["words"], b""),
    }
    for values, count in ((no_values, 60), (features, 3), (no_values, 1)):
      batch = programs.examples((values, labels), 0, count)
      with self.subTest(count=count):
        step, expected = sharded.step(batch), plain.step(batch)
        np.testing.assert_allclose(step.loss, expected.loss, rtol=1e-5)
        programs.assert_same_variables(
          self, step.variables, expected.variables, rtol=1e-5
        )


if __name__ == "__main__":
  absltest.main()
