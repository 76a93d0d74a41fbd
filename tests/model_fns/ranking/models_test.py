"""Ranking models by themselves: features, formulas, and what they refuse."""

import itertools

import estimator_mp  # noqa: F401
import model_fns
from model_fns.ranking import categories
from tests.model_fns.ranking import logs

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_ROWS = 7


def _sparse(lists):
  """Returns a SparseTensor of lists of ids."""
  where = [(i, j) for i, ids in enumerate(lists) for j in range(len(ids))]
  return tf.SparseTensor(
    np.array(where, np.int64).reshape([-1, 2]),
    np.array([x for ids in lists for x in ids], np.int64),
    [len(lists), max(1, *map(len, lists))],
  )


class BagsTest(parameterized.TestCase):
  def _sums(self, make_values, ids="rows", table=None):
    """Returns the sums of rows, and the gradient of their total."""
    if table is None:
      table = np.arange(_ROWS, dtype=np.float32)[:, np.newaxis] + 1.0
    with tf.Graph().as_default(), v1.Session() as session:
      variable = v1.get_variable("table", initializer=table, use_resource=True)
      values = make_values()
      (bag,) = categories.find_bags({"f": values}, {"f": _ROWS}, ids).values()
      sums = bag.sum_of(variable)
      (gradient,) = tf.gradients(sums, variable)
      session.run(v1.global_variables_initializer())
      found, rows = session.run([sums, gradient.indices])
    return found[:, 0].tolist(), sorted(rows)

  @parameterized.named_parameters(
    ("one", lambda: tf.constant([6, 0, 6]), [7.0, 1.0, 7.0], [0, 6, 6]),
    (
      "padded",
      lambda: tf.constant([[6, -1, 2], [-1, -1, -1], [0, 6, -1]]),
      [10.0, 0.0, 8.0],
      [0, 2, 6, 6],
    ),
    (
      "sparse",
      lambda: _sparse([[6, 2], [], [0, 6], []]),
      [10.0, 0.0, 8.0, 0.0],
      [0, 2, 6, 6],
    ),
    ("none", lambda: _sparse([[], []]), [0.0, 0.0], []),
  )
  def test_forms(self, make_values, sums, rows):
    """The last row counts; rows that no example has get no gradient."""
    self.assertEqual(self._sums(make_values), (sums, rows))

  def test_hashes_are_those_of_feature_columns(self):
    ids = np.arange(60).reshape([20, 3])
    table = np.random.RandomState(1).randn(_ROWS, 1).astype(np.float32)
    found, rows = self._sums(lambda: tf.constant(ids), "hash", table)
    self.assertIn(_ROWS - 1, rows)
    columns = tf.feature_column
    with tf.Graph().as_default(), v1.Session() as session:
      column = columns.categorical_column_with_hash_bucket("f", _ROWS, tf.int64)
      column = columns.embedding_column(
        column, 1, "sum", v1.constant_initializer(table)
      )
      expected = v1.feature_column.input_layer({"f": ids}, [column])
      session.run(v1.global_variables_initializer())
      expected = session.run(expected)[:, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-6)

  def test_crosses_are_those_of_crossed_column(self):
    features = {
      "a": np.array([[1, -1], [2, 3], [-1, -1]]),
      "b": np.array([b"x", b"y", b"z"]),
    }
    column = tf.feature_column.crossed_column(["c", "b"], 100)
    with tf.Graph().as_default(), v1.Session() as session:
      tensors = {name: tf.constant(x) for name, x in features.items()}
      bag = categories.find_crossed(tensors, ["a", "b"], 100)
      found = list(zip(*session.run([bag.example, bag.rows]), strict=True))
      tensors["c"] = _sparse([[1], [2, 3], []])
      tensors["b"] = tensors["b"][:, tf.newaxis]
      weight = v1.feature_column.linear_model(
        tensors, [column], cols_to_vars=(made := {})
      )
      session.run(v1.global_variables_initializer())
      rows = np.arange(100, dtype=np.float32)[:, np.newaxis]
      made[column][0].load(rows, session)
      expected = session.run(weight)[:, 0]
    sums = np.zeros(3)
    for example, row in found:
      sums[example] += row
    np.testing.assert_array_equal(sums, expected)

  def test_says_what_a_feature_may_be(self):
    for features, message in (
      ({}, "feature 'f' is not among the features"),
      ({"f": tf.zeros([2, 3])}, "'f' is of float32; a categorical"),
      ({"f": tf.zeros([2], tf.string)}, "'f' is of string, but ids='rows'"),
      ({"f": tf.zeros([2, 3, 4], tf.int64)}, r"has the shape \(2, 3, 4\); "),
    ):
      with self.assertRaisesRegex(ValueError, message):
        categories.find_bags(features, {"f": _ROWS}, "rows")


class ModelsTest(parameterized.TestCase):
  def _run(self, model_fn, mode="infer", features=None, labels=None):
    """Returns a spec's values at first, and variables by name."""
    with tf.Graph().as_default(), v1.Session() as session:
      v1.set_random_seed(5)
      v1.train.create_global_step()
      features = features or {
        name: tf.constant(x) for name, x in logs.FEATURES.items()
      }
      spec = model_fn(features, labels, mode)
      session.run(v1.global_variables_initializer())
      variables = {v.op.name: v for v in v1.trainable_variables()}
      return session.run([spec.predictions["logits"], variables])

  def _rows(self):
    """Returns the sums of one-hot rows, by the names of features."""
    with tf.Graph().as_default(), v1.Session() as session:
      features = {n: tf.constant(x) for n, x in logs.FEATURES.items()}
      bags = categories.find_bags(features, logs.TABLES, "hash")
      ones = {
        name: bag.sum_of(tf.one_hot(range(rows), rows))
        for (name, bag), rows in zip(
          bags.items(), logs.TABLES.values(), strict=True
        )
      }
      return session.run(ones)

  def _layers(self, net, variables, scope, count):
    for i in range(count):
      prefix = f"{scope}/layer_{i}/"
      net = net @ variables[f"{prefix}kernel"] + variables[f"{prefix}bias"]
      net = np.maximum(net, 0.0)
    return net

  def test_dlrm(self):
    logits, variables = self._run(logs.MODELS["dlrm"]())
    bottom = self._layers(logs.FEATURES["dense"], variables, "bottom", 2)
    vectors = [bottom] + [
      rows @ variables[f"tables/{name}"] for name, rows in self._rows().items()
    ]
    products = [
      (vectors[i] * vectors[j]).sum(1)
      for i in range(len(vectors))
      for j in range(i)
    ]
    net = np.concatenate([bottom, np.stack(products, 1)], axis=1)
    net = self._layers(net, variables, "top", 2)
    net = net @ variables["logits/kernel"] + variables["logits/bias"]
    np.testing.assert_allclose(logits, net, atol=1e-5)

  def test_deepfm(self):
    logits, variables = self._run(logs.MODELS["deepfm"]())
    dense, rows = logs.FEATURES["dense"], self._rows()
    vectors = [x @ variables[f"tables/{name}"] for name, x in rows.items()]
    vectors += [
      dense[:, i : i + 1] * variables["dense_vectors"][i]
      for i in range(logs.NUM_DENSE)
    ]
    expected = sum(
      (a * b).sum(1, keepdims=True)
      for a, b in itertools.combinations(vectors, 2)
    )
    net = self._layers(np.concatenate(vectors, 1), variables, "deep", 2)
    expected += net @ variables["logits/kernel"] + variables["logits/bias"]
    np.testing.assert_allclose(logits, expected, atol=1e-5)

  def test_wide_deep_has_a_part_for_each_optimizer(self):
    """Ftrl with l1 leaves the wide part at 0; the deep part learns."""
    model_fn = model_fns.wide_deep(
      logs.TABLES,
      logs.NUM_DENSE,
      crosses=logs.CROSSES,
      wide_optimizer=lambda: v1.train.FtrlOptimizer(
        0.1, l1_regularization_strength=100.0
      ),
    )
    with tf.Graph().as_default(), v1.Session() as session:
      v1.train.create_global_step()
      features = {n: tf.constant(x) for n, x in logs.FEATURES.items()}
      labels = tf.constant(logs.LABELS[:, 0])
      spec = model_fn(features, labels, "train")
      session.run(v1.global_variables_initializer())
      losses = [session.run([spec.loss, spec.train_op])[0] for _ in range(40)]
      wide = session.run(v1.trainable_variables("wide/"))
      step = session.run(v1.train.get_global_step())
    self.assertLess(losses[-1], losses[0] - 0.05)
    self.assertEqual(step, 40)
    self.assertLen(wide, len(logs.TABLES) + len(logs.CROSSES) + 2)
    self.assertEqual(max(np.abs(x).max() for x in wide), 0.0)

  def test_metrics(self):
    """The AUC, logloss and calibration of a model that knows nothing."""
    with tf.Graph().as_default(), v1.Session() as session:
      features = {n: tf.constant(x) for n, x in logs.FEATURES.items()}
      spec = logs.MODELS["wide_deep"]()(
        features, tf.constant(logs.LABELS), "eval"
      )
      session.run(v1.global_variables_initializer())
      session.run(v1.local_variables_initializer())
      for variable in v1.trainable_variables():
        variable.load(np.zeros(variable.shape), session)
      session.run([update for _, update in spec.eval_metric_ops.values()])
      found = session.run({n: v for n, (v, _) in spec.eval_metric_ops.items()})
    self.assertAlmostEqual(found["auc"], 0.5, places=5)
    self.assertAlmostEqual(found["logloss"], np.log(2.0), places=5)
    self.assertAlmostEqual(
      found["calibration"], 0.5 / logs.LABELS.mean(), places=5
    )

  @parameterized.named_parameters(
    ("no_table", {"tables": {}}, "tables is empty"),
    ("rows", {"tables": {"item": 0}}, r"tables\['item'\]=0 is too few"),
    ("ids", {"ids": "text"}, "ids='text' is not known"),
    ("units", {"hidden_units": [3, 0]}, "has a width below 1"),
    ("dense", {"num_dense": -1}, "num_dense=-1 is negative"),
    ("cross", {"crosses": {("item",): 5}}, "a cross has at least two"),
  )
  def test_says_what_is_wrong(self, changes, message):
    with self.assertRaisesRegex(ValueError, message):
      model_fns.wide_deep(**{"tables": logs.TABLES, **changes})

  def test_says_how_many_numbers_there_are(self):
    with self.assertRaisesRegex(ValueError, r"\(60, 5\); pass \[batch, 13\]"):
      self._run(model_fns.dlrm(logs.TABLES, 13))


if __name__ == "__main__":
  absltest.main()
