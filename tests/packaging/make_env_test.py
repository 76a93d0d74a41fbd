"""What make_env.py shows of pip's output, and how it explains a failure."""

import contextlib
import hashlib
import io
import os
import subprocess
import sys
import zipfile
from unittest import mock

from tests import tiers
from tools.python import make_env

from absl.testing import absltest, parameterized

_REFUSED = """\
WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, \
status=None)) after connection broken by 'NewConnectionError('<pip._vendor\
.urllib3.connection.HTTPConnection object at 0x7f>: Failed to establish a new \
connection: [Errno 111] Connection refused')': /simple/absl-py/
ERROR: Could not find a version that satisfies the requirement absl-py==2.5.1 \
(from -r lock.txt (line 1)) (from versions: none)
ERROR: No matching distribution found for absl-py==2.5.1"""
_NO_WHEEL = """\
ERROR: Could not find a version that satisfies the requirement numpy==9.9 \
(from versions: 1.0)
ERROR: No matching distribution found for numpy==9.9"""
_WRONG_HASH = """\
ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.
    tqdm==4.70.1 from https://example.test/tqdm.whl (from -r lock.txt):
        Expected sha256 0000
             Got        1111"""


_NUMPY = "numpy 2.4.6 (16 MB)"
_UNPACKING = "unpacking 3 packages (the long part, please wait)"
_VERSION = sys.version_info[:2]


class ShownLinesTest(parameterized.TestCase):
  @parameterized.parameters(
    (
      "  Downloading tf_keras-2.21.0-py3-none-any.whl (1.7 MB)\n",
      "tf_keras 2.21.0 (1.7 MB)",
    ),
    ("Using cached numpy-2.4.6-cp311-cp311-x86_64.whl (16 MB)", _NUMPY),
    ("  Downloading https://x.test/a/numpy-2.4.6-cp3-a.whl (16 MB)", _NUMPY),
    (
      "Processing /w/a_b-2.1-cp3-a.whl (from -r lock.txt (line 7))",
      "a_b 2.1",
    ),
    ("Installing collected packages: a, b, c", _UNPACKING),
    ("  Downloading a-1.0-py3-none-any.whl.metadata (5 kB)", None),
    ("Collecting tqdm==4.70.1 (from -r lock.txt (line 3))", None),
  )
  def test_line(self, line, shown):
    self.assertEqual(make_env.wheel_line(line), shown)


class ExplainTest(parameterized.TestCase):
  @parameterized.parameters(
    (_REFUSED, r"cannot be reached \(Connection refused\); .* PIP_INDEX_URL"),
    (_NO_WHEEL, "no wheel of numpy==9.9 for Python %d.%d on " % _VERSION),
    (_WRONG_HASH, r"wheel \(tqdm==4.70.1\) does not have the checksum of"),
    ("ERROR: OSError: [Errno 28] No space left on device", "no space .* 2 GB"),
    ("Collecting a\nERROR: It broke.\n", "^It broke.$"),
    ("", "^pip failed$"),
  )
  def test_explain(self, output, reason):
    self.assertRegex(make_env.explain(output.splitlines()), reason)


def _make_wheel(folder):
  """Writes the wheel of a package `tiny`; returns its SHA-256."""
  path = os.path.join(folder, "tiny-1.0-py3-none-any.whl")
  info = "tiny-1.0.dist-info"
  with zipfile.ZipFile(path, "w") as wheel:
    wheel.writestr("tiny.py", "ANSWER = 42\n")
    wheel.writestr(f"{info}/RECORD", "")
    wheel.writestr(
      f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n"
    )
    wheel.writestr(
      f"{info}/WHEEL",
      "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    )
  with open(path, "rb") as file:
    return hashlib.sha256(file.read()).hexdigest()


class MakeEnvTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    self.error = os.path.join(self.folder, "error")

  def _make(self, lock_text, **environment):
    """Runs make_env; returns its exit code and the lines it printed."""
    lock = self.create_tempfile("requirements_x.txt", lock_text).full_path
    environment |= {"MP_ERROR_FILE": self.error, "PIP_CONFIG_FILE": os.devnull}
    with (
      mock.patch.dict(os.environ, environment),
      contextlib.redirect_stderr(io.StringIO()) as stderr,
      contextlib.redirect_stdout(io.StringIO()) as stdout,
    ):
      code = make_env.main(
        [f"--home={self.folder}/envs", f"--lock={lock}", "--title=This"]
      )
    self.venv = stdout.getvalue().strip()
    return code, stderr.getvalue().splitlines()

  @tiers.slow
  def test_makes_an_environment_with_what_the_lock_names(self):
    checksum = _make_wheel(self.folder)
    code, lines = self._make(
      f"tiny==1.0 --hash=sha256:{checksum}\n",
      PIP_FIND_LINKS=self.folder,
      PIP_NO_INDEX="1",
    )
    self.assertEqual(code, 0)
    self.assertEqual(
      lines[:-1],
      [
        "bazelw: installing This for Python %d.%d ..." % _VERSION,
        "bazelw:   tiny 1.0",
        "bazelw:   unpacking 1 package (the long part, please wait)",
      ],
    )
    self.assertRegex(lines[-1], r"^bazelw: installed This in \d+ s$")
    self.assertRegex(self.venv, f"^{self.folder}/envs/x-[0-9a-f]{{12}}$")
    python = f"{self.venv}/bin/python3"
    answer = subprocess.check_output(
      [python, "-c", "import tiny; print(tiny.ANSWER)"]
    )
    self.assertEqual(answer, b"42\n")
    self.assertFalse(os.path.exists(self.error))

  @tiers.slow
  def test_an_environment_is_made_once_for_a_lock(self):
    checksum = _make_wheel(self.folder)
    where = {"PIP_FIND_LINKS": self.folder, "PIP_NO_INDEX": "1"}
    text = f"tiny==1.0 --hash=sha256:{checksum}\n"
    self._make(text, **where)
    first = self.venv
    self.assertEqual(self._make(text, **where), (0, []))
    self.assertEqual(self.venv, first)
    os.remove(f"{self.venv}/complete")  # It broke off.
    self.assertIn("bazelw:   tiny 1.0", self._make(text, **where)[1])
    self.assertEqual(self._make("# Another one.\n" + text, **where)[0], 0)
    self.assertNotEqual(self.venv, first)

  @tiers.slow
  @parameterized.named_parameters(
    ("checksum", {"PIP_NO_INDEX": "1"}, "a downloaded wheel (tiny==1.0) does "),
    (
      "unreachable_index",
      {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "1"},
      "the Python package index cannot be reached (Connection refused);",
    ),
  )
  def test_a_failure_is_one_last_line(self, where, expected):
    _make_wheel(self.folder)
    if "PIP_NO_INDEX" in where:
      where = where | {"PIP_FIND_LINKS": self.folder}
    code, lines = self._make(f"tiny==1.0 --hash=sha256:{64 * '0'}\n", **where)
    self.assertEqual(code, 1)
    said = f"bazelw: This could not be installed: {expected}"
    self.assertStartsWith(lines[-1], said)
    with open(self.error, encoding="utf-8") as file:
      self.assertEqual(file.read(), lines[-1] + "\n")


if __name__ == "__main__":
  absltest.main()
