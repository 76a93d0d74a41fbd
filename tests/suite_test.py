"""Each file of a suite has a process, and a part of the report."""

import os
import pathlib
import sys
import xml.etree.ElementTree as ElementTree
from unittest import mock

from tests import suite

from absl.testing import absltest, flagsaver, parameterized

_HEAD = """
import os, signal
from absl.testing import absltest
class ATest(absltest.TestCase):
"""
_FILES = {
  "passes": "  def test_a(self): os.environ['LEFT'] = '1'\n  test_b = test_a\n",
  "is_alone": "  def test_a(self): self.assertNotIn('LEFT', os.environ)\n",
  "fails": "  def test_a(self): self.fail('as it should')\n",
  "dies": "  def test_a(self): os.kill(os.getpid(), signal.SIGKILL)\n",
  "breaks": "  def test_a(self): pass\nraise KeyError('no module')\n",
  "has_none": "  pass\n",
}


class SuiteTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.root = pathlib.Path(self.create_tempdir().full_path)
    for name, text in _FILES.items():
      (self.root / f"{name}_test.py").write_text(_HEAD + text)
    self.enter_context(mock.patch.object(suite, "_ROOT", self.root))
    # What Bazel has told this process.
    self.enter_context(flagsaver.flagsaver(xml_output_file=""))
    path = [str(self.root), *sys.path]
    self.enter_context(mock.patch.object(sys, "path", path))

  def _run(self, *names, **environment):
    """Runs files; returns whether one failed, and which cases passed."""
    report = self.root / "report.xml"
    environment["XML_OUTPUT_FILE"] = str(report)
    with mock.patch.dict(os.environ, environment):
      failed = suite.main(names)
    cases = ElementTree.parse(report).getroot().iter("testcase")
    return failed, [not len(case) for case in cases]

  @parameterized.parameters(
    (["passes", "is_alone"], False, [True] * 3),
    (["passes", "fails", "is_alone"], True, [True, True, False, True]),
    (["dies", "passes"], True, [False, True, True]),
    (["breaks", "passes"], True, [False, True, True]),
    (["has_none", "is_alone"], False, [True]),
  )
  def test_files(self, names, failed, cases):
    found = self._run(*(f"{name}_test.py" for name in names))
    self.assertEqual(found, (failed, cases))

  def test_a_folder_in_shards(self):
    found = [
      self._run(".", TEST_TOTAL_SHARDS="2", TEST_SHARD_INDEX=str(shard))
      for shard in range(2)
    ]
    # A file that cannot be imported fails in both.
    self.assertLen([*found[0][1], *found[1][1]], 7)

  def test_no_such_file(self):
    with self.assertRaisesRegex(SystemExit, "absent_test.py; name files"):
      suite.main(["absent_test.py"])


if __name__ == "__main__":
  absltest.main()
