"""Models of tf.contrib.estimator.multi_head: their slots go on from 1.15."""

import numpy as np
import tensorflow as tf

_X = np.random.RandomState(6).normal(size=(6, 4)).astype(np.float32)


def of_a_class_and_a_number():
  contrib = tf.contrib.estimator
  head = contrib.multi_head(
    [
      contrib.multi_class_head(3, name="kind"),
      contrib.regression_head(name="size"),
    ],
    [1.0, 0.5],
  )
  x = tf.placeholder_with_default(_X, [6, 4])
  tf.train.create_global_step()
  hidden = tf.layers.dense(x, 5, tf.tanh)
  spec = head.create_estimator_spec(
    {"x": x},
    tf.estimator.ModeKeys.TRAIN,
    tf.layers.dense(hidden, head.logits_dimension),
    labels={
      "kind": tf.constant([[0], [1], [2], [2], [1], [0]]),
      "size": x[:, :1],
    },
    optimizer=tf.train.AdamOptimizer(0.05),
  )
  return {"loss": spec.loss}, spec.train_op
