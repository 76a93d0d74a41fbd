"""The trace command: its files, its line, its errors."""

import contextlib
import io
import json
import os

from estimator_mp import trace

import tensorflow as tf
from absl.testing import absltest, parameterized


def _run(*arguments: str) -> tuple[int, str, str]:
  """Returns the exit code, standard output and standard error."""
  with (
    contextlib.redirect_stdout(io.StringIO()) as output,
    contextlib.redirect_stderr(io.StringIO()) as errors,
  ):
    code = trace.main(["trace", *arguments])
  return code, output.getvalue(), errors.getvalue()


class TraceCommandTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("1f1b", "--schedule=1f1b", "bound 20%"),
    ("zb1p", "--schedule=zb1p", r"bound \d+%"),
    ("gpipe_recompute", "--schedule=gpipe --recompute=always", "bound 20%"),
    ("no_pipeline", "--num_micro_batches=1", "no pipeline"),
  )
  def test_writes_a_step(self, arguments, bound):
    out = os.path.join(self.create_tempdir().full_path, "new")
    code, output, errors = _run(
      "--model=mlp",
      "--num_micro_batches=8",
      "--step=3",
      f"--out={out}",
      *arguments.split(),
    )
    self.assertEqual((code, errors), (0, ""))
    names = [f"step_3.{ending}" for ending in ("png", "svg", "json")]
    self.assertCountEqual(os.listdir(out), names)
    lines = output.splitlines()
    self.assertEqual(lines[1:], [f"  {os.path.join(out, x)}" for x in names])
    self.assertRegex(
      lines[0],
      rf"^step 3: bubble \d+% \({bound}\), [\d.]+ kB between stages, "
      r"peak live [\d.]+/[\d.]+/[\d.]+ [kM]?B$",
    )
    with open(os.path.join(out, "step_3.json"), encoding="utf-8") as file:
      events = json.load(file)["traceEvents"]
    cells = [e for e in events if e.get("cat") in ("forward", "backward")]
    # Two passes of eight micro-batches through three stages.
    self.assertLen(cells, 0 if bound == "no pipeline" else 48)
    weights = [e for e in events if e.get("cat") == "weight"]
    self.assertEqual(bool(weights), "zb1p" in arguments)

  @parameterized.named_parameters(
    (
      "batch",
      "--num_micro_batches=3",
      "num_micro_batches=3 does not divide batch_size=64; use 1, 2, 4, 8, 16,"
      " 32 or 64",
    ),
    (
      "step",
      "--step=0",
      "--step=0 is too small; use 1 or more",
    ),
    (
      "flag",
      "--steps=10",
      "--steps is not a flag; did you mean --step? --help lists the flags",
    ),
  )
  def test_error(self, argument, expected):
    code, output, errors = _run(
      f"--out={self.create_tempdir().full_path}", argument
    )
    self.assertEqual((code, output), (2, ""))
    self.assertEqual(errors, f"trace: {expected}\n")


if __name__ == "__main__":
  tf.get_logger().setLevel("FATAL")
  absltest.main()
