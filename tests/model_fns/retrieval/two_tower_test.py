"""two_tower's loss, estimates, recall and exports are what they should be."""

import functools
import os
import random
import tempfile

import estimator_mp
import model_fns
from model_fns.retrieval import (
  exports,
  frequencies,
  index,
  nearest,
  sampled_softmax,
)
from model_fns.retrieval.towers import OwnTower, Tower
from tests import tiers
from tests.model_fns.retrieval import logs

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_QUERY_FEATURES = {
  "user_id": tf.TensorSpec([None], tf.int32),
  "user_age": tf.TensorSpec([None, 1], tf.float32),
}


def _trained(config=None, **changes):
  """Returns an Estimator that has trained a little."""
  folder = tempfile.mkdtemp(dir=absltest.get_default_test_tmpdir())
  fields = {"tf_random_seed": 3, "checkpoint_save_graph_def": False}
  if config is None:
    random.seed(3)  # Layers of a plain run draw their seeds from here.
    run_config = tf.estimator.RunConfig(folder, **fields)
  else:
    run_config = estimator_mp.run_config(config, folder, **fields)
  model_fn = logs.model_fn(config=config, **changes)
  estimator = tf.estimator.Estimator(model_fn, config=run_config)
  estimator.train(logs.input_fn(), steps=3)
  return estimator


@functools.cache
def _plain():
  """Returns the Estimator of one device that all tests share."""
  return _trained()


class LossTest(absltest.TestCase):
  def test_an_item_is_no_negative_of_itself(self):
    """By a loop over queries; the third item is the first one again."""
    rng = np.random.RandomState(1)
    queries = rng.randn(4, 5).astype(np.float32)
    vectors = rng.randn(4, 5).astype(np.float32)
    ids, log_q = np.array([7, 3, 7, 5]), np.log([0.5, 0.1, 0.5, 0.2])
    vectors[2] = vectors[0]
    logits = queries @ vectors.T / 0.5 - log_q
    expected = []
    for row in range(4):
      others = [logits[row, j] for j in range(4) if ids[j] != ids[row]]
      every = np.array([logits[row, row], *others])
      expected.append(np.log(np.exp(every).sum()) - logits[row, row])
    with tf.Graph().as_default(), v1.Session() as session:
      items = sampled_softmax.Items(
        tf.constant(vectors),
        tf.constant(ids),
        tf.constant(log_q, tf.float32),
        tf.zeros([4]),
      )
      found = sampled_softmax.losses(tf.constant(queries), items, items, 0.5)
      np.testing.assert_allclose(session.run(found), expected, rtol=1e-5)

  def test_streaming_frequencies(self):
    """As algorithm 2 of the paper says, by a loop over steps and items."""
    rng = np.random.RandomState(2)
    batches = [rng.randint(6, size=[3]) for _ in range(30)]
    with tf.Graph().as_default(), v1.Session() as session:
      step = v1.train.get_or_create_global_step()
      estimates = frequencies.Streaming(6, 0.3)
      ids = v1.placeholder(tf.int64, [None])
      seen = estimates.of(ids, True)
      with tf.control_dependencies(estimates.update(ids, seen.interval)):
        advance = step.assign_add(1)
      session.run(v1.global_variables_initializer())
      interval, last = np.zeros(6), np.zeros(6)
      for number, batch in enumerate(batches, 1):
        log_q, _ = session.run([seen.log_q, advance], {ids: batch})
        for item in {*batch}:
          since = number - last[item]
          interval[item] += (0.3 if last[item] else 1.0) * (
            since - interval[item]
          )
          last[item] = number
        np.testing.assert_allclose(log_q, -np.log(interval[batch]), rtol=1e-5)


class NearestTest(parameterized.TestCase):
  @parameterized.parameters(1, 4, 7, 100)
  def test_chunks_find_what_all_scores_say(self, chunk_size):
    """Whole numbers, of which some scores are equal."""
    rng = np.random.RandomState(3)
    queries = rng.randint(-2, 3, size=[6, 3]).astype(np.float32)
    items = rng.randint(-2, 3, size=[29, 3]).astype(np.float32)
    scores = queries @ items.T
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :5]
    with tf.Graph().as_default(), v1.Session() as session:
      best, rows = session.run(
        nearest.nearest(
          v1.placeholder_with_default(queries, [None, 3]),
          tf.constant(items),
          5,
          chunk_size,
        )
      )
    np.testing.assert_array_equal(rows, expected)
    kept = np.take_along_axis(scores, expected, axis=1)
    np.testing.assert_array_equal(best, kept)
    found, ids = index.Index(items).top_k(queries, 5, chunk_size)
    np.testing.assert_array_equal(found, kept)
    np.testing.assert_array_equal(np.take_along_axis(scores, ids, axis=1), kept)
    self.assertTrue(all(len({*row}) == 5 for row in ids))

  def test_an_index_in_a_file(self):
    folder = os.path.join(self.create_tempdir().full_path, "index")
    index.Index(np.eye(4, dtype=np.float32)).save(folder)
    loaded = index.Index.load(folder)
    self.assertIsInstance(loaded.vectors, np.memmap)
    _, ids = loaded.top_k(np.array([[0.0, 0.1, 0.3, 0.2]], np.float32), 2)
    self.assertEqual(ids.tolist(), [[2, 3]])
    with self.assertRaisesRegex(ValueError, "k=5 does not fit an index of 4"):
      loaded.top_k(np.eye(4), 5)
    with self.assertRaisesRegex(ValueError, r"queries of shape \(4, 3\)"):
      loaded.top_k(np.ones([4, 3]), 1)


class TwoTowerTest(parameterized.TestCase):
  def test_recall_is_over_all_items(self):
    estimator = _plain()
    metrics = estimator.evaluate(logs.input_fn())
    vectors = exports.item_vectors(estimator, logs.CATALOGUE)
    rows = [*estimator.predict(logs.input_fn(), predict_keys="query")]
    scores = np.stack([row["query"] for row in rows]) @ vectors.T
    order = np.argsort(-scores, axis=1, kind="stable")
    own = logs.FEATURES["item_id"][:, np.newaxis]
    for k in (1, 5):
      self.assertAlmostEqual(
        metrics[f"recall_at_{k}"],
        (order[:, :k] == own).any(axis=1).mean(),
        places=6,
      )

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("plain", None, {}),
        ("stages", "stage:2", {"placement": [("^query", 0), (".*", 1)]}),
        ("parts", "model:2", {"split": [("table", "mod")]}),
      ]
    )
  )
  def test_exported_towers_and_index(self, mesh, fields):
    """The encoders and the index find what the model does, without a mesh."""
    estimator = (
      _trained(estimator_mp.ShardingConfig(mesh, **fields))
      if mesh
      else _plain()
    )
    folder = os.path.join(self.create_tempdir().full_path, "export")
    made = exports.export_towers(
      estimator, folder, _QUERY_FEATURES, logs.CATALOGUE, batch_size=7
    )
    queries = self._served(
      made.query, {x: logs.FEATURES[x] for x in _QUERY_FEATURES}, "query"
    )
    expected = [*estimator.predict(logs.input_fn())]
    np.testing.assert_allclose(
      queries, [row["query"] for row in expected], rtol=1e-5, atol=1e-6
    )
    items = self._served(made.item, logs.CATALOGUE, "item")
    found = index.Index.load(made.index)
    np.testing.assert_allclose(found.vectors, items, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
      items[logs.FEATURES["item_id"]],
      [row["item"] for row in expected],
      rtol=1e-5,
      atol=1e-6,
    )
    _, ids = found.top_k(queries, 1)
    np.testing.assert_array_equal(ids[:, 0], (queries @ items.T).argmax(1))

  def _served(self, path, features, output):
    """Returns what a SavedModel makes, and checks that it has one tower."""
    with tf.Graph().as_default(), v1.Session() as session:
      loaded = v1.saved_model.load(session, ["serve"], path)
      names = {x.op.name.partition("/")[0] for x in v1.trainable_variables()}
      self.assertEqual(names, {output})
      signature = loaded.signature_def["serving_default"]
      feed = {
        signature.inputs[name].name: value for name, value in features.items()
      }
      return session.run(signature.outputs[output].name, feed)

  def test_evaluation_without_a_catalogue_has_the_loss_alone(self):
    model_fn = logs.model_fn(catalogue=None)
    estimator = tf.estimator.Estimator(model_fn, _plain().model_dir)
    metrics = estimator.evaluate(logs.input_fn())
    self.assertCountEqual(metrics, ["loss", "global_step"])

  def test_features_that_are_missing(self):
    tower = OwnTower(logs.own_query, ("user_id", "user_name"))
    with self.assertRaisesRegex(
      ValueError, "the query tower reads the feature 'user_name', which is not"
    ):
      _trained(query=tower)
    with self.assertRaisesRegex(
      ValueError, "item_id='sku' is not among the features"
    ):
      _trained(item_id="sku")
    estimator = _plain()
    with self.assertRaisesRegex(
      ValueError, r"the features \['user_age'\] suffice neither for the query"
    ):
      ages = {"user_age": logs.FEATURES["user_age"]}
      data = tf.data.Dataset.from_tensor_slices
      next(estimator.predict(lambda: data(ages).batch(4)))

  @parameterized.named_parameters(
    ("items", {"num_items": 0}, "num_items=0 is too small"),
    ("temperature", {"temperature": 0.0}, "temperature=0.0 is not above 0"),
    ("recall", {"recall_at": (31,)}, r"recall_at=\(31,\) has to name numbers"),
    ("word", {"item_frequencies": "seen"}, "item_frequencies='seen' is not"),
    ("few", {"item_frequencies": [1.0, 2.0]}, "item_frequencies has 2 numbers"),
    (
      "zero",
      {"item_frequencies": np.zeros(logs.ITEMS)},
      r"frequencies of shape \(30,\) have to be a number above 0",
    ),
    ("rate", {"frequency_rate": 2.0}, r"frequency_rate=2.0 is not in \(0, 1\]"),
    (
      "catalogue",
      {"catalogue": {"item_id": logs.CATALOGUE["item_id"]}},
      "catalogue has no feature 'item_words', which the item tower reads",
    ),
    (
      "rows",
      {"catalogue": {x: y[:9] for x, y in logs.CATALOGUE.items()}},
      r"catalogue\['item_id'\] has 9 rows, and there are num_items=30",
    ),
  )
  def test_what_does_not_fit(self, changes, text):
    with self.assertRaisesRegex(ValueError, text):
      logs.model_fn(**changes)

  def test_towers_that_are_none(self):
    with self.assertRaisesRegex(ValueError, "neither ids nor dense features"):
      Tower()
    with self.assertRaisesRegex(ValueError, r"hidden\[1\]=0 of a tower is too"):
      Tower({"a": 3}, hidden=(4, 0))
    with self.assertRaisesRegex(TypeError, "optimizer is"):
      model_fns.two_tower(logs.QUERY, logs.ITEM, 30, optimizer="adam")


if __name__ == "__main__":
  absltest.main()
