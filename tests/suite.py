"""Runs test files, each in a process of its own.

  python -m tests.suite tests/estimator_mp/graph
  python -m tests.suite tests/estimator_mp/{config,cluster} tests/tiers_test.py

TensorFlow is imported once, and the processes are forked from the one that did:
that takes a tenth of a second a file, in place of six. So what a file changes
in its process (TensorFlow 2's behaviour, virtual devices, flags of XLA) no
other file sees, and one that dies fails alone.

Folders and files are named from the root of the repository; absl gets the other
arguments. Understands Bazel's shards and its XML_OUTPUT_FILE.
"""

import gc
import importlib
import os
import pathlib
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as ElementTree

# What most files import; compat is installed in TensorFlow, as in our programs.
import model_fns  # noqa: F401
from estimator_mp import sharded_estimator  # noqa: F401
from estimator_mp.comparison import compare  # noqa: F401
from estimator_mp.distributed import train_and_evaluate  # noqa: F401
from estimator_mp.serving import stage_pipeline  # noqa: F401
from tests.estimator_mp import programs, runs  # noqa: F401
from tests.estimator_mp.models import catalogue  # noqa: F401

import hypothesis  # noqa: F401
from absl.testing import absltest

# Not resolved: in a test of Bazel's, files are links.
_ROOT = pathlib.Path(__file__).parents[1]


def find_files(names):
  """Returns the test files that folders and files have, in order."""
  files = []
  for name in names:
    path = _ROOT / name
    files += sorted(path.glob("*_test.py")) if path.is_dir() else [path]
  missing = [str(path) for path in files if not path.exists()]
  if missing or not files:
    sys.exit(
      f"tests.suite: no test file: {', '.join(missing) or 'none'}; name files "
      "*_test.py, or folders that have some, from the root of the repository"
    )
  return files


def _run_here(file):
  """Runs the tests of a file in this process, and exits."""
  name = ".".join(file.relative_to(_ROOT).with_suffix("").parts)
  module = importlib.import_module(name)
  if unittest.defaultTestLoader.loadTestsFromModule(module).countTestCases():
    absltest.main(module=name)
  sys.exit(0)


def _run_forked(file, flags, environment):
  """Runs the tests of a file in a process of its own.

  Returns:
    Its exit code, and the seconds of a core that it and its processes took.
  """
  sys.stdout.flush()
  sys.stderr.flush()
  child = os.fork()
  if not child:
    code = 1
    try:
      os.environ.update(environment)
      sys.argv = [str(file), *flags]
      _run_here(file)
    except SystemExit as error:
      code = error.code if isinstance(error.code, int) else bool(error.code)
    except BaseException:
      sys.excepthook(*sys.exc_info())
    finally:
      sys.stdout.flush()
      sys.stderr.flush()
      # Without what Python does at its end, which takes longer than most files.
      os._exit(code)
  _, status, usage = os.wait4(child, 0)
  return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime


def _read_report(path, file, code):
  """Returns the `testsuite` elements that a process wrote of a file."""
  if path.exists() and path.stat().st_size:
    return list(ElementTree.parse(path).getroot())
  if not code:
    return []
  suite = ElementTree.Element(
    "testsuite", name=file.stem, tests="1", errors="1"
  )
  case = ElementTree.SubElement(
    suite, "testcase", name="process", classname=file.stem, time="0"
  )
  ElementTree.SubElement(case, "error", message=f"it ended with {code}")
  return [suite]


def main(arguments):
  """Runs the files; returns whether one failed."""
  names = [one for one in arguments if not one.startswith("-")]
  flags = [one for one in arguments if one.startswith("-")]
  shards = int(os.environ.get("TEST_TOTAL_SHARDS", 1))
  shard = int(os.environ.get("TEST_SHARD_INDEX", 0))
  # What is there before the first file is never garbage.
  gc.freeze()
  ended, failed, report = [], [], ElementTree.Element("testsuites")
  with tempfile.TemporaryDirectory() as folder:
    for i, file in enumerate(find_files(names)):
      path = pathlib.Path(folder, f"{i}.xml")
      environment = {"XML_OUTPUT_FILE": str(path)}
      if shards > 1:  # Files of one case are not all the first process'.
        environment["TEST_SHARD_INDEX"] = str((shard + i) % shards)
      started = time.monotonic()
      code, core_seconds = _run_forked(file, flags, environment)
      report.extend(_read_report(path, file, code))
      name = file.relative_to(_ROOT)
      if code:
        failed.append(f"{name} (exit code {code})")
      seconds = time.monotonic() - started
      ended.append(f"{seconds:6.1f} s, {core_seconds:6.1f} of a core: {name}")
  if "XML_OUTPUT_FILE" in os.environ:
    ElementTree.ElementTree(report).write(os.environ["XML_OUTPUT_FILE"])
  print(*sorted(ended, reverse=True), sep="\n")
  for name in failed:
    print(f"FAILED: {name}", file=sys.stderr)
  return bool(failed)


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
