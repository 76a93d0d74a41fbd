"""Ctrl-C, SIGTERM, a closed terminal, a launcher that is killed: no orphans."""

import os
import pathlib
import signal
import time

from estimator_mp.cli.launching import endings, tasks
from tests import tiers
from tests.estimator_mp.cli.launching import launched

from absl.testing import absltest, parameterized

# Each task says that it is there by a file whose name is its process; it has
# another process besides, that hears of no signal, and is there, too.
_HERE = (
  launched.WHO
  + """
def here():
  open(str(os.getpid()), "w").close()

if not os.fork():
  for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
  here()
  time.sleep(1000)
"""
)
# Tasks say in which order they have ended.
_ENDING = (
  _HERE
  + """
def end(number, frame):
  del frame
  print(me, signal.Signals(number).name)
  sys.exit(0)

for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
  signal.signal(number, end)
here()
time.sleep(1000)
"""
)
_DEAF = (
  _HERE
  + """
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
  signal.signal(number, lambda number, frame: print(me, "goes on"))
here()
while True:
  time.sleep(1000)
"""
)


class InterruptionTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def _started(self, program, *arguments, tasks=2, others=0):
    """Starts tasks, and waits until all their processes are there."""
    launcher = self.enter_context(
      launched.started(
        *(f"--tasks={tasks}", launched.HOST, *arguments, "--"),
        *launched.python(program),
        cwd=self.folder,
      )
    )
    count = 2 * (tasks + others)
    launched.wait_until(lambda: len(launched.pids(self.folder)) == count)
    return launcher

  def _assert_no_orphans(self):
    for pid in launched.pids(self.folder):
      launched.wait_until(lambda pid=pid: not launched.is_alive(pid), pid)

  @parameterized.parameters(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
  def test_the_chief_ends_before_those_who_serve(self, number):
    launcher = self._started(_ENDING, tasks=3)
    launcher.send_signal(number)
    output, errors = launcher.communicate(timeout=600)
    self.assertEqual(launcher.returncode, 128 + number)
    first, *others = output.splitlines()
    self.assertEqual(first, f"[chief 0] chief0 {number.name}")
    self.assertCountEqual(
      others, [f"[worker {i}] worker{i} SIGTERM" for i in range(2)]
    )
    self.assertIn(
      f"launch: {number.name}; ending chief 0, worker 0, worker 1 (Ctrl-C kills"
      " at once)",
      errors,
    )
    self._assert_no_orphans()

  def test_workers_that_train_are_told_with_the_chief(self):
    launcher = self._started(_ENDING, "--ps=1", "--evaluator", others=2)
    launcher.send_signal(signal.SIGINT)
    output, _ = launcher.communicate(timeout=600)
    *first, last = output.splitlines()
    self.assertCountEqual(
      first,
      [
        "[chief 0] chief0 SIGINT",
        "[worker 0] worker0 SIGINT",
        "[evaluator 0] evaluator0 SIGINT",
      ],
    )
    self.assertEqual(last, "[ps 0] ps0 SIGTERM")
    self._assert_no_orphans()

  @tiers.slow
  def test_who_does_not_end_is_killed(self):
    launcher = self._started(_DEAF, "--grace=1")
    launcher.send_signal(signal.SIGINT)
    _, errors = launcher.communicate(timeout=600)
    self.assertEqual(launcher.returncode, 130)
    for name in ("chief 0", "worker 0"):
      self.assertIn(f"launch: killing {name}, not ended after 1 s", errors)
    self._assert_no_orphans()

  def test_the_last_words_of_who_is_killed_are_heard(self):
    launcher = self._started(
      _HERE + "os.write(1, b'last words'); here()\n"
      "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
      "while True: time.sleep(1000)\n",
      "--grace=0.3",
    )
    launcher.terminate()
    output, _ = launcher.communicate(timeout=600)
    self.assertCountEqual(
      output.splitlines(), ["[chief 0] last words", "[worker 0] last words"]
    )

  def test_a_second_one_kills_at_once(self):
    launcher = self._started(_DEAF, "--grace=600")
    launcher.send_signal(signal.SIGINT)
    self.assertEqual(launcher.stdout.readline(), "[chief 0] chief0 goes on\n")
    launcher.send_signal(signal.SIGINT)
    launcher.communicate(timeout=600)
    self.assertEqual(launcher.returncode, 130)
    self._assert_no_orphans()

  def test_who_was_stopped_ends_too(self):
    launcher = self._started(_ENDING, "--grace=600")
    for pid in launched.pids(self.folder):
      os.kill(pid, signal.SIGSTOP)
    launcher.send_signal(signal.SIGTERM)
    launcher.communicate(timeout=600)
    self.assertEqual(launcher.returncode, 143)
    self._assert_no_orphans()

  def test_a_failure_ends_what_tasks_have_started(self):
    launcher = self._started(
      _HERE + "here()\n"
      "if job == 'worker':\n"
      "  while len(os.listdir()) < 4: time.sleep(.01)\n"
      "  sys.exit(3)\n"
      "time.sleep(1000)\n"
    )
    launcher.communicate(timeout=600)
    self.assertEqual(launcher.returncode, 3)
    self._assert_no_orphans()

  def test_a_reader_who_leaves_ends_it(self):
    launcher = self._started(
      _HERE + "here()\nwhile True: print('line'); time.sleep(.01)\n",
      "--grace=0.3",
    )
    launcher.stdout.close()
    self.assertEqual(launcher.wait(timeout=600), 128 + signal.SIGPIPE)
    self._assert_no_orphans()

  def test_a_launcher_that_is_killed_leaves_nothing(self):
    launcher = self._started(_DEAF)
    begun = time.monotonic()
    launcher.kill()
    launcher.wait(timeout=600)
    self._assert_no_orphans()
    self.assertLess(time.monotonic() - begun, 600)
    # Nobody holds the launcher's output any more.
    launcher.communicate(timeout=600)

  @tiers.slow
  def test_logs_are_whole_when_the_terminal_has_gone(self):
    logs = pathlib.Path(self.create_tempdir().full_path)
    launcher = self._started(
      _HERE + "here()\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
      "while True: print('line'); time.sleep(.01)\n",
      f"--log_dir={logs}",
      "--grace=5",
      tasks=1,
    )
    launcher.stdout.close()
    launcher.wait(timeout=600)
    lines = {*(logs / "chief_0.log").read_text().splitlines()}
    self.assertContainsSubset({"line"}, lines)


def names(some):
  return [*map(str, some)]


class EndingsTest(parameterized.TestCase):
  def _phases(self, ending):
    return [(names(phase.tasks), phase.signal) for phase in ending.phases]

  def test_who_has_served_and_failed_ends_all_at_once(self):
    _, worker = made = tasks.make_tasks(2, 0, False)
    ending = endings.after_failure(made, worker, "worker 0 ended", 7)
    self.assertEqual(ending.exit_code, 7)
    self.assertEqual(
      self._phases(ending), [(["chief 0", "worker 0"], signal.SIGTERM)]
    )

  @parameterized.parameters(0, 1)
  def test_an_evaluator_that_has_failed_lets_the_chief_save(self, ps):
    *_, evaluator = made = tasks.make_tasks(1, ps, True)
    ending = endings.after_failure(made, evaluator, "evaluator 0 ended", 7)
    self.assertEqual(
      self._phases(ending),
      [
        (["chief 0", "evaluator 0"], signal.SIGTERM),
        (names(made), signal.SIGTERM),
      ],
    )


if __name__ == "__main__":
  absltest.main()
