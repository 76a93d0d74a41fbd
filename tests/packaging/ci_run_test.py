"""What .ci/run asks Bazel for, with a stand-in for it, in a repository."""

import os
import shutil
import signal
import subprocess
import sys

from absl.testing import absltest, parameterized

_ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
# Says what it was asked for, and what files of these names say.
_BAZELW = """#!/bin/bash
echo "$*" >>asked
case "$1" in
  query) case "$*" in
    *rdeps*) cat touched ;; *kind*) cat fast ;; *) cat slow ;;
  esac ;;
  test)
    cat counts
    # What hangs until it is interrupted.
    if [[ -e status && "$*" == *"$(cat hangs)"* ]]; then
      trap 'kill $!; cat status; exit 8' INT
      sleep 600 >/dev/null 2>&1 &
      wait
    fi
    [[ ! -e fails ]]
    ;;
esac
"""
_FAST = (
  "=== The fast tier, and slow tests that the change touches",
  "=== The fast tier on TensorFlow 2.15",
)


class CiRunTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    if not shutil.which("git"):
      self.skipTest("there is no git here")
    self.root = self.create_tempdir("repository").full_path
    self.home = self.create_tempdir("home").full_path
    os.makedirs(f"{self.root}/.ci")
    shutil.copy(f"{_ROOT}/.ci/run", f"{self.root}/.ci/run")
    self._write("bazelw", _BAZELW)
    self._write("tools/lint", "#!/bin/sh\n")
    self._write("tools/try_readme.py", "")
    self._write(
      "tools/python/find_python", f"#!/bin/sh\necho '{sys.executable}'\n"
    )
    self._write("fast", "//a:fast\n//a:sample\n")
    self._write("slow", "//a:sample_all\n")
    self._write("touched", "")
    self._write("counts", "2 passed, 0 failed, 1 skipped\n")
    self._write(".gitignore", "__pycache__/\nasked\n")
    self._git("init", "--quiet", "--initial-branch=main")
    self._commit()

  def _write(self, path, text):
    path = os.path.join(self.root, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
      file.write(text)
    os.chmod(path, 0o755)

  def _git(self, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.test"]
    subprocess.run(["git", *identity, *arguments], cwd=self.root, check=True)

  def _commit(self):
    self._git("add", "--all")
    self._git("commit", "--quiet", "--allow-empty", "--message=a")

  def _run(self, *arguments, **environment):
    """Returns the exit code, lines printed, and what Bazel was asked for."""
    done = subprocess.run(
      ["bash", ".ci/run", *arguments],
      cwd=self.root,
      env={"PATH": os.environ["PATH"], "BAZELW_HOME": self.home, **environment},
      capture_output=True,
      text=True,
      check=False,
      # The stand-in is a shell, which does not catch what is ignored.
      preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    with open(f"{self.root}/asked", encoding="utf-8") as file:
      asked = file.read().splitlines()
    os.remove(f"{self.root}/asked")
    return done.returncode, done.stdout.splitlines(), asked

  def _asked_for_slow(self, **environment):
    """Returns the expression that selects slow tests to run."""
    _, _, asked = self._run(**environment)
    return [line for line in asked if line.startswith("query")][1]

  def test_runs_the_fast_tier_and_the_slow_tests(self):
    code, lines, asked = self._run()
    self.assertEqual(code, 0)
    self.assertContainsSubset(_FAST, lines)
    tests = [line for line in asked if line.startswith("test")]
    self.assertLen(tests, 2)
    for line in tests:
      self.assertIn(f"--disk_cache={self.home}/results", line)
    # Its sample is among all tests of it.
    wanted = "--test_tag_filters= //a:fast //a:sample_all"
    self.assertEndsWith(tests[0], wanted)
    self.assertEndsWith(tests[1], " --config=tf215 //...")
    self.assertEqual(lines[-1], "4 passed, 0 failed, 2 skipped")

  def test_all(self):
    self._write("counts", "2 passed, 0 failed, 1 skipped\n" * 2)
    code, lines, asked = self._run("--all")
    self.assertEqual(code, 0)
    self.assertLen(asked, 1)
    self.assertEndsWith(asked[0], " --config=all //...")
    self.assertEqual(lines[-1], "4 passed, 0 failed, 2 skipped")

  def test_without_a_base_all_slow_tests_run(self):
    self.assertNotIn("rdeps", self._asked_for_slow())

  def test_the_change_since_a_base(self):
    self._git("branch", "base")
    self._write("a/changed.py", "")
    self._commit()
    self._write("a/new.py", "")
    self.assertIn(
      "set(a/changed.py a/new.py)", self._asked_for_slow(CI_BASE="base")
    )

  def test_the_change_since_what_passed_here(self):
    self._run()
    self.assertIn("set()", self._asked_for_slow())
    self._write("a/changed.py", "")
    self._commit()
    self.assertIn("set(a/changed.py)", self._asked_for_slow())
    self.assertIn("set()", self._asked_for_slow())

  @parameterized.parameters("tests/suite.bzl", ".bazelrc", "tools/python/a.txt")
  def test_what_all_tests_are_run_by(self, path):
    self._run()
    self._write(path, "")
    self.assertNotIn("rdeps", self._asked_for_slow())

  def test_a_failure_is_counted_and_did_not_pass(self):
    self._write("counts", "1 passed, 1 failed, 0 skipped\n")
    self._write("fails", "")
    self._commit()
    code, lines, _ = self._run()
    self.assertEqual(code, 1)
    self.assertEqual(lines[-1], "2 passed, 2 failed, 0 skipped")
    self.assertIn("FAILED: The fast tier on TensorFlow 2.15", lines)
    self.assertNotIn("rdeps", self._asked_for_slow())

  @parameterized.named_parameters(
    ("readme", "tools/try_readme.py", "raise SystemExit(1)", "try_readme"),
    ("python", "tools/python/find_python", "exit 1", "try_readme"),
    ("lint", "tools/lint", "exit 1", "lint"),
  )
  def test_a_failure_beside_the_tests(self, path, text, failure):
    self._write(path, text)
    self._commit()
    code, lines, _ = self._run()
    self.assertEqual(code, 1)
    self.assertIn(f"FAILED: tools/{failure}", lines)
    self.assertFalse(os.path.exists(f"{self.home}/passed"))

  @parameterized.parameters("", "--all")
  def test_readme_is_tried_between_tests_and_style(self, argument):
    self._write("tools/try_readme.py", "print('tried')")
    self._commit()
    code, lines, _ = self._run(*argument.split())
    self.assertEqual(code, 0)
    tried = lines.index("tried")
    self.assertEqual(lines[tried - 1], "=== README, as a newcomer follows it")
    self.assertEqual(lines[tried + 1], "=== Style, format and types")

  def test_says_what_it_left_out(self):
    self._git("branch", "base")
    self._write("slow", "//a:slow\n//a:other_all\n")
    self._write("touched", "//a:slow\n")
    self._commit()
    _, lines, asked = self._run(CI_BASE="base")
    tests = [line for line in asked if line.startswith("test")]
    wanted = "--test_tag_filters= //a:fast //a:sample //a:slow"
    self.assertEndsWith(tests[0], wanted)
    left_out = lines.index("=== README, as a newcomer follows it") - 1
    self.assertEqual(lines[left_out], "//a:other_all")

  @parameterized.named_parameters(
    ("nothing_failed", "//a:fast    (cached) PASSED in 1s\n", 0),
    (
      "one_failed",
      "FAIL: //a:fast (see a/test.log)\n//a:fast    FAILED in 1s\n",
      1,
    ),
  )
  def test_no_time_is_left_for_slow_tests(self, status, code):
    self._git("branch", "base")
    self._write("touched", "//a:sample_all\n")
    self._write("hangs", "sample_all")
    # Of a test that it had begun Bazel says NO STATUS, of others nothing.
    self._write("fast", "//a:fast\n//a:sample\n//a:late\n")
    self._write("status", f"//a:sample_all    NO STATUS\n{status}")
    self._commit()
    for _ in range(2):  # It has not passed: it is touched once more.
      found, lines, asked = self._run(CI_BASE="base", CI_SLOW_UNTIL="1")
      self.assertEqual(found, code)
      tests = [line for line in asked if line.startswith("test")]
      self.assertLen(tests, 3)
      self.assertEndsWith(tests[0], " //a:fast //a:late //a:sample_all")
      rest = " --test_tag_filters= //a:sample //a:late"
      self.assertEndsWith(tests[1], rest)
      left_out = lines.index("=== README, as a newcomer follows it") - 1
      self.assertEqual(lines[left_out], "//a:sample_all")
      self.assertEqual(
        f"FAILED: {_FAST[0].removeprefix('=== ')}" in lines, code
      )
      self.assertFalse(os.path.exists(f"{self.home}/passed"))

  def test_no_slow_test_at_all_is_a_failure(self):
    self._write("slow", "")
    self._commit()
    code, lines, _ = self._run()
    self.assertEqual(code, 1)
    self.assertIn("FAILED: no slow test was found", lines)

  def test_no_test_at_all_is_a_failure(self):
    self._write("counts", "")
    self._commit()
    code, lines, _ = self._run()
    self.assertEqual(code, 1)
    self.assertIn(
      f"FAILED: {_FAST[0].removeprefix('=== ')}: no test ran", lines
    )


if __name__ == "__main__":
  absltest.main()
