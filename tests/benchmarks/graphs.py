"""Training graphs without an Estimator, whose steps a benchmark can time."""

import contextlib
import time

import estimator_mp
from estimator_mp.observe import trace_reading
from estimator_mp.plan import sharding_plan

import tensorflow as tf


class Step:
  """A training step of a graph in a session."""

  def __init__(self, session, train_op, devices):
    self._session = session
    self._train_op = train_op
    self._devices = devices
    self._call = session.make_callable(train_op)

  def seconds(self):
    """Runs a step and returns how long it took."""
    start = time.perf_counter()
    self._call()
    return time.perf_counter() - start

  def trace(self):
    """Runs a step and returns its `StepTrace`."""
    options = tf.compat.v1.RunOptions(
      trace_level=tf.compat.v1.RunOptions.FULL_TRACE,
      output_partition_graphs=True,
    )
    metadata = tf.compat.v1.RunMetadata()
    self._session.run(self._train_op, options=options, run_metadata=metadata)
    graph = self._session.graph
    plan = sharding_plan.get_plan(graph).pipeline
    known = {op.name for op in graph.get_operations()}
    return trace_reading.read_trace(metadata, 1, self._devices, plan, known)


@contextlib.contextmanager
def training_step(model_fn, features, labels, config, threads_per_op=0):
  """Builds a training graph and yields its `Step`, which has run once.

  Args:
    model_fn: The plain model_fn.
    features: An array, or arrays by name: the same batch in each step.
    labels: An array.
    config: The sharding.
    threads_per_op: How many threads an op may use; 0 for all cores.

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
      devices = config.create_mesh().devices
      step = Step(session, spec.train_op, list(dict.fromkeys(devices)))
      step.seconds()
      yield step
