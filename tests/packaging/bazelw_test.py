"""bazelw and tools/bazel, with stand-ins for Bazel, npm and apt-get."""

import os
import re
import shutil
import subprocess
import sys

from absl.testing import absltest, parameterized

_ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
_BROKEN = "#!/bin/sh\nexit 1\n"
_PASSED_XML = '<testsuite><testcase name="a" status="run"/></testsuite>'

# Says its version; otherwise prints what it was asked to do, and does what the
# variable DO says with the files that were named to it.
_BAZEL = """#!/bin/bash
if [ "$1" = --version ]; then echo "bazel VERSION"; exit; fi
for word in "$@"; do
  case "$word" in
    --script_path=*) script="${word#*=}"; set -- "${@/$word/--script_path=X}" ;;
    --build_event_json_file=*)
      events="${word#*=}"; set -- "${@/$word/--build_event_json_file=X}" ;;
  esac
done
echo "bazel:$(printf ' [%s]' "$@")"
eval "$DO"
"""


class BazelwTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.root = self.create_tempdir("repository with spaces").full_path
    for path in (
      "bazelw",
      "tools/bazel",
      "tools/python/find_python",
      "tools/test_summary.py",
    ):
      os.makedirs(os.path.dirname(f"{self.root}/{path}"), exist_ok=True)
      shutil.copy(f"{_ROOT}/{path}", f"{self.root}/{path}")
    self.bin = self.create_tempdir("bin").full_path
    self.cache = os.path.join(self.create_tempdir("cache").full_path, "bazelw")
    os.symlink(sys.executable, f"{self.bin}/python3")
    for name in ("apt-get", "bazel", "bazel-4", "bazelisk", "npm", "sudo"):
      self._program(name, _BROKEN)

  def _program(self, name, text):
    path = f"{self.bin}/{name}"
    with open(path, "w", encoding="utf-8") as file:
      file.write(text)
    os.chmod(path, 0o755)
    return path

  def _bazel(self, version="4.2.3", name="bazel"):
    return self._program(name, _BAZEL.replace("VERSION", version))

  def _start(self, *args, cwd=None, **environment):
    return subprocess.Popen(
      [f"{self.root}/bazelw", *args],
      cwd=cwd or self.root,
      env={
        "BAZELW_HOME": self.cache,
        "PATH": f"{self.bin}:/usr/bin:/bin",
        "TMPDIR": self.create_tempdir().full_path,
        **environment,
      },
      stdin=subprocess.DEVNULL,
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      text=True,
    )

  def _run(self, *args, **environment):
    process = self._start(*args, **environment)
    stdout, stderr = process.communicate(timeout=600)
    return process.returncode, stdout.splitlines(), stderr.splitlines()

  @parameterized.named_parameters(
    ("npm", "2.1.0"),
    ("debian", "4.2.3"),
    ("debian_without_a_version", "no_version"),
  )
  def test_takes_the_bazel_on_the_path(self, version):
    self._bazel(version)
    self.assertEqual(
      self._run("build", "//..."), (0, ["bazel: [build] [//...]"], [])
    )

  def test_takes_bazelisk_first(self):
    self._bazel()
    path = self._bazel(name="bazelisk")
    self.assertEqual(
      self._run("build", DO='echo "$BAZEL_REAL"'),
      (0, ["bazel: [build]", path], []),
    )

  def test_bazel_names_the_one_to_use_whatever_its_version(self):
    path = self._bazel("9.0.0", name="mine")
    self.assertEqual(self._run("info", BAZEL=path), (0, ["bazel: [info]"], []))

  def test_what_is_wrong_is_one_line(self):
    old = self._program("old", "#!/bin/sh\necho 3.9 /x/python3.9\n")
    file = self.create_tempfile("file").full_path
    for name, value, expected in (
      ("BAZEL", "/nowhere/bazel", "BAZEL=/nowhere/bazel does not run"),
      ("PYTHON_BIN_PATH", old, rf"3.10,3.11,3.12,3.13 .*\({old} is 3.9\); "),
      ("PYTHON_BIN_PATH", "/no/python3", r"\(there is no /no/python3\); "),
      ("BAZELW_HOME", f"{file}/x", f"cannot write to {file}/x; set BAZELW_H"),
    ):
      with self.subTest(value):
        code, output, (line,) = self._run("info", **{name: value})
        self.assertEqual((code, output), (1, []))
        self.assertRegex(line, f"^bazelw: .*{expected}")

  def test_an_unreachable_registry(self):
    path = self._bazel("7.4.0")
    self._program(
      "npm",
      "#!/bin/sh\n[ $1 = --version ] && exit\n"
      "echo npm error code ECONNREFUSED >&2\nexit 1\n",
    )
    self._program("uname", '#!/bin/sh\necho "Linux x86_64"\n')
    code, stdout, stderr = self._run("info")
    self.assertEqual((code, stdout), (1, []))
    self.assertIn(f"({path} is 7.4.0)", stderr[0])
    self.assertRegex(
      stderr[-1],
      r"Bazel 2.1.0 could not .*\(ECONNREFUSED\); .* a Bazel 2.1 to 4.2 with "
      f"BAZEL=/path/to/bazel. Log: {self.cache}/install.log$",
    )

  def test_a_download_with_a_wrong_checksum_is_not_kept(self):
    self._program(
      "npm",
      "#!/bin/sh\n[ $1 = --version ] && exit\nmkdir package\n"
      "echo '#!/bin/sh' >package/bazel-2.1.0-linux-x86_64\n"
      "tar czf bazel.tgz package\nrm -r package\n",
    )
    self._program("uname", '#!/bin/sh\necho "Linux x86_64"\n')
    _, _, stderr = self._run("info")
    self.assertStartsWith(
      stderr[-1],
      "bazelw: the npm registry's Bazel 2.1.0 has the wrong checksum;",
    )
    self.assertNoCommonElements(["bazel-2.1.0"], os.listdir(self.cache))

  def test_counts_the_cases_after_a_test_run(self):
    self._bazel()
    xml = self.create_tempfile("test.xml", _PASSED_XML).full_path
    code, stdout, _ = self._run(
      "test",
      "//a b",
      DO='echo \'{"id":{"testResult":{"label":"//a"}},"testResult":{"status":'
      '"PASSED","testActionOutput":[{"name":"test.xml","uri":"file://XML"}]}}\''
      ' >"$events"; exit 3'.replace("XML", xml),
    )
    self.assertEqual(code, 3)
    self.assertEqual(
      stdout,
      [
        "bazel: [test] [--build_event_json_file=X] [//a b]",
        "1 passed, 0 failed, 0 skipped",
      ],
    )

  @parameterized.named_parameters(
    ("in_the_repository", "tools"), ("outside", "..")
  )
  def test_run_becomes_the_program(self, where):
    self._bazel()
    working_directory = os.path.normpath(f"{self.root}/{where}")
    folder = self.create_tempdir().full_path
    process = self._start(
      "--startup",
      "run",
      "//a",
      "--",
      "--b c",
      cwd=working_directory,
      TMPDIR=folder,
      DO='echo \'echo "$$ $BUILD_WORKING_DIRECTORY"; exit 5\' >"$script"',
    )
    stdout, _ = process.communicate(timeout=600)
    self.assertEqual(process.returncode, 5)
    self.assertEqual(
      stdout.splitlines(),
      [
        "bazel: [--startup] [run] [--script_path=X] [//a] [--] [--b c]",
        f"{process.pid} {working_directory}",
      ],
    )
    self.assertEmpty(os.listdir(folder))

  def test_run_does_not_start_what_was_not_built(self):
    self._bazel()
    code, stdout, _ = self._run(
      "run", "//a", DO='echo "echo started" >"$script"; exit 1'
    )
    self.assertEqual(code, 1)
    self.assertNotIn("started", stdout)

  @parameterized.parameters("build", "run", "test")
  def test_the_reason_of_a_failed_install_comes_last(self, command):
    self._bazel()
    code, _, stderr = self._run(
      command,
      "//a",
      DO='echo "bazelw: no index" >"$MP_ERROR_FILE"; echo Trace >&2; exit 1',
    )
    self.assertEqual((code, stderr), (1, ["Trace", "bazelw: no index"]))

  def test_a_bazel_of_another_name_beside_the_one_named(self):
    self._bazel("4.2.3", name="bazel-4")
    done = subprocess.run(
      [f"{self.root}/tools/bazel", "info"],
      env={
        "BAZEL_REAL": f"{self.bin}/bazel-2.1.0",
        "PATH": f"{self.bin}:/usr/bin:/bin",
      },
      capture_output=True,
      text=True,
      check=True,
    )
    self.assertEqual(done.stdout, "bazel: [info]\n")

  def test_the_version_it_installs_is_that_of_bazelversion(self):
    with open(f"{_ROOT}/bazelw", encoding="utf-8") as file:
      installed = re.search(r"^npm_version=(.*)$", file.read(), re.MULTILINE)
    with open(f"{_ROOT}/.bazelversion", encoding="utf-8") as file:
      self.assertEqual(installed.group(1), file.read().strip())


if __name__ == "__main__":
  absltest.main()
