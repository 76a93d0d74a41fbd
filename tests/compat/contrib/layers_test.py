"""tf.contrib.layers, slim and framework with TensorFlow 2's behaviour; errors.

tests/compat/v1 compares their results with 1.15's.
"""

import sys
from unittest import mock

import compat
from tests import tiers

from absl.testing import absltest, parameterized

compat.install(contrib=True)

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

layers = tf.contrib.layers
framework = tf.contrib.framework
v1 = tf.compat.v1


class PackagesTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("layers", "layers", "conv2d_transpose"), ("slim", "slim", "queues")
  )
  def test_what_lives_on_elsewhere_says_how_to_install_it(self, module, name):
    namespace = getattr(tf.contrib, module)
    vars(namespace).pop(name, None)
    with mock.patch.dict(sys.modules):
      for imported in [one for one in sys.modules if one.startswith("tf_slim")]:
        del sys.modules[imported]
      sys.modules["tf_slim"] = None
      with self.assertRaisesWithLiteralMatch(
        ImportError,
        f"tf.contrib.{module}.{name} lives on in the package tf_slim: pip "
        "install tf-slim==1.1.0",
      ):
        getattr(namespace, name)

  def test_networks_are_imported_by_any_path(self):
    import tensorflow.contrib.slim.nets as nets
    from tensorflow.contrib.slim.nets import resnet_v1
    from tensorflow.contrib.slim.python.slim.nets import resnet_v1 as deep

    self.assertIs(nets.resnet_v1, resnet_v1)
    self.assertIs(tf.contrib.slim.nets, nets)
    self.assertIs(deep.resnet_v1_block, resnet_v1.resnet_v1_block)
    for name in ("conv2d", "adaptive_clipping_fn"):
      self.assertIs(getattr(layers, name), getattr(tf.contrib.slim, name))


class ColumnsTest(parameterized.TestCase):
  def test_classes_have_the_names_of_1_15(self):
    column = layers.real_valued_column("a")
    self.assertIsInstance(column, layers.feature_column._RealValuedColumn)
    with self.assertRaises(AttributeError):
      layers.feature_column._NoSuchColumn  # noqa: B018

  @tiers.slow
  def test_an_estimator_trains_on_them(self):
    """Canned estimators take them as they take those of tf.feature_column."""
    x = np.random.RandomState(1).normal(size=(64, 2)).astype(np.float32)
    words = np.where(x[:, :1] > 0, b"yes", b"no")
    labels = (x[:, :1] > 0).astype(np.int32)

    def input_fn():
      features = {"x": x, "word": words}
      data = tf.data.Dataset.from_tensor_slices((features, labels))
      return data.repeat().batch(16)

    word = layers.sparse_column_with_keys("word", [b"yes", b"no"])
    number = layers.real_valued_column("x", 2)
    bucket = layers.bucketized_column(number, [0.0])
    model = v1.estimator.DNNLinearCombinedClassifier(
      self.create_tempdir().full_path,
      linear_feature_columns=[
        word,
        bucket,
        layers.crossed_column([word, bucket], 20),
      ],
      dnn_feature_columns=[number, layers.embedding_column(word, 2)],
      dnn_hidden_units=[4],
      config=v1.estimator.RunConfig(tf_random_seed=1),
    )
    model.train(input_fn, steps=200)
    self.assertGreater(model.evaluate(input_fn, steps=4)["accuracy"], 0.95)


class FrameworkTest(parameterized.TestCase):
  def test_a_wrong_shape_is_seen_when_the_graph_runs(self):
    with tf.Graph().as_default(), v1.Session() as session:
      x = v1.placeholder(tf.float32, None, name="x")
      checked = framework.with_shape([2, -1], x)
      self.assertEqual(session.run(checked, {x: np.ones([2, 3])}).shape, (2, 3))
      for wrong in (np.ones([3, 3]), np.ones([2])):
        with self.assertRaisesRegex(
          tf.errors.InvalidArgumentError, "Wrong shape of x:0"
        ):
          session.run(checked, {x: wrong})

  def test_zero_initializer_is_for_variables_without_a_value(self):
    with tf.Graph().as_default(), v1.Session() as session:
      variable = v1.get_variable("v", [3])
      zeros = framework.zero_initializer(variable)
      session.run(zeros)
      np.testing.assert_array_equal(session.run(variable), [0, 0, 0])
      with self.assertRaisesRegex(
        tf.errors.InvalidArgumentError, "The variable has a value"
      ):
        session.run(zeros)


if __name__ == "__main__":
  absltest.main()
