"""The capacity command: growth with stages, its files, the errors."""

import json
import pathlib
from unittest import mock

from estimator_mp.cli.launching import network
from estimator_mp.cli.sizing import capacity_flags, planning
from estimator_mp.distributed import network as network_check
from tests import tiers
from tests.estimator_mp.cli import command_runs

from absl.testing import absltest, parameterized

_SIZES = '{"hidden_size": 128, "sequence_length": 32, "num_heads": 4}'


class CommandTest(parameterized.TestCase):
  def _found(self, *arguments):
    folder = pathlib.Path(self.create_tempdir().full_path)
    code, output, errors = command_runs.run(
      capacity_flags.COMMAND.main, f"--out={folder}", *arguments
    )
    self.assertEqual(code, 0, errors)
    self.assertTrue((folder / "capacity.png").exists())
    self.drawn = (folder / "capacity.svg").read_text()
    found = json.loads((folder / "capacity.json").read_text())
    return found, output

  @tiers.slow
  def test_a_transformer_grows_with_the_stages(self):
    stages = tiers.sample(["1", "2", "4"])
    found, output = self._found(
      "--memory_per_device=8MiB",
      f"--stages={','.join(stages)}",
      f"--sizes={_SIZES}",
    )
    self.assertEqual([str(x["stages"]) for x in found], stages)
    self.assertContainsSubsequence(output.splitlines()[-1], "capacity.json")
    for text in (
      "stages",
      *stages,
      "parameters of the largest model that fits",
    ):
      self.assertIn(f"<!-- {text} -->", self.drawn)
    for entry in found:
      self.assertLen(entry["devices"], entry["stages"])
      for device in entry["devices"]:
        needs = [device[x] for x in ("variables", "gradients", "tensors")]
        self.assertLessEqual(sum(needs), 8 * 2**20)
      linear = found[0]["parameters"] * entry["stages"]
      self.assertGreaterEqual(entry["parameters"], 0.9 * linear)

  @tiers.slow
  def test_zero_spreads_slots(self):
    def most_variables(*arguments):
      options = capacity_flags.parse(
        ["capacity", f"--sizes={_SIZES}", *arguments]
      )
      plan = planning.plan_model(options, num_stages=1, free_size=2)
      return max(device.variables for device in plan.devices)

    zero = most_variables("--replicas=2", "--optimizer_state=sharded")
    self.assertLess(zero, 0.8 * most_variables())

  @tiers.slow
  def test_measuring_where_no_network_of_its_own_is_permitted(self):
    with (
      mock.patch.object(network, "why_not", lambda: "Operation not permitted"),
      mock.patch.object(network_check, "outer_interfaces", lambda: ("eth0",)),
    ):
      code, _, errors = command_runs.run(
        capacity_flags.COMMAND.main, "--measure"
      )
    self.assertEqual(code, 2)
    self.assertRegex(
      errors,
      r"\(Operation not permitted\), .* here on eth0; leave out --measure",
    )


if __name__ == "__main__":
  absltest.main()
