"""All ways to train the MLP compute the same, and are told when they do not."""

import contextlib
import itertools
from unittest import mock

# Before TensorFlow, as it installs compat.
import estimator_mp  # noqa: F401
from benchmarks import graphs, mlp_sides, products
from benchmarks import mlp as mlp_lib

import numpy as np
from absl.testing import absltest

_MLP = mlp_lib.Mlp(layers=4, width=16, batch=8)


def _expected(steps):
  """Returns the losses of steps, computed with NumPy."""
  features, labels = _MLP.features(), _MLP.labels()
  kernels = [_MLP.kernel(layer) for layer in range(_MLP.layers)]
  biases = [np.zeros(_MLP.width, np.float32) for _ in kernels]
  losses = []
  for _ in range(steps):
    nets = [features]
    for kernel, bias in zip(kernels, biases, strict=True):
      nets.append(np.maximum(nets[-1] @ kernel + bias, 0))
    off = nets[-1] - labels
    losses.append(np.mean(off**2))
    gradient = 2 * off / off.size
    for layer in reversed(range(_MLP.layers)):
      gradient = gradient * (nets[layer + 1] > 0)
      before = gradient @ kernels[layer].T
      rate = mlp_lib.LEARNING_RATE
      kernels[layer] -= rate * nets[layer].T @ gradient
      biases[layer] -= rate * gradient.sum(0)
      gradient = before
  return losses


def _clock(step):
  """Returns a module `time` whose clock goes on by a step when it is read."""
  now = itertools.count(100.0, step)
  return mock.Mock(perf_counter=lambda: next(now))


class MlpSidesTest(absltest.TestCase):
  def test_all_sides_have_the_losses_of_the_numbers(self):
    sides = {
      "plain": mlp_sides.plain(_MLP, 1),
      "by hand": mlp_sides.by_hand(_MLP, ["/cpu:0", "/cpu:1"], 4),
      "sharded": mlp_sides.sharded(_MLP, "stage:2", num_micro_batches=4),
      "model axis": mlp_sides.sharded(
        _MLP, "model:2", split=[("kernel", 1)], threads=2
      ),
    }
    expected = _expected(3)
    with contextlib.ExitStack() as stack:
      for name, side in sides.items():
        step = stack.enter_context(side)
        with mock.patch.object(graphs, "time", _clock(0.5)):
          self.assertEqual(step.seconds(2), 0.5)
        # It has run once before.
        self.assertLen(step.losses, 3, name)
        mlp_lib.check_losses(name, step.losses, expected)

  def test_other_losses_are_an_error(self):
    with self.assertRaisesRegex(
      RuntimeError, "the losses of it differ .* by 0.01 of them"
    ):
      mlp_lib.check_losses("it", [1.0, 2.02], [1.0, 2.0, 3.0])
    with self.assertRaisesRegex(RuntimeError, "by nan of them"):
      mlp_lib.check_losses("it", [float("nan")], [1.0])

  def test_the_flops_of_a_step_are_those_of_its_products(self):
    flops = _MLP.product_flops()
    one = 2 * 8 * 16 * 16
    self.assertEqual(
      flops, {"forward": 4 * one, "weights": 4 * one, "activations": 3 * one}
    )

  def test_the_products_of_a_step_take_their_flops_at_the_best_rate(self):
    limit = products.Products(_MLP, [2], num_cores=2, flops_of_turn=1e5)
    self.addCleanup(limit.close)
    # The best rate of a kind is that of 49 products of 4 rows on 2 cores in
    # half a second; a step has 11 products of 8 rows.
    with mock.patch.object(products, "time", _clock(0.5)):
      self.assertAlmostEqual(limit.seconds(), 11 / 98)

  def test_an_mlp_is_told_to_another_process(self):
    self.assertEqual(mlp_lib.Mlp.from_json(_MLP.to_json()), _MLP)


if __name__ == "__main__":
  absltest.main()
