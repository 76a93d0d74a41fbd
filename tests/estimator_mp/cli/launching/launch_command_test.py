"""The launch command: what its tasks get, what it prints, its exit codes."""

import itertools
import json
import os
import pathlib
import re
import sys

from estimator_mp.cli.launching import launch_flags
from tests.estimator_mp.cli.launching import launched

from absl.testing import absltest, parameterized


class TasksTest(parameterized.TestCase):
  def test_each_has_its_tf_config_and_its_log(self):
    program = launched.WHO + (
      "print(json.dumps(config))\n"
      "print('aside', me, file=sys.stderr)\n"
      "open(me, 'w').close()\n"
      "if job in ('chief', 'evaluator'):\n"
      "  while len(os.listdir()) < 5: time.sleep(0.01)\n"
      "else: time.sleep(1000)\n"
    )
    folder = self.create_tempdir().full_path
    logs = pathlib.Path(self.create_tempdir().full_path)
    code, output, errors = launched.run(
      *("--tasks=3", "--ps=1", "--evaluator", launched.HOST, "--grace=0.1"),
      f"--log_dir={logs}",
      "--",
      *launched.python(program),
      cwd=folder,
    )
    self.assertEqual(code, 0, errors)
    configs = {}
    for name in ("chief 0", "worker 0", "worker 1", "ps 0", "evaluator 0"):
      lines = re.findall(rf"^\[{name}\] (.+)$", output, re.M)
      job, _, index = name.partition(" ")
      log = (logs / f"{name.replace(' ', '_')}.log").read_text()
      self.assertEqual(log, "".join(f"{line}\n" for line in lines))
      self.assertEqual(lines[1], f"aside {job}{index}")
      configs[job, int(index)] = json.loads(lines[0])
    self.assertLen(output.splitlines(), 10)
    clusters = [config.pop("cluster") for config in configs.values()]
    self.assertEqual(clusters, clusters[:1] * 5)
    jobs = {job: len(tasks) for job, tasks in clusters[0].items()}
    self.assertEqual(jobs, {"chief": 1, "worker": 2, "ps": 1, "evaluator": 1})
    addresses = [*itertools.chain(*clusters[0].values())]
    self.assertLen({*addresses}, 5)
    for address in addresses:
      self.assertRegex(address, r"^127\.0\.0\.1:\d+$")
    for (job, index), config in configs.items():
      self.assertEqual(config, {"task": {"type": job, "index": index}})

  @parameterized.parameters("file", "module", "command", "path")
  def test_a_program_is(self, kind):
    folder = pathlib.Path(self.create_tempdir().full_path)
    (folder / "program.py").write_text(
      "import sys, estimator_mp\nprint(sys.executable, *sys.argv[1:])\n"
    )
    (folder / "script").write_text("#!/bin/sh\necho script $@\n")
    (folder / "script").chmod(0o755)
    words, expected = {
      "file": (["program.py"], sys.executable),
      "module": (["-m", "program"], sys.executable),
      "command": (["echo", "said"], "said"),
      "path": (["./script"], "script"),
    }[kind]
    code, output, errors = launched.run(
      *("--tasks=1", launched.HOST, "--", *words, "--help", "--", "two words"),
      cwd=folder,
    )
    self.assertEqual(code, 0, output + errors)
    self.assertEqual(output, f"[chief 0] {expected} --help -- two words\n")

  def test_the_environment_stays(self):
    program = launched.WHO + (
      "for name in ('MINE', 'PYTHONUNBUFFERED', 'no_grpc_proxy'):\n"
      "  print(os.environ[name])\n"
      "print(*config['cluster'], os.getcwd())\n"
      "print(sys.stdin.read() == '', os.getpgrp() == os.getpid())"
    )
    folder = self.create_tempdir().full_path
    code, output, errors = launched.run(
      *("--tasks=1", launched.HOST, "--", *launched.python(program)),
      environment={
        "MINE": "kept",
        "no_proxy": "there",
        "PYTHONUNBUFFERED": "x",
        "BUILD_WORKING_DIRECTORY": folder,
      },
    )
    self.assertEqual(code, 0, errors)
    self.assertEqual(
      [line.partition("] ")[2] for line in output.splitlines()],
      [
        "kept",
        "x",
        "there,127.0.0.1",
        f"chief {os.path.realpath(folder)}",
        "True True",
      ],
    )

  def test_without_a_folder_logs_are_among_temporary_files(self):
    folder = self.create_tempdir().full_path
    code, _, errors = launched.run(
      *("--tasks=1", launched.HOST, "--", "echo", "said"),
      environment={"TMPDIR": folder},
    )
    self.assertEqual(code, 0)
    (log_dir,) = pathlib.Path(folder).iterdir()
    self.assertEndsWith(errors.splitlines()[0], f"; logs in {log_dir}")
    self.assertEqual((log_dir / "chief_0.log").read_text(), "said\n")


# Tasks that wait for each other. Who has ended, and was seen by the launcher,
# is no process any more.
_WAIT = """
def say_who(job):
  with open(f"new_{job}", "w") as file: file.write(str(os.getpid()))
  os.rename(f"new_{job}", job)

def wait_for_the_end_of(job):
  while not os.path.exists(job): time.sleep(.01)
  with open(job) as file: pid = file.read()
  while os.path.exists(f"/proc/{pid}"): time.sleep(.01)

"""


class FailuresTest(parameterized.TestCase):
  def _run(self, program, *arguments):
    self.folder = self.create_tempdir().full_path
    log_dir = self.create_tempdir().full_path
    self.log = pathlib.Path(log_dir, "worker_0.log")
    return launched.run(
      *("--tasks=2", f"--log_dir={log_dir}", launched.HOST, *arguments),
      *("--", *launched.python(launched.WHO + _WAIT + program)),
      cwd=self.folder,
    )

  @parameterized.parameters(
    ("sys.exit(7)", 7, "ended with exit code 7"),
    ("os.kill(os.getpid(), signal.SIGKILL)", 137, "was killed by SIGKILL"),
    ("os.abort()", 134, "was killed by SIGABRT"),
    ("raise SystemExit(200)", 200, "ended with exit code 200"),
  )
  def test_the_first_one_decides(self, end, expected, words):
    code, _, errors = self._run(
      f"if job == 'worker': {end}\n"
      "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n"
      "time.sleep(1000)"
    )
    self.assertEqual(code, expected, errors)
    self.assertEqual(
      errors.splitlines()[1],
      f"launch: worker 0 {words}; its log is {self.log}; ending chief 0 "
      "(Ctrl-C kills at once)",
    )

  @parameterized.parameters(("worker", "chief"), ("chief", "worker"))
  def test_either_may_end_well_first(self, first, last):
    code, output, errors = self._run(
      f"if job == '{first}': say_who('{first}')\n"
      f"else: wait_for_the_end_of('{first}')\n"
      "print('ends')"
    )
    self.assertEqual(code, 0)
    expected = [f"[{first} 0] ends", f"[{last} 0] ends"]
    self.assertEqual(output.splitlines(), expected)
    self.assertLen(errors.splitlines(), 1)

  def test_the_dead_one_is_started_again(self):
    code, output, errors = self._run(
      "number = len(os.listdir())\n"
      "if job == 'worker':\n"
      "  print('trial', number)\n"
      "  open(str(number), 'w').close()\n"
      "  if number < 2: sys.exit(5)\n"
      "while len(os.listdir()) < 3: time.sleep(.01)\n"
      "if job == 'worker': time.sleep(1000)",
      *("--max_restarts=2", "--restart_delay=0.05", "--grace=0.1"),
    )
    self.assertEqual(code, 0, errors)
    self.assertEqual(
      output.splitlines(), [f"[worker 0] trial {i}" for i in range(3)]
    )
    again = "worker 0 ended with exit code 5; starting it again in 0.05 s"
    self.assertEqual(
      errors.splitlines()[1:3],
      [f"launch: {again} (restart {number} of 2)" for number in (1, 2)],
    )
    self.assertEqual(
      self.log.read_text().splitlines(),
      [
        "trial 0",
        f"{again} (restart 1 of 2)",
        "trial 1",
        f"{again} (restart 2 of 2)",
        "trial 2",
      ],
    )

  def test_restarts_are_counted_for_each_task(self):
    code, _, errors = self._run(
      "with open(me, 'a') as file: file.write('x')\n"
      "if job == 'worker':\n"
      "  if os.path.getsize(me) == 2: time.sleep(1000)\n"
      "  sys.exit(6)\n"
      "while not os.path.exists('worker0') or os.path.getsize('worker0') < 2:\n"
      "  time.sleep(.01)\n"
      "sys.exit(4)",
      *("--max_restarts=1", "--restart_delay=0.01"),
    )
    self.assertEqual(code, 4)
    self.assertEqual(pathlib.Path(self.folder, "chief0").read_text(), "xx")
    self.assertIn("chief 0 ended with exit code 4; its log is", errors)

  def test_who_fails_after_the_chief_has_ended_well_does_not_matter(self):
    program = (
      "if job == 'chief': say_who('chief')\n"
      "if job == 'worker':\n"
      "  say_who('worker'); wait_for_the_end_of('chief'); sys.exit(9)\n"
      "if job == 'evaluator':\n"
      "  wait_for_the_end_of('worker'); print('evaluated')\n"
    )
    code, output, errors = self._run(program, "--evaluator")
    self.assertEqual((code, output), (0, "[evaluator 0] evaluated\n"))
    self.assertIn(
      "worker 0 ended with exit code 9, after the chief had succeeded", errors
    )

  def test_a_program_that_cannot_be_run(self):
    path = self.create_tempfile(content="no program")
    os.chmod(path.full_path, 0o755)
    code, _, errors = launched.run(
      "--tasks=2", launched.HOST, "--", path.full_path
    )
    self.assertEqual(code, 126)
    self.assertIn("Exec format error", errors)


class LimitsTest(absltest.TestCase):
  def test_memory_beyond_the_limit_is_refused(self):
    program = launched.SERVE + (
      "half = bytearray(100 << 20)\n"
      "try: bytearray(200 << 20)\n"
      "except MemoryError: print('refused')\n"
    )
    arguments = ("--tasks=1", launched.HOST, "--", *launched.python(program))
    self.assertEqual(launched.run(*arguments)[:2], (0, ""))
    self.assertEqual(
      launched.run("--mem_limit=200MiB", *arguments)[:2],
      (0, "[chief 0] refused\n"),
    )


def _parse(*arguments):
  return launch_flags.COMMAND.parse(["launch", *arguments])


class FlagsTest(parameterized.TestCase):
  def test_flags_after_the_program_are_its_own(self):
    options = _parse("--tasks=3", "--", "echo", "--tasks=5", "--help", "--")
    self.assertEqual(options.tasks, 3)
    self.assertEqual(options.program, ("echo", "--tasks=5", "--help", "--"))

  def test_memory(self):
    options = _parse("--mem_limit=1.5GiB", "--tasks=1", "--", "true")
    self.assertEqual(options.mem_limit, 1_610_612_736)
    options = _parse("--tasks=1", "--", "true")
    self.assertIsNone(options.mem_limit)


if __name__ == "__main__":
  absltest.main()
