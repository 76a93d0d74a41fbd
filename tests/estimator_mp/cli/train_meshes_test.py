"""The train command on meshes: what is planned, held, sent and saved."""

import re

import estimator_mp
from estimator_mp import toolbox
from estimator_mp.cli import run_train
from tests import tiers
from tests.estimator_mp.cli import train_runs

import tensorflow as tf
from absl.testing import absltest, parameterized


def setUpModule():
  # The command does so itself, once its flags are parsed.
  tf.get_logger().setLevel("FATAL")


_SPLIT = '--split=[["hidden./kernel", 1], ["logits/kernel", null]]'


class MeshesTest(parameterized.TestCase):
  @tiers.slow
  @parameterized.parameters(
    (
      ["--mesh=data:2,stage:3"],
      "0 to 60, batches of 64 (32 for each of 2 replicas), adam",
      "replica  stage  device         layers",
      "1        2      /device:CPU:5  block3",
      " between replicas, peak live ",
    ),
    (
      ["--model=mlp", "--mesh=stage:2,model:2", _SPLIT],
      "stage  part  device         layers",
      "0      1     /device:CPU:1  flatten_hidden1/hidden1, hidden2  ",
      "1      1     /device:CPU:3  hidden3",
      " within stages, peak live ",
    ),
  )
  def test_a_run_learns_and_sends_what_it_planned(self, arguments, *expected):
    model_dir = self.create_tempdir().full_path
    output = train_runs.output(model_dir, *arguments, "--train_steps=60")
    self.assertContainsInOrder([*expected, "Finished."], output)
    planned = re.search(r"each step: \d+ tensors, ([\d.]+) kB", output)
    sent = re.search(
      r", ([\d.]+) kB between stages, ([\d.]+) kB (between|within)", output
    )
    # What sets mirrors when a session begins is not sent in each step.
    total = float(sent[1]) + float(sent[2])
    self.assertAlmostEqual(float(planned[1]), total, delta=0.05 * total)
    self.assertGreater(train_runs.result(model_dir).value, 0.8)

  @tiers.slow
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("replicated", ()),
        ("data_is_last", ("--mesh=stage:2,data:2",)),
        ("shared", ("--variables=shared",)),
        ("sharded", ("--optimizer_state=sharded",)),
        ("top_k", ("--compression=top_k", "--bucket_bytes=0")),
      ]
    )
  )
  def test_plan_is_what_devices_hold(self, arguments):
    model_dir = self.create_tempdir().full_path
    arguments = ("--model=mlp", "--mesh=data:2,stage:2", *arguments)
    program = run_train.prepare(train_runs.options(model_dir, *arguments))
    hook, plan = toolbox.PlacementVerificationHook(), _PlanHook()
    program.estimator.train(
      program.recipe.train_input_fn, hooks=[plan, hook], max_steps=1
    )
    planned = {x.device: x.variable_bytes for x in plan.placement.replicas}
    self.assertSameElements(planned, program.mesh.devices)
    observed = {d: hook.observed[d].variable_bytes for d in planned}
    # The global step has no device, so that TensorFlow takes the first one.
    observed["/device:CPU:0"] -= 8
    self.assertEqual(planned, observed)


class _PlanHook(tf.estimator.SessionRunHook):
  """Keeps the placement of the training graph."""

  def begin(self):
    graph = tf.compat.v1.get_default_graph()
    self.placement = estimator_mp.get_placement(graph)


if __name__ == "__main__":
  absltest.main()
