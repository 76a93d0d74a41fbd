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
    self.assertIs(layers.conv2d, tf.contrib.slim.conv2d)


class ColumnsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (
      "sparse_in_a_layer",
      lambda: layers.input_from_feature_columns(
        {"w": tf.constant([["a"]])},
        [layers.sparse_column_with_hash_bucket("w", 5)],
      ),
      "the column w is sparse; put it into an embedding_column or a "
      "one_hot_column.",
    ),
    (
      "twice",
      lambda: layers.transform_features(
        {}, [layers.real_valued_column("a")] * 2
      ),
      "feature_columns has a twice, or two columns that are almost the same; "
      "leave one out.",
    ),
    (
      "no_feature",
      lambda: layers.transform_features(
        {"b": tf.zeros([1])}, [layers.real_valued_column("a")]
      ),
      "there is no feature 'a' among ['b'].",
    ),
    (
      "embedding_in_a_sum",
      lambda: layers.weighted_sum_from_feature_columns(
        {"w": tf.constant([["a"]])},
        [
          layers.embedding_column(
            layers.sparse_column_with_hash_bucket("w", 5), 2
          )
        ],
        1,
      ),
      "the column w_embedding is an embedding; a linear model takes the column "
      "w itself.",
    ),
    (
      "boundaries",
      lambda: layers.bucketized_column(
        layers.real_valued_column("a"), [2.0, 1.0]
      ),
      "boundaries=[2.0, 1.0] must be sorted.",
    ),
    (
      "defaults",
      lambda: layers.real_valued_column("a", 3, default_value=[1.0]),
      "default_value=[1.0] of the column a must have 3 values.",
    ),
    (
      "crossed",
      lambda: layers.crossed_column(
        [layers.sparse_column_with_keys("a", ["x"])] * 2, 1
      ),
      "hash_bucket_size=1 must be at least 2.",
    ),
    (
      "vocabulary",
      lambda: layers.sparse_column_with_vocabulary_file("a", "words"),
      "vocab_size of the column a must be given.",
    ),
  )
  def test_refuses(self, make, message):
    with (
      tf.Graph().as_default(),
      self.assertRaisesWithLiteralMatch(ValueError, message),
    ):
      make()

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
  @parameterized.named_parameters(
    (
      "shape",
      lambda: framework.with_shape([2, 2], tf.zeros([2, 3], name="x")),
      "x:0 has the shape (2, 3); [2, 2] is expected.",
    ),
    (
      "type_of_shape",
      lambda: framework.with_shape(
        tf.constant([2], tf.int64, name="s"), tf.zeros([2], name="x")
      ),
      'the shape expected of x:0 is Tensor("s:0", shape=(1,), dtype=int64), of '
      "<dtype: 'int64'>; it must be one-dimensional and of int32.",
    ),
    (
      "integers",
      lambda: framework.assert_scalar_int(tf.constant(1.0, name="x")),
      "x:0 is of float32; it must be of integers.",
    ),
    (
      "no_tensors",
      lambda: framework.reduce_sum_n([]),
      "tensors is empty; reduce_sum_n needs at least one.",
    ),
    (
      "encoder",
      lambda: layers.embed_sequence(tf.constant([[1]]), 5),
      "vocab_size=5 and embed_dim=None must both be given, and above 0, unless "
      "the variable is reused.",
    ),
  )
  def test_refuses(self, make, message):
    with (
      tf.Graph().as_default(),
      self.assertRaisesWithLiteralMatch(ValueError, message),
    ):
      make()

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
