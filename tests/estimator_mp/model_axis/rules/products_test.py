"""Tests of the rules for products of matrices."""

from estimator_mp.model_axis.decisions import Joined, PerPart, Split, Whole
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
  @parameterized.product(
    transpose_a=(False, True),
    transpose_b=(False, True),
    split=("m", "k", "n", "mn"),
  )
  def test_each_dimension(self, transpose_a, transpose_b, split):
    sizes = {"m": (1, 3), "k": (3, 2), "n": (4, 2)}
    x, y = ("km" if transpose_a else "mk"), ("nk" if transpose_b else "kn")
    splits = {
      name: Split(dims.index(dim), sizes[dim])
      for name, dims in (("x", x), ("y", y))
      for dim in split
      if dim in dims
    }
    shape = {dim: sum(parts) for dim, parts in sizes.items()}
    sinking.check(
      self,
      lambda x, y: tf.matmul(x, y, transpose_a, transpose_b),
      {
        "x": _floats(*(shape[dim] for dim in x)),
        "y": _floats(*(shape[dim] for dim in y), seed=4),
      },
      splits,
    )

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
        "up": Split(1, (3, 2, 2)),
        "bias": Split(0, (3, 2, 2)),
        "down": Split(0, (3, 2, 2)),
      },
      unknown={"x": [0]},
    )
    joined = [
      op.type
      for op, decision in found.inferred.decisions.items()
      if isinstance(decision.outputs[0], Joined)
    ]
    self.assertEqual(joined, ["MatMul"])

  def test_a_whole_operand_is_read_in_parts_if_the_result_is_small(self):
    split = Split(1, (400, 600))
    decision = _decided(_matmul([None, 1000], [1000, 3]), split, None)
    self.assertEqual(decision, PerPart((split, split.at(0)), (Joined(),)))

  def test_a_sum_that_costs_more_than_a_gather_is_none(self):
    split = Split(1, (4, 6))
    self.assertIsNone(_decided(_matmul([None, 10], [10, 10]), split, None))

  def test_activations_are_gathered_for_a_split_kernel(self):
    """The result is as large as they are, and kernels stay where they are."""
    rows, columns = Split(1, (4, 6)), Split(1, (7, 3))
    decision = _decided(_matmul([9000, 10], [10, 10]), rows, columns)
    self.assertEqual(decision, PerPart((Whole(), columns), (columns,)))

  @parameterized.named_parameters(
    ("sizes", Split(1, (3, 2)), Split(0, (4, 1))),
    ("dimensions", Split(1, (3, 2)), Split(1, (4, 2))),
    ("rows_and_summed", Split(0, (3, 1)), Split(0, (4, 1))),
  )
  def test_two_splits(self, split_x, split_y):
    sinking.check(
      self,
      tf.matmul,
      {"a": _floats(4, 5), "b": _floats(5, 6, seed=4)},
      {"a": split_x, "b": split_y},
      gathers=None,
    )

  def test_unknown_rank(self):
    with tf.Graph().as_default():
      anything = v1.placeholder(tf.float32)
      op = tf.matmul(anything, v1.placeholder(tf.float32, [4, 5])).op
    self.assertIsNone(_decided(op, None, Split(1, (2, 3))))

  def test_sparse_numbers(self):
    sinking.check(
      self,
      lambda x, y: raw.SparseMatMul(
        a=x, b=y, transpose_a=True, a_is_sparse=True
      ),
      {"x": _floats(5, 4), "y": _floats(5, 6)},
      {"x": Split(0, (3, 2)), "y": Split(0, (3, 2))},
    )


class BatchMatMulTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("batch", Split(0, (1, 1)), Split(0, (1, 1))),
    ("heads", Split(1, (2, 1)), Split(1, (2, 1))),
    ("heads_of_one", Split(1, (2, 1)), None),
    ("rows", Split(2, (3, 1)), None),
    ("columns", None, Split(3, (4, 2))),
    ("summed", Split(3, (3, 2)), Split(2, (3, 2))),
  )
  def test_dimensions(self, split_x, split_y):
    splits = {"x": split_x, "y": split_y}
    sinking.check(
      self,
      lambda x, y: [tf.matmul(x, y), raw.BatchMatMul(x=x, y=y)],
      {"x": _floats(2, 3, 4, 5), "y": _floats(2, 3, 5, 6)},
      {name: split for name, split in splits.items() if split},
      rtol=1e-5,
    )

  @parameterized.named_parameters(
    ("rows", Split(2, (3, 1)), None),
    ("columns", None, Split(1, (4, 2))),
    ("summed", Split(1, (3, 2)), Split(2, (3, 2))),
  )
  def test_adjoints(self, split_x, split_y):
    splits = {"x": split_x, "y": split_y}
    sinking.check(
      self,
      lambda x, y: tf.matmul(x, y, transpose_a=True, transpose_b=True),
      {"x": _floats(3, 5, 4), "y": _floats(3, 6, 5)},
      {name: split for name, split in splits.items() if split},
      rtol=1e-5,
    )

  @parameterized.named_parameters(
    ("an_axis_less", (2, 3, 4, 5), (3, 5, 6), None, Split(0, (2, 1))),
    ("a_matrix", (2, 3, 4, 5), (5, 6), Split(1, (2, 1)), None),
    ("columns", (2, 3, 4, 5), (5, 6), None, Split(1, (2, 4))),
    ("summed", (3, 4, 5), (5, 6), Split(2, (2, 3)), Split(0, (2, 3))),
    ("one_of_one", (1, 4, 5), (3, 5, 6), None, Split(0, (2, 1))),
    ("one_of_two", (3, 1, 4, 5), (1, 2, 5, 6), Split(0, (2, 1)), None),
    ("other_of_two", (3, 1, 4, 5), (1, 2, 5, 6), None, Split(1, (1, 1))),
  )
  def test_broadcast(self, x, y, split_x, split_y):
    splits = {"x": split_x, "y": split_y}
    sinking.check(
      self,
      tf.matmul,
      {"a": _floats(*x), "b": _floats(*y, seed=4)},
      {
        name: splits[key]
        for name, key in (("a", "x"), ("b", "y"))
        if splits[key]
      },
      rtol=1e-5,
    )

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
      {name: Split(1, (2, 1)) for name in "qkv"},
      unknown={name: [0, 2] for name in "qkv"},
      rtol=1e-5,
    )

  def test_a_batch_that_may_be_repeated(self):
    op = _matmul([3, 4, 5], [None, 5, 6])
    self.assertIsNone(_decided(op, Split(0, (2, 1)), None))
    self.assertIsNotNone(_decided(op, Split(1, (2, 2)), None))


def _shares(*shape, seed=3):
  """Numbers in (0, 1)."""
  return np.random.RandomState(seed).uniform(0.05, 0.95, shape).astype("f")


class EinsumTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("heads", "bfnh,btnh->bnft", (2, 4, 3, 5), (2, 6, 3, 5), 2, 2),
    ("heads_of_one", "bfnh,btnh->bnft", (2, 4, 3, 5), (2, 6, 3, 5), 2, None),
    ("projection", "bfd,dnh->bfnh", (2, 4, 5), (5, 3, 6), None, 1),
    ("output", "bfnh,nhd->bfd", (2, 4, 3, 5), (3, 5, 6), 2, 0),
    ("ellipsis", "...ij,jk->...ik", (2, 3, 4, 5), (5, 6), 1, None),
    ("ellipsis_summed", "...ij,jk->...ik", (2, 3, 4, 5), (5, 6), 3, 0),
    ("ellipses", "...ij,...jk->...ik", (2, 3, 4, 5), (3, 5, 6), 1, 0),
    ("ellipsis_of_one", "...ij,...jk->...ik", (1, 4, 5), (3, 5, 6), None, 0),
    ("before_and_after", "i...j,jk->k...i", (4, 2, 5), (5, 6), 0, None),
    ("summed_alone", "ij,jk->k", (4, 5), (5, 6), 0, None),
  )
  def test_two_operands(self, equation, x, y, axis_x, axis_y):
    def halves(shape, axis):
      return Split(axis, (shape[axis] - 1, 1))

    splits = {}
    if axis_x is not None:
      splits["x"] = halves(x, axis_x)
    if axis_y is not None:
      splits["y"] = halves(y, axis_y)
    sinking.check(
      self,
      lambda x, y: raw.Einsum(inputs=[x, y], equation=equation),
      {"x": _floats(*x), "y": _floats(*y, seed=4)},
      splits,
      rtol=1e-5,
    )

  @parameterized.named_parameters(
    ("transposed", "ij->ji", 0),
    ("summed", "ij->j", 0),
    ("kept", "ij->j", 1),
    ("all", "ij->", 1),
    ("ellipsis", "i...->...i", 0),
  )
  def test_one_operand(self, equation, axis):
    shape = (4, 5)
    sinking.check(
      self,
      lambda x: raw.Einsum(inputs=[x], equation=equation),
      {"x": _floats(*shape)},
      {"x": Split(axis, (1, shape[axis] - 1))},
    )

  @parameterized.parameters("ii->i", "ii->")
  def test_diagonals_are_gathered(self, equation):
    sinking.check(
      self,
      lambda x: raw.Einsum(inputs=[x], equation=equation),
      {"x": _floats(4, 4)},
      {"x": Split(0, (1, 3))},
      gathers=1,
    )

  def test_layers_of_positions_of_an_unknown_number(self):
    """What dense layers make of [batch, positions, units] in the graph."""
    for unknown in ([0], [0, 1]):
      found = sinking.check(
        self,
        lambda x, up, down: tf.tensordot(
          tf.nn.relu(tf.tensordot(x, up, [[2], [0]])), down, [[2], [0]]
        ),
        {"x": _floats(2, 3, 4), "up": _floats(4, 5), "down": _floats(5, 3)},
        {"up": Split(1, (3, 2)), "down": Split(0, (3, 2))},
        unknown={"x": unknown},
      )
      outputs = [d.outputs[0] for d in found.inferred.decisions.values()]
      self.assertEqual(outputs.count(Joined()), 1)

  def test_tensordot(self):
    sinking.check(
      self,
      lambda x, y: tf.tensordot(x, y, [[1], [0]]) * 2.0,
      {"x": _floats(4, 5), "y": _floats(5, 6)},
      {"y": Split(1, (4, 2))},
      gathers=None,
    )


class OtherProductsTest(parameterized.TestCase):
  @parameterized.parameters(False, True)
  def test_sparse_with_dense(self, adjoint_b):
    def build(values, y):
      sparse = tf.SparseTensor([[0, 1], [1, 0], [2, 4]], values, [3, 5])
      return tf.sparse.sparse_dense_matmul(sparse, y, adjoint_b=adjoint_b)

    sinking.check(
      self,
      build,
      {"values": _floats(3), "y": _floats(*((6, 5) if adjoint_b else (5, 6)))},
      {"y": Split(0 if adjoint_b else 1, (4, 2))},
    )

  def test_sparse_with_split_rows_gathers(self):
    def build(y):
      sparse = tf.SparseTensor([[0, 1], [2, 4]], [1.0, 2.0], [3, 5])
      return tf.sparse.sparse_dense_matmul(sparse, y)

    sinking.check(
      self, build, {"y": _floats(5, 6)}, {"y": Split(0, (3, 2))}, gathers=1
    )

  @parameterized.named_parameters(("rows", 0, 0), ("vectors", 2, 1))
  def test_cross(self, axis, gathers):
    sinking.check(
      self,
      lambda x, y: tf.linalg.cross(x, y),
      {"x": _floats(4, 2, 3), "y": _floats(4, 2, 3, seed=5)},
      {"x": Split(axis, (1, 3 if axis == 0 else 2))},
      gathers=gathers,
    )


if __name__ == "__main__":
  absltest.main()
