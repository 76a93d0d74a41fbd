"""Shapes are evaluated as kernels do, on numbers and on symbols."""

from estimator_mp.sizes import polynomials, values
from tests.estimator_mp import session_configs
from tests.estimator_mp.sizes import numbers

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_v1 = tf.compat.v1
_raw = tf.raw_ops
n = polynomials.symbol("n")
_N = 6  # What n stands for.
t, k = polynomials.symbol("t"), polynomials.symbol("k")
_LEAST = {"n": 1, "t": 0}  # k may be any number.


def _vector(*entries):
  return values.value_of(entries)


_SHAPE = _vector(n, 4, 3)
# An op of tensors, and their values: those with n are fed.
_CASES = [
  ("add", lambda x, y: x + y, _SHAPE, _vector(1, 2, 3)),
  ("add_scalar", lambda x, y: x + y, _SHAPE, values.value_of(2)),
  ("subtract", lambda x, y: x - y, _SHAPE, _vector(2, 4, 9)),
  ("multiply", lambda x, y: x * y, _SHAPE, _SHAPE),
  ("negate", lambda x: -x, _SHAPE),
  ("add_n", lambda x, y: tf.add_n([x, y]), _SHAPE, _SHAPE),
  (
    "floor_divide",
    lambda x, y: x // y,
    _vector(2 * n, 7, -7),
    _vector(2, 2, 2),
  ),
  (
    "truncate_divide",
    lambda x, y: tf.truncatediv(x, y),
    _vector(3 * n, 7, -7),
    _vector(n, 2, 2),
  ),
  ("remainder", lambda x, y: x % y, _vector(4 * n, 7, -7), _vector(2, 4, 4)),
  ("maximum", tf.maximum, _vector(n, 1, 5), _vector(1, n, 2)),
  ("minimum", tf.minimum, _vector(n, 1, 5), _vector(1, 2 * n, 2)),
  ("cast", lambda x: tf.cast(x, tf.int64), _SHAPE),
  ("zeros", tf.zeros_like, _SHAPE),
  ("ones", tf.ones_like, _SHAPE),
  ("product", lambda x: tf.reduce_prod(x, 0), _SHAPE),
  ("product_kept", lambda x: tf.reduce_prod(x, 0, keepdims=True), _SHAPE),
  ("product_of_none", lambda x: tf.reduce_prod(x[3:], 0), _SHAPE),
  ("sum", lambda x: tf.reduce_sum(x, [0]), _SHAPE),
  ("sum_over_none", lambda x: tf.reduce_sum(x, []), _SHAPE),
  ("stack", lambda x, y: tf.stack([x, y], 1), _SHAPE, _SHAPE),
  ("unstack", lambda x: tf.unstack(x)[0], _SHAPE),
  ("concat", lambda x, y: tf.concat([x, y], 0), _SHAPE, _vector(n)),
  (
    "concat_v1",
    lambda x, y: _raw.Concat(concat_dim=0, values=[x, y]),
    _SHAPE,
    _SHAPE,
  ),
  ("entry", lambda x: x[0], _SHAPE),
  ("last_entries", lambda x: x[-2:], _SHAPE),
  ("every_second", lambda x: x[::2], _SHAPE),
  ("reversed", lambda x: x[::-1], _SHAPE),
  ("new_axis", lambda x: x[tf.newaxis, 1:], _SHAPE),
  ("dots", lambda x: tf.stack([x, x])[..., 0], _SHAPE),
  ("slice", lambda x: tf.slice(x, [1], [-1]), _SHAPE),
  ("split", lambda x: tf.split(x, 3)[1], _SHAPE),
  ("split_by_sizes", lambda x: tf.split(x, [1, -1])[1], _SHAPE),
  ("gather", lambda x: tf.gather(x, [2, 0]), _SHAPE),
  ("gather_entry", lambda x: tf.gather(x, 1), _SHAPE),
  ("reshape", lambda x: tf.reshape(x, [3, -1]), _SHAPE),
  ("expand", lambda x: tf.expand_dims(x, 1), _SHAPE),
  ("squeeze", lambda x: tf.squeeze(tf.expand_dims(x, 1), [1]), _SHAPE),
  ("transpose", lambda x: tf.transpose(tf.stack([x, x])), _SHAPE),
  ("tile", lambda x: tf.tile(x, [2]), _SHAPE),
  ("broadcast", lambda x: tf.broadcast_to(x, [2, 3]), _SHAPE),
  ("reverse", lambda x: tf.reverse(x, [0]), _SHAPE),
  ("fill", lambda x: tf.fill([2], x[0]), _SHAPE),
  ("range", lambda x: x + tf.range(3), _SHAPE),
  (
    "stitch",
    lambda x, y: tf.dynamic_stitch([[0, 2], [1]], [x[:2], y]),
    _SHAPE,
    _vector(2 * n),
  ),
  ("permutation", lambda x: tf.math.invert_permutation([2, 0, 1]) + x, _SHAPE),
  (
    "offsets",
    lambda x, y: _raw.ConcatOffset(concat_dim=0, shape=[x, y])[1],
    _SHAPE,
    _SHAPE,
  ),
]
_UNKNOWN = [
  ("empty_or_not", tf.maximum, _vector(t), _vector(1)),
  ("negative_or_not", tf.maximum, _vector(k), _vector(0)),
  ("a_number_or_not", tf.minimum, _vector(k), _vector(1)),
  ("which_is_larger", tf.maximum, _vector(n), _vector(7)),
  ("no_whole_number", lambda x, y: x // y, _vector(n), _vector(4)),
  ("by_zero", lambda x, y: x // y, _vector(3), _vector(0)),
  ("so_many_entries", lambda x: tf.range(x[0]), _SHAPE),
  ("a_shape_of_n", lambda x: tf.reshape(tf.zeros([12], tf.int32), x), _SHAPE),
]


def _at(value):
  """Returns a value where n is a number."""
  found = np.empty(value.shape, np.int64)
  for place, entry in np.ndenumerate(value):
    found[place] = numbers.value_of(entry, {"n": _N, "t": 3, "k": 5})
  return found


def _evaluate(tensor, known):
  """Returns the value of a tensor, of those of placeholders."""
  op = tensor.op
  if op not in known:
    read = [_evaluate(x, known) for x in op.inputs]
    is_known = all(x is not None for x in read)
    known[op] = values.evaluate(op, read, _LEAST.get) if is_known else None
  found = known[op]
  return None if found is None else found[tensor.value_index]


class ValuesTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.enter_context(tf.Graph().as_default())

  def _make(self, function, read):
    fed = [_v1.placeholder(tf.int32, value.shape) for value in read]
    known = {x.op: [value] for x, value in zip(fed, read, strict=True)}
    result = function(*fed)
    feed = {x: _at(value) for x, value in zip(fed, read, strict=True)}
    return result, _evaluate(result, known), feed

  @parameterized.named_parameters(_CASES)
  def test_is_what_the_kernel_makes(self, function, *read):
    result, value, feed = self._make(function, read)
    self.assertIsNotNone(value)
    with _v1.Session(config=session_configs.config()) as session:
      np.testing.assert_array_equal(_at(value), session.run(result, feed))

  @parameterized.named_parameters(_UNKNOWN)
  def test_is_not_known(self, function, *read):
    _, value, _ = self._make(function, read)
    self.assertIsNone(value)

  def test_large_constants_are_no_shapes(self):
    self.assertIsNone(_evaluate(tf.range(100) + 1, {}))
    self.assertIsNone(_evaluate(tf.constant([0.5]), {}))


if __name__ == "__main__":
  absltest.main()
