"""The count of test cases that tools/bazel prints after `bazel test`."""

import contextlib
import io
import json
import os
import pathlib

from tools import test_summary

from absl.testing import absltest, parameterized

_XML = """<?xml version="1.0"?>
<testsuites><testsuite name="ATest">
<testcase name="a" status="run" result="completed"/>
<testcase name="b" status="run" result="completed"/>
<testcase name="c" status="run"><failure message="no"/></testcase>
<testcase name="d" status="run"><error message="oh"/></testcase>
<testcase name="e" status="notrun" result="suppressed"/>
<testcase name="f"><skipped/></testcase>
</testsuite></testsuites>
"""
_PASSING_XML = '<testsuite><testcase name="a" status="run"/></testsuite>'


def _result(label, status, xml=None, **key):
  outputs = [{"name": "test.log", "uri": "file:///nowhere/test.log"}]
  if xml:
    outputs.append({"name": "test.xml", "uri": pathlib.Path(xml).as_uri()})
  return {
    "id": {"testResult": {"label": label, **key}},
    "testResult": {"status": status, "testActionOutput": outputs},
  }


def _configured(label, kind):
  return {
    "id": {"targetConfigured": {"label": label}},
    "configured": {"targetKind": kind},
  }


def _completed(label, end):
  return {"id": {"targetCompleted": {"label": label}}, **end}


class TestSummaryTest(parameterized.TestCase):
  def _printed(self, *events):
    path = self.create_tempfile("events").full_path
    lines = [{"id": {"started": {}}, "started": {}}, *events]
    with open(path, "w", encoding="utf-8") as file:
      file.writelines(json.dumps(event) + "\n" for event in lines)
    with contextlib.redirect_stdout(io.StringIO()) as stdout:
      test_summary.main(path)
    return stdout.getvalue()

  def _xml(self, text):
    return self.create_tempfile(content=text).full_path

  def test_counts_every_case(self):
    xml = self._xml(_XML)
    self.assertEqual(
      self._printed(_result("//a:a", "FAILED", xml)),
      "2 passed, 2 failed, 2 skipped\n",
    )

  def test_sums_tests_shards_and_runs(self):
    xml = self._xml(_PASSING_XML)
    self.assertEqual(
      self._printed(
        _result("//a:a", "PASSED", xml, run=1, shard=1),
        _result("//a:a", "PASSED", xml, run=1, shard=2),
        _result("//a:a", "PASSED", xml, run=2, shard=1),
        _result("//b:b", "PASSED", xml),
      ),
      "4 passed, 0 failed, 0 skipped\n",
    )

  def test_the_last_attempt_of_a_flaky_test_stands(self):
    self.assertEqual(
      self._printed(
        _result("//a:a", "FAILED", self._xml(_XML), run=1, attempt=1),
        _result("//a:a", "PASSED", self._xml(_PASSING_XML), run=1, attempt=2),
      ),
      "1 passed, 0 failed, 0 skipped\n",
    )

  @parameterized.named_parameters(
    ("timed_out", "TIMEOUT", "//a:a: TIMEOUT\n"),
    ("crashed", "FAILED", ""),
  )
  def test_without_a_report_a_failed_test_counts_once(self, status, line):
    self.assertEqual(
      self._printed(_result("//a:a", status)),
      line + "0 passed, 1 failed, 0 skipped\n",
    )

  def test_a_failed_test_whose_cases_passed_counts_as_a_failure(self):
    self.assertEqual(
      self._printed(_result("//a:a", "FAILED", self._xml(_PASSING_XML))),
      "1 passed, 1 failed, 0 skipped\n",
    )

  @parameterized.named_parameters(
    ("cut_off", '<testsuite><testcase name="a"'),
    ("empty", ""),
  )
  def test_a_broken_report_counts_as_a_failure(self, text):
    self.assertEqual(
      self._printed(_result("//a:a", "PASSED", self._xml(text))),
      "0 passed, 1 failed, 0 skipped\n",
    )

  def test_a_missing_report_file_counts_as_a_failure(self):
    xml = os.path.join(self.create_tempdir().full_path, "test.xml")
    self.assertEqual(
      self._printed(_result("//a:a", "PASSED", xml)),
      "0 passed, 1 failed, 0 skipped\n",
    )

  @parameterized.named_parameters(
    ("missing_source", {"completed": {}}),
    ("missing_dependency", {"aborted": {"reason": "ANALYSIS_FAILURE"}}),
  )
  def test_a_test_that_was_not_built_counts_as_a_failure(self, end):
    self.assertEqual(
      self._printed(
        _configured("//a:a", "py_test rule"),
        _configured("//b:b", "py_test rule"),
        _configured("//b:c", "py_library rule"),
        _completed("//a:a", {"completed": {"success": True}}),
        _completed("//b:b", end),
        _completed("//b:c", end),
        _result("//a:a", "PASSED", self._xml(_XML)),
      ),
      "//b:b: was not built\n2 passed, 3 failed, 2 skipped\n",
    )

  def test_a_test_that_was_built_but_not_asked_for_does_not_count(self):
    self.assertEqual(
      self._printed(
        _configured("//a:a", "py_test rule"),
        _completed("//a:a", {"completed": {"success": True}}),
      ),
      "",
    )

  def test_prints_nothing_if_no_test_was_asked_for(self):
    self.assertEqual(self._printed(), "")


if __name__ == "__main__":
  absltest.main()
