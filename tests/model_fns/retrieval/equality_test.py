"""Two towers on any mesh are those on one device."""

import functools
import os

import estimator_mp
from tests import tiers
from tests.estimator_mp import programs
from tests.estimator_mp.models import registry
from tests.model_fns.retrieval import logs

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_TABLES = [("table", "div")]
_SIZES = (16, 24, 17, 3, 16) * (1 if tiers.FAST else 4)
_GIVEN = 1.0 + np.arange(logs.ITEMS)
_MODELS = {
  "streaming": {},
  "given": {"item_frequencies": _GIVEN, "temperature": 0.5},
  "own_tower": {"query": logs.OWN_QUERY, "item_frequencies": None},
}
_CASES = [
  ("stages", "streaming", "stage:2", {"num_micro_batches": 4}),
  ("model", "streaming", "model:2", {}),
  ("data", "streaming", "data:2", {}),
  ("zero", "given", "data:2", {"optimizer_state": "sharded"}),
  (
    "both",
    "streaming",
    "stage:2,model:2",
    {"num_micro_batches": 4, "split": _TABLES},
  ),
  ("hybrid", "given", "data:2", {"split": _TABLES, "num_micro_batches": 2}),
  (
    "own_tower",
    "own_tower",
    "data:2,stage:2",
    {"num_micro_batches": 2, "recompute": "always"},
  ),
]


@functools.cache
def _model(name):
  model_fn = logs.model_fn(**_MODELS[name])
  return registry.Model.of_batch(model_fn, logs.FEATURES, logs.REWARDS)


class EqualityTest(parameterized.TestCase):
  @tiers.slow
  @parameterized.named_parameters(tiers.sample(_CASES))
  def test_twenty_steps(self, model, mesh, fields):
    """Batches of several sizes; items occur in them more than once."""
    config = estimator_mp.ShardingConfig(mesh, **fields)
    sharded = programs.assert_as_plain(
      self, _model(model), config, _SIZES, 1e-4
    )
    if model == "streaming":
      found = sharded.variables()
      expected = programs.plain_run(_model(model), _SIZES).steps[-1].variables
      for name in ("frequency/interval", "frequency/last_step"):
        np.testing.assert_array_equal(found[name], expected[name], name)

  @tiers.slow
  @parameterized.named_parameters(
    tiers.sample(
      [
        (
          "both",
          "stage:2,model:2",
          {"split": _TABLES, "placement": [("^item", 1), (".*", 0)]},
        ),
        ("parts", "model:2", {}),
        ("replicas", "data:2", {"split": _TABLES}),
      ]
    )
  )
  def test_evaluation_and_predictions(self, mesh, fields):
    """From the checkpoint of a run on the mesh, read by a plain model."""
    config = estimator_mp.ShardingConfig(mesh, **fields)
    folder = os.path.join(self.create_tempdir().full_path, "run")
    run_config = estimator_mp.run_config(
      config, folder, tf_random_seed=3, checkpoint_save_graph_def=False
    )
    sharded = tf.estimator.Estimator(
      logs.model_fn(config=config), config=run_config
    )
    sharded.train(logs.input_fn(), steps=3)
    plain = tf.estimator.Estimator(logs.model_fn(), folder)
    found, expected = (x.evaluate(logs.input_fn()) for x in (sharded, plain))
    self.assertCountEqual(
      expected, ["loss", "recall_at_1", "recall_at_5", "global_step"]
    )
    for name, value in expected.items():
      np.testing.assert_allclose(found[name], value, rtol=1e-6, err_msg=name)
    found, expected = ([*x.predict(logs.input_fn())] for x in (sharded, plain))
    for name in ("query", "item"):
      np.testing.assert_allclose(
        [row[name] for row in found],
        [row[name] for row in expected],
        rtol=1e-6,
        atol=1e-6,
      )


if __name__ == "__main__":
  absltest.main()
