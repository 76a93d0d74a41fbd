"""Functions of tf.contrib.training that build graphs."""

import numpy as np
import tensorflow as tf
from tensorflow.contrib import training

_X = np.random.RandomState(1).normal(size=(4, 3)).astype(np.float32)


def _loss():
  x = tf.placeholder_with_default(_X, [4, 3])
  hidden = tf.layers.dense(x, 3, tf.tanh)
  hidden = tf.layers.batch_normalization(hidden, training=True, momentum=0.5)
  return tf.reduce_mean(tf.square(tf.layers.dense(hidden, 2) - 1.0))


def train_op():
  optimizer = tf.train.AdamOptimizer(0.1)
  op = training.create_train_op(_loss(), optimizer)
  names = " ".join(v.op.name for v in tf.global_variables())
  return {"loss": op, "names": names}, tf.group(op)


def train_op_otherwise():
  loss = _loss()
  step = tf.train.get_or_create_global_step()
  kernels = [v for v in tf.trainable_variables() if "kernel" in v.name]
  op = training.create_train_op(
    loss,
    tf.train.GradientDescentOptimizer(0.5),
    global_step=step,
    update_ops=tf.get_collection(tf.GraphKeys.UPDATE_OPS)[:1],
    variables_to_train=kernels,
    transform_grads_fn=training.clip_gradient_norms_fn(0.05),
    summarize_gradients=True,
    check_numerics=False,
  )
  summaries = tf.get_collection(tf.GraphKeys.SUMMARIES)
  names = " ".join(sorted(one.op.name for one in summaries))
  return {"loss": loss, "summaries": names}, tf.group(op)


def scaled_and_clipped_gradients():
  loss = _loss()
  optimizer = tf.train.GradientDescentOptimizer(0.5)
  pairs = optimizer.compute_gradients(loss)
  kernels = {v: 2.0 for _, v in pairs if "kernel" in v.name}
  pairs = training.multiply_gradients(pairs, kernels)
  pairs = training.clip_gradient_norms(pairs, 0.2)
  training.add_gradients_summaries(pairs)
  return {"loss": loss}, optimizer.apply_gradients(pairs)


def greedy_placement():
  strategy = training.GreedyLoadBalancingStrategy(3, training.byte_size_load_fn)
  setter = tf.train.replica_device_setter(3, ps_strategy=strategy)
  devices = []
  with tf.Graph().as_default(), tf.device(setter):
    for size in (10, 3, 4, 2, 8, 1):
      devices.append(tf.get_variable("v%d" % size, [size]).device)
    with tf.variable_scope("resources", use_resource=False):
      devices.append(tf.get_variable("w", [2], tf.float64).device)
  return {"devices": " ".join(devices)}


def random_placement():
  found = []
  for seed in (0, 7):
    strategy = training.RandomStrategy(5, seed)
    setter = tf.train.replica_device_setter(5, ps_strategy=strategy)
    with tf.Graph().as_default(), tf.device(setter):
      for size in range(1, 9):
        found.append(tf.get_variable("v%d" % size, [size]).device)
  return {"devices": " ".join(found)}


def _numbers(count):
  return tf.train.range_input_producer(count, shuffle=False).dequeue()


def buckets():
  number = _numbers(8)
  which, (numbers, filled) = training.bucket(
    [number, tf.fill([3], number)],
    which_bucket=number % 2,
    batch_size=3,
    num_buckets=2,
  )
  assert [one.shape.as_list() for one in (numbers, filled)] == [[3], [3, 3]]
  return {
    "of_one_bucket": tf.reduce_sum(tf.abs(numbers % 2 - which)),
    "alike": tf.reduce_sum(tf.abs(filled - numbers[:, tf.newaxis])),
  }


def buckets_by_length():
  number = _numbers(9)
  lengths, batch = training.bucket_by_sequence_length(
    number + 1,
    {"tokens": tf.fill([number + 1], number), "number": number},
    batch_size=2,
    bucket_boundaries=[3, 6],
    dynamic_pad=True,
    capacity=20,
  )
  tokens = batch["tokens"]
  assert lengths.shape.as_list() == [2]
  assert tokens.shape.as_list() == [2, None]
  which = tf.cast(lengths >= 3, tf.int32) + tf.cast(lengths >= 6, tf.int32)
  return {
    "of_one_bucket": tf.reduce_max(which) - tf.reduce_min(which),
    "padded_to_longest": tf.shape(tokens)[1] - tf.reduce_max(lengths),
    "sums": tf.reduce_sum(tokens, 1) - lengths * (lengths - 1),
  }
