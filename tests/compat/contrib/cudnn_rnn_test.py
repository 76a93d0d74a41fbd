"""cuDNN's layers restore what 1.15.5 stored of compatible cells, and run it.

A layer itself runs on 1.15 on a GPU only; its names and the layout of its
parameters are in tests/compat/v1/cases/cudnn_rnn.py.
"""

import os

import compat

compat.install(contrib=True)

from tests import tiers  # noqa: E402
from tests.compat.v1 import checkpoints  # noqa: E402

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from absl.testing import absltest, parameterized  # noqa: E402

tf1 = tf.compat.v1
# As tests/compat/v1/trained/fused_cells.py feeds them.
_X = np.random.RandomState(3).normal(size=(4, 3, 2)).astype(np.float32)
_LENGTHS = np.array([4, 2, 1], np.int32)
_LAYERS = (
  ("lstm", "CudnnLSTM", "unidirectional"),
  ("gru", "CudnnGRU", "bidirectional"),
  ("tanh", "CudnnRNNTanh", "unidirectional"),
)


def _layer(name, direction="unidirectional", **arguments):
  return getattr(tf.contrib.cudnn_rnn, name)(
    2, 3, direction=direction, **arguments
  )


class CudnnRnnTest(parameterized.TestCase):
  @parameterized.named_parameters(tiers.sample(_LAYERS))
  def test_layer_runs_a_checkpoint_of_cells(self, layer, direction):
    stored = {
      "CudnnLSTM": "cudnn_compatible_lstm",
      "CudnnGRU": "cudnn_compatible_gru",
      "CudnnRNNTanh": "cudnn_compatible_tanh",
    }[layer]
    prefix = checkpoints.prefix_of("fused_cells", stored)
    with tf.Graph().as_default(), tf1.Session() as session:
      made = _layer(layer, direction)
      fed = tf1.placeholder_with_default(_X, [None, None, 2])
      outputs, _ = made(fed, sequence_lengths=_LENGTHS)
      by_batch, _ = made(
        tf.transpose(fed, [1, 0, 2]),
        sequence_lengths=_LENGTHS,
        time_major=False,
        training=False,
      )
      tf1.train.Saver([made.saveable]).restore(session, prefix)
      found, transposed = session.run([outputs, by_batch])
    wanted = checkpoints.results_of("fused_cells", stored)["restored/outputs"]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
      transposed, found.transpose(1, 0, 2), rtol=1e-5, atol=1e-6
    )

  # A cell with two states and one with one, on one side and on both.
  @tiers.slow
  @parameterized.named_parameters(
    ("lstm", "CudnnLSTM", "unidirectional"),
    ("relu", "CudnnRNNRelu", "bidirectional"),
  )
  def test_trains_and_comes_back_from_a_checkpoint(self, layer, direction):
    prefix = os.path.join(self.create_tempdir().full_path, "model")

    def build():
      made = _layer(layer, direction, seed=1)
      fed = tf1.placeholder_with_default(_X, _X.shape)
      outputs, states = made(fed)
      again, states = made(fed, initial_state=states)
      loss = tf.reduce_mean(tf.square(again - 0.3)) + tf.reduce_mean(outputs)
      train_op = tf1.train.AdamOptimizer(0.05).minimize(loss)
      return loss, train_op, tf1.train.Saver()

    with tf.Graph().as_default(), tf1.Session() as session:
      loss, train_op, saver = build()
      session.run(tf1.global_variables_initializer())
      first = session.run(loss)
      for _ in range(5):
        session.run(train_op)
      last = session.run(loss)
      saver.save(session, prefix)
    self.assertLess(last, first)
    names = [name for name, _ in tf.train.list_variables(prefix)]
    self.assertTrue(any(name.endswith("/opaque_kernel") for name in names))
    self.assertTrue(
      any(name.endswith("_cell/kernel") or "/gates/" in name for name in names)
    )
    with tf.Graph().as_default(), tf1.Session() as session:
      loss, _, saver = build()
      saver.restore(session, prefix)
      np.testing.assert_allclose(session.run(loss), last, rtol=1e-5)

  def test_dropout_is_of_training_only(self):
    with tf.Graph().as_default(), tf1.Session() as session:
      made = _layer("CudnnGRU", dropout=0.5, seed=1)
      fed = tf1.placeholder_with_default(_X, _X.shape)
      dropped, _ = made(fed)
      kept, _ = made(fed, training=False)
      session.run(tf1.global_variables_initializer())
      one, another = session.run(kept), session.run(kept)
      np.testing.assert_array_equal(one, another)
      self.assertGreater(np.abs(session.run(dropped) - one).max(), 1e-3)

  def test_two_layers_with_the_same_variable_are_stored_once(self):
    with tf.Graph().as_default():
      fed = tf1.placeholder_with_default(_X, _X.shape)
      for _ in range(2):
        with tf1.variable_scope("model", reuse=tf1.AUTO_REUSE):
          _layer("CudnnGRU")(fed, scope="mine")
      saveables = tf1.get_collection(tf1.GraphKeys.SAVEABLE_OBJECTS)
      self.assertLen(saveables, 1)
      self.assertLen(tf1.global_variables(), 1)


if __name__ == "__main__":
  absltest.main()
