"""Tests of the rules for ops that work entry by entry."""

from estimator_mp.model_axis.decisions import (
  PerPart,
  Replicate,
  Shard,
)
from estimator_mp.model_axis.rules import elementwise
from tests import tiers
from tests.estimator_mp.model_axis import sinking

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
raw = tf.raw_ops

# Ops of one input, by what they are fed with; of all others numbers in (0, 1).
_UNARY_SPECIAL = {
  "Acosh": lambda x: x + 2.0,
  "Angle": lambda x: tf.complex(x, 1.0 - x),
  "ComplexAbs": lambda x: tf.complex(x, 1.0 - x),
  "Conj": lambda x: tf.complex(x, 1.0 - x),
  "Imag": lambda x: tf.complex(x, 1.0 - x),
  "Invert": lambda x: tf.cast(x * 9.0, tf.int32),
  "LogicalNot": lambda x: x > 0.5,
  "PopulationCount": lambda x: tf.cast(x * 9.0, tf.int32),
  "Real": lambda x: tf.complex(x, 1.0 - x),
  "Relu": lambda x: x - 0.5,
  "LeakyRelu": lambda x: x - 0.5,
  "Elu": lambda x: x - 0.5,
  "Selu": lambda x: x - 0.5,
  "Relu6": lambda x: 14.0 * x - 4.0,
}
_ATTRIBUTES = {
  "Bucketize": {"boundaries": [0.2, 0.6]},
  "Cast": {"DstT": tf.float64},
  "CheckNumerics": {"message": "no number"},
  "PreventGradient": {"message": "no gradient"},
  "LeakyRelu": {"alpha": 0.3},
}
# A TensorFlow has no gradient of these, or one that raises.
_WITHOUT_GRADIENT = (
  "FakeQuantWithMinMaxArgsGradient",
  "IgammaGradA",
  "PreventGradient",
  "RandomGammaGrad",
  "Snapshot",
  "SoftsignGrad",
)
_UNARY = sorted(
  name
  for name, rule in elementwise.TABLE.rules.items()
  if rule is elementwise._unary
)
_INTEGERS = (
  "BitwiseAnd",
  "BitwiseOr",
  "BitwiseXor",
  "LeftShift",
  "Mod",
  "RightShift",
  "TruncateDiv",
  "TruncateMod",
)
_BINARY = sorted(
  name
  for name, rule in elementwise.TABLE.rules.items()
  if rule is elementwise._broadcast
  and name not in ("Betainc", "ClipByValue", "FakeQuantWithMinMaxVars")
  and name not in ("SelectV2",)
)
_OF_ONE_SHAPE = sorted(
  name
  for name, rule in elementwise.TABLE.rules.items()
  if rule is elementwise._of_one_shape
  and name not in ("AddN", "ApproximateEqual")
)


def _floats(*shape, seed=3):
  values = np.random.RandomState(seed).standard_normal(shape)
  return np.asarray(values, np.float32)


def _shares(*shape, seed=3):
  """Numbers in (0, 1)."""
  values = np.random.RandomState(seed).uniform(0.05, 0.95, shape)
  return np.asarray(values, np.float32)


def _made(name, tensors, **attributes):
  """The output of an op whose inputs have whatever names."""
  function = getattr(raw, name)
  known = function.__signature__.parameters
  names = [x for x in known if x not in ("name", *_ATTRIBUTES.get(name, ()))]
  made = function(
    **dict(zip(names, tensors, strict=False)),
    **_ATTRIBUTES.get(name, {}),
    **attributes,
  )
  return tf.stop_gradient(made) if name in _WITHOUT_GRADIENT else made


def _decided(op, *splits):
  return elementwise.TABLE.rules[op.type](op, splits)


class UnaryTest(parameterized.TestCase):
  @parameterized.parameters(_UNARY)
  def test_part_by_part(self, name):
    prepare = _UNARY_SPECIAL.get(name, tf.identity)
    sinking.check(
      self,
      lambda x: _made(name, [prepare(x)]),
      {"x": _shares(4, 5)},
      {"x": Shard(1, (3, 1, 1))},
      unknown={"x": [0]},
    )

  def test_a_tuple_has_whole_members_too(self):
    def build(x, y, z):
      a, b, c = tf.identity_n([x, y, z])
      return [a * 2.0, b * 3.0, c]

    sinking.check(
      self,
      build,
      {"x": _floats(4, 5), "y": _floats(2), "z": _floats(6)},
      {"x": Shard(1, (3, 2)), "z": Shard(0, (1, 5))},
    )

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
      with tf.compat.v1.get_default_graph().gradient_override_map(names):
        y = tf.identity(x)
      return y * 3.0

    sinking.check(
      self,
      build,
      {"x": _floats(4, 5)},
      {"x": Shard(1, (3, 2))},
      gathers=1,
    )


class BroadcastTest(parameterized.TestCase):
  @parameterized.parameters(tiers.sample(_BINARY))
  def test_entry_by_entry(self, name):
    def build(x, y):
      if name in _INTEGERS:
        x, y = (tf.cast(1.0 + 9.0 * z, tf.int32) for z in (x, y))
      elif name in ("LogicalAnd", "LogicalOr"):
        x, y = x > 0.5, y > 0.5
      elif name in ("Zeta", "Polygamma"):
        x, y = tf.round(x * 4.0) + 2.0, y + 1.0
      return _made(name, [x, y])

    sinking.check(
      self,
      build,
      {"x": _shares(4, 5), "y": _shares(5, seed=4)},
      {"x": Shard(1, (2, 3)), "y": Shard(0, (2, 3))},
      unknown={"x": [0]},
      rtol=1e-5,
    )

  @parameterized.named_parameters(
    ("sizes", Shard(1, (2, 3)), Shard(1, (4, 1))),
    ("axes", Shard(1, (2, 3)), Shard(0, (3, 1))),
  )
  def test_two_splits(self, split_x, split_y):
    sinking.check(
      self,
      lambda x, y: x * y,
      {"x": _floats(4, 5), "y": _floats(4, 5, seed=4)},
      {"x": split_x, "y": split_y},
      gathers=None,
    )

  def test_the_smaller_of_two_splits_is_gathered(self):
    columns, rows = Shard(1, (2, 3)), Shard(0, (3, 1))
    with tf.Graph().as_default():
      x = v1.placeholder(tf.float32, [4, 5])
      y = v1.placeholder(tf.float32, [4, 1])
      op = (y * x).op
    self.assertEqual(
      _decided(op, rows, columns), PerPart((Replicate(), columns), (columns,))
    )

  def test_equality_that_may_be_of_other_shapes(self):
    split = Shard(1, (2, 3))
    with tf.Graph().as_default():
      x = v1.placeholder(tf.float32, [4, 5])
      strict = raw.Equal(x=x, y=x)
      lenient = raw.Equal(x=x, y=x, incompatible_shape_error=False)
    self.assertIsNotNone(_decided(strict.op, split, split))
    self.assertIsNone(_decided(lenient.op, split, split))


class OneShapeTest(parameterized.TestCase):
  @parameterized.parameters(_OF_ONE_SHAPE)
  def test_gradients_of_ops(self, name):
    attributes = {"alpha": 0.3} if name == "LeakyReluGrad" else {}
    sinking.check(
      self,
      lambda x, y: _made(name, [x, y], **attributes),
      {"x": _shares(4, 5), "y": _shares(4, 5, seed=4)},
      {"x": Shard(1, (2, 3))},
      unknown={"x": [0], "y": [0, 1]},
    )

  def test_gradients_of_gradients(self):
    def build(x, w):
      h = tf.tanh(x * w) + tf.sigmoid(x) * tf.nn.softplus(w)
      (gradient,) = v1.gradients(h * h, [x])
      return gradient

    sinking.check(
      self,
      build,
      {"x": _floats(4, 5), "w": _floats(5)},
      {"x": Shard(1, (2, 3)), "w": Shard(0, (2, 3))},
      unknown={"x": [0]},
      rtol=1e-5,
      gathers=None,
    )


if __name__ == "__main__":
  absltest.main()
