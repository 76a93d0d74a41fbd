"""The trace command: its files, its line, its errors."""

import json
import os

from estimator_mp.cli import train_flags
from tests import tiers
from tests.estimator_mp.cli import command_runs

import tensorflow as tf
from absl.testing import absltest, parameterized


class TraceCommandTest(parameterized.TestCase):
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("zb1p", "--schedule=zb1p", r"bound \d+%"),
        ("1f1b", "--schedule=1f1b", "bound 20%"),
        ("no_pipeline", "--num_micro_batches=1", "no pipeline"),
      ]
    )
  )
  def test_writes_a_step(self, arguments, bound):
    out = os.path.join(self.create_tempdir().full_path, "new")
    code, output, errors = command_runs.run(
      train_flags.TRACE.main,
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


if __name__ == "__main__":
  tf.get_logger().setLevel("FATAL")
  absltest.main()
