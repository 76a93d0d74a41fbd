"""Traffic: the tensors that a step sends, by route."""

import estimator_mp
from estimator_mp.observe import trace_reading, traced_steps
from tests.estimator_mp import runs

import numpy as np
import tensorflow as tf
from absl.testing import absltest

_FIRST, _SECOND = "/device:CPU:0", "/device:CPU:1"
_EXAMPLES, _UNITS, _SLICES = 8, 5, 2
# A slice of the activations, or of their gradients, in float32.
_SLICE_BYTES = _EXAMPLES // _SLICES * _UNITS * 4


def _model_fn(features, labels, mode):
  with estimator_mp.stage(0):
    net = tf.compat.v1.layers.dense(features, _UNITS, tf.nn.tanh, name="first")
  with estimator_mp.stage(1):
    net = tf.compat.v1.layers.dense(net, 1, name="second")
    loss = tf.reduce_mean(tf.square(net - labels))
  optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
  step = tf.compat.v1.train.get_global_step()
  return tf.estimator.EstimatorSpec(
    mode, loss=loss, train_op=optimizer.minimize(loss, step)
  )


def _input_fn():
  arrays = (np.ones([_EXAMPLES, 3], "f"), np.ones([_EXAMPLES, 1], "f"))
  return tf.data.Dataset.from_tensors(arrays).repeat()


class SentTensorsTest(absltest.TestCase):
  def test_activations_go_forward_and_gradients_back(self):
    config = estimator_mp.ShardingConfig("stage:2", num_micro_batches=_SLICES)
    found = {}

    def record(step, metadata):
      devices = config.create_mesh().devices
      found[step] = trace_reading.sent_tensors(metadata, devices)

    estimator = runs.make_estimator(
      estimator_mp.shard_model_fn(_model_fn, config),
      config,
      None,
      self.create_tempdir().full_path,
    )
    hook = traced_steps.TracedSteps([2], record)
    estimator.train(_input_fn, steps=3, hooks=[hook])
    (step,) = found
    self.assertEqual(step, 2)
    # TensorFlow 2.15 sends constants, too: a rate, and an axis of labels.
    constants = [(_FIRST, _SECOND, 4)] * 2
    self.assertCountEqual(
      [(x.source, x.destination, x.num_bytes) for x in found[2]],
      [
        *(constants if tf.__version__.startswith("2.15.") else ()),
        *[(_FIRST, _SECOND, _SLICE_BYTES)] * _SLICES,  # activations
        *[(_SECOND, _FIRST, _SLICE_BYTES)] * _SLICES,  # their gradients
        (_FIRST, _SECOND, _EXAMPLES * 4),  # labels
        (_SECOND, _FIRST, 4),  # the loss
      ],
    )


if __name__ == "__main__":
  absltest.main()
