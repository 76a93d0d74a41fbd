"""Prints where the time of one `bazel test` went, and how its cases ended.

    python3 tools/test_summary.py EVENTS

EVENTS is what --build_event_json_file wrote. Cases are counted in the test.xml
of every test, as they are written: one, however many subTests it has. A test
that broke off or was not built counts as one failure.

Times are Bazel's, of whole processes. Those of a test.xml leave out imports and
what is set up for a class or a module, and absl's of subTests mean nothing.
"""

from __future__ import annotations

import collections
import json
import re
import sys
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from typing import Any

_SLOWEST = 5
# absl adds to a method's name its arguments, "(1, 2)", and those of a subTest,
# "[message] (key=1)", after a space.
_AFTER_METHOD = re.compile(r" [\[(]")


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

  One that was to be built when Bazel was interrupted is none of them.

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
    elif completed and (
      event.get("completed", {}).get("success")
      or event.get("aborted", {}).get("reason") == "USER_INTERRUPTED"
    ):
      built.add(completed["label"])
  return sorted(tests - built)


def outcomes(xml_path: str, of_class: str = "") -> Iterator[str]:
  """Yields "passed", "failed" or "skipped" for each test method of a test.xml.

  A method failed if any of its subTests did, and is skipped if all of them are.

  Args:
    xml_path: Path of a report in JUnit's format.
    of_class: What the names of the classes that count begin with.
  """
  methods = collections.defaultdict(set)
  for case in ElementTree.parse(xml_path).iter("testcase"):
    method = _AFTER_METHOD.split(case.get("name", ""), maxsplit=1)[0]
    methods[case.get("classname"), method].add(_outcome(case))
  for (name, _), found in methods.items():
    if not (name or "").startswith(of_class):
      continue
    yield next(one for one in ("failed", "passed", "skipped") if one in found)


def _outcome(case: ElementTree.Element) -> str:
  parts = {part.tag for part in case}
  if parts & {"failure", "error"}:
    return "failed"
  if "skipped" in parts or case.get("status") == "notrun":
    return "skipped"
  return "passed"


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


def seconds_by_test(lines: Iterable[str]) -> dict[str, float]:
  """Wall seconds of each test's processes: all shards, runs and attempts.

  Args:
    lines: The build events, one JSON object a line.

  Returns:
    Seconds by label; 0 where all results are cached, nothing where none ran.
  """
  seconds: collections.defaultdict[str, float] = collections.defaultdict(float)
  for line in lines:
    event = json.loads(line)
    test = event.get("id", {}).get("testResult")
    if not test or "testResult" not in event:
      continue
    result = event["testResult"]
    if result.get("cachedLocally") or result.get("executionInfo", {}).get(
      "cachedRemotely"
    ):
      seconds[test["label"]] += 0
    elif "testAttemptDurationMillis" in result:
      seconds[test["label"]] += int(result["testAttemptDurationMillis"]) / 1000
  return seconds


def time_lines(seconds: dict[str, float]) -> Iterator[str]:
  """Yields the slowest tests with their wall seconds, and the total.

  Args:
    seconds: Wall seconds by label; 0 if the test's results are cached.
  """
  ran = {label: taken for label, taken in seconds.items() if taken}
  if ran:
    yield "Slowest tests, wall time of their processes:"
  for label in sorted(ran, key=ran.__getitem__, reverse=True)[:_SLOWEST]:
    yield f"{ran[label]:8.1f} s  {label}"
  cached = len(seconds) - len(ran)
  total = sum(ran.values())
  yield f"{total:8.1f} s  in all (ran: {len(ran)}, cached: {cached})"


def main(path: str) -> None:
  """Prints what broke off, where the time went, then the counts."""
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
  if seconds := seconds_by_test(lines):
    print(*time_lines(seconds), sep="\n")
  if results or unbuilt:
    print(
      f"{total['passed']} passed, {total['failed']} failed,"
      f" {total['skipped']} skipped"
    )


if __name__ == "__main__":
  main(sys.argv[1])
