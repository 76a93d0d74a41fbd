"""Optimizers and kernels that look at a whole variable, which is split.

Each is the plain one, or is refused with an error that says what to do.
"""

import estimator_mp
from tests import tiers
from tests.estimator_mp import parts, programs
from tests.estimator_mp.models import catalogue

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


def _rules(names, axis, num_parts):
  """Returns a rule for each matrix that is no slot, for one of its axes."""
  return tuple(
    (f"^{name}$", axis)
    for name, value in names.items()
    if np.ndim(value) == 2
    and value.shape[axis] >= num_parts
    and not any(name.startswith(f"{other}/") for other in names)
  )


class TrapsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    tiers.sample(catalogue.tagged("whole_variables").items())
  )
  def test_is_the_plain_model(self, model):
    start = programs.plain_run(model).start
    for mesh, split in tiers.sample(
      [
        ("model:2", _rules(start, 1, 2)),  # Columns.
        ("model:3", _rules(start, 0, 3)),  # Rows.
      ]
    ):
      config = estimator_mp.ShardingConfig(mesh, split=split)
      with self.subTest(config=config):
        programs.assert_as_plain(self, model, config, rtol=1e-4)

  def test_a_loop_on_a_shard_is_refused_by_name(self):
    loops = catalogue.MODELS["loops"]
    config = estimator_mp.ShardingConfig("model:2", split=[("^kernel$", 1)])
    with self.assertRaisesRegex(
      ValueError, r"kernel cannot be split .* while works on it.*keep it whole"
    ):
      programs.Program(loops.model_fn, config, loops.batch)


class HooksTest(absltest.TestCase):
  """What a session is asked for by objects that model_fn has kept."""

  def setUp(self):
    super().setUp()
    kept = {}

    def model_fn(features, labels, mode):
      spec = parts.spec(
        mode, parts.mean_loss(labels, parts.logits(features["x"]))
      )
      (kernel,) = v1.trainable_variables("tower/first/kernel")
      kept["kernel"] = kernel
      kept["value"] = v1.placeholder(tf.float32, kernel.shape)
      kept["assigned"] = kernel.assign(2.0 * kept["value"])
      kept["is_initialized"] = v1.is_variable_initialized(kernel)
      return spec

    self.kept = kept
    self.program = programs.Program(
      model_fn,
      estimator_mp.ShardingConfig(
        "model:2", split=[("^tower/first/kernel$", 0)]
      ),
      catalogue.MODELS["loops"].batch,
    )
    self.value = np.arange(160.0).reshape([10, 16]).astype(np.float32)

  def test_a_variable_is_fetched_whole(self):
    run = self.program.session.run
    whole = self.program.variables()["tower/first/kernel"]
    np.testing.assert_array_equal(run(self.kept["kernel"]), whole)
    self.assertTrue(run(self.kept["is_initialized"]))

  def test_what_was_assigned_is_fetched_whole(self):
    found = self.program.session.run(
      self.kept["assigned"], {self.kept["value"]: self.value}
    )
    np.testing.assert_array_equal(found, 2.0 * self.value)
    found = self.program.variables()["tower/first/kernel"]
    np.testing.assert_array_equal(found, 2.0 * self.value)

  def test_a_whole_value_is_loaded(self):
    with self.program.graph.as_default():
      self.kept["kernel"].load(self.value, self.program.session)
    found = self.program.variables()["tower/first/kernel"]
    np.testing.assert_array_equal(found, self.value)


if __name__ == "__main__":
  absltest.main()
