"""The driver: partitions the finished graph of one call of a model_fn.

capture    model_fn runs undisturbed to its end
plan       partitioner.Partitioner: sizes, layouts, stages, passes
lower      lower.lowering.Lowering: slices, reshards, order, devices
"""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from compat.private import graph_reads
from estimator_mp import mesh as mesh_lib
from estimator_mp import model_partitioner, partitioner
from estimator_mp.capture import (
  graph_checks,
  input_boundary,
  micro_batches,
  resources,
  static_batch,
)
from estimator_mp.config import sharding_options
from estimator_mp.config.sharding_config import ShardingConfig
from estimator_mp.graph import (
  batch_inputs,
  device_assignment,
  savers,
  traversal,
)
from estimator_mp.lower import (
  copies,
  lowering,
  ordering,
  outputs,
  parameter_servers,
  prefetching,
  process_sums,
  sends,
  unfolded_values,
)
from estimator_mp.placement import contents, transfers
from estimator_mp.planning import (
  collective_order,
  gradient_reads,
  sharding_plan,
  split_options,
)
from estimator_mp.planning.purpose import TRAINING, Purpose
from estimator_mp.replicas import horovod

import tensorflow as tf

PREDICT = tf.estimator.ModeKeys.PREDICT


def _fetches(
  spec: tf.estimator.EstimatorSpec, purpose: Purpose
) -> dict[str, Any]:
  """Returns the fetches of a step, by the fields of a spec.

  A SavedModel of a training step has its predictions and metrics, too.
  """
  results = ["predictions", "eval_metric_ops", "eval_metrics"]
  if purpose.mode == PREDICT:
    names = ["predictions"]
  elif purpose.trains and not purpose.is_export:
    names = ["loss", "train_op"]
  elif purpose.trains:
    names = ["loss", "train_op", *results]
  else:
    names = ["loss", *results]
  # A TPUEstimatorSpec has other metrics.
  return {name: getattr(spec, name) for name in names if hasattr(spec, name)}


class Driver:
  """Partitions the graph of one call of a model_fn.

  Attributes:
    splits_variables: Whether variables are split.
    prefetching: The queue of batches; None without `prefetch_inputs`.
    has_slices: Whether the batch is in slices.
  """

  def __init__(
    self,
    config: ShardingConfig,
    mesh: mesh_lib.Mesh,
    purpose: Purpose = TRAINING,
    servers: parameter_servers.NoServers = parameter_servers.NO_SERVERS,
  ):
    """Starts with the default graph, before model_fn is called.

    Args:
      config: How the model is sharded.
      mesh: The devices.
      purpose: The purpose of the graph.
      servers: Says which task holds a variable.
    """
    self._purpose = purpose
    if not purpose.trains:  # Its results are the plain model's.
      config = dataclasses.replace(config, draws="whole", batch_norm="whole")
    if purpose.is_export:
      config = dataclasses.replace(
        config, transfer_dtype="float32", prefetch_inputs=False
      )
    axis = split_options.split_axis(config, mesh, self._purpose)
    self.splits_variables = axis is not None
    slices = partitioner.slices_of_replicas(
      config.create_schedule(), mesh, self._purpose
    )
    self._is_cut = slices[-1].stop > 1
    self._config = config
    self._mesh = mesh
    self._model_axis: model_partitioner.ModelPartitioner | None = None
    self._servers = servers
    self._processes: horovod.Processes | None = None
    self._is_training = purpose.trains and not purpose.is_export
    if config.aggregation == sharding_options.HOROVOD and self._is_training:
      self._processes = horovod.Processes(config.horovod_op)
    self._graph = tf.compat.v1.get_default_graph()
    self._inputs: list[batch_inputs.Input] = []
    self._arguments: list[tf.Tensor] = []
    self.prefetching: prefetching.Prefetching | None = None
    self.has_slices = False

  def variables(self) -> AbstractContextManager[None]:
    """Returns a context in which model_fn's variables are resources.

    A reference is memory: a plain op that a hook fetches beside slices could
    read a value that the update has written. A read of a resource is a value.
    """
    if self.splits_variables or (self._purpose.trains and self._is_cut):
      return resources.all_resources()
    return contextlib.nullcontext()

  def inputs(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns model_fn's arguments, as they are but for `static_batch_size`.

    Args:
      arguments: The arguments with which the Estimator calls model_fn, by name.

    Raises:
      ValueError: If the batch cannot have that size.
    """
    size, axes = self._config.static_batch_size, self._config.batch_axis
    if size is not None and self._is_training:
      arguments = static_batch.with_size(arguments, size, axes)
    names = [x for x in ("features", "labels") if x in arguments]
    batch = {name: arguments[name] for name in names}
    find = micro_batches.whole_inputs
    if self._is_cut:
      find = micro_batches.inputs_with_examples
    self._inputs = find(batch, axes)
    flat = tf.nest.flatten(batch, expand_composites=True)
    self._arguments = [x for x in flat if tf.is_tensor(x)]
    return dict(arguments)

  def shard(
    self, build: Callable[[], tf.estimator.EstimatorSpec]
  ) -> tuple[tf.estimator.EstimatorSpec, sharding_plan.ShardingPlan]:
    """Builds the model and shards it.

    Args:
      build: Calls model_fn.

    Returns:
      The EstimatorSpec that trains, evaluates or predicts with the sharded
      model; and the plan of its graph.

    Raises:
      ValueError: If the model cannot be sharded as the configuration says.
    """
    spec, planned = self.partition(build)
    fetches = _fetches(spec, self._purpose)
    flat = tf.nest.flatten(fetches, expand_composites=True)
    places = [i for i, x in enumerate(flat) if _is_fetched(x)]
    exported = self._exported(spec)
    self._servers.place_variables(self._graph.get_operations())
    lowered = planned.lower()
    for i, fetch in zip(places, lowered.fetches, strict=False):
      flat[i] = fetch
    of_exported = lowered.fetches[len(places) :]
    stand_ins = dict(zip((x.name for x in exported), of_exported, strict=True))
    of_savers = savers.saver_ops(self._graph.get_operations())
    device_assignment.follow_variables(savers.work_on_variables(of_savers))
    packed = tf.nest.pack_sequence_as(fetches, flat, expand_composites=True)
    spec = spec._replace(**packed)
    if self._processes is not None:
      spec = self._processes.finish(spec)
    if exported:
      spec = outputs.with_wholes(spec, lambda x: stand_ins.get(x.name, x))
    if self._purpose.trains:
      spec = planned.keep_equal(spec, lowered.forward)
      if self._config.prefetch_inputs:
        of_input = input_boundary.ops_of_input(
          self._arguments, lowered.cuts_of_inputs
        )
        boundary = input_boundary.find(of_input)
        self.prefetching = prefetching.prefetch(boundary)
      collectives = collective_order.collectives_of(self._graph)
      ordering.order_collectives(collectives)
    live = traversal.ops_run_with(*filter(_is_fetched, flat))
    ops = [op for op in self._graph.get_operations() if op in live]
    sends.reduce_transfers(transfers.find_savings(ops))
    device_assignment.leave_other_devices(self._graph.get_operations())
    device_assignment.settle_on_hosts(self._graph, self._mesh.devices)
    self.has_slices = planned.has_slices
    self._model_axis = planned.model_axis
    plan = self._plan(spec, planned, lowered)
    sharding_plan.record_plan(self._graph, plan)
    return spec, plan

  def partition(
    self, build: Callable[[], tf.estimator.EstimatorSpec]
  ) -> tuple[tf.estimator.EstimatorSpec, partitioner.Partitioner]:
    """Builds the model and plans it, but makes no slices.

    Args:
      build: Calls model_fn.

    Returns:
      The plain EstimatorSpec, and the plan.

    Raises:
      ValueError: As `shard`.
    """
    given = set(self._graph.get_operations())
    requests: list[gradient_reads.Request] = []
    with contextlib.ExitStack() as stack:
      stack.enter_context(mesh_lib.current_mesh(self._mesh))
      if self._processes is not None:
        recording = gradient_reads.heard(self._graph)
        requests = stack.enter_context(recording)
      spec = build()
    marks = process_sums.mark(gradient_reads.find(self._graph, requests))
    graph_checks.check_spec(spec)
    ops = self._graph.get_operations()
    self._servers.complete_devices(ops)
    if self._purpose.trains:
      graph_checks.check_gradients(any(map(graph_reads.is_of_gradient, ops)))
    graph_checks.check_no_tpu_ops(ops)
    graph_checks.check_no_compiled_computation(ops)
    fetches = _fetches(spec, self._purpose)
    flat = tf.nest.flatten(fetches, expand_composites=True)
    results = [None if self._purpose.trains else spec.predictions, spec.loss]
    purpose = dataclasses.replace(
      self._purpose,
      results=tuple(filter(tf.is_tensor, tf.nest.flatten(results))),
    )
    planned = partitioner.Partitioner(
      self._inputs,
      [*filter(_is_fetched, flat), *self._exported(spec)],
      self._config,
      self._mesh,
      purpose,
      given,
      marks,
    )
    return spec, planned

  def _exported(self, spec: tf.estimator.EstimatorSpec) -> list[tf.Tensor]:
    """Returns the tensors that signatures name, if it is for predictions."""
    if self._purpose.mode != PREDICT:
      return []
    tensors: dict[str, tf.Tensor] = {}

    def enter(tensor: tf.Tensor) -> tf.Tensor:
      return tensors.setdefault(tensor.name, tensor)

    outputs.with_wholes(spec, enter)
    return list(tensors.values())

  def _plan(
    self,
    spec: tf.estimator.EstimatorSpec,
    planned: partitioner.Partitioner,
    lowered: lowering.Lowering,
  ) -> sharding_plan.ShardingPlan:
    """Returns all decisions, and the names of the ops that execute them."""
    mirrors = planned.replicas.mirrors
    held = contents.contents_of_devices(
      self._mesh, planned.replicas.count, mirrors
    )
    placement = contents.placement_of_stages(self._mesh, planned.stages, held)
    pipeline = None
    if planned.has_slices:
      pipeline = sharding_plan.PipelinePlan(
        self._mesh, planned.schedule, tuple(lowered.cells), lowered.recomputed
      )
    train_op = None
    if self._purpose.trains:
      train_op = getattr(spec.train_op, "op", spec.train_op).name
    return sharding_plan.ShardingPlan(
      placement,
      pipeline,
      tuple(lowered.sums),
      mirrors,
      train_op,
      step=planned.plan,
    )

  def finish(self, compiles_with_xla: bool) -> None:
    """Has later readers read shards, and sessions compute initial values.

    Args:
      compiles_with_xla: Whether sessions do, which would draw initial values by
        another algorithm than constant folding.
    """
    if self._model_axis is not None:
      late = functools.partial(self._model_axis.split_late, self._graph)
      if self._purpose.is_export:  # It has its Saver; nobody finalizes it.
        late()
      else:
        copies.before_finalization(self._graph, late)
    if self._is_training and not compiles_with_xla:
      unfolded_values.compute_in_session()
    self._servers.place_others(self._graph.get_operations())


def _is_fetched(x: Any) -> bool:
  """Whether a session may fetch a value of a spec."""
  return isinstance(x, tf.Tensor | tf.Operation)
