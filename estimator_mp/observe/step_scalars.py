"""Scalars of TensorBoard with costs of sharding: bubble, bytes sent, memory."""

import time

from estimator_mp import mesh as mesh_lib
from estimator_mp.observe import step_trace, trace_reading

import tensorflow as tf

# A traced step takes longer, and to read its trace takes time, too. Both
# together may take this share of the time of training.
_SHARE = 0.01


class StepScalarsHook(tf.estimator.SessionRunHook):
  """Traces a step now and then, and writes scalars of it beside the summaries.

  sharding/bubble: The share of the devices' time in which they were idle.
  sharding/sent_bytes: The bytes that devices sent each other.
  sharding/peak_live_bytes/N: The most bytes of tensors, without variables, that
    were alive at once on device N of the mesh.
  """

  def __init__(self, run_config: tf.estimator.RunConfig, mesh: mesh_lib.Mesh):
    """Makes a hook.

    Args:
      run_config: Where the summaries are, and how many steps are between two.
        Those of a session's first ones are no examples of the others.
      mesh: The devices.
    """
    self._directory = run_config.model_dir
    self._every_steps = run_config.save_summary_steps
    self._mesh = mesh
    run_options = tf.compat.v1.RunOptions
    self._options = run_options(
      trace_level=(
        # The tasks of a cluster record nothing for a software trace. On GPUs
        # the others' times are of launches.
        run_options.FULL_TRACE
        if run_config.master
        else run_options.SOFTWARE_TRACE
      ),
      output_partition_graphs=True,
    )
    self._runs = 0
    self._started = self._not_before = 0.0
    self._is_traced = False

  def begin(self) -> None:
    """Reads the plan of the graph."""
    graph = tf.compat.v1.get_default_graph()
    self._global_step = tf.compat.v1.train.get_global_step()
    self._graph = graph

  def before_run(
    self, run_context: tf.estimator.SessionRunContext
  ) -> tf.estimator.SessionRunArgs | None:
    """Asks a step for its trace, if it is time to."""
    self._runs += 1
    self._started = time.monotonic()
    self._is_traced = (
      self._runs % self._every_steps == 0 and self._started >= self._not_before
    )
    if not self._is_traced:
      return None
    return tf.estimator.SessionRunArgs(fetches=None, options=self._options)

  def after_run(
    self,
    run_context: tf.estimator.SessionRunContext,
    run_values: tf.estimator.SessionRunValues,
  ) -> None:
    """Writes the scalars of a traced step."""
    if not self._is_traced:
      return
    step = int(run_context.session.run(self._global_step))
    metadata = run_values.run_metadata
    try:
      trace = trace_reading.read_trace(metadata, step, self._mesh, self._graph)
    except ValueError:  # It ran nothing on the mesh: it is no training step.
      return
    writer = tf.compat.v1.summary.FileWriterCache.get(self._directory)
    writer.add_summary(_summary(trace), step)
    now = time.monotonic()
    self._not_before = now + (now - self._started) * (1 / _SHARE - 1)


def with_scalars(
  spec: tf.estimator.EstimatorSpec,
  run_config: tf.estimator.RunConfig,
  mesh: mesh_lib.Mesh,
) -> tf.estimator.EstimatorSpec:
  """Returns a spec whose training writes scalars of steps.

  Args:
    spec: The spec of a model_fn that trains, in the task that saves.
    run_config: Where summaries go, and after how many steps.
    mesh: The devices.
  """
  hook = StepScalarsHook(run_config, mesh)
  return spec._replace(training_hooks=(*spec.training_hooks, hook))


def _summary(trace: step_trace.StepTrace) -> tf.compat.v1.Summary:
  """Returns the scalars of a trace."""
  summary = tf.compat.v1.Summary()
  for tag, number in (
    ("bubble", trace.bubble),
    ("sent_bytes", trace.total_sent_bytes),
    *((f"peak_live_bytes/{k}", x) for k, x in enumerate(trace.peak_live_bytes)),
  ):
    summary.value.add(tag=f"sharding/{tag}", simple_value=number)
  return summary
