"""Files are whole, the old one or the new one, and say their format."""

import os
import pathlib
from unittest import mock

from estimator_mp.config import files

import tensorflow as tf
from absl.testing import absltest, parameterized


class WriteWholeTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.folder = pathlib.Path(self.create_tempdir().full_path)
    self.path = self.folder / "result.json"

  @parameterized.parameters("ü\n", b"\x00\xff")
  def test_makes_and_replaces(self, content):
    for old in (None, "before"):
      if old is not None:
        self.path.write_text(old)
      files.write_atomically(str(self.path), content)
      expected = content.encode() if isinstance(content, str) else content
      self.assertEqual(self.path.read_bytes(), expected)
      self.assertEqual(os.listdir(self.folder), ["result.json"])

  @parameterized.parameters("write", "rename")
  def test_what_cannot_be_written_leaves_the_old_file(self, failing):
    self.path.write_text("before")
    full = tf.errors.ResourceExhaustedError(None, None, "No space left")
    owner, name = (
      (tf.io.gfile.GFile, "write")
      if failing == "write"
      else (tf.io.gfile, "rename")
    )
    with (
      mock.patch.object(owner, name, side_effect=full),
      self.assertRaises(tf.errors.ResourceExhaustedError),
    ):
      files.write_atomically(str(self.path), "after")
    self.assertEqual(self.path.read_text(), "before")
    self.assertEqual(os.listdir(self.folder), ["result.json"])


if __name__ == "__main__":
  absltest.main()
