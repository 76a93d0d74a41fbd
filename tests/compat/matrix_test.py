"""The matrix reads results right and writes its table in the right place."""

import datetime
import os
import sys
import tempfile
from unittest import mock

from tests.compat import matrix

import numpy as np
from absl.testing import absltest


class MatrixTest(absltest.TestCase):
  def test_read_counts(self):
    report = self.create_tempfile("report.xml").full_path
    self.assertEqual(matrix.read_counts(f"{report}.2"), matrix.Counts(0, 1))
    case = '<testcase classname="%s" name="%s">%s</testcase>'
    golden = matrix._GOLDEN_TEST + "GoldenTest"
    cases = (
      (golden, "a", ""),
      (golden, "b", "<failure/>"),
      ("tests.compat.other_test.Other", "a", ""),
      ("tests.compat.other_test.Other", "b", "<skipped/>"),
    )
    with open(report, "w") as file:
      file.write(f"<a><b>{''.join(case % one for one in cases)}</b></a>")
    self.assertEqual(matrix.read_counts(report), matrix.Counts(2, 1))
    golden = matrix.read_counts(report, matrix._GOLDEN_TEST)
    self.assertEqual(golden, matrix.Counts(1, 1))

  def test_table(self):
    """A line is of one run: what another run gave stands on its own line."""
    old, new = "2026-11-01: all cases", "2026-11-26: fast tier"
    passed = str(matrix.Counts(9, 0))
    cells = {
      matrix.Pair("2.21.0", "3.13"): matrix.Result(
        new, str(matrix.Counts(9, 1)), "3 of 4 equal"
      ),
      matrix.Pair("2.15.1", "3.13"): matrix.Result(new, matrix.NO_WHEEL),
      matrix.Pair("2.15.1", "3.11"): matrix.Result(new, passed, "4 of 4 equal"),
      matrix.Pair("2.21.0", "3.11"): matrix.Result(old, passed, "4 of 4 equal"),
    }
    with (
      mock.patch.object(matrix, "RELEASES", ("2.15.1", "2.20.0", "2.21.0")),
      mock.patch.object(matrix, "PYTHONS", ("3.11", "3.13")),
    ):
      lines = matrix.table(cells).splitlines()
    self.assertEqual(
      lines,
      [
        "| TensorFlow | Python 3.11 | Python 3.13 | as on 1.15.5 | run |",
        "| --- | --- | --- | --- | --- |",
        f"| 2.15.1 | 9 passed | no wheel | 4 of 4 equal | {new} |",
        "| 2.20.0 | not run | not run |  |  |",
        f"| 2.21.0 | 9 passed | not run | 4 of 4 equal | {old} |",
        f"| 2.21.0 | not run | 9 passed, 1 FAILED | 3 of 4 equal | {new} |",
      ],
    )

  def test_run_says_its_date_its_tests_and_its_commit(self):
    for tier, cases in (("fast", "fast tier"), ("full", "all cases")):
      with (
        self.subTest(tier),
        mock.patch.dict(os.environ, MP_TIER=tier),
        mock.patch.object(matrix.subprocess, "run") as git,
      ):
        git.return_value.stdout = "b378838-dirty\n"
        self.assertEqual(
          matrix.describe_run(datetime.date(2026, 11, 26), ["a", "b"]),
          f"2026-11-26: {cases} of 2 files at b378838-dirty",
        )

  def test_numpy_of_an_environment(self):
    self.assertEqual(matrix.numpy_of(sys.executable), np.__version__)

  def test_a_candidate_takes_the_keras_of_the_release_before(self):
    self.assertLen(matrix._installs("2.21.0"), 1)
    first, second = matrix._installs("2.22.0rc0")
    self.assertIn("tensorflow-cpu==2.22.0rc0", first)
    self.assertEqual(second, ["--no-deps", "tf-keras==2.21.*"])

  def test_results_and_table_are_kept(self):
    with tempfile.TemporaryDirectory() as directory:
      results = os.path.join(directory, "results.json")
      self.assertEqual(matrix.read_results(results), {})
      cells = {
        matrix.Pair("2.21.0", "3.12"): matrix.Result(
          "2026-11-26", "9 passed", "4 of 4 equal"
        )
      }
      matrix.write_results(results, cells)
      self.assertEqual(matrix.read_results(results), cells)

      guide = os.path.join(directory, "guide.md")
      with open(guide, "w") as file:
        file.write(f"before\n{matrix.BEGIN}\nold\n{matrix.END}\nafter\n")
      matrix.write_table("new", guide)
      with open(guide) as file:
        self.assertEqual(
          file.read(),
          f"before\n{matrix.BEGIN}\n\nnew\n\n{matrix.END}\nafter\n",
        )


if __name__ == "__main__":
  absltest.main()
