"""What tries sharded models on GPUs works: here, on virtual CPU devices.

Nothing of it says that a GPU would do the same.
"""

import dataclasses
import json
import os
from unittest import mock

import estimator_mp
from estimator_mp import devices
from tests import tiers
from tests.gpu import cases as cases_lib
from tests.gpu import run, trial

import tensorflow as tf
from absl.testing import absltest, flagsaver, parameterized


class TrialTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.try_one = trial.Tryer(self.create_tempdir().full_path, "CPU")

  @tiers.slow
  @parameterized.parameters(tiers.sample(["1f1b", "replicas"]))
  def test_a_sharded_run_equals_the_plain_one(self, name):
    case = dataclasses.replace(cases_lib.CASES[name], exports=name == "1f1b")
    done = self.try_one(name, case)
    self.assertEqual((done.result, done.reason), ("equal", ""))
    mesh = trial.config_of(case, "CPU").create_mesh()
    self.assertContainsSubset(mesh.devices, done.devices)
    for device in mesh.devices:
      held = done.devices[device]
      self.assertGreater(held["variable_bytes"], 0)
      self.assertGreater(held["peak_live_bytes"], 0)
      self.assertGreater(held["products"], 0)

  @tiers.slow
  def test_another_run_is_different(self):
    case = cases_lib.CASES["stages_mlp_sgd"]
    with mock.patch.dict(trial.TOLERANCES, CPU=-1.0):
      done = self.try_one("x", case)
    self.assertEqual(done.result, "different")
    self.assertRegex(done.reason, "^by .*, more than -1e")

  def test_an_error_is_one_line_of_the_record(self):
    case = cases_lib.Case("mlp_sgd", "stage:9")
    done = self.try_one("x", case)
    self.assertEqual(done.result, "failed")
    self.assertRegex(done.reason, "^[A-Z]\\w+: ")
    self.assertNotIn("\n", done.reason)

  def test_what_is_not_a_number_is_no_difference_of_zero(self):
    self.assertEqual(trial.difference_of([float("nan")], [1.0]), float("inf"))
    self.assertEqual(trial.difference_of([2.0, 1.0], [2.0, 3.0]), 2 / 3)


class CasesTest(parameterized.TestCase):
  @parameterized.parameters(*cases_lib.CASES)
  def test_each_is_a_configuration_of_six_logical_gpus(self, name):
    """The same ones in all sessions: a process makes them once."""
    case = cases_lib.CASES[name]
    limits = [[2048.0] * 3] * 2
    with mock.patch.object(devices, "logical_gpus", lambda: limits):
      config = trial.config_of(case, "GPU")
      session = estimator_mp.run_config(config).session_config
    self.assertFalse(session.allow_soft_placement)
    made = session.gpu_options.experimental.virtual_devices
    self.assertEqual([[*x.memory_limit_mb] for x in made], limits)

  def test_cards_that_are_too_few_are_divided(self):
    set_to = self.enter_context(
      mock.patch.object(tf.config, "set_logical_device_configuration")
    )
    for cards, expected in ((4, [2, 2, 1, 1]), (6, [])):
      set_to.reset_mock()
      names = [f"card {card}" for card in range(cards)]
      with mock.patch.object(
        tf.config, "list_physical_devices", lambda _, names=names: names
      ):
        trial.divide_cards(2**31)
      made = [call.args for call in set_to.call_args_list]
      self.assertEqual([len(limits) for _, limits in made], expected)
      for _, limits in made:
        self.assertEqual({x.memory_limit for x in limits}, {2048})

  def test_why_one_is_left_out(self):
    nccl, cnn = (
      cases_lib.CASES["all_reduce_nccl"],
      cases_lib.CASES["stages_cnn"],
    )
    self.assertEqual(trial.why_left_out(nccl, "CPU"), "NCCL is for GPUs")
    self.assertEqual(trial.why_left_out(cnn, "CPU"), "")
    with mock.patch.object(trial, "num_cards", lambda: 0):
      self.assertStartsWith(trial.why_left_out(cnn, "GPU"), "no GPU: ")
    with mock.patch.object(trial, "num_cards", lambda: 1):
      self.assertEqual(trial.why_left_out(nccl, "GPU"), "needs two cards")
      self.assertEqual(trial.why_left_out(cnn, "GPU"), "")
      self.assertEqual(
        trial.why_left_out(cnn, "GPU", ["libcudnn.so.9"]),
        "cudnn is a stand-in here",
      )


class RecordTest(absltest.TestCase):
  @tiers.slow
  def test_is_written_and_quoted(self):
    path = os.path.join(self.create_tempdir().full_path, "record.json")
    with flagsaver.flagsaver(
      device_type="CPU", cases="^(stages_mlp_sgd|all_reduce_nccl)$", record=path
    ):
      self.assertEqual(run.main([]), 0)
    with open(path, encoding="utf-8") as file:
      recorded = json.load(file)
    self.assertEqual(recorded["cards"], [])
    lines = [*run.table(recorded)]
    self.assertIn("virtual CPU devices, no GPU", lines[0])
    self.assertRegex(
      "\n".join(lines), r"\| stages_mlp_sgd \| stage:3 \| equal \| \d.*B \|"
    )
    self.assertIn("left out: NCCL is for GPUs", "\n".join(lines))

  def test_without_a_gpu_there_is_none(self):
    if tf.config.list_physical_devices("GPU"):
      self.skipTest("this machine has a GPU")
    self.assertEqual(run.main([]), 2)


if __name__ == "__main__":
  absltest.main()
