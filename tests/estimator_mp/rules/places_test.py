"""Indices that are places of each example's own rows."""

from estimator_mp.analysis import symbolic_shapes
from estimator_mp.rules import places
from estimator_mp.sizes import polynomials
from tests.estimator_mp import graph_case, parts

import tensorflow as tf
from absl.testing import absltest, parameterized

_v1 = tf.compat.v1
_ROWS = polynomials.symbol("n") * 5


def _begins(batch, positions):
  return tf.reshape(tf.expand_dims(tf.range(batch) * 5, 1) + positions, [-1])


def _by_steps(batch, positions):
  return tf.reshape(tf.range(0, batch * 5, 5), [-1, 1]) + positions


class PlacesTest(graph_case.GraphCase):
  @parameterized.named_parameters(
    ("products", _begins, True),
    ("steps", _by_steps, True),
    ("casts", lambda *x: tf.cast(_begins(*x), tf.int64), True),
    ("less_one", lambda *x: _begins(*x) - 1, True),
    # Every fifth row, of whichever examples.
    ("positions", lambda batch, positions: positions * 5, False),
    ("other_width", lambda batch, positions: tf.range(batch) * 4, False),
    ("rows", lambda batch, positions: tf.range(batch), False),
    ("rotated", lambda batch, positions: (tf.range(batch) + 1) % batch, False),
  )
  def test_which_are(self, indices, expected):
    x = _v1.placeholder(tf.int32, [None, 2])
    found = indices(tf.shape(x)[0], x)
    shapes = symbolic_shapes.SymbolicShapes(parts.inputs(x))
    shapes.add(self.ops())
    self.assertEqual(places.begin_with_examples(found, _ROWS, shapes), expected)


if __name__ == "__main__":
  absltest.main()
