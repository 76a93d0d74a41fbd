"""Tests of the rules for arithmetic: what is chosen, gathered and sent.

What parts make of each op, and gradients, by_parts_test compares.
"""

from estimator_mp.model_axis.decisions import (
  Composite,
  Partial,
  PerPart,
  Reduction,
  Replicate,
  Shard,
)
from estimator_mp.model_axis.rules import table
from tests.estimator_mp.model_axis import sinking

import numpy as np
import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


def _floats(*shape):
  return np.random.RandomState(3).standard_normal(shape).astype(np.float32)


def _decided(op, *splits):
  return table.TABLE.rules[op.type](op, splits)


def _matmul(x, y):
  """The op of a product of tensors of some shapes."""
  with tf.Graph().as_default():
    a, b = (v1.placeholder(tf.float32, shape) for shape in (x, y))
    return tf.matmul(a, b).op


class OwnGradientsTest(absltest.TestCase):
  def test_a_tuple_with_a_gradient_of_its_own_is_whole(self):
    """The function of the gradient clips that of the whole tensor."""

    @tf.custom_gradient
    def clipped(x):
      return x * 1.0, lambda dy: tf.clip_by_norm(dy, 0.1)

    sinking.check(
      self,
      lambda x: clipped(x) * 3.0,
      {"x": _floats(4, 5)},
      {"x": Shard(1, (3, 2))},
      gathers=None,
    )

  def test_a_gradient_of_the_programs_is_of_the_whole_tensor(self):
    tf.RegisterGradient("ClippedAsAWhole")(
      lambda op, dy: tf.clip_by_norm(dy, 0.1)
    )

    def build(x):
      names = {"Identity": "ClippedAsAWhole"}
      with v1.get_default_graph().gradient_override_map(names):
        y = tf.identity(x)
      return y * 3.0

    sinking.check(
      self,
      build,
      {"x": _floats(4, 5)},
      {"x": Shard(1, (3, 2))},
      gathers=1,
    )


class BroadcastTest(absltest.TestCase):
  def test_the_smaller_of_two_splits_is_gathered(self):
    columns, rows = Shard(1, (2, 3)), Shard(0, (3, 1))
    with tf.Graph().as_default():
      x = v1.placeholder(tf.float32, [4, 5])
      y = v1.placeholder(tf.float32, [4, 1])
      op = (y * x).op
    self.assertEqual(
      _decided(op, rows, columns), PerPart((Replicate(), columns), (columns,))
    )


class MatMulTest(absltest.TestCase):
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


class BatchMatMulTest(absltest.TestCase):
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
      {name: _floats(2, 3, 4, 5) for name in "qkv"},
      {name: Shard(1, (2, 1)) for name in "qkv"},
      unknown={name: [0, 2] for name in "qkv"},
      rtol=1e-5,
    )


class EinsumTest(absltest.TestCase):
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


class ReduceTest(absltest.TestCase):
  def test_a_maximum_without_a_gradient_is_simple(self):
    split = Shard(1, (2, 3))
    with tf.Graph().as_default():
      x = v1.placeholder(tf.float32, [4, 5])
      stopped, learnt, compared = (tf.reduce_max(x, 1) for _ in range(3))
      tf.stop_gradient(stopped * 2.0)
      tf.square(learnt)
      tf.math.is_finite(compared)
      self.assertEqual(
        _decided(stopped.op, split, None).outputs, (Partial(Reduction.MAXIMUM),)
      )
      self.assertIsInstance(_decided(learnt.op, split, None), Composite)
      self.assertEqual(
        _decided(compared.op, split, None).outputs,
        (Partial(Reduction.MAXIMUM),),
      )

  def test_layer_normalisation(self):
    def normalised(x, gamma, beta):
      mean, variance = tf.nn.moments(x, [-1], keepdims=True)
      return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-6)

    found = sinking.check(
      self,
      normalised,
      {"x": _floats(4, 6, 5), "gamma": _floats(5), "beta": _floats(5)},
      {
        "x": Shard(2, (3, 2)),
        "gamma": Shard(0, (3, 2)),
        "beta": Shard(0, (3, 2)),
      },
      unknown={"x": [0]},
      rtol=1e-5,
    )
    exchanged = [
      op.type
      for op, decision in found.inferred.decisions.items()
      if isinstance(decision, Composite)
    ]
    self.assertEqual(exchanged, ["Mean", "Mean"])


if __name__ == "__main__":
  absltest.main()
