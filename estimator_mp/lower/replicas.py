"""Replicas: the whole staged model once more, on devices of its own.

Each replica computes the gradients of its own slices of the batch, which
`instantiation` makes. It reads variables in one of two ways:

- `shared`: where they are, in replica 0; each step sends them.
- `mirrored`: from copies on its own devices. Either each replica repeats the
  optimizer's work on them (`replica_updates`), or each variable is in the shard
  of one replica, which sends the others its new value (`zero`).

Data parallelism over replicas that are pipelines themselves is in GPipe (Huang
et al., 2019) and, with more axes, in GSPMD (Xu et al., 2021, arXiv:2105.04663).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from compat.private import graph_edits
from estimator_mp import devices as devices_lib
from estimator_mp import mesh as mesh_lib
from estimator_mp.config import sharding_config
from estimator_mp.graph import clones, colocation, op_types
from estimator_mp.graph import variables as variables_lib
from estimator_mp.lower import mirroring, replica_sums
from estimator_mp.planning import gradient_sums
from estimator_mp.planning.update_reads import UpdateRead
from estimator_mp.propagate.layouts import Shard
from estimator_mp.replicas import mirrors as mirrors_lib
from estimator_mp.replicas import replica_updates, zero

import tensorflow as tf


class Replicas:
  """The replicas of one graph's model.

  Attributes:
    count: How many there are, D; model_fn builds replica 0.
    variables: Those that are mirrored.
  """

  def __init__(
    self,
    config: sharding_config.ShardingConfig,
    mesh: mesh_lib.Mesh,
    count: int,
  ):
    """Starts with nothing mirrored.

    Args:
      config: The configuration: the variables that replicas keep, and the way
        in which gradients are summed.
      mesh: A mesh.
      count: How many replicas there are.
    """
    self._config = config
    self.count = count
    self._device_of = [_device_map(mesh, r) for r in range(self.count)]
    self._clones = clones.Clones(self._device_of[1:])
    self._is_mirrored = config.variables == "mirrored" and self.count > 1
    self._is_sharded = config.optimizer_state == "sharded"
    self.variables: list[tf.Operation] = []
    self._spread: set[tf.Operation] = set()
    # Of each variable the replica that updates it for all, and of each sum of
    # gradients that which gets it, if replicas do not update theirs.
    self._shards: dict[tf.Operation, int] = {}
    self._shards_of_sums: dict[tf.Operation, int] = {}

  @property
  def mirrors(self) -> dict[str, tuple[str, ...]]:
    """The names of each mirrored variable's mirrors, by that of its op."""
    return {
      variable.name: tuple(handle.name for handle in handles)
      for variable, handles in self._mirrored().items()
    }

  def spread(self, variables: Iterable[tf.Operation]) -> None:
    """Enters variables that are there once, on whichever replica's device.

    Args:
      variables: Shards of tables, each on the device of one replica; all read
        them.
    """
    self._spread.update(variables)

  def mirror(self, ops: Sequence[tf.Operation]) -> None:
    """Mirrors variables, and whatever is computed from variables alone.

    Args:
      ops: The ops that slices read and that do not differ between slices, in
        the order of the graph; none of a loop.
    """
    if not self._is_mirrored:
      return
    mirrored = mirrors_lib.find_mirrored(
      [op for op in ops if op not in self._spread]
    )
    self.variables = op_types.variables_of(mirrored)
    self._clones.add(self.variables, "replica_{}")
    if self._is_sharded:
      self._shards, devices = zero.divide(self.variables, self._device_of)
      _move(devices)
      for variable, shard in self._shards.items():
        if shard:  # That replica reads it itself.
          handle = variable.outputs[0]
          handles = [*self._clones.of(handle)]
          handles[shard - 1] = handle
          self._clones.pair(handle, handles)
    computed = [op for op in mirrored if not op_types.is_variable(op)]
    self._clones.add(computed, "replica_{}")

  def copy_of(self, tensor: tf.Tensor, replica: int) -> tf.Tensor:
    """Returns a replica's copy of a tensor; itself if it is shared.

    Args:
      tensor: A tensor of replica 0.
      replica: The number of a replica.
    """
    return self._clones.of(tensor)[replica - 1] if replica else tensor

  def aggregate(
    self,
    reads: Sequence[UpdateRead],
    parts: Mapping[str, Sequence[tf.Tensor]],
  ) -> tuple[tuple[gradient_sums.GradientSum, ...], dict[str, tf.Tensor]]:
    """Aggregates the reads of one round of updates.

    Args:
      reads: The tensors that they read.
      parts: Each replica's part of these, by the names of the plain tensors.

    Returns:
      How it is aggregated; and the results for replica 0, or for the one that
      updates a variable for all, by the same names.
    """
    planned: list[gradient_sums.GradientSum] = []
    totals: dict[str, tf.Tensor] = {}
    added: list[UpdateRead] = []
    for read in reads:
      if not isinstance(read.layout, Shard):
        added.append(read)
        continue
      tensors = parts[read.tensor.name]
      receiver = self._receiver(read.variable)
      planned.append(gradient_sums.plan_rows(read.variable, tensors, receiver))
      joined = []
      for part in tensors if receiver is None else [tensors[receiver]]:
        with tf.compat.v1.device(part.device):
          joined.append(tf.concat(tensors, read.layout.dim, "gather"))
      totals[read.tensor.name] = self._enter(joined, receiver)
    added_parts = [parts[read.tensor.name] for read in added]
    sums = gradient_sums.plan_sums(
      [
        gradient_sums.describe(x.variable, tensors, self._receiver(x.variable))
        for x, tensors in zip(added, added_parts, strict=True)
      ],
      self._config,
    )
    receivers = {i: x.receiver for x in sums for i in x.bucket.gradients}
    summed = replica_sums.sum_over_replicas(added_parts, sums)
    for index, read in enumerate(added):
      total = self._enter(summed[index], receivers[index])
      totals[read.tensor.name] = total
    return (*planned, *sums), totals

  def _receiver(self, variable: tf.Operation) -> int | None:
    """Returns the replica that updates a variable; None if each updates its."""
    is_on_each = self._is_mirrored and variable not in self._spread
    if is_on_each and not self._is_sharded:
      return None
    return self._shards.get(variable, 0)

  def _enter(
    self, totals: Sequence[tf.Tensor], receiver: int | None
  ) -> tf.Tensor:
    """Returns the one of totals that the plain updates read."""
    first, *others = totals
    if receiver is None:
      self._clones.pair(first, others)
    else:
      self._shards_of_sums[first.op] = receiver
    return first

  def keep_equal(
    self,
    spec: tf.estimator.EstimatorSpec,
    forward: Collection[tf.Operation],
  ) -> tf.estimator.EstimatorSpec:
    """Returns a spec that trains all replicas' variables alike.

    Args:
      spec: The spec that model_fn returned.
      forward: The ops of all micro-batches.
    """
    if not self.variables:
      return spec
    ops = self._rest(forward)
    repeated = {}
    if not self._is_sharded:
      repeated = self._repeat_updates(ops)
    else:
      # An op with a gradient beside it, as a transposed variable, stays.
      beside = {name for x in forward for name in colocation.colocated_with(x)}
      updates = [
        op for op in ops if op_types.is_variable(op) or op.name not in beside
      ]
      devices = zero.devices_of_updates(
        updates, self._shards, self._device_of, self._shards_of_sums
      )
      _move(devices)
    return mirroring.with_mirrors(spec, self._mirrored(), forward, repeated)

  def _mirrored(self) -> mirrors_lib.Mirrors:
    """Returns the mirrors of each variable that has any."""
    handles = [variable.outputs[0] for variable in self.variables]
    return {
      handle.op: [x for x in self._clones.of(handle) if x is not handle]
      for handle in handles
    }

  def _rest(self, forward: Collection[tf.Operation]) -> list[tf.Operation]:
    """Returns the ops of replica 0 that are in no forward or backward pass."""
    apart = {*variables_lib.initial_writes(), *self._clones.all}
    graph = tf.compat.v1.get_default_graph()
    return [
      op
      for op in graph.get_operations()
      if op not in apart and op not in forward
    ]

  def _repeat_updates(
    self, ops: Sequence[tf.Operation]
  ) -> dict[tf.Operation, list[tf.Operation]]:
    """Lets replicas make the updates that they can make themselves."""
    updates = replica_updates.find_updates(ops, self.variables, self._clones)
    self._clones.add(updates, "replica_{}/update")
    self.variables += op_types.variables_of(updates)
    return {op: self._clones.ops(op) for op in updates if op_types.is_write(op)}


def _move(devices: Mapping[tf.Operation, str]) -> None:
  """Puts ops on other devices."""
  for op, device in devices.items():
    graph_edits.set_device(op, device)


def _device_map(mesh: mesh_lib.Mesh, replica: int) -> Callable[[str], str]:
  """Returns a function from devices of replica 0 to those of another."""
  mapped: dict[str, str] = {}
  for stage in range(mesh.axis_size("stage")):
    devices = mesh.model_devices(stage=stage)
    others = mesh.model_devices(stage=stage, data=replica)
    mapped.update(zip(devices, others, strict=True))
  for first, other in tuple(mapped.items()):
    mapped.setdefault(devices_lib.host_of(first), devices_lib.host_of(other))
  return lambda device: mapped.get(device, device)
