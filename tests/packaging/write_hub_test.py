"""The Bazel packages of a lock's distributions."""

import os
import sys
from unittest import mock

from tools.python import write_hub

from absl.testing import absltest

_LOCK = """\
absl-py==2.5.1 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
numpy==2.4.6 \\
    --hash=sha256:cc
scikit-learn==1.7.0 ; python_full_version >= '3.11' \\
    --hash=sha256:dd
tensorflow==2.21.0 ; sys_platform == 'never' \\
    --hash=sha256:ee
tensorflow-cpu==2.21.0 \\
    --hash=sha256:ff
"""
_REQUIRES = {
  "absl_py": [],
  "numpy": [],
  "scikit_learn": ["numpy", "threadpoolctl"],
  "tensorflow_cpu": ["absl_py", "numpy"],
}


class WriteHubTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.enter_context(
      mock.patch.object(write_hub, "requirements", _REQUIRES.__getitem__)
    )

  def test_an_entry_has_version_and_checksums(self):
    found = write_hub.entries(_LOCK)
    self.assertCountEqual(
      found, ["absl_py", "numpy", "scikit_learn", "tensorflow_cpu"]
    )
    for word in ("absl-py==2.5.1", "sha256:aa", "sha256:bb"):
      self.assertIn(word, found["absl_py"])

  def test_what_a_package_requires_goes_with_it(self):
    locked = write_hub.entries(_LOCK)
    for name in ("tensorflow", "tensorflow_cpu"):
      self.assertEqual(
        write_hub.closure(name, locked), ["absl_py", "numpy", "tensorflow_cpu"]
      )
    # The lock may leave out what is not needed here.
    self.assertEqual(
      write_hub.closure("scikit_learn", locked), ["numpy", "scikit_learn"]
    )

  def test_packages(self):
    lock = self.create_tempfile("requirements_x.txt", _LOCK).full_path
    out = self.create_tempdir().full_path
    arguments = ["write_hub.py", f"--lock={lock}", f"--out={out}"]
    with mock.patch.object(sys, "argv", arguments):
      write_hub.main()
    self.assertCountEqual(
      os.listdir(out), [*write_hub.entries(_LOCK), "tensorflow"]
    )
    with open(f"{out}/tensorflow/BUILD", encoding="utf-8") as file:
      self.assertIn(
        'data = ["//absl_py:lock.txt", "//numpy:lock.txt", '
        '"//tensorflow_cpu:lock.txt"]',
        file.read(),
      )


if __name__ == "__main__":
  absltest.main()
