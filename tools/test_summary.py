"""Prints how many test cases of one `bazel test` passed, failed and skipped.

    python3 tools/test_summary.py EVENTS

EVENTS is what --build_event_json_file wrote. Cases are counted in the test.xml
of every test; a test that broke off or was not built counts as one failure.
"""

from __future__ import annotations

import collections
import json
import sys
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from typing import Any


def last_results(
  lines: Iterable[str],
) -> dict[tuple[str, int, int], dict[str, Any]]:
  """The result of each run and shard of each test; the last attempt stands.

  Args:
    lines: The build events, one JSON object a line.

  Returns:
    Bazel's `testResult` by label, run and shard.
  """
  results = {}
  for line in lines:
    event = json.loads(line)
    test = event.get("id", {}).get("testResult")
    if test and "testResult" in event:
      key = test["label"], test.get("run", 1), test.get("shard", 0)
      results[key] = event["testResult"]
  return results


def unbuilt_tests(lines: Iterable[str]) -> list[str]:
  """Labels of the tests that could not be built, and so were never run.

  Args:
    lines: The build events, one JSON object a line.

  Returns:
    Sorted labels.
  """
  tests, built = set(), set()
  for line in lines:
    event = json.loads(line)
    configured = event.get("id", {}).get("targetConfigured")
    completed = event.get("id", {}).get("targetCompleted")
    if configured:
      kind = event.get("configured", {}).get("targetKind", "")
      if kind.endswith("_test rule"):
        tests.add(configured["label"])
    elif completed and event.get("completed", {}).get("success"):
      built.add(completed["label"])
  return sorted(tests - built)


def outcomes(xml_path: str) -> Iterator[str]:
  """Yields "passed", "failed" or "skipped" for each case of a test.xml.

  Args:
    xml_path: Path of a report in JUnit's format.
  """
  for case in ElementTree.parse(xml_path).iter("testcase"):
    parts = {part.tag for part in case}
    if parts & {"failure", "error"}:
      yield "failed"
    elif "skipped" in parts or case.get("status") == "notrun":
      yield "skipped"
    else:
      yield "passed"


def count_outcomes(result: dict[str, Any]) -> collections.Counter[str]:
  """Counts the cases of one test result.

  Args:
    result: A `testResult` of Bazel's.

  Returns:
    Number of cases by outcome; at least one failure if the test failed.
  """
  count: collections.Counter[str] = collections.Counter()
  for output in result.get("testActionOutput", ()):
    if output["name"] == "test.xml" and "uri" in output:
      path = urllib.parse.urlparse(output["uri"]).path
      try:
        count.update(outcomes(urllib.request.url2pathname(path)))
      except (OSError, ElementTree.ParseError):
        count["failed"] += 1
  if result.get("status") != "PASSED" and not count["failed"]:
    count["failed"] += 1
  return count


def main(path: str) -> None:
  """Prints what broke off, then the counts."""
  with open(path, encoding="utf-8") as file:
    lines = file.readlines()
  total: collections.Counter[str] = collections.Counter()
  results = last_results(lines)
  for (label, _, _), result in sorted(results.items()):
    if result.get("status") not in ("PASSED", "FAILED"):
      print(f"{label}: {result.get('status')}")
    total += count_outcomes(result)
  unbuilt = unbuilt_tests(lines)
  for label in unbuilt:
    print(f"{label}: was not built")
  total["failed"] += len(unbuilt)
  if results or unbuilt:
    print(
      f"{total['passed']} passed, {total['failed']} failed,"
      f" {total['skipped']} skipped"
    )


if __name__ == "__main__":
  main(sys.argv[1])
