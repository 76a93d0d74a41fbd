"""What the launch command takes, and refuses before anything starts."""

import os

from estimator_mp.cli.launching import launch_flags
from tests.estimator_mp.cli import command_runs

from absl.testing import absltest, parameterized


def _parse(*arguments):
  return launch_flags.parse(["launch", *arguments])


class FlagsTest(parameterized.TestCase):
  @parameterized.parameters(
    ("", "there is no program to run; write it after --, such as launch --ta"),
    ("--tasks=2 --", "there is no program to run; write it after --, such as"),
    ("-- -m", "there is no program to run; write it after --, such as launch"),
    (
      "train.py --steps=3",
      "--steps is not a flag; --help lists the flags",
    ),
    (
      "train.py",
      "unexpected argument 'train.py'; flags are written --name=value and "
      "before -- PROGRAM ARGS..., --help explains them",
    ),
    ("-- theirs.py", "there is no file theirs.py in "),
    ("-- no-such-program", "there is no program no-such-program that can be"),
    ("-- ./nothing", "there is no program ./nothing that can be run; give a"),
    ("--tasks=0 -- true", "--tasks=0 is too small; use 1 or more"),
    ("--max_restarts=-1 -- true", "--max_restarts=-1 is too small; use 0 or"),
    ("--restart_delay=0 -- true", "--restart_delay=0 is not positive and fin"),
    ("--network=none -- true", "--network=none is not known; use one of own,"),
    (
      "--mem_limit=12XB -- true",
      "--mem_limit=12XB is not an amount of bytes; write it like 256MiB, 16GB "
      "or",
    ),
    ("--mem_limit=0 -- true", "--mem_limit=0 is too small; use 1 or more"),
    (
      "--tasks=9999 --cpus_per_task=2 -- true",
      "--cpus_per_task=2 for 9999 tasks needs 19998 cores, and there ",
    ),
    ("--task=3 -- true", "--task is not a flag; did you mean --tasks?"),
  )
  def test_what_is_wrong_is_one_line(self, arguments, text):
    code, _, errors = command_runs.run(
      launch_flags.COMMAND.main, *arguments.split()
    )
    self.assertEqual(code, 2)
    self.assertStartsWith(errors, f"launch: {text}")
    self.assertLen(errors.splitlines(), 1)

  def test_flags_after_the_program_are_its_own(self):
    options = _parse("--tasks=3", "--", "echo", "--tasks=5", "--help", "--")
    self.assertEqual(options.tasks, 3)
    self.assertEqual(options.program, ("echo", "--tasks=5", "--help", "--"))

  def test_memory_and_cores(self):
    options = _parse("--mem_limit=1.5GiB", "--tasks=1", "--", "true")
    self.assertEqual(options.mem_limit, 1_610_612_736)
    self.assertEqual(options.cores, [frozenset()])
    options = _parse("--cpus_per_task=1", "--tasks=1", "--", "true")
    self.assertIsNone(options.mem_limit)
    (cores,) = options.cores
    self.assertEqual(cores, {min(os.sched_getaffinity(0))})


if __name__ == "__main__":
  absltest.main()
