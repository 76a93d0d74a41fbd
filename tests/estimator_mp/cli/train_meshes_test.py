"""The train command on meshes: what is planned, held, sent and saved."""

import os
import re

import estimator_mp
from estimator_mp import toolbox
from estimator_mp.cli import run_record, run_train
from tests import tiers
from tests.estimator_mp.cli import train_runs

import tensorflow as tf
from absl.testing import absltest, parameterized


def setUpModule():
  # The command does so itself, once its flags are parsed.
  tf.get_logger().setLevel("FATAL")


class _Case(parameterized.TestCase):
  def _check_sent(self, output, model_dir):
    """Asserts that a run has learned, and sent what it planned."""
    planned = re.search(r"each step: \d+ tensors, (\d+) kB", output)
    sent = re.search(
      r", (\d+) kB between stages, (\d+) kB (between|within)", output
    )
    total = int(sent[1]) + int(sent[2])
    self.assertAlmostEqual(int(planned[1]), total, delta=0.05 * total)
    result = run_record.read_result(model_dir)
    self.assertGreater(result.value, 0.8)
    return result

  def _first_step(self, *arguments):
    """Returns the mesh, the plan, and what devices really held and ran."""
    model_dir = self.create_tempdir().full_path
    job = run_train.prepare(train_runs.options(model_dir, *arguments))
    hook = toolbox.PlacementVerificationHook()
    plan = _PlanHook()
    job.estimator.train(
      job.recipe.train_input_fn, hooks=[plan, hook], max_steps=1
    )
    return job.mesh, plan.placement, hook.observed


class ReplicasTest(_Case):
  @tiers.slow
  @tiers.newest_only
  def test_two_replicas_of_three_stages(self):
    model_dir = self.create_tempdir().full_path
    output = train_runs.output(
      model_dir, "--mesh=data:2,stage:3", "--train_steps=60"
    )
    self.assertContainsInOrder(
      [
        "mesh         data:2,stage:3 (/device:CPU:0, /device:CPU:1, ",
        "0 to 60, batches of 64 (32 for each of 2 replicas), adam",
        "replica  stage  device         layers",
        "0        2      /device:CPU:2  block3",
        "1        0      /device:CPU:3  block1",
        "1        2      /device:CPU:5  block3",
        "\nall  ",
        " 106,004    1.27 MB\nmodel ",
        " 53,002     636 kB\n",
        "step 20: bubble ",
        " between stages, ",
        " between replicas, peak live ",
        "Finished.",
        "/device:CPU:4 222 kB, /device:CPU:5 410 kB",
      ],
      output,
    )
    # What sets mirrors when a session begins is not sent in each step.
    result = self._check_sent(output, model_dir)
    self.assertEqual(result.mesh, "data:2,stage:3")
    self.assertLen(result.devices, 6)
    # Both hold the same, but for the global step and Adam's powers.
    first, second = list(result.devices.values())[::3]
    self.assertEqual(first - second, 8 + 2 * 4)

  @tiers.newest_only
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
    mesh, placement, found = self._first_step(
      "--model=mlp", "--mesh=data:2,stage:2", *arguments
    )
    planned = {x.device: x.variable_bytes for x in placement.replicas}
    self.assertSameElements(planned, mesh.devices)
    observed = {d: found[d].variable_bytes for d in planned}
    # The global step has no device, so that TensorFlow takes the first one.
    observed["/device:CPU:0"] -= 8
    self.assertEqual(planned, observed)


class _PlanHook(tf.estimator.SessionRunHook):
  """Keeps the placement of the training graph."""

  def begin(self):
    graph = tf.compat.v1.get_default_graph()
    self.placement = estimator_mp.get_placement(graph)


_SPLIT = '--split=[["hidden./kernel", 1], ["logits/kernel", null]]'


@tiers.newest_only
class ModelAxisTest(_Case):
  @tiers.slow
  def test_two_devices_for_each_stage(self):
    model_dir = self.create_tempdir().full_path
    export_dir = self.create_tempdir().full_path
    output = train_runs.output(
      model_dir,
      *("--model=mlp", "--mesh=stage:2,model:2", "--train_steps=60"),
      f"--export_dir={export_dir}",
      _SPLIT,
    )
    self.assertContainsInOrder(
      [
        "mesh         stage:2,model:2 (/device:CPU:0, /device:CPU:1, ",
        "stage  part  device         layers",
        "0      0     /device:CPU:0  flatten_hidden1/hidden1, hidden2  ",
        "0      1     /device:CPU:1  flatten_hidden1/hidden1, hidden2  ",
        "1      1     /device:CPU:3  hidden3",
        "\nall  ",
        " 58,442     701 kB\nmodel ",
        " 58,442     701 kB\n",
        "step 20: bubble ",
        " between stages, ",
        " within stages, peak live ",
        "Finished.",
      ],
      output,
    )
    # Nothing that runs no more is planned, and all that runs is.
    result = self._check_sent(output, model_dir)
    self.assertLen(result.devices, 4)
    # Each has one half of what is split; the leader has the global step, too.
    held = [*result.devices.values()]
    self.assertLessEqual(abs(held[0] - held[1]), 16)
    names = dict(tf.train.list_variables(model_dir))
    self.assertEqual(names["hidden2/kernel"], [256, 128])
    self.assertNotIn("hidden2/kernel/part_0", names)
    served = tf.train.list_variables(
      os.path.join(result.saved_model, "variables", "variables")
    )
    self.assertIn(("hidden2/kernel", [256, 128]), served)

  def test_rules_that_do_not_suit_the_model_are_told_in_one_line(self):
    code, _, errors = train_runs.run(
      self.create_tempdir().full_path,
      "--model=mlp",
      "--mesh=model:2",
      '--split=[["dense/kernel", 1]]',
    )
    self.assertEqual(code, 2)
    self.assertStartsWith(
      errors,
      "train: the split rule ('dense/kernel', 1) matches no variable of the "
      "model",
    )
    self.assertEqual(errors.count("\n"), 1)


if __name__ == "__main__":
  absltest.main()
