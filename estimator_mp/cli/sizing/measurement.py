"""Measurement: a planned model trains in processes that have no more memory.

Each device is a process of its own, which TensorFlow's servers join to a
cluster. Most of what such a process holds is no tensor of the model: Python,
TensorFlow, and its part of the graph. So the same graph runs first with sizes
so small that its tensors are next to nothing. What the processes hold then is
not counted; beyond it, each may take the memory of its device and no more, or
the step fails.
"""

from collections.abc import Sequence
from contextlib import closing

from estimator_mp.cli.sizing import device_processes, planning
from estimator_mp.cli.sizing.capacity_flags import CapacityOptions
from estimator_mp.cli.sizing.planning import Measurement
from estimator_mp.session import session_config

import tensorflow as tf

# What TensorFlow says if the system refuses memory to it, to a library that it
# calls, or to something that has no answer but to end the process.
_REFUSED = (
  tf.errors.ResourceExhaustedError,
  tf.errors.AbortedError,
  tf.errors.UnavailableError,
)


def measure(options: CapacityOptions, plan: planning.Plan) -> Measurement:
  """Trains a planned model for some steps.

  Args:
    options: The options of the plan.
    plan: The plan.
  """
  with device_processes.started(len(plan.devices)) as processes:
    target = processes.target
    with closing(_Training(options, plan, plan.model.empty(), target)) as empty:
      empty.train(options.steps)
      processes.limit(options.memory_per_device)
    tf.compat.v1.Session.reset(target)
    processes.forget_peaks()
    before = processes.held()
    losses: Sequence[float] = ()
    try:
      with closing(_Training(options, plan, plan.model, target)) as full:
        losses = full.train(options.steps)
    except _REFUSED:
      losses = ()
    peaks = processes.peaks()
  return Measurement(
    tuple(losses),
    tuple(max(y - x, 0) for x, y in zip(before, peaks, strict=True)),
  )


class _Training:
  """A session that trains a model on the devices of a plan."""

  def __init__(
    self,
    options: CapacityOptions,
    plan: planning.Plan,
    model: planning.Model,
    target: str,
  ):
    """Builds the graph, and connects to the devices.

    Args:
      options: The options of the plan.
      plan: The plan, which says where ops are placed.
      model: The plan's model, or another one with the same ops.
      target: The address that the session connects to.
    """
    config = planning.config_of(
      options,
      plan.num_stages,
      placement=plan.placement,
      num_micro_batches=options.sharding.num_micro_batches,
      schedule=options.sharding.schedule,
      recompute=options.sharding.recompute,
    )
    batch_size = options.batch_size * options.replicas
    with tf.Graph().as_default() as graph:
      self._spec, fed = model.build(
        config, batch_size, "/job:chief/task:0/cpu:0"
      )
      for hook in self._spec.training_hooks:
        hook.begin()
      start = [
        tf.compat.v1.global_variables_initializer(),
        tf.compat.v1.local_variables_initializer(),
      ]
      graph.finalize()
    examples = tf.nest.flatten(model.examples(batch_size))
    self._feed = dict(zip(fed, examples, strict=True))
    obeying = session_config.session_config(config)
    obeying.use_per_session_threads = False  # Each process has its own.
    # The graph of initial values has some as constants, as long as its session
    # is open; servers keep the variables for the next session.
    obeying.isolate_session_state = False
    with tf.compat.v1.Session(target, graph, obeying) as session:
      session.run(start)
      for hook in self._spec.training_hooks:  # They set replicas' variables.
        hook.after_create_session(session, None)
    self._session = tf.compat.v1.Session(target, graph, obeying)

  def close(self) -> None:
    """Closes the session, with its variables."""
    self._session.close()

  def train(self, steps: int) -> list[float]:
    """Returns the losses of some steps.

    Args:
      steps: How many.
    """
    fetches = [self._spec.loss, self._spec.train_op]
    return [
      float(self._session.run(fetches, self._feed)[0]) for _ in range(steps)
    ]
