"""The driver: partitions the finished graph of one call of a model_fn.

    capture    model_fn runs undisturbed to its end
    plan       partitioner.Partitioner: sizes, layouts, stages, passes
    lower      Partitioner.lower: slices, reshards, order, devices

It will take the place of `conductor`. Until it can do all that this does, it is
asked for by an environment variable, and left alone where an option is set that
it does not know.
"""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from compat.private import graph_reads
from estimator_mp import devices, partitioner
from estimator_mp import mesh as mesh_lib
from estimator_mp.capture import batch_size, graph_checks, micro_batches
from estimator_mp.config.sharding_config import ShardingConfig
from estimator_mp.graph import device_assignment, traversal
from estimator_mp.lower import initial_values, sends
from estimator_mp.placement import contents, transfers
from estimator_mp.plan import sharding_plan

import tensorflow as tf

TRAIN = tf.estimator.ModeKeys.TRAIN

# The switch: "1" to partition finished graphs.
SWITCH = "ESTIMATOR_MP_FINISHED_GRAPH"

# Options that change nothing here, or that `Partitioner` reads.
_KNOWN = (
  *("mesh", "devices", "placement", "memory_limit", "measured_costs"),
  *("verify_placement", "logical_gpu_bytes", "num_micro_batches", "schedule"),
  *("max_live_micro_batches", "num_virtual_stages", "draws", "variables"),
  *("optimizer_state", "aggregation", "compression", "top_k_fraction"),
  *("bucket_bytes", "chunk_bytes"),
)
# The order of collectives is planned for graphs of the other kind.
_AGGREGATIONS = ("auto", "copy", "ring", "tree", "hierarchical")


def partitions(
  config: ShardingConfig,
  mesh: mesh_lib.Mesh,
  mode: str,
  arguments: Mapping[str, Any],
  has_servers: bool,
) -> bool:
  """Whether this driver is asked for, and knows all that it is asked.

  Args:
    config: How the model is sharded.
    mesh: The devices.
    mode: The purpose of the graph.
    arguments: Those that model_fn is called with.
    has_servers: Whether parameter servers hold variables.
  """
  if os.environ.get(SWITCH) != "1" or mode != TRAIN or has_servers:
    return False
  default = ShardingConfig()
  others = [x.name for x in dataclasses.fields(config) if x.name not in _KNOWN]
  if any(getattr(config, name) != getattr(default, name) for name in others):
    return False
  if config.aggregation not in _AGGREGATIONS:
    return False
  inputs = _inputs(config, arguments)
  if mesh.axis_size("model") > 1 or not _dense(inputs):
    return False
  # Where the graph knows some sizes, nothing here waits for a check of others.
  return len({entry.size is None for entry in inputs}) == 1


def _inputs(
  config: ShardingConfig, arguments: Mapping[str, Any]
) -> list[batch_size.Input]:
  """Returns the features and labels that have examples."""
  names = [x for x in ("features", "labels") if x in arguments]
  batch = {name: arguments[name] for name in names}
  return micro_batches.inputs_with_examples(batch, config.batch_axis)


def _dense(inputs: Sequence[batch_size.Input]) -> list[tf.Tensor]:
  """Returns the inputs that slices are made of."""
  return [
    x.value for x in inputs if not isinstance(x.value, batch_size.COMPOSITES)
  ]


class Driver:
  """Partitions the graph of one call of a model_fn that trains.

  Attributes:
    splits_variables: Whether variables are split.
    prefetching: What prefetches batches.
    has_slices: Whether the batch is in slices.
  """

  splits_variables = False
  prefetching = None

  def __init__(self, config: ShardingConfig, mesh: mesh_lib.Mesh):
    """Starts with the default graph, before model_fn is called.

    Args:
      config: How the model is sharded.
      mesh: The devices.
    """
    self._config = config
    self._mesh = mesh
    self._graph = tf.compat.v1.get_default_graph()
    self._inputs: list[batch_size.Input] = []
    count = config.create_schedule().num_micro_batches
    self.has_slices = count * mesh.axis_size("data") > 1

  def variables(self) -> AbstractContextManager[None]:
    """Returns a context for model_fn's variables: they are the plain ones."""
    return contextlib.nullcontext()

  def inputs(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns model_fn's arguments, as they are.

    Args:
      arguments: The arguments with which the Estimator calls model_fn, by name.
    """
    self._inputs = _inputs(self._config, arguments)
    return dict(arguments)

  def shard(
    self, build: Callable[[], tf.estimator.EstimatorSpec]
  ) -> tuple[tf.estimator.EstimatorSpec, sharding_plan.ShardingPlan]:
    """Builds the model and shards it.

    Args:
      build: Calls model_fn.

    Returns:
      The EstimatorSpec that trains with the sharded model; and the plan of its
      graph.

    Raises:
      ValueError: If the model cannot be sharded as the configuration says.
    """
    with mesh_lib.current_mesh(self._mesh):
      spec = build()
    graph_checks.check_spec(spec)
    graph_checks.check_gradients(
      any(map(graph_reads.is_of_gradient, self._graph.get_operations()))
    )
    graph_checks.check_no_tpu_ops(self._graph.get_operations())
    made = partitioner.Partitioner(
      _dense(self._inputs),
      spec.loss,
      spec.train_op,
      self._config,
      self._mesh,
      self._num_examples(),
    )
    loss, train_op = made.lower()
    spec = made.keep_equal(spec._replace(loss=loss, train_op=train_op))
    live = traversal.ops_run_with(spec.loss, spec.train_op)
    ops = [op for op in self._graph.get_operations() if op in live]
    sends.reduce_transfers(transfers.find_savings(ops))
    device_assignment.settle_on_hosts(self._graph, self._mesh.devices)
    device_assignment.leave_other_devices(self._graph.get_operations())
    mirrors = made.replicas.mirrors
    held = contents.contents_of_devices(
      self._mesh, self._mesh.axis_size("data"), mirrors
    )
    placement = contents.placement_of_stages(self._mesh, made.stages, held)
    pipeline = None
    if self.has_slices:
      pipeline = sharding_plan.PipelinePlan(
        self._mesh, self._config.create_schedule(), tuple(made.cells)
      )
    plan = sharding_plan.ShardingPlan(
      placement,
      pipeline,
      tuple(made.sums),
      mirrors,
      made.replicas.zero_shards,
      getattr(spec.train_op, "op", spec.train_op).name,
    )
    sharding_plan.record_plan(self._graph, plan)
    return spec, plan

  def _num_examples(self) -> tf.Tensor | None:
    """Returns how many examples a step has, where that has to be checked."""
    if not self.has_slices:
      return None
    host = devices.host_of(self._mesh.device(stage=0))
    return batch_size.batch_size(self._inputs, host).checked

  def finish(self, compiles_with_xla: bool) -> None:
    """Lets sessions compute initial values on their devices.

    Args:
      compiles_with_xla: Whether sessions do, which would draw initial values by
        another algorithm than what folds them.
    """
    if not compiles_with_xla:
      initial_values.compute_in_session()
