"""Processes make the steps that they are asked for, and end with who asks."""

import os
import sys

from benchmarks import asked_process

from absl.testing import absltest

_PROGRAM = "tests.benchmarks.asked_process_test"


class AskedProcessTest(absltest.TestCase):
  def test_it_makes_the_steps_that_it_is_asked_for(self):
    with asked_process.AskedProcess(
      sys.executable, _PROGRAM, ["--answer"]
    ) as process:
      self.assertGreaterEqual(process.run(2), 0.0)
      self.assertGreaterEqual(process.run(1), 0.0)
      self.assertEqual(process.losses, [1.0, 0.5, 0.25])

  def test_it_ends_with_its_input(self):
    with asked_process.AskedProcess(
      sys.executable, _PROGRAM, ["--answer"]
    ) as process:
      process.run(1)
      pid = process.pid
      self.assertTrue(os.path.exists(f"/proc/{pid}"))
    self.assertFalse(os.path.exists(f"/proc/{pid}"))

  def test_what_it_said_before_it_ended_is_in_the_error(self):
    with (
      asked_process.AskedProcess(
        sys.executable, _PROGRAM, ["--no_such_flag"]
      ) as process,
      self.assertRaisesRegex(RuntimeError, "no_such_flag"),
    ):
      process.run(1)


def _answer():
  """Is the process of the test: each loss is half of the one before."""
  loss = [2.0]

  def step():
    loss[0] /= 2
    return loss[0]

  asked_process.answer(step)


if __name__ == "__main__":
  if sys.argv[1:] == ["--answer"]:
    _answer()
  else:
    absltest.main()
