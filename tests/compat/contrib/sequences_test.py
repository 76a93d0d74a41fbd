"""tf.contrib's crf, seq2seq and image with TensorFlow 2's behaviour; refusals.

v1/cases has them with TensorFlow 1's behaviour, against 1.15.
"""

import compat

compat.install(contrib=True)

from tests import tiers  # noqa: E402

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import tensorflow.compat.v1 as tf1  # noqa: E402
from absl.testing import absltest  # noqa: E402
from tensorflow.contrib import crf, image, seq2seq  # noqa: E402

_RANDOM = np.random.RandomState(1)
_WORDS = _RANDOM.randint(1, 9, size=(8, 5)).astype(np.int32)
_LENGTHS = np.array([5, 4, 3, 2, 1, 5, 5, 2], np.int32)
_MEMORY = _RANDOM.normal(size=(3, 5, 4)).astype(np.float32)


def _translate(features, labels, mode, params):
  """An encoder, and a decoder with attention; beam search predicts."""
  embedding = tf1.get_variable("embedding", [9, 6])
  words, lengths = features["words"], features["lengths"]
  cell = tf1.nn.rnn_cell.GRUCell(6, name="encoder")
  memory, state = tf1.nn.dynamic_rnn(
    cell, tf.gather(embedding, words), lengths, dtype=tf.float32
  )
  predicts = mode == tf.estimator.ModeKeys.PREDICT
  batch_size, beams = tf.shape(words)[0], params["beams"]
  if predicts:
    memory, state, lengths = seq2seq.tile_batch((memory, state, lengths), beams)
  with tf1.variable_scope("attention"):
    attention = seq2seq.LuongAttention(6, memory, lengths, scale=True)
  cell = seq2seq.AttentionWrapper(
    tf1.nn.rnn_cell.GRUCell(6), attention, 6, alignment_history=predicts
  )
  layer = tf1.layers.Dense(9, name="words")
  if predicts:
    decoder = seq2seq.BeamSearchDecoder(
      cell,
      embedding,
      tf.fill([batch_size], 1),
      0,
      cell.zero_state(batch_size * beams, tf.float32).clone(cell_state=state),
      beams,
      layer,
      length_penalty_weight=0.5,
    )
    outputs, _, _ = seq2seq.dynamic_decode(decoder, maximum_iterations=4)
    return tf.estimator.EstimatorSpec(mode, {"ids": outputs.predicted_ids})
  helper = seq2seq.TrainingHelper(tf.gather(embedding, words), lengths)
  state = cell.zero_state(batch_size, tf.float32).clone(cell_state=state)
  outputs, _, _ = seq2seq.dynamic_decode(
    seq2seq.BasicDecoder(cell, helper, state, layer), impute_finished=True
  )
  weights = tf.sequence_mask(lengths, tf.shape(words)[1], tf.float32)
  loss = seq2seq.sequence_loss(outputs.rnn_output, labels, weights)
  step = tf1.train.AdamOptimizer(0.05).minimize(
    loss, tf1.train.get_global_step()
  )
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)


def _tag(features, labels, mode):
  embedding = tf1.get_variable("embedding", [9, 3])
  scores = tf.gather(embedding, features["words"])
  lengths = features["lengths"]
  likelihood, transitions = crf.crf_log_likelihood(scores, labels, lengths)
  tags, _ = crf.crf_decode(scores, transitions, lengths)
  loss = -tf.reduce_mean(likelihood)
  step = tf1.train.GradientDescentOptimizer(0.3).minimize(
    loss, tf1.train.get_global_step()
  )
  return tf.estimator.EstimatorSpec(
    mode, {"tags": tags}, loss=loss, train_op=step
  )


def _inputs(labels):
  features = {"words": _WORDS, "lengths": _LENGTHS}
  data = tf.data.Dataset.from_tensor_slices((features, labels))
  return data.repeat().batch(8).take(40)


class EstimatorTest(absltest.TestCase):
  """In a v2 graph: control flow by functions, resource variables."""

  def _losses(self, model_fn, labels, params=None):
    config = tf.estimator.RunConfig(self.create_tempdir(), tf_random_seed=2)
    model = tf.estimator.Estimator(model_fn, config=config, params=params)
    before = model.train(lambda: _inputs(labels), steps=1)
    first = before.evaluate(lambda: _inputs(labels), steps=1)["loss"]
    model.train(lambda: _inputs(labels), steps=40)
    last = model.evaluate(lambda: _inputs(labels), steps=1)["loss"]
    return model, first, last

  @tiers.slow
  def test_attention_learns_and_beams_predict(self):
    model, first, last = self._losses(_translate, _WORDS, {"beams": 2})
    self.assertLess(last, 0.6 * first)
    predicted = next(model.predict(lambda: _inputs(_WORDS)))
    self.assertEqual(predicted["ids"].shape[1:], (2,))
    self.assertContainsSubset(
      [
        "attention/memory_layer/kernel",
        "decoder/attention_wrapper/attention_layer/kernel",
        "decoder/attention_wrapper/luong_attention/attention_g",
        "decoder/words/kernel",
      ],
      model.get_variable_names(),
    )

  @tiers.slow
  def test_tags_are_learnt(self):
    _, first, last = self._losses(_tag, _WORDS % 3)
    self.assertLess(last, 0.5 * first)


class EagerTest(absltest.TestCase):
  def test_padding_has_no_score(self):
    tags = np.array([[0, 1, 2, 3, 1]] * 3, np.int32)
    transitions = np.arange(16, dtype=np.float32).reshape(4, 4)
    with tf.Graph().as_default(), tf1.Session() as session:
      padded, *whole = session.run(
        [
          crf.crf_sequence_score(_MEMORY, tags, [1, 2, 4], transitions),
          *(
            crf.crf_sequence_score(
              _MEMORY[row : row + 1, :size],
              tags[:1, :size],
              [size],
              transitions,
            )
            for row, size in enumerate((1, 2, 4))
          ),
        ]
      )
    np.testing.assert_allclose(padded, np.concatenate(whole), 1e-6)

  def test_functions(self):
    tags, score = crf.crf_decode(
      _MEMORY, np.eye(4, dtype=np.float32), [5, 3, 1]
    )
    for row, length in enumerate((5, 3, 1)):
      best, best_score = crf.viterbi_decode(_MEMORY[row, :length], np.eye(4))
      self.assertEqual(tags[row, :length].numpy().tolist(), best)
      self.assertAlmostEqual(float(score[row]), best_score, places=5)
    tiled = seq2seq.tile_batch(_MEMORY, 2)
    np.testing.assert_array_equal(tiled[1::2], _MEMORY)
    turned = image.rotate(_MEMORY[:, :, :, np.newaxis], np.pi)
    np.testing.assert_array_equal(turned[..., 0], _MEMORY[:, ::-1, ::-1])
    numbered = image.connected_components([[1, 0, 1], [1, 0, 1], [0, 1, 1]])
    self.assertEqual(
      numbered.numpy().tolist(), [[1, 0, 2], [1, 0, 2], [0, 2, 2]]
    )


if __name__ == "__main__":
  absltest.main()
