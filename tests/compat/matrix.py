"""Runs the compat tests on many TensorFlow releases and Pythons.

    python -m tests.compat.matrix --tensorflow 2.16.2 2.21.0 --python 3.11

makes a virtualenv per pair (kept, and used again, in --environments), runs
every test of tests/compat in it but those in packages/, and prints a table of
what passed, with the last results of pairs that were run before; with --write,
the table in docs/migrating.md is replaced too. MP_TIER=fast runs the fast tier
(tests/tiers.py).

A line of the table is of one release and one run, and ends with what that run
was: its date, tests and commit. "as on 1.15.5" counts the golden cases of
TensorFlow 1.15.5 (tests/compat/v1) that are equal. A pair for which TensorFlow
has no wheel says so in the table. It ends with exit code 1 if a test failed.

2.22.0rc0 is a candidate. tf-keras has no release for it yet and 2.21, the last
one, excludes it; so pip takes that one without its dependencies.
"""

import argparse
import collections
import dataclasses
import datetime
import glob
import json
import os
import shutil
import subprocess
import sys

from tools import test_summary

REPOSITORY = os.path.dirname(
  os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
)
# What every environment of the tests has besides TensorFlow.
_COMMON = os.path.join(REPOSITORY, "tools", "python", "requirements_common.in")
GUIDE = os.path.join(REPOSITORY, "docs", "migrating.md")
BEGIN = "<!-- matrix: begin (written by tests.compat.matrix) -->"
END = "<!-- matrix: end -->"
RELEASES = (
  "2.15.1",
  "2.16.2",
  "2.17.1",
  "2.18.1",
  "2.19.1",
  "2.20.0",
  "2.21.0",
  "2.22.0rc0",
)
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
# The last TensorFlow Probability for older releases.
_PROBABILITY = {"2.15": "0.23.0", "2.16": "0.24.0", "2.17": "0.24.0"}
# The Keras 2 of a release that has none of its own, installed all the same.
_OTHER_KERAS = {"2.22": "2.21"}
_GOLDEN_TEST = "tests.compat.v1.golden_test."
NO_WHEEL = "no wheel"
NOT_RUN = "not run"


@dataclasses.dataclass(frozen=True)
class Pair:
  """One TensorFlow release on one Python."""

  tensorflow: str
  python: str

  @property
  def name(self) -> str:
    """What its virtualenv is called."""
    return f"py{self.python}-tf{self.tensorflow}"


@dataclasses.dataclass(frozen=True)
class Result:
  """What the table says of one pair.

  Attributes:
    run: the date and scope of the run that it comes from.
    tests: how many passed, and with which NumPy, or why there is none.
    golden: how many golden cases of TensorFlow 1.15.5 are equal; "" without.
  """

  run: str
  tests: str
  golden: str = ""


@dataclasses.dataclass(frozen=True)
class Counts:
  """What became of the tests of one pair."""

  passed: int
  failed: int

  def __add__(self, other: "Counts") -> "Counts":
    return Counts(self.passed + other.passed, self.failed + other.failed)

  def __str__(self) -> str:
    if self.failed:
      return f"{self.passed} passed, {self.failed} FAILED"
    return f"{self.passed} passed"


def make_environment(pair: Pair, directory: str) -> str | None:
  """Makes the virtualenv of a pair, unless it is there.

  Args:
    pair: what to install.
    directory: where virtualenvs are kept.

  Returns:
    Its interpreter, or None if there is no such wheel.

  Raises:
    RuntimeError: if that Python is not on this machine, or pip fails.
  """
  environment = os.path.join(directory, pair.name)
  interpreter = os.path.join(environment, "bin", "python")
  if os.path.exists(interpreter):
    return interpreter
  base = shutil.which(f"python{pair.python}")
  if base is None:
    raise RuntimeError(
      f"python{pair.python} is not on PATH; install it, or leave "
      f"{pair.python} out of --python."
    )
  # Complete, or not there at all: an interrupted run leaves nothing behind.
  unfinished = f"{environment}.unfinished"
  shutil.rmtree(unfinished, ignore_errors=True)
  subprocess.run([base, "-m", "venv", unfinished], check=True)
  python = os.path.join(unfinished, "bin", "python")
  for arguments in _installs(pair.tensorflow):
    install = subprocess.run(
      [python, *("-m", "pip", "install", "--quiet"), *arguments],
      capture_output=True,
      text=True,
      check=False,
    )
    if install.returncode:
      shutil.rmtree(unfinished)
      if "No matching distribution found for tensorflow-cpu" in install.stderr:
        return None
      raise RuntimeError(f"pip fails for {pair.name}: {install.stderr[-2000:]}")
  os.rename(unfinished, environment)
  return interpreter


def _installs(tensorflow: str) -> list[list[str]]:
  """Returns what pip installs for a release, call by call."""
  minor = ".".join(tensorflow.split(".")[:2])
  packages = [
    *("-r", _COMMON),
    f"tensorflow-cpu=={tensorflow}",
    f"tensorflow-probability=={_PROBABILITY.get(minor, '0.25.0')}",
  ]
  if minor in _OTHER_KERAS:
    keras = f"tf-keras=={_OTHER_KERAS[minor]}.*"
    return [packages, ["--no-deps", keras]]
  # TensorFlow 2.20 takes protobuf 7, and cannot use it.
  return [[*packages, f"tf-keras=={minor}.*", "protobuf<7"]]


def run_tests(
  interpreter: str, tests: list[str], log: str
) -> tuple[Counts, Counts]:
  """Runs test files.

  Args:
    interpreter: the Python to run them with.
    tests: their paths, from the root of the repository.
    log: where their output goes, and with ".xml" what became of each case.

  Returns:
    How many test cases passed and failed: of all, and of the golden ones.
  """
  report = f"{log}.xml"
  environment = dict(os.environ, PYTHONPATH=REPOSITORY, XML_OUTPUT_FILE=report)
  environment.pop("TF_USE_LEGACY_KERAS", None)
  with open(log, "w") as output:
    subprocess.run(
      [interpreter, "-m", "tests.suite", *tests],
      env=environment,
      stdout=output,
      stderr=subprocess.STDOUT,
      cwd=REPOSITORY,
      check=False,
    )
  return read_counts(report), read_counts(report, _GOLDEN_TEST)


def read_counts(report: str, of_class: str = "") -> Counts:
  """Counts the cases of a report.

  Args:
    report: what `tests.suite` wrote. Without it, all have failed as one.
    of_class: what the names of the classes that count begin with.
  """
  if not os.path.exists(report):
    return Counts(0, 1)
  ended = collections.Counter(test_summary.outcomes(report, of_class))
  return Counts(ended["passed"], ended["failed"])


def describe_run(date: datetime.date, tests: list[str]) -> str:
  """Returns what a line of the table says of its run.

  Args:
    date: the day of the run.
    tests: paths of test files.
  """
  commit = subprocess.run(
    ["git", "describe", "--always", "--exclude=*", "--dirty"],
    cwd=REPOSITORY,
    capture_output=True,
    text=True,
    check=True,
  ).stdout.strip()
  cases = "fast tier" if os.environ.get("MP_TIER") == "fast" else "all cases"
  return f"{date}: {cases} of {len(tests)} files at {commit}"


def run_pair(pair: Pair, directory: str, tests: list[str], run: str) -> Result:
  """Runs all tests on one pair.

  Args:
    pair: the TensorFlow and the Python.
    directory: where virtualenvs and logs are kept.
    tests: paths of test files.
    run: what describe_run says of it.

  Returns:
    What the table says of the pair.
  """
  interpreter = make_environment(pair, directory)
  if interpreter is None:
    return Result(run, NO_WHEEL)
  log = os.path.join(directory, f"{pair.name}.log")
  total, golden = run_tests(interpreter, tests, log)
  print(f"{pair.name}: {total}, see {log}", flush=True)
  cases = golden.passed + golden.failed
  passed = f"{total}, NumPy {numpy_of(interpreter)}"
  return Result(run, passed, f"{golden.passed} of {cases} equal")


def numpy_of(interpreter: str) -> str:
  """Returns the version of NumPy that a Python has."""
  return subprocess.run(
    [interpreter, "-c", "import numpy; print(numpy.__version__)"],
    capture_output=True,
    text=True,
    check=True,
  ).stdout.strip()


def read_results(path: str) -> dict[Pair, Result]:
  """Returns the results of earlier runs.

  Args:
    path: a file of write_results; without it there are none.
  """
  if not os.path.exists(path):
    return {}
  with open(path) as file:
    return {
      Pair(tensorflow, python): Result(*rest)
      for tensorflow, python, *rest in json.load(file)
    }


def write_results(path: str, cells: dict[Pair, Result]) -> None:
  """Keeps the results for later runs.

  Args:
    path: the file to write.
    cells: what is known of each pair.
  """
  rows = [
    [pair.tensorflow, pair.python, cell.run, cell.tests, cell.golden]
    for pair, cell in cells.items()
  ]
  with open(path, "w") as file:
    json.dump(rows, file, indent=2)


def table(cells: dict[Pair, Result]) -> str:
  """Returns the results as a Markdown table.

  Args:
    cells: what is known of each pair.

  Returns:
    A line per release and run, and one for a release that was never run.
  """
  heads = ["TensorFlow", *(f"Python {python}" for python in PYTHONS)]
  heads += ["as on 1.15.5", "run"]
  lines = [_row(heads), "| --- " * len(heads) + "|"]
  for release in RELEASES:
    rows: dict[str, dict[str, Result]] = {}
    for pair, cell in cells.items():
      if pair.tensorflow == release:
        rows.setdefault(cell.run, {})[pair.python] = cell
    for run, row in sorted(rows.items()) or [("", {})]:
      tests = [row[p].tests if p in row else NOT_RUN for p in PYTHONS]
      golden = sorted({cell.golden for cell in row.values() if cell.golden})
      lines.append(_row([release, *tests, ", ".join(golden), run]))
  return "\n".join(lines)


def _row(cells: list[str]) -> str:
  return f"| {' | '.join(cells)} |"


def write_table(text: str, path: str = GUIDE) -> None:
  """Replaces the table in the guide.

  Args:
    text: the new table.
    path: the guide, which has the two marks to write between.
  """
  with open(path) as guide:
    before, _, rest = guide.read().partition(BEGIN)
    _, _, after = rest.partition(END)
  with open(path, "w") as guide:
    guide.write(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


def main() -> None:
  """Runs the pairs of the command line."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument(
    "--tensorflow", nargs="+", default=RELEASES, choices=RELEASES
  )
  parser.add_argument("--python", nargs="+", default=PYTHONS, choices=PYTHONS)
  parser.add_argument(
    "--environments",
    default=os.path.join(REPOSITORY, ".bazel", "matrix"),
    help="where virtualenvs and logs are kept",
  )
  parser.add_argument(
    "--write", action="store_true", help="replace the table in the guide"
  )
  flags = parser.parse_args()
  os.makedirs(flags.environments, exist_ok=True)
  tests = sorted(
    test
    for test in glob.glob(
      "tests/compat/**/*_test.py", root_dir=REPOSITORY, recursive=True
    )
    if "packages" not in test
  )
  results = os.path.join(flags.environments, "results.json")
  cells = read_results(results)
  run = describe_run(datetime.date.today(), tests)
  for release in flags.tensorflow:
    for python in flags.python:
      pair = Pair(release, python)
      cells[pair] = run_pair(pair, flags.environments, tests, run)
      write_results(results, cells)
  print(table(cells))
  if flags.write:
    write_table(table(cells))
  sys.exit(any("FAILED" in cell.tests for cell in cells.values()))


if __name__ == "__main__":
  main()
