"""The launch command goes on with the tasks that are left."""

import pathlib

from tests import tiers
from tests.estimator_mp.cli.launching import launched

from absl.testing import absltest, parameterized

# The number of tasks is left at each start; a chief ends well with two.
_PROGRAM = launched.WHO + (
  "count = sum(map(len, config['cluster'].values()))\n"
  "print('started', count, config['elastic'], flush=True)\n"
  "open(f'{me}_of_{count}', 'w').close()\n"
  "of = f'_of_{count}'\n"
  "while len([x for x in os.listdir() if x.endswith(of)]) < count:\n"
  "  time.sleep(0.01)\n"
  "if me == LOST and count > 2: END\n"
  "if job == 'chief' and count == 2: sys.exit(0)\n"
  "time.sleep(1000)\n"
)
_KILL = "os.kill(os.getpid(), signal.SIGKILL)"


class ElasticTest(parameterized.TestCase):
  def _run(self, lost, end, *arguments):
    self.folder = self.create_tempdir().full_path
    self.logs = pathlib.Path(self.create_tempdir().full_path)
    program = _PROGRAM.replace("LOST", repr(lost)).replace("END", end)
    return launched.run(
      *("--tasks=4", "--elastic", launched.HOST, "--restart_delay=0.01"),
      *(f"--log_dir={self.logs}", "--grace=5", *arguments, "--"),
      *launched.python(program),
      cwd=self.folder,
    )

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("a_worker_is_killed", "worker0", _KILL),
        ("a_worker_fails", "worker0", "sys.exit(3)"),
        ("the_chief_is_killed", "chief0", _KILL),
        ("the_chief_has_lost_a_worker", "chief0", "sys.exit(138)"),
      ]
    ),
  )
  def test_goes_on_with_fewer(self, lost, end):
    code, output, errors = self._run(lost, end)
    self.assertEqual(code, 0, errors)
    for count in (3, 2):
      self.assertIn(f"launch: going on with {count} of 4 tasks\n", errors)
      log = self.logs / f"with_{count}_tasks" / "chief_0.log"
      self.assertStartsWith(
        log.read_text(), f"started {count} {{'tasks': 4}}\n"
      )
    self.assertStartsWith(
      (self.logs / "chief_0.log").read_text(), "started 4 {'tasks': 4}\n"
    )
    self.assertLen(output.splitlines(), 4 + 3 + 2)

  @tiers.slow
  def test_restarts_come_first(self):
    code, _, errors = self._run("worker0", "sys.exit(3)", "--max_restarts=1")
    self.assertEqual(code, 0, errors)
    self.assertRegex(
      errors, r"(?s)starting it again in 0.01 s .*going on with 3 of 4 tasks"
    )

  def test_an_error_of_the_chief_is_the_programs(self):
    code, _, errors = self._run("chief0", "sys.exit(7)")
    self.assertEqual(code, 7)
    self.assertNotIn("going on", errors)


if __name__ == "__main__":
  absltest.main()
