"""Ordinary model_fns: sharded, each is the plain run, whatever its loss is."""

import functools

import estimator_mp
from tests import tiers
from tests.estimator_mp.models import catalogue, comparison, registry

from absl.testing import absltest, parameterized

_MESHES = {
  "plain_stages": estimator_mp.ShardingConfig("stage:2"),
  "stage": estimator_mp.ShardingConfig("stage:2", num_micro_batches=4),
  "data": estimator_mp.ShardingConfig("data:2"),
  "data_stage": estimator_mp.ShardingConfig(
    "data:2,stage:2", num_micro_batches=2
  ),
  "stage_model": estimator_mp.ShardingConfig(
    "stage:2,model:2", num_micro_batches=2
  ),
  "auto": estimator_mp.ShardingConfig("auto", devices=("4",), machine="v100"),
}
_STEPS = 2 if tiers.FAST else 5


def _cases():
  """Yields each model with some meshes, and its inputs in turns.

  All of them with all meshes are `//benchmarks:ordinary_models`.
  """
  for number, (name, model) in enumerate(catalogue.tagged("ordinary").items()):
    if model.is_random:
      continue
    for turn in range(2):
      mesh = [*_MESHES][(number + 2 * turn + number // 4) % len(_MESHES)]
      size = model.inputs[(number + turn) % len(model.inputs)]
      yield f"{name}_{mesh}_{size}", name, mesh, size


_CASES = [*_cases()]
_EVERY = 30
# In the fast tier: one with each mesh.
_FEW = [*{case[2]: case for case in reversed(_CASES[::_EVERY])}.values()]
_FOUND = [
  # Its micro-batches waited for each other for ever.
  ("dynamic_rnn_stage_static", "dynamic_rnn", "stage", "static"),
  # Its cond works on copies of variables that are split.
  ("accumulated_split", "accumulated_by_hand", "stage_model", "open"),
]


@functools.cache
def _plain(name, size):
  return comparison.train(catalogue.MODELS[name], size, _STEPS)


class OrdinaryTest(parameterized.TestCase):
  # Some models, each with another mesh and input than the one before.
  @parameterized.named_parameters([*_FOUND, *(_FEW if tiers.FAST else _CASES)])
  def test_equals_the_plain_run(self, name, mesh, size):
    model = catalogue.MODELS[name]
    found = comparison.compare(model, size, _plain(name, size), _MESHES[mesh])
    self.assertEqual(found, comparison.Outcome("equal"))

  def test_every_mesh_and_input_has_its_turn(self):
    for some in (_MESHES, registry.INPUTS):
      for one in some:
        self.assertTrue(any(one in case for case in _FEW), one)


if __name__ == "__main__":
  absltest.main()
