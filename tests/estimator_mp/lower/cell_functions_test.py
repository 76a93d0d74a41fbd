"""Micro-batches as calls of functions: equal to their ops, and few."""

import estimator_mp
from tests.estimator_mp import programs, zoo

import numpy as np
from absl.testing import absltest, parameterized

_BATCH = (zoo.FEATURES, zoo.LABELS)


def _program(name, cells, num_micro_batches, **arguments):
  model = zoo.PURE_MODELS[name]
  config = estimator_mp.ShardingConfig(
    num_micro_batches=num_micro_batches,
    cells=cells,
    loss_reduction="mean",
    **{"mesh": "stage:2", **arguments},
  )
  example = programs.examples(_BATCH, 0, 24)
  return programs.Program(model.model_fn, config, example, model.params)


class CellFunctionsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("mlp", "mlp_adam", {}),
    ("replicas", "mlp_adam", {"mesh": "data:2,stage:2"}),
    ("recompute", "mlp_adam", {"recompute": "always"}),
    ("split_backward", "mlp_adam", {"schedule": "zb1p"}),
    ("convolutions", "cnn", {}),
  )
  def test_equals_ops(self, name, arguments):
    ops = _program(name, "ops", 3, **arguments)
    functions = _program(name, "functions", 3, **arguments)
    functions.load(ops.variables())
    for begin, end in ((0, 24), (24, 49), (5, 7)):
      batch = programs.examples(_BATCH, begin, end)
      expected, found = ops.step(batch), functions.step(batch)
      self.assertAlmostEqual(expected.loss, found.loss, places=6)
      self.assertCountEqual(expected.gradients, found.gradients)
      for variable, gradient in expected.gradients.items():
        np.testing.assert_allclose(
          found.gradients[variable], gradient, 1e-5, 1e-7, err_msg=variable
        )

  def test_few_ops_for_a_micro_batch(self):
    """Counted, as times say little: the graph may not grow as it did."""
    sizes = [
      len(_program("mlp_adam", "functions", count).graph.get_operations())
      for count in (2, 10)
    ]
    self.assertLess((sizes[1] - sizes[0]) / 8, 40)


if __name__ == "__main__":
  absltest.main()
