"""Transformers by themselves: what they learn, and what they refuse."""

import functools
import math

import model_fns
from model_fns.transformers import architecture, attention
from tests import tiers
from tests.model_fns.transformers import texts

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_SIZES = texts.SIZES


class DecoderTest(parameterized.TestCase):
  def _logits(self, tokens, **options):
    """Returns the logits of the tokens after the prompts, and variables."""
    model_fn = model_fns.transformer(**_SIZES, **options)
    with tf.Graph().as_default(), v1.Session() as session:
      v1.set_random_seed(1)
      features = {"tokens": tf.constant(tokens)}
      spec = model_fn(features, None, "infer")
      session.run(v1.global_variables_initializer())
      return session.run(spec.predictions["logits"])

  @parameterized.parameters("learned", "rotary")
  def test_places_count(self, positions):
    there, back = self._logits([[1, 2, 3], [2, 1, 3]], positions=positions)
    self.assertGreater(np.abs(there - back).max(), 1e-6)

  def test_rotary_positions_are_relative(self):
    """Attention sees how far tokens are apart, and nothing else of places."""
    sizes = architecture.Architecture(
      **_SIZES, feed_forward_size=8, positions="rotary", dropout=0.0
    )
    net = 50 * np.random.RandomState(2).randn(2, 5, 8).astype(np.float32)

    def attended(places):
      with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(1)
        attend = attention.self_attention
        mixed, _ = attend(tf.constant(net), sizes, places(), None, 0.5)
        session.run(v1.global_variables_initializer())
        return session.run(mixed)

    first = attended(lambda: tf.range(5)[tf.newaxis])
    later = attended(lambda: tf.range(3, 8)[tf.newaxis])
    apart = attended(lambda: 2 * tf.range(5)[tf.newaxis])
    np.testing.assert_allclose(later, first, atol=1e-4)
    self.assertGreater(np.abs(apart - first).max(), 1e-2)

  def test_a_token_sees_none_that_comes_later(self):
    """Losses of early labels do not depend on late tokens."""
    losses = []
    for last in (3, 9):
      tokens = np.array([[1, 2, 4, last]], np.int32)
      weights = np.array([[1.0, 1.0, 1.0, 0.0]], np.float32)
      model_fn = model_fns.transformer(**_SIZES)
      with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(1)
        features = {
          "tokens": tf.constant(tokens),
          "weights": tf.constant(weights),
        }
        spec = model_fn(features, tf.constant(tokens), "eval")
        session.run(v1.global_variables_initializer())
        losses.append(session.run(spec.loss))
    self.assertEqual(*losses)

  @tiers.slow
  def test_learns_what_comes_next(self):
    """A sequence that counts up is soon known."""
    tokens = (np.arange(8)[:, np.newaxis] + np.arange(6)) % 13
    batch = ({"tokens": tokens}, (tokens + 1) % 13)
    model_fn = model_fns.transformer(
      **_SIZES, optimizer=functools.partial(v1.train.AdamOptimizer, 0.02)
    )
    config = tf.estimator.RunConfig(
      tf_random_seed=1, checkpoint_save_graph_def=False
    )
    estimator = tf.estimator.Estimator(model_fn, config=config)
    estimator.train(lambda: texts.batches_of(batch)().repeat(), steps=100)
    metrics = estimator.evaluate(texts.batches_of(batch))
    self.assertEqual(metrics["accuracy"], 1.0)
    self.assertLess(metrics["perplexity"], 1.2)
    self.assertAlmostEqual(
      metrics["perplexity"], math.exp(metrics["cross_entropy"]), places=5
    )


class SamplingTest(parameterized.TestCase):
  @tiers.slow
  @parameterized.parameters(tiers.sample(["learned", "rotary"]))
  def test_greedy_is_the_likeliest_token_after_the_whole_text(self, positions):
    """What layers keep of tokens is what they would compute again."""
    make = functools.partial(
      model_fns.transformer, **_SIZES, positions=positions
    )
    batch = ({"tokens": texts.TOKENS}, texts.NEXT)
    checkpoint = texts.checkpoint_of(self, make(), batch)
    sampled = texts.predictions_of(
      make(sample_length=3, temperature=0.0),
      None,
      checkpoint,
      {"tokens": texts.TOKENS, "length": texts.LENGTHS},
    )["tokens"]
    with tf.Graph().as_default(), v1.Session() as session:
      text = v1.placeholder(tf.int32, [None, None])
      spec = make()({"tokens": text}, None, "infer")
      v1.train.Saver().restore(session, checkpoint)
      for row, length in enumerate(texts.LENGTHS):
        known = list(texts.TOKENS[row, :length])
        for token in sampled[row]:
          logits = session.run(spec.predictions["logits"], {text: [known]})
          self.assertEqual(np.argmax(logits), token)
          known.append(token)

  @tiers.slow
  def test_temperature_top_k_and_seed(self):
    make = functools.partial(model_fns.transformer, **_SIZES, sample_length=2)
    batch = ({"tokens": texts.TOKENS}, texts.NEXT)
    checkpoint = texts.checkpoint_of(self, make(), batch)

    def sample(**options):
      return texts.predictions_of(
        make(**options), None, checkpoint, batch[0], batch_size=20
      )["tokens"]

    greedy, first = sample(temperature=0.0), sample(sample_seed=1)
    self.assertEqual(greedy.shape, (20, 2))
    np.testing.assert_array_equal(sample(sample_seed=1), first)
    self.assertTrue((sample(sample_seed=2) != first).any())
    any_two = sample(temperature=1e6, sample_seed=1).T
    self.assertTrue((any_two[0] != any_two[1]).any())
    np.testing.assert_array_equal(sample(top_k=1), greedy)
    np.testing.assert_array_equal(sample(temperature=1e-4), greedy)
    few = sample(top_k=2, sample_seed=1)
    logits = texts.predictions_of(
      make(), None, checkpoint, batch[0], batch_size=20
    )["logits"]
    likeliest = np.argsort(logits, axis=-1)[:, -2:]
    self.assertTrue((few[:, :1] == likeliest).any(axis=1).all())
    # Among all, not only the two likeliest are drawn; nor one again and again.
    self.assertFalse((first[:, :1] == likeliest).any(axis=1).all())
    self.assertGreater(len({*first.flatten()}), 4)


class ErrorsTest(parameterized.TestCase):
  @parameterized.parameters(
    ({"num_layers": 0}, "num_layers=0 is too small; use at least 1"),
    (
      {"num_heads": 3},
      "num_heads=3 does not divide hidden_size=8; each head needs as many",
    ),
    ({"positions": "none"}, "positions='none' is not known; use one of learn"),
    (
      {"positions": "rotary", "num_heads": 8},
      r"a head has 1 \(hidden_size=8 over num_heads=8\); make it even",
    ),
    ({"dropout": 1.0}, "dropout=1.0 is out of range; use 0 or more"),
    ({"kind": "both"}, "kind='both' is not known; use one of decoder, encoder"),
    ({"num_classes": 3}, "num_classes=3 is for kind='encoder'; a decoder's"),
    ({"kind": "encoder"}, "num_classes=None does not fit kind='encoder'"),
    (
      {"kind": "encoder", "num_classes": 3, "sample_length": 2},
      "sample_length=2 is for kind='decoder'; leave it out",
    ),
    ({"temperature": -1.0}, "the temperature of sampling is -1.0, which is"),
  )
  def test_says_what_does_not_fit(self, options, message):
    with self.assertRaisesRegex(ValueError, message):
      model_fns.transformer(**(_SIZES | options))

  @parameterized.parameters(
    ("train", {}, 13, "sequences have 13 tokens, but sequence_length=12; make"),
    (
      "infer",
      {"sample_length": 5},
      8,
      "sequences have 8 tokens and 5 that are sampled, but sequence_length=12",
    ),
    ("infer", {"kind": "encoder", "num_classes": 3}, 13, "have 13 tokens, but"),
  )
  def test_says_that_a_sequence_is_too_long(
    self, mode, options, length, message
  ):
    model_fn = model_fns.transformer(**(_SIZES | options))
    with tf.Graph().as_default():
      tokens = v1.placeholder(tf.int32, [None, length])
      with self.assertRaisesRegex(ValueError, message):
        model_fn({"tokens": tokens}, tokens, mode)


if __name__ == "__main__":
  absltest.main()
