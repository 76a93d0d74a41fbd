"""Models beside meshes, schedules and options, two at a time.

What one option does is tested elsewhere. Here any two values that go together
are those of some case (see tests/pairwise.py), and each step of a case is the
plain model's: loss, gradients, variables.
"""

import functools

import estimator_mp
from estimator_mp.planning import sharding_plan
from tests import pairwise, tiers
from tests.estimator_mp import programs
from tests.estimator_mp.models import catalogue

from absl.testing import absltest, parameterized

_VIRTUAL = ("interleaved", "zbv")
_REPLICAS = {
  "auto": {},
  "ring": {"aggregation": "ring"},
  "tree": {"aggregation": "tree", "bucket_bytes": 0},
  "collective": {"aggregation": "collective"},
  "shared": {"variables": "shared"},
  "sharded": {"optimizer_state": "sharded"},
}
_MODELS = catalogue.tagged("pairs")
# They have fewer layers than two devices have virtual stages.
_SHALLOW = catalogue.tagged("shallow")
_FACTORS = {
  "model": (*_MODELS,),
  "mesh": (
    "stage:2",
    "data:2",
    "model:2",
    "data:2,stage:2",
    "stage:2,model:2",
    "data:2,model:2",
  ),
  "schedule": ("1f1b", "gpipe", "interleaved", "zb1p", "zb2p", "zbv", "auto"),
  "micro_batches": (3, 4, 1),
  "rounds": (1, 2),
  "recompute": ("never", "except_last", "always"),
  "weight_gradients": ("auto", "each", "batched"),
  "replicas": (*_REPLICAS,),
}


@functools.cache
def _config(schedule, micro_batches, rounds, replicas, **options):
  """Returns a configuration, or None if there is none of these values."""
  try:
    return estimator_mp.ShardingConfig(
      schedule=schedule,
      num_micro_batches=micro_batches,
      gradient_accumulation_steps=rounds,
      num_virtual_stages=2 if schedule in _VIRTUAL else 1,
      **_REPLICAS[replicas],
      **options,
    )
  except ValueError:
    return None


def _go_together(model, **options):
  """Whether there is such a case, and all of its options count."""
  if model in _SHALLOW and options["schedule"] in _VIRTUAL:
    return False
  return _is_there(**options)


@functools.cache
def _is_there(**options):
  """Whether there is such a configuration, for any model."""
  is_cut = options["micro_batches"] > 1 or options["rounds"] > 1
  without_effect = []
  if "stage" not in options["mesh"] or not is_cut:
    without_effect += ["schedule", "recompute", "weight_gradients"]
  if "data" not in options["mesh"]:
    without_effect.append("replicas")
  if any(options[name] != _FACTORS[name][0] for name in without_effect):
    return False
  return _config(**options) is not None


# Every other case has a graph that knows the size of the batch.
# The fast tier has each model once, and each value of the other factors.
_ALL = pairwise.pairs(_FACTORS, _go_together)
_FEW = pairwise.of_each("model", _ALL)
_CASES = [*enumerate(_FEW if tiers.FAST else _ALL)]


class PairsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (pairwise.name(case), case, number % 2 == 1) for number, case in _CASES
  )
  def test_steps_are_the_plain_models(self, case, is_static):
    options = {k: x for k, x in case.items() if k != "model"}
    model = _MODELS[case["model"]]
    sharded = programs.assert_as_plain(
      self,
      model,
      _config(**options),
      programs.STATIC_SIZES if is_static else programs.OPEN_SIZES,
      1e-4 if case["model"].startswith("transformer") else 1e-5,
      # A key's bias has no gradient but rounding, which Adam brings to full
      # size.
      [name for name in programs.plain_run(model).start if "/key/bias" in name],
      is_static=is_static,
    )
    if sharding_plan.get_plan(sharded.graph).mirrors:
      programs.assert_equal_mirrors(self, sharded)

  def test_the_fast_tier_has_all_values(self):
    for factor, values in _FACTORS.items():
      found = {case[factor] for case in _FEW}
      self.assertCountEqual(found, values)


if __name__ == "__main__":
  absltest.main()
