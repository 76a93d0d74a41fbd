"""tools/try_readme follows a README; what a command prints is what it shows."""

import contextlib
import io
import os
import pathlib
import shutil
import subprocess
from unittest import mock

from tests import tiers
from tools import shown_output, try_readme, tutorials

from absl.testing import absltest, parameterized

_README = """\
# A project

    test -f ./bazelw && echo in the clone

```
in the clone
```

A program:

```python title="program.py"
import sys

print("prefix", sys.prefix)
```

    python program.py

```
prefix /.../venv
```

    ls

```
program.py
```

```diff title="program.py"
-print("prefix", sys.prefix)
+print("changed")
```

    python program.py

```
changed
```

    ./bazelw run //a
    ./bazelw test //...
"""
# Makes the folder of Bazel's server, and says what it was asked for, in which
# home; it finds no Bazel.
_BAZELW = """#!/bin/bash
echo "$* $HOME" >>"$ASKED"
! { [[ -n "${BAZEL:-}" ]] || bazel || bazelisk || bazel-4; } || exit 1
mkdir -p "$HOME/.cache/bazel"
[[ "$1" != "$FAILS" ]] || { echo no index; exit 3; }
"""


class FollowTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.folder = pathlib.Path(self.create_tempdir().full_path)
    self.asked = []

  def _follow(self, page, printed=""):
    def run(command):
      files = [file.read_text() for file in self.folder.iterdir()]
      self.asked.append((command, *files))
      return printed

    try_readme.follow(tutorials.read(page), self.folder, run)

  def test_files_and_commands_are_in_the_order_of_the_page(self):
    page = '    a\n\n```text title="x"\n1\n```\n\n    b\n\n'
    self._follow(page + '```diff title="x"\n-1\n+2\n```\n\n    c --d\n')
    self.assertEqual(self.asked, [("a",), ("b", "1\n"), ("c --d", "2\n")])

  def test_output_that_is_not_shown_is_not_compared(self):
    self._follow("    a\n    b\n\n```\n1\n```\n", "1\n")
    self._follow("    a\n", "1\n")

  def test_the_first_difference_ends_it(self):
    with self.assertRaisesWithLiteralMatch(
      try_readme.DifferenceError,
      "a does not print what is shown: 2\nIt prints:\n1\n3",
    ):
      self._follow("    a\n\n```\n1\n2\n```\n\n    b\n", "1\n3\n")
    self.assertEqual(self.asked, [("a",)])


class TryReadmeTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    if not shutil.which("git"):
      self.skipTest("there is no git here")
    self.root = pathlib.Path(self.create_tempdir("repository").full_path)
    self.home = self.create_tempdir("home").full_path
    self.places = self.create_tempdir("places").full_path
    self.asked = pathlib.Path(self.create_tempfile("asked").full_path)
    self._write("bazelw", _BAZELW)
    self._write("README.md", _README)
    self._git("init", "--quiet", "--initial-branch=main")
    self._commit()

  def _write(self, path, text):
    path = self.root / path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)

  def _git(self, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.test"]
    subprocess.run(["git", *identity, *arguments], cwd=self.root, check=True)

  def _commit(self):
    self._git("add", "--all")
    self._git("commit", "--quiet", "--message=a")

  def _try(self, *arguments, fails=""):
    """Returns the exit code, lines printed, and what bazelw was asked for."""
    ours = {
      "ASKED": str(self.asked),
      "FAILS": fails,
      "BAZEL": "mine",
      "HOME": self.home,
      "PATH": os.environ["PATH"],
    }
    with (
      mock.patch.object(try_readme, "_ROOT", self.root),
      mock.patch.dict(os.environ, ours, clear=True),
      mock.patch("tempfile.tempdir", self.places),
      contextlib.redirect_stdout(io.StringIO()) as printed,
    ):
      code = try_readme.main([*arguments])
    self.assertEmpty(os.listdir(self.places), "something is left")
    asked = self.asked.read_text(encoding="utf-8")
    return code, printed.getvalue().splitlines(), asked.splitlines()

  @tiers.slow
  def test_does_what_is_said(self):
    self._write("README.md", "    false\n")  # It is not committed.
    code, lines, asked = self._try()
    self.assertEqual(code, 0, lines)
    commands = [line.partition("  # ")[0].strip() for line in lines]
    self.assertEqual(
      commands,
      [
        "test -f ./bazelw && echo in the clone",
        "python program.py",
        "ls",
        "python program.py",
        "./bazelw run //a",
        "./bazelw shutdown",
      ],
    )
    for line in lines:
      self.assertRegex(line, r"  # \d+ s$")
    self.assertLen(asked, 2)
    for line in asked:
      self.assertIn(f" {self.places}/", line)

  @tiers.slow
  def test_tests_are_run_if_asked_for_and_may_fail(self):
    code, lines, asked = self._try("--test", fails="test")
    self.assertEqual(code, 1)
    said = "README: ./bazelw test //... ends with exit code 3. It prints:"
    self.assertEqual(lines[-2:], [said, "no index"])
    # No server stays, whatever happened.
    commands = [line.rpartition(" ")[0] for line in asked]
    self.assertEqual(commands, ["run //a", "test //...", "shutdown"])


class EnvironmentTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.home = pathlib.Path(self.create_tempdir("home").full_path)
    self.ours = {"HOME": str(self.home), "PATH": "/a:/b"}

  def _environment(self, **ours):
    return try_readme.environment(pathlib.Path("/place"), self.ours | ours)

  def test_has_a_home_and_programs_of_its_own(self):
    self.assertEqual(
      self._environment(),
      {
        "CUDA_VISIBLE_DEVICES": "-1",
        "HOME": "/place/home",
        "PATH": "/place/bin:/place/venv/bin:/a:/b",
      },
    )

  def test_keeps_what_is_of_the_machine_and_not_what_we_have_set(self):
    kept = "SSL_CERT_FILE PIP_INDEX_URL PYTHON_BIN_PATH XDG_CONFIG_DIRS"
    ours = "BAZEL BAZELW_HOME MP_TIER PYTHONPATH TF_CPP XDG_CACHE_HOME"
    found = self._environment(**dict.fromkeys(f"{kept} {ours}".split(), "a"))
    self.assertContainsSubset(kept.split(), found)
    self.assertNoCommonElements(ours.split(), found)

  @parameterized.named_parameters(
    ("pip", "PIP_CONFIG_FILE", ".config/pip/pip.conf"),
    ("npm", "NPM_CONFIG_USERCONFIG", ".npmrc"),
  )
  def test_packages_come_from_where_they_come_from_here(self, name, path):
    self.assertNotIn(name, self._environment())
    file = self.home / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    self.assertEqual(self._environment()[name], str(file))
    self.assertEqual(self._environment(**{name: "set"})[name], "set")


_PRINTED = """\
2026-11-26 21:04:23.000001: I core/cpu.cc:1] This binary is optimized
WARNING: All log messages before absl::InitializeLog() is called are written
I0000 00:00:1795727267.082006    8694 port.cc:153] oneDNN is on.
on stage:2
stage  parameters      MB
0       1,067,008  12.804
INFO:tensorflow:Building the graph took 31 s
verified: 99 ops, to 3.1e-07 (tolerance 1e-05)
"""
_SHOWN = """\
on stage:2
stage  parameters      MB
0       1,067,008  12.804
verified: 99 ops, to 0.0e+00 (tolerance 1e-05)
"""


class ShownOutputTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("all", _SHOWN, None),
    ("lines_before", "...\nverified: 99 ops, to 0.0e+00 (tolerance ...", None),
    ("lines_after", "on stage:2\n...\n", None),
    ("lines_between", "on ...\n...\n0       1,067,008  ...\n...\n", None),
    ("no_lines_there", _SHOWN.replace("stage  ", "...\nstage  "), None),
    ("last_digits", _SHOWN.replace("12.804", "12.805"), None),
    ("a_number", _SHOWN.replace("12.804", "12.9"), "0       1,067,008  12.9"),
    (
      "a_number_without_a_point",
      _SHOWN.replace("99", "98"),
      "verified: 98 ops, to 0.0e+00 (tolerance 1e-05)",
    ),
    ("spaces", _SHOWN.replace("on ", "on  "), "on  stage:2"),
    ("a_line_too_many", f"first\n{_SHOWN}", "first"),
    ("order", "...\n0...\n...\nstage...\n...\n", "stage..."),
    ("a_line_that_is_not_shown", "on stage:2\n", "the end"),
    ("nothing", "", "the end"),
  )
  def test_first_difference(self, shown, difference):
    found = shown_output.first_difference(shown, _PRINTED)
    self.assertEqual(found, difference)

  def test_nothing_is_printed(self):
    self.assertIsNone(shown_output.first_difference("", ""))
    self.assertIsNone(shown_output.first_difference("...\n", ""))
    self.assertEqual(shown_output.first_difference("a\n", ""), "a")

  def test_what_is_no_pattern(self):
    self.assertTrue(shown_output.is_same_line("a (b)* [c]", "a (b)* [c]"))
    self.assertFalse(shown_output.is_same_line("a.c", "abc"))


if __name__ == "__main__":
  absltest.main()
