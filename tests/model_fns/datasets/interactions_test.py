"""The generated interactions are what is said of their distribution."""

from model_fns.datasets import dataset, interactions

import numpy as np
import tensorflow as tf
from absl.testing import absltest


class InteractionsTest(absltest.TestCase):
  def test_held_out_pairs_are_drawn_as_the_probabilities_say(self):
    """Within four standard deviations; a test of each item is for the same."""
    log = interactions.load()
    np.testing.assert_allclose(log.probabilities.sum(axis=1), 1.0, rtol=1e-4)
    best = np.argsort(-log.probabilities, axis=1)[:, :10]
    hits = (best[log.test_users] == log.test_items[:, np.newaxis]).any(axis=1)
    expected = log.best_recall(10)
    deviation = np.sqrt(expected * (1.0 - expected) / len(hits))
    self.assertAlmostEqual(hits.mean(), expected, delta=4 * deviation)
    self.assertLess(log.recall_of_popularity(10), expected - 0.2)

  def test_all_ids_fit(self):
    log = interactions.load()
    for users, items in (
      (log.users, log.items),
      (log.test_users, log.test_items),
    ):
      self.assertBetween(users.min(), 0, users.max())
      self.assertLess(users.max(), log.num_users)
      self.assertBetween(items.min(), 0, items.max())
      self.assertLess(items.max(), log.num_items)
    self.assertLen(log.catalogue["item_fields"], log.num_items)

  def test_batches(self):
    """In training all are full; held out is each one once."""
    log = interactions.load()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
      make = tf.compat.v1.data.make_one_shot_iterator
      batch = make(log.train_input_fn(7, seed=1)()).get_next()
      first = session.run(batch)
      held_out = make(log.test_input_fn(3000)()).get_next()
      sizes = [len(session.run(held_out)["item_id"]) for _ in range(3)]
    np.testing.assert_array_equal(
      first["item_fields"], log.fields[first["item_id"]]
    )
    self.assertLen(first["user_id"], 7)
    self.assertEqual(sizes, [3000, 3000, 2000])

  def test_batch_sizes_that_do_not_fit(self):
    log = interactions.load()
    with self.assertRaisesRegex(
      dataset.DatasetError,
      "batch_size=1 does not fit the 120,000 interactions of "
      "generated_interactions; use 2 to 120000",
    ):
      log.train_input_fn(1, seed=1)
    with self.assertRaisesRegex(dataset.DatasetError, "use at least 1"):
      log.test_input_fn(0)


if __name__ == "__main__":
  absltest.main()
