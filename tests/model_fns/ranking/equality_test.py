"""Ranking models on any mesh are those on one device."""

import functools

import estimator_mp
from tests import tiers
from tests.estimator_mp import programs
from tests.model_fns.ranking import logs

import numpy as np
from absl.testing import absltest, parameterized

_BATCH = (logs.FEATURES, logs.LABELS)
_STEPS = 2


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
def _plain(model):
  """Returns the variables at first, and the steps on one device."""
  program = programs.Program(logs.MODELS[model](), None, _BATCH)
  return program.variables(), [program.step(x) for x in _batches()]


def _batches():
  """48 examples each; of one batch, 47."""
  return [
    programs.examples(_BATCH, i % 13, i % 13 + 48 - (i == 3))
    for i in range(_STEPS)
  ]


class EqualityTest(parameterized.TestCase):
  @parameterized.named_parameters(tiers.sample(_CASES))
  def test_twenty_steps(self, model, mesh, fields):
    config = estimator_mp.ShardingConfig(mesh, **fields)
    sharded = programs.Program(logs.MODELS[model](), config, _BATCH)
    start, plain = _plain(model)
    programs.assert_same_variables(self, sharded.variables(), start, rtol=0)
    steps = [sharded.step(x) for x in _batches()]
    programs.assert_same_gradients(
      self, steps[0].gradients, plain[0].gradients, (), rtol=1e-5
    )
    np.testing.assert_allclose(
      [step.loss for step in steps], [step.loss for step in plain], rtol=1e-5
    )
    programs.assert_same_variables(
      self, steps[-1].variables, plain[-1].variables, rtol=1e-5
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
