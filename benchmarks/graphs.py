"""Graphs without an Estimator, whose steps a benchmark can time."""

import contextlib
import time

import estimator_mp
from estimator_mp.observe import trace_reading

import tensorflow as tf


class Step:
  """A step of a graph in a session.

  Attributes:
    losses: The loss of each step so far, if there is one.
  """

  def __init__(self, session, fetches, mesh=None, loss=None):
    self.losses = []
    self._session = session
    self._fetches = fetches
    self._mesh = mesh
    self._call = session.make_callable([fetches, [] if loss is None else loss])

  def seconds(self, count=1):
    """Runs steps and returns how long they took."""
    start = time.perf_counter()
    losses = [self._call()[1] for _ in range(count)]
    seconds = time.perf_counter() - start
    self.losses += losses
    return seconds

  def trace(self):
    """Runs a step and returns its `StepTrace`."""
    options = tf.compat.v1.RunOptions(
      trace_level=tf.compat.v1.RunOptions.FULL_TRACE,
      output_partition_graphs=True,
    )
    metadata = tf.compat.v1.RunMetadata()
    self._session.run(self._fetches, options=options, run_metadata=metadata)
    graph = self._session.graph
    return trace_reading.read_trace(metadata, 1, self._mesh, graph)


def training_step(
  model_fn, features, labels, config, threads_per_op=0, threads=0
):
  """Builds a training graph and yields its `Step`, which has run once.

  Args and yields are those of `step`.
  """
  mode = tf.estimator.ModeKeys.TRAIN
  return step(mode, model_fn, features, labels, config, threads_per_op, threads)


def batch_of(features, labels):
  """Returns the tensors of a batch that is the same in each step."""
  data = tf.data.Dataset.from_tensors((features, labels)).repeat()
  return tf.compat.v1.data.make_one_shot_iterator(data).get_next()


@contextlib.contextmanager
def step(mode, model_fn, features, labels, config, threads_per_op=0, threads=0):
  """Builds a graph and yields its `Step`, which has run once.

  Args:
    mode: What the graph is for: one of `ModeKeys`.
    model_fn: The plain model_fn.
    features: An array, or arrays by name: the same batch in each step.
    labels: An array.
    config: The sharding.
    threads_per_op: How many threads an op may use; 0 for all cores.
    threads: How many ops may run at a time; 0 for what `run_config` says.

  Yields:
    The step.
  """
  sharded = estimator_mp.shard_model_fn(model_fn, config)
  run_config = estimator_mp.run_config(
    config,
    session_config=tf.compat.v1.ConfigProto(
      intra_op_parallelism_threads=threads_per_op
    ),
  )
  with tf.Graph().as_default():
    tf.compat.v1.set_random_seed(1)
    tf.compat.v1.train.create_global_step()
    batch = batch_of(features, labels)
    spec = sharded(
      features=batch[0],
      labels=batch[1],
      mode=mode,
      config=run_config,
    )
    session_config = run_config.session_config
    if threads:
      session_config.inter_op_parallelism_threads = threads
    with tf.compat.v1.Session(config=session_config) as session:
      session.run(tf.compat.v1.global_variables_initializer())
      fetches = spec.train_op
      if mode != tf.estimator.ModeKeys.TRAIN:
        fetches = spec.predictions
      found = Step(session, fetches, config.create_mesh(), spec.loss)
      found.seconds()
      yield found
