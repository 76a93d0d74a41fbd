"""The times and the count of cases printed after `bazel test`."""

import contextlib
import io
import json
import os
import pathlib
import unittest

from tools import test_summary

from absl.testing import absltest, parameterized, xml_reporter

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


# As absl writes them. A method with subTests has a case for each of them; one
# for itself, too, if nothing in it failed or was skipped.
_SUB_TESTS = {
  "passed": """
<testcase classname="m.ATest" name="test_x" status="run" time="0.2"/>
<testcase classname="m.ATest" name="test_x (a=1)" status="run" time="9.0"/>
<testcase classname="m.ATest" name="test_x [a (b)] (c=2)" status="run"/>
""",
  "failed": """
<testcase classname="m.ATest" name="test_x (&lt;subtest&gt;)" status="run"/>
<testcase classname="m.ATest" name="test_x [a]" status="run">
<failure message="no"/></testcase>
<testcase classname="m.ATest" name="test_x [b]" status="notrun"/>
<testcase classname="m.ATest" name="test_x [c]" status="run">
<error message="oh"/></testcase>
""",
  "partly_skipped": """
<testcase classname="m.ATest" name="test_x [a]" status="notrun"/>
<testcase classname="m.ATest" name="test_x [b]" status="run"/>
""",
  "skipped": """
<testcase classname="m.ATest" name="test_x [a]" status="notrun"/>
<testcase classname="m.ATest" name="test_x [b]" status="notrun"/>
""",
  "cases_of_their_own": """
<testcase classname="m.ATest" name="test_x0 (1, 2)" status="run"/>
<testcase classname="m.ATest" name="test_x1 (1, 2)" status="run"/>
<testcase classname="m.ATest" name="test_x1 (1, 2) (sub=1)" status="run"/>
<testcase classname="m.BTest" name="test_x0 (1, 2)" status="run"/>
<testcase classname="m.BTest" name="test_x of two words" status="run"/>
<testcase classname="m.BTest" name="test_x of more words" status="run"/>
""",
}


def _result(label, status, xml=None, seconds=None, cached=None, **key):
  outputs = [{"name": "test.log", "uri": "file:///nowhere/test.log"}]
  if xml:
    outputs.append({"name": "test.xml", "uri": pathlib.Path(xml).as_uri()})
  result = {"status": status, "testActionOutput": outputs, "executionInfo": {}}
  if seconds is not None:
    result["testAttemptDurationMillis"] = str(round(1000 * seconds))
  if cached == "locally":
    result["cachedLocally"] = True
  elif cached == "on_disk":
    result["executionInfo"]["cachedRemotely"] = True
  return {
    "id": {"testResult": {"label": label, **key}},
    "testResult": result,
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

  @parameterized.parameters(
    ("passed", "1 passed, 0 failed, 0 skipped\n"),
    ("failed", "0 passed, 1 failed, 0 skipped\n"),
    ("partly_skipped", "1 passed, 0 failed, 0 skipped\n"),
    ("skipped", "0 passed, 0 failed, 1 skipped\n"),
    ("cases_of_their_own", "5 passed, 0 failed, 0 skipped\n"),
  )
  def test_a_method_counts_once_however_many_sub_tests_it_has(
    self, name, printed
  ):
    xml = self._xml(f"<testsuites>{_SUB_TESTS[name]}</testsuites>")
    status = "FAILED" if name == "failed" else "PASSED"
    self.assertEqual(self._printed(_result("//a:a", status, xml)), printed)

  def test_counts_what_absl_writes(self):
    class ATest(parameterized.TestCase):
      @parameterized.parameters(1, 2)
      def test_passes(self, value):
        for x in range(3):
          with self.subTest("a (b)", x=x, value=value):
            pass

      def test_fails(self):
        for x in range(3):
          with self.subTest(x=x):
            self.assertEqual(x, 1)

      def test_is_skipped(self):
        for x in range(3):
          with self.subTest(x):
            self.skipTest("no")

      def test_is_skipped_in_part(self):
        for x in range(3):
          with self.subTest():
            if x:
              self.skipTest("no")

    xml = io.StringIO()
    with contextlib.redirect_stderr(io.StringIO()):
      xml_reporter.TextAndXMLTestRunner(xml, stream=io.StringIO()).run(
        unittest.defaultTestLoader.loadTestsFromTestCase(ATest)
      )
    self.assertEqual(
      self._printed(_result("//a:a", "FAILED", self._xml(xml.getvalue()))),
      "3 passed, 1 failed, 1 skipped\n",
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

  def test_a_test_that_an_interrupt_kept_from_being_built_counts_not(self):
    end = {"aborted": {"reason": "USER_INTERRUPTED"}}
    self.assertEqual(
      self._printed(
        _configured("//a:a", "py_test rule"),
        _configured("//b:b", "py_test rule"),
        _completed("//a:a", {"completed": {"success": True}}),
        _completed("//b:b", end),
        _result("//a:a", "PASSED", self._xml(_XML)),
      ),
      "2 passed, 2 failed, 2 skipped\n",
    )

  def test_a_test_that_was_built_but_not_asked_for_does_not_count(self):
    self.assertEqual(
      self._printed(
        _configured("//a:a", "py_test rule"),
        _completed("//a:a", {"completed": {"success": True}}),
      ),
      "",
    )

  def test_the_slowest_tests_and_the_time_of_all(self):
    """A time is that of the processes; this test.xml says 9.2 s."""
    xml = self._xml(f"<testsuites>{_SUB_TESTS['passed']}</testsuites>")
    self.assertEqual(
      self._printed(
        _result("//a:a", "PASSED", xml, seconds=3),
        _result("//a:b", "PASSED", xml, seconds=100.26),
        _result("//a:c", "PASSED", xml, seconds=2.04, shard=1),
        _result("//a:c", "PASSED", xml, seconds=3.04, shard=2),
        _result("//a:d", "TIMEOUT", seconds=4),
        _result("//a:e", "PASSED", xml, seconds=2),
        _result("//a:f", "PASSED", xml, seconds=0.5),
      ),
      "//a:d: TIMEOUT\n"
      "Slowest tests, wall time of their processes:\n"
      "   100.3 s  //a:b\n"
      "     5.1 s  //a:c\n"
      "     4.0 s  //a:d\n"
      "     3.0 s  //a:a\n"
      "     2.0 s  //a:e\n"
      "   114.8 s  in all (ran: 6, cached: 0)\n"
      "6 passed, 1 failed, 0 skipped\n",
    )

  def test_each_attempt_takes_time(self):
    self.assertIn(
      "     3.0 s  //a:a\n",
      self._printed(
        _result("//a:a", "FAILED", seconds=1, attempt=1),
        _result("//a:a", "PASSED", seconds=2, attempt=2),
      ),
    )

  @parameterized.parameters("locally", "on_disk")
  def test_what_is_cached_took_no_time(self, cached):
    xml = self._xml(_PASSING_XML)
    self.assertEqual(
      self._printed(
        _result("//a:a", "PASSED", xml, seconds=7, cached=cached),
        _result("//a:b", "PASSED", xml, seconds=8, cached=cached, shard=1),
        _result("//a:b", "PASSED", xml, seconds=2, shard=2),
      ),
      "Slowest tests, wall time of their processes:\n"
      "     2.0 s  //a:b\n"
      "     2.0 s  in all (ran: 1, cached: 1)\n"
      "3 passed, 0 failed, 0 skipped\n",
    )

  def test_all_is_cached(self):
    self.assertEqual(
      self._printed(
        _result(
          "//a:a",
          "PASSED",
          self._xml(_PASSING_XML),
          seconds=7,
          cached="on_disk",
        )
      ),
      "     0.0 s  in all (ran: 0, cached: 1)\n1 passed, 0 failed, 0 skipped\n",
    )

  def test_prints_nothing_if_no_test_was_asked_for(self):
    self.assertEqual(self._printed(), "")


if __name__ == "__main__":
  absltest.main()
