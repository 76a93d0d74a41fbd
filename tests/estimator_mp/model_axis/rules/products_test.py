"""Tests of the rules for products of matrices."""

from estimator_mp.model_axis.decisions import Partial, PerPart, Replicate, Shard
from estimator_mp.model_axis.rules import products
from tests.estimator_mp.model_axis import sinking

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
raw = tf.raw_ops


def _floats(*shape, seed=3):
  return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def _decided(op, *splits):
  return products.TABLE.rules[op.type](op, splits)


def _matmul(x, y, **attributes):
  """The op of a product of tensors of some shapes."""
  with tf.Graph().as_default():
    a, b = (v1.placeholder(tf.float32, shape) for shape in (x, y))
    return tf.matmul(a, b, **attributes).op


class MatMulTest(parameterized.TestCase):
  def test_a_column_and_a_row_parallel_layer(self):
    """The batch is not known; one sum, and nothing is gathered."""
    found = sinking.check(
      self,
      lambda x, up, bias, down: tf.nn.relu(x @ up + bias) @ down,
      {
        "x": _floats(6, 4),
        "up": _floats(4, 7),
        "bias": _floats(7),
        "down": _floats(7, 4),
      },
      {
        "up": Shard(1, (3, 2, 2)),
        "bias": Shard(0, (3, 2, 2)),
        "down": Shard(0, (3, 2, 2)),
      },
      unknown={"x": [0]},
    )
    joined = [
      op.type
      for op, decision in found.inferred.decisions.items()
      if isinstance(decision.outputs[0], Partial)
    ]
    self.assertEqual(joined, ["MatMul"])

  def test_a_whole_operand_is_read_in_parts_if_the_result_is_small(self):
    split = Shard(1, (400, 600))
    decision = _decided(_matmul([None, 1000], [1000, 3]), split, None)
    self.assertEqual(decision, PerPart((split, split.at(0)), (Partial(),)))

  def test_a_sum_that_costs_more_than_a_gather_is_none(self):
    split = Shard(1, (4, 6))
    self.assertIsNone(_decided(_matmul([None, 10], [10, 10]), split, None))

  def test_activations_are_gathered_for_a_split_kernel(self):
    """The result is as large as they are, and kernels stay where they are."""
    rows, columns = Shard(1, (4, 6)), Shard(1, (7, 3))
    decision = _decided(_matmul([9000, 10], [10, 10]), rows, columns)
    self.assertEqual(decision, PerPart((Replicate(), columns), (columns,)))

  @parameterized.named_parameters(
    ("sizes", Shard(1, (3, 2)), Shard(0, (4, 1))),
    ("dimensions", Shard(1, (3, 2)), Shard(1, (4, 2))),
    ("rows_and_summed", Shard(0, (3, 1)), Shard(0, (4, 1))),
  )
  def test_two_splits(self, split_x, split_y):
    sinking.check(
      self,
      tf.matmul,
      {"a": _floats(4, 5), "b": _floats(5, 6, seed=4)},
      {"a": split_x, "b": split_y},
      gathers=None,
    )


class BatchMatMulTest(parameterized.TestCase):
  def test_attention(self):
    """Heads are split; the batch and the length are not known."""

    def attention(q, k, v):
      scores = tf.matmul(q, k, transpose_b=True)
      weights = tf.exp(scores)
      weights /= tf.reduce_sum(weights, -1, keepdims=True)
      return tf.matmul(weights, v)

    sinking.check(
      self,
      attention,
      {name: _shares(2, 3, 4, 5, seed=i) for i, name in enumerate("qkv")},
      {name: Shard(1, (2, 1)) for name in "qkv"},
      unknown={name: [0, 2] for name in "qkv"},
      rtol=1e-5,
    )


def _shares(*shape, seed=3):
  """Numbers in (0, 1)."""
  return np.random.RandomState(seed).uniform(0.05, 0.95, shape).astype("f")


class EinsumTest(parameterized.TestCase):
  def test_layers_of_positions_of_an_unknown_number(self):
    """What dense layers make of [batch, positions, units] in the graph."""
    for unknown in ([0], [0, 1]):
      found = sinking.check(
        self,
        lambda x, up, down: tf.tensordot(
          tf.nn.relu(tf.tensordot(x, up, [[2], [0]])), down, [[2], [0]]
        ),
        {"x": _floats(2, 3, 4), "up": _floats(4, 5), "down": _floats(5, 3)},
        {"up": Shard(1, (3, 2)), "down": Shard(0, (3, 2))},
        unknown={"x": unknown},
      )
      outputs = [d.outputs[0] for d in found.inferred.decisions.values()]
      self.assertEqual(outputs.count(Partial()), 1)


if __name__ == "__main__":
  absltest.main()
