"""What make_env.py shows of pip's output, and how it explains a failure."""

import contextlib
import io
import os
import sys

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
_UNREACHABLE_LOCK = "absl-py==2.5.1 --hash=sha256:" + 64 * "0" + "\n"


class ShownLinesTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (
      "downloaded",
      "  Downloading tf_keras-2.21.0-py3-none-any.whl (1.7 MB)\n",
      "tf_keras 2.21.0 (1.7 MB)",
    ),
    (
      "cached",
      "Using cached numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.whl (16 MB)",
      "numpy 2.4.6 (16 MB)",
    ),
    (
      "from_an_address",
      "  Downloading https://example.test/a/idna-3.20-py3-none-any.whl (69 kB)",
      "idna 3.20 (69 kB)",
    ),
    (
      "from_a_folder",
      "Processing /srv/wheels/tensorflow_cpu-2.21.0-cp311-cp311-linux_x86.whl"
      " (from -r lock.txt (line 7))",
      "tensorflow_cpu 2.21.0",
    ),
    (
      "unpacked",
      "Installing collected packages: a, b, c",
      "unpacking 3 packages (the long part, please wait)",
    ),
    ("metadata", "  Downloading a-1.0-py3-none-any.whl.metadata (5 kB)", None),
    ("chatter", "Collecting tqdm==4.70.1 (from -r lock.txt (line 3))", None),
  )
  def test_line(self, line, shown):
    self.assertEqual(make_env.wheel_line(line), shown)


class ExplainTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (
      "index_refuses",
      _REFUSED,
      "the Python package index cannot be reached (Connection refused); check "
      "the network, or name a mirror with PIP_INDEX_URL, or a proxy with "
      "HTTPS_PROXY",
    ),
    (
      "no_wheel",
      _NO_WHEEL,
      "the package index has no wheel of numpy==9.9 for Python %d.%d on %s %s"
      % (*sys.version_info[:2], os.uname().sysname, os.uname().machine),
    ),
    (
      "wrong_hash",
      _WRONG_HASH,
      "a downloaded wheel (tqdm==4.70.1) does not have the checksum of the "
      "lock; try again, and ask who runs the package index if it persists",
    ),
    (
      "full_disk",
      "ERROR: Could not install packages due to an OSError: [Errno 28] No "
      "space left on device",
      "no space left on the disk; an environment takes about 2 GB",
    ),
    ("anything_else", "Collecting a\nERROR: It broke.\n", "It broke."),
    ("silence", "", "pip failed"),
  )
  def test_explain(self, output, reason):
    self.assertEqual(make_env.explain(output.splitlines()), reason)


class MakeEnvTest(absltest.TestCase):
  def _fail(self, lock_text, environment):
    folder = self.create_tempdir().full_path
    lock = self.create_tempfile("lock.txt", lock_text).full_path
    error = os.path.join(folder, "error")
    environment["MP_ERROR_FILE"] = error
    before = dict(os.environ)
    self.addCleanup(os.environ.update, before)
    self.addCleanup(os.environ.clear)
    os.environ.update(environment)
    with contextlib.redirect_stderr(io.StringIO()) as stderr:
      code = make_env.main(
        [f"--venv={folder}/venv", f"--lock={lock}", "--title=This"]
      )
    self.assertEqual(code, 1)
    with open(error, encoding="utf-8") as file:
      message = file.read()
    self.assertEqual(stderr.getvalue().splitlines()[-1] + "\n", message)
    return message

  def test_an_unreachable_index_is_one_last_line(self):
    message = self._fail(
      _UNREACHABLE_LOCK,
      {
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_RETRIES": "1",
      },
    )
    self.assertStartsWith(
      message,
      "bazelw: This could not be installed: the Python package index cannot "
      "be reached (Connection refused); check the network",
    )

  def test_a_requirement_without_a_hash_is_refused(self):
    message = self._fail("absl-py==2.5.1\n", {"PIP_CONFIG_FILE": os.devnull})
    self.assertIn("Hashes are required", message)


if __name__ == "__main__":
  absltest.main()
