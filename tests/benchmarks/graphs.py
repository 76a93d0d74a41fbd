"""Training graphs without an Estimator, whose steps a benchmark can time."""

import contextlib
import time

import estimator_mp

import tensorflow as tf


@contextlib.contextmanager
def training_step(model_fn, features, labels, config):
  """Builds a training graph and yields a function that runs a step.

  Args:
    model_fn: The plain model_fn.
    features: Arrays by name: the same batch in each step.
    labels: An array.
    config: The sharding.

  Yields:
    A function without arguments, which returns the seconds that a step took.
  """
  sharded = estimator_mp.shard_model_fn(model_fn, config)
  run_config = estimator_mp.run_config(config)
  with tf.Graph().as_default():
    tf.compat.v1.set_random_seed(1)
    tf.compat.v1.train.create_global_step()
    data = tf.data.Dataset.from_tensors((features, labels)).repeat()
    batch = tf.compat.v1.data.make_one_shot_iterator(data).get_next()
    spec = sharded(
      features=batch[0],
      labels=batch[1],
      mode=tf.estimator.ModeKeys.TRAIN,
      config=run_config,
    )
    with tf.compat.v1.Session(config=run_config.session_config) as session:
      session.run(tf.compat.v1.global_variables_initializer())
      step = session.make_callable(spec.train_op)

      def timed_step():
        start = time.perf_counter()
        step()
        return time.perf_counter() - start

      timed_step()
      yield timed_step
