"""Recompute and virtual stages: what is computed again, and where.

That steps are the plain model's, equality/pairs_test says.
"""

import estimator_mp
from estimator_mp.config.schedules.schedule import Phase
from estimator_mp.observe import trace_reading
from estimator_mp.planning import sharding_plan
from tests import tiers
from tests.estimator_mp import parts, programs
from tests.estimator_mp.models import catalogue, data, networks

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_BATCH = programs.examples((data.FEATURES, data.LABELS), 0, 24)


def _deep(features, labels, mode):
  """Sixteen layers whose activations are larger than their weights."""
  net = features["x"]
  for _ in range(16):
    net = v1.layers.dense(net, 32, tf.tanh)
  loss = tf.reduce_mean((v1.layers.dense(net, 1) - labels) ** 2)
  return parts.spec(mode, loss, parts.descend(loss, 0.01))


def _trace(config, examples):
  """Returns the trace of a training step of the deep model."""
  rng = np.random.RandomState(1)
  x = rng.randn(examples, 32).astype(np.float32)
  batch = ({"x": x}, x[:, :1])
  program = programs.Program(_deep, config, batch)
  program.step(batch)
  options = v1.RunOptions(
    trace_level=v1.RunOptions.FULL_TRACE, output_partition_graphs=True
  )
  metadata = v1.RunMetadata()
  inputs = program.inputs
  program.session.run(
    [program.spec.train_op, program.spec.loss],
    dict(zip(inputs, tf.nest.flatten(batch), strict=True)),
    options,
    metadata,
  )
  return trace_reading.read_trace(
    metadata, 1, config.create_mesh(), program.graph
  )


class RecomputeTest(parameterized.TestCase):
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("cnn_always", "cnn", "1f1b", "always"),
        ("cnn_except_last", "cnn", "gpipe", "except_last"),
      ]
    )
  )
  def test_changes_no_number(self, name, schedule, mode):
    """With dropout and batch normalisation: masks, averages are the same."""
    model = catalogue.NETWORKS[name]
    steps = []
    for recompute in ("never", mode):
      config = estimator_mp.ShardingConfig(
        "stage:3",
        num_micro_batches=4,
        schedule=schedule,
        recompute=recompute,
      )
      program = programs.Program(model.model_fn, config, _BATCH, model.params)
      steps.append(program.step(_BATCH))
    # The copies are fused otherwise than the originals, so they may round so.
    np.testing.assert_allclose(steps[1].loss, steps[0].loss, rtol=1e-6)
    programs.assert_same_gradients(
      self, steps[1].gradients, steps[0].gradients, [], rtol=1e-5
    )
    for variable, value in steps[0].variables.items():
      if "moving_" in variable:
        np.testing.assert_array_equal(steps[1].variables[variable], value)

  def test_the_backward_pass_reads_no_activation_of_its_stage(self):
    config = estimator_mp.ShardingConfig(
      "stage:2", num_micro_batches=2, recompute="always"
    )
    graph = programs.Program(
      networks.mlp, config, _BATCH, catalogue.NETWORKS["mlp_sgd"].params
    ).graph
    cells = sharding_plan.get_plan(graph).pipeline.cells[0]
    copies = 0
    for op in graph.get_operations():
      cell = cells.get(op.name)
      if cell is None or cell.phase is Phase.FORWARD:
        continue
      copies += "recompute" in op.name
      for tensor in op.inputs:
        source = cells.get(tensor.op.name)
        if source is not None and source.phase is Phase.FORWARD:
          self.assertNotEqual(source.stage, cell.stage, f"{op.name} {tensor}")
    self.assertGreater(copies, 0)

  @parameterized.named_parameters(
    ("last_stage_of_1f1b", "1f1b", {0, 1}, {0, 1, 2, 3}),
    (
      "last_micro_batch_of_each_round_of_gpipe",
      "gpipe",
      {0, 1, 2},
      {0, 1, 2, 4, 5, 6},
      2,
    ),
  )
  def test_except_last_leaves_out(
    self, schedule, stages, micro_batches, rounds=1
  ):
    config = estimator_mp.ShardingConfig(
      "stage:3",
      num_micro_batches=4,
      schedule=schedule,
      recompute="except_last",
      gradient_accumulation_steps=rounds,
    )
    graph = programs.Program(
      networks.mlp, config, _BATCH, catalogue.NETWORKS["mlp_sgd"].params
    ).graph
    cells = sharding_plan.get_plan(graph).pipeline.cells[0]
    again = {cell for name, cell in cells.items() if "recompute" in name}
    self.assertEqual({cell.stage for cell in again}, stages)
    self.assertEqual({cell.micro_batch for cell in again}, micro_batches)

  @tiers.slow
  def test_memory_of_activations(self):
    """The bound of the issue that brought this: 0.30 of the plain run's."""
    plain = _trace(estimator_mp.ShardingConfig("stage:1"), 8192)
    pipeline = _trace(
      estimator_mp.ShardingConfig(
        "stage:4", num_micro_batches=16, recompute="always"
      ),
      8192,
    )
    (alone,) = plain.peak_live_bytes
    self.assertLess(sum(pipeline.peak_live_bytes), 0.30 * alone)
    self.assertEqual(pipeline.live_micro_batches(), (4, 3, 2, 1))


class VirtualStagesTest(absltest.TestCase):
  def test_stages_go_around_the_devices(self):
    config = estimator_mp.ShardingConfig(
      "stage:2",
      num_micro_batches=2,
      schedule="interleaved",
      num_virtual_stages=2,
    )
    graph = programs.Program(
      networks.mlp, config, _BATCH, catalogue.NETWORKS["mlp_sgd"].params
    ).graph
    stages = estimator_mp.get_placement(graph).stages
    self.assertEqual(
      [stage.device for stage in stages],
      ["/device:CPU:0", "/device:CPU:1"] * 2,
    )
    self.assertTrue(all(stage.parameters for stage in stages))

  def test_marks_are_refused(self):
    def marked(features, labels, mode):
      with estimator_mp.stage(1):
        net = features["x"] + 1.0
      return _deep({"x": net}, tf.cast(labels, tf.float32), mode)

    config = estimator_mp.ShardingConfig(
      "stage:2",
      num_micro_batches=2,
      schedule="interleaved",
      num_virtual_stages=2,
    )
    with self.assertRaisesRegex(
      ValueError,
      "puts 'add/y' on /device:CPU:1, which has several stages of mesh stage:4",
    ):
      programs.Program(marked, config, _BATCH)


if __name__ == "__main__":
  absltest.main()
