"""How a loss, a gradient and an update of slices become the whole batch's."""

import dataclasses

import estimator_mp
from tests import tiers
from tests.estimator_mp import batch_models, programs

import numpy as np
from absl.testing import absltest, parameterized

_MESHES = (
  ("micro_batches", "stage:2", 4),
  ("replicas", "data:2", 1),
  ("both", "data:2,stage:2", 2),
)


def _cases(model_fns):
  """Each model on its two meshes."""
  of_models = [
    [
      (f"{model_fn.__name__}_{name}", model_fn, mesh, num_micro_batches)
      for name, mesh, num_micro_batches in (_MESHES[index % 2], _MESHES[2])
    ]
    for index, model_fn in enumerate(model_fns)
  ]
  return tiers.sample([case for cases in of_models for case in cases])


class EqualityTest(parameterized.TestCase):
  def _check(
    self,
    model_fn,
    mesh,
    num_micro_batches,
    cases=((False, (24, 23, 3)), (True, (24,))),
    **fields,
  ):
    config = estimator_mp.ShardingConfig(
      mesh, num_micro_batches=num_micro_batches, **fields
    )
    plain = programs.Program(model_fn, None, batch_models.BATCH)
    before = plain.variables()
    for is_static, sizes in cases:
      example = programs.examples(batch_models.BATCH, 0, 24)
      program = programs.Program(model_fn, config, example, None, is_static)
      program.load(before)
      plain.load(before)
      for size in sizes:
        with self.subTest(static=is_static, size=size):
          batch = programs.examples(
            batch_models.BATCH, size // 5, size // 5 + size
          )
          step, expected = program.step(batch), plain.step(batch)
          np.testing.assert_allclose(step.loss, expected.loss, rtol=1e-5)
          programs.assert_same_gradients(
            self,
            step.gradients,
            expected.gradients,
            [expected.gradients],
            rtol=1e-5,
          )
          programs.assert_same_variables(
            self, step.variables, expected.variables, 1e-5
          )

  @parameterized.named_parameters(_cases(batch_models.LOSSES))
  def test_losses(self, model_fn, mesh, num_micro_batches):
    self._check(model_fn, mesh, num_micro_batches)

  @tiers.slow
  @parameterized.named_parameters(_cases(batch_models.GRADIENTS))
  def test_gradients(self, model_fn, mesh, num_micro_batches):
    self._check(model_fn, mesh, num_micro_batches)

  @parameterized.named_parameters(_cases(batch_models.UPDATES))
  def test_updates(self, model_fn, mesh, num_micro_batches):
    """Where the graph knows the batch, `tf.shape` is a constant."""
    self._check(
      model_fn,
      mesh,
      num_micro_batches,
      state_updates=[("^seen$|/count$", "sum")],
    )

  @tiers.slow
  def test_area_under_curve(self):
    """It tiles thresholds by the size of a batch that the graph knows."""
    dynamic = ((False, (24, 23)),)
    self._check(batch_models.area_under_curve, "stage:2", 4, dynamic)
    with self.assertRaisesRegex(
      ValueError,
      r"auc/false_positives is updated from the batch, but what reads \S+ was "
      r"built for 6 examples, a part of the batch; let input_fn leave the size "
      r"of a batch open \(no drop_remainder\), or say state_updates=",
    ):
      self._check(batch_models.area_under_curve, "stage:2", 4, ((True, (24,)),))

  @parameterized.named_parameters(
    (
      "root",
      batch_models.root_of_mean,
      r"Sqrt:0 \(Sqrt, shape \(\)\) is neither a mean nor a sum over the "
      "examples of the batch;",
    ),
    (
      "pairs",
      batch_models.in_batch_softmax,
      r"MatMul_1:0 \(MatMul, shape \(None, None\)\) compares the examples of a "
      r"slice of the batch with each other; join what it reads by \S+",
    ),
  )
  def test_loss_that_has_to_be_said(self, model_fn, named):
    """An error; or else the mean of what the slices give alone."""
    batch = programs.examples(batch_models.BATCH, 0, 24)
    config = estimator_mp.ShardingConfig("stage:1", num_micro_batches=4)
    with self.assertRaisesRegex(
      ValueError,
      rf"the gradient of \S+ is asked for, but {named}.* say "
      r"loss_reduction=\"mean\" or \"sum\" ",
    ):
      programs.Program(model_fn, config, batch)
    config = dataclasses.replace(config, loss_reduction="mean")
    self._check_mean_of_slices(model_fn, config, batch)

  def test_statistic_that_goes_back_into_examples(self):
    """As batch normalisation's: each slice has its own."""
    batch = programs.examples(batch_models.BATCH, 0, 24)
    config = estimator_mp.ShardingConfig("stage:1", num_micro_batches=4)
    self._check_mean_of_slices(batch_models.centered, config, batch)

  def _check_mean_of_slices(self, model_fn, config, batch):
    """Asserts that gradients are the mean of slices', and not the plain's."""
    program = programs.Program(model_fn, config, batch)
    plain = programs.Program(model_fn, None, batch)
    before = plain.variables()
    program.load(before)
    step = program.step(batch)
    expected = plain.step(batch)
    alone = []
    for m in range(4):
      plain.load(before)
      piece = programs.examples(batch, 6 * m, 6 * m + 6)
      alone.append(plain.step(piece))
    for name, gradient in step.gradients.items():
      mean = np.mean([one.gradients[name] for one in alone], 0)
      np.testing.assert_allclose(gradient, mean, rtol=1e-4, atol=1e-6)
      difference = np.abs(gradient - expected.gradients[name]).max()
      self.assertGreater(difference / np.abs(mean).max(), 1e-3)

  def test_tensor_fetched_by_name(self):
    """On the way to the loss it is that of the first slice, of 6 of 24."""
    batch = programs.examples(batch_models.BATCH, 0, 24)
    config = estimator_mp.ShardingConfig("stage:2", num_micro_batches=4)
    program = programs.Program(batch_models.vector_of_one, config, batch)
    logits = program.graph.get_tensor_by_name("MatMul_1:0")
    step = program.step(batch, logits)
    self.assertEqual(step.fetched.shape, (6, 1))

  def test_summary_of_what_cannot_be_merged(self):
    """It stays that of the first slice, and a warning says so."""
    batch = programs.examples(batch_models.BATCH, 0, 24)
    config = estimator_mp.ShardingConfig("stage:1", num_micro_batches=4)
    with self.assertLogs("tensorflow", "WARNING") as logs:
      programs.Program(batch_models.python_in_summary, config, batch)
    self.assertRegex(
      "\n".join(logs.output),
      r"smallest sees the first micro-batch only: the whole batch's value of "
      "what is read cannot be made of slices",
    )

  def test_constant(self):
    with self.assertRaisesRegex(
      ValueError,
      r"seen is changed by the constant 6, which may be the number of examples "
      r"that model_fn saw \(6, a part of the batch\); let input_fn leave",
    ):
      self._check(batch_models.counters, "stage:2", 4, ((True, (24,)),))


if __name__ == "__main__":
  absltest.main()
