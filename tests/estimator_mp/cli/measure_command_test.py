"""The measure command: its file is a machine, which it writes where it can."""

import re
from unittest import mock

from estimator_mp.cli import measure_flags
from estimator_mp.machines import machine as machine_lib
from estimator_mp.machines import measure
from tests.docs import guides
from tests.estimator_mp.cli import command_runs, user_programs

from absl.testing import absltest


class MeasureTest(absltest.TestCase):
  def test_writes_a_machine(self):
    """By the command of the page, with small products."""
    folder = user_programs.working_directory(self)
    page = guides.read("docs/machines.md")
    (flags,) = re.findall(r"^    estimator-mp measure (.+)", page, re.M)
    with mock.patch.object(measure, "_SIZES", {"CPU": (64, 256)}):
      code, output, errors = command_runs.run(
        measure_flags.COMMAND.main, *flags.split(), "--seconds=0.001"
      )
    self.assertEqual((code, errors), (0, ""))
    self.assertRegex(output, r"(?m)^256 x 256( +\S+ .FLOP/s){4}$")
    (path,) = folder.glob("*.toml")
    self.assertEqual(output.splitlines()[-1], str(path))
    machine = machine_lib.load(str(path))
    self.assertEqual(
      {*machine.device.flops}, {"float32", "float64", "bfloat16"}
    )
    self.assertBetween(machine.device.memory_bandwidth, 1e8, 1e13)
    self.assertBetween(machine.device.launch_seconds, 1e-9, 1e-3)
    process, host = machine.links
    self.assertLess(process.latency, host.latency)
    self.assertGreater(process.bandwidth, host.bandwidth)


if __name__ == "__main__":
  absltest.main()
