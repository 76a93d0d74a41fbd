"""The traffic command: what a step of a small network sends."""

from estimator_mp.cli import train_flags
from tests.estimator_mp.cli import command_runs

import tensorflow as tf
from absl.testing import absltest, parameterized

# The network is cut after its second layer of 128 units; 64 examples, float32.
_ACTIVATIONS = 64 * 128 * 4


class TrafficCommandTest(parameterized.TestCase):
  def _run(self, *arguments):
    code, output, errors = command_runs.run(
      train_flags.TRAFFIC.main, "--model=mlp", "--step=2", *arguments
    )
    self.assertEqual((code, errors), (0, ""))
    return output.splitlines()

  @parameterized.parameters(1, 4)
  def test_activations_and_gradients_are_the_largest(self, slices):
    count = 2 * slices
    lines = self._run(
      "--mesh=stage:2", f"--num_micro_batches={slices}", f"--largest={count}"
    )
    self.assertEqual(lines[:2], ["step 2", ""])
    self.assertStartsWith(lines[2], "from device    to device      tensors  ")
    size = f"{_ACTIVATIONS / slices / 1000:.3g} kB"
    to_second = "/device:CPU:0  /device:CPU:1"
    to_first = "/device:CPU:1  /device:CPU:0"
    for line in lines[-count:]:
      route = to_first if "gradients/" in line else to_second
      self.assertEndsWith(line, f"  {route}  {size}")
    self.assertLen([x for x in lines[-count:] if "gradients/" in x], slices)

  def test_one_stage_sends_nothing(self):
    lines = self._run("--mesh=stage:1", "--num_micro_batches=1")
    self.assertEqual(lines, ["step 2", "", "no tensor is sent between devices"])


if __name__ == "__main__":
  tf.get_logger().setLevel("FATAL")
  absltest.main()
