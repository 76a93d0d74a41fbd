"""The times and the count of cases printed after `bazel test`."""

import contextlib
import io
import json
import pathlib
import unittest

from tools import test_summary

from absl.testing import absltest, parameterized, xml_reporter

_PASSING = '<testsuite><testcase name="a" status="run"/></testsuite>'


def _result(label, status, xml=None, seconds=None, **fields):
  """Returns what Bazel writes of a test that ran, or is cached."""
  result = {"status": status, "testActionOutput": []}
  if xml is not None:
    uri = pathlib.Path(xml).as_uri()
    result["testActionOutput"].append({"name": "test.xml", "uri": uri})
  if seconds is not None:
    result["testAttemptDurationMillis"] = str(round(1000 * seconds))
  shard = fields.pop("shard", 0)
  return {
    "id": {"testResult": {"label": label, "shard": shard}},
    "testResult": result | fields,
  }


class TestSummaryTest(absltest.TestCase):
  def _printed(self, *events):
    lines = "".join(json.dumps(event) + "\n" for event in events)
    path = self.create_tempfile(content=lines).full_path
    with contextlib.redirect_stdout(io.StringIO()) as stdout:
      test_summary.main(path)
    return stdout.getvalue()

  def _xml(self, text):
    return self.create_tempfile(content=text).full_path

  def test_a_method_counts_once_however_many_sub_tests_it_has(self):
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

  def test_what_has_no_report_is_a_failure(self):
    asked_for = [
      {
        "id": {"targetConfigured": {"label": f"//a:{name}"}},
        "configured": {"targetKind": "py_test rule"},
      }
      for name in ("unbuilt", "interrupted")
    ]
    interrupted = {  # This one is none.
      "id": {"targetCompleted": {"label": "//a:interrupted"}},
      "aborted": {"reason": "USER_INTERRUPTED"},
    }
    xml = self._xml(_PASSING)
    self.assertEqual(
      self._printed(
        *asked_for,
        interrupted,
        _result("//a:late", "TIMEOUT"),
        _result("//a:crashed", "FAILED"),
        _result("//a:after_its_cases", "FAILED", xml),
        _result("//a:cut_off", "PASSED", self._xml(_PASSING[:-5])),
        _result("//a:lost", "PASSED", xml + ".none"),
      ),
      "//a:late: TIMEOUT\n//a:unbuilt: was not built\n"
      "1 passed, 6 failed, 0 skipped\n",
    )

  def test_the_slowest_tests_and_the_time_of_all(self):
    """The last attempt of a test stands, and each takes its time."""
    xml = self._xml(_PASSING)
    self.assertEqual(
      self._printed(
        *(_result(f"//a:{s}", "PASSED", xml, seconds=s) for s in range(1, 6)),
        _result("//a:b", "FAILED", seconds=100),
        _result("//a:b", "PASSED", xml, seconds=0.26),
        _result("//a:b", "PASSED", xml, seconds=1, shard=1),
        _result("//a:c", "PASSED", xml, seconds=7, cachedLocally=True),
        _result(
          "//a:d", "PASSED", xml, 8, executionInfo={"cachedRemotely": True}
        ),
      ),
      "Slowest tests, wall time of their processes:\n"
      "   101.3 s  //a:b\n"
      "     5.0 s  //a:5\n"
      "     4.0 s  //a:4\n"
      "     3.0 s  //a:3\n"
      "     2.0 s  //a:2\n"
      "   116.3 s  in all (ran: 6, cached: 2)\n"
      "9 passed, 0 failed, 0 skipped\n",
    )

  def test_prints_nothing_if_no_test_was_asked_for(self):
    self.assertEqual(self._printed(), "")


if __name__ == "__main__":
  absltest.main()
