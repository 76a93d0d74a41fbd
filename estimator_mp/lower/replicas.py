"""Replicas: the whole staged model once more, on devices of its own.

Each replica computes the gradients of its own slice of the batch, by clones of
the ops of replica 0, as micro-batches are. It reads variables in one of two
ways:

- `shared`: where they are, in replica 0; each step sends them.
- `mirrored`: from copies on its own devices. Either each replica repeats the
  optimizer's work on them (`replica_updates`), or each variable is in the shard
  of one replica, which sends the others its new value (`zero`).

Data parallelism over replicas that are pipelines themselves is in GPipe (Huang
et al., 2019) and, with more axes, in GSPMD (Xu et al., 2021, arXiv:2105.04663).
"""

from collections.abc import (
  Callable,
  Collection,
  Iterable,
  Mapping,
  Sequence,
)

from compat.private import graph_edits
from estimator_mp import devices as devices_lib
from estimator_mp import mesh as mesh_lib
from estimator_mp.config import sharding_config
from estimator_mp.graph import clones, colocation, op_types
from estimator_mp.graph import gradient as gradient_lib
from estimator_mp.graph import variables as variables_lib
from estimator_mp.lower import mirroring, replica_sums
from estimator_mp.plan import gradient_sums
from estimator_mp.replicas import mirrors as mirrors_lib
from estimator_mp.replicas import replica_updates, zero

import tensorflow as tf


class Replicas:
  """The replicas of one graph's model.

  Attributes:
    count: How many there are, D; replica 0 is what model_fn builds.
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
    self.variables: list[tf.Operation] = []
    self._part: set[tf.Operation] = set()  # With all that is made of them.
    self._spread: set[tf.Operation] = set()
    self._made: set[tf.Operation] = set()  # For replicas.
    # Each replica's own updates, made of sums that each has.
    self._sums: set[str] = set()
    # Or else each variable's update in one replica, made of a sum there.
    self._zero: zero.ZeroShards | None = None
    if config.optimizer_state == "sharded":
      self._zero = zero.ZeroShards(self.count)
    self._shards_of_sums: dict[tf.Operation, int] = {}

  @property
  def mirrors(self) -> dict[str, tuple[str, ...]]:
    """The names of each mirrored variable's mirrors, by that of its op."""
    return {
      entry.variable.name: tuple(mirror.name for mirror in entry.mirrors)
      for entry in self._mirrored()
    }

  @property
  def zero_shards(self) -> dict[str, int]:
    """The replica that updates each variable, by the name of its op."""
    shards = self._zero.shards if self._zero is not None else {}
    return {variable.name: shard for variable, shard in shards.items()}

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
      ops: The ops that the first micro-batch reads and that do not differ
        between micro-batches, in the order of the graph.
    """
    if not self._is_mirrored:
      return
    own = [op for op in ops if op not in self._spread]
    new = mirrors_lib.find_mirrored(own, self._part)
    variables = op_types.variables_of(new)
    self._copy(variables, "replica_{}")
    if self._zero is not None:
      self._zero, devices = self._zero.with_variables(
        variables, self._device_of
      )
      _move(devices)
      for variable in variables:
        self._drop_mirror(variable.outputs[0], self._zero.of(variable))
    rest = [op for op in new if not op_types.is_variable(op)]
    self._copy(rest, "replica_{}")
    self._part.update(new)
    self.variables += variables

  def _copy(self, ops: Sequence[tf.Operation], scope: str) -> None:
    self._clones.add(ops, scope)
    self._made.update(x for op in ops for x in self._clones.ops(op))

  def _drop_mirror(self, handle: tf.Tensor, shard: int) -> None:
    """Lets the replica that a variable has moved to read it itself."""
    if shard:
      handles = [*self._clones.of(handle)]
      handles[shard - 1] = handle
      self._clones.pair(handle, handles)

  def copy_of(self, tensor: tf.Tensor, replica: int) -> tf.Tensor:
    """Returns what a replica has in place of a tensor; itself if it is shared.

    Args:
      tensor: A tensor of replica 0.
      replica: The number of a replica.
    """
    return self._clones.of(tensor)[replica - 1] if replica else tensor

  def plan_rows(
    self, variable: tf.Operation, parts: Sequence[tf.Tensor]
  ) -> gradient_sums.GradientSum:
    """Returns who gets the rows of a sparse gradient that replicas have.

    Args:
      variable: The op of the variable that is updated by them.
      parts: What each replica has.
    """
    receiver = None if self._zero is None else self._zero.of(variable)
    return gradient_sums.plan_rows(variable, parts, receiver)

  def gather(
    self, variable: tf.Operation, parts: Sequence[tf.Tensor], axis: int
  ) -> tf.Tensor:
    """Returns the concatenation of what replicas have, for model_fn to go on.

    Args:
      variable: The op of the variable that is updated by it.
      parts: What each replica has.
      axis: Along which axis.
    """
    receivers: Sequence[int] = range(self.count)
    if self._zero is not None:
      receivers = [self._zero.of(variable)]
    totals = []
    for receiver in receivers:
      with tf.compat.v1.device(parts[receiver].device):
        totals.append(tf.concat(parts, axis, "gather"))
    first, *others = totals
    if self._zero is None:
      self._pair(first, others)
    else:
      self._shards_of_sums[first.op] = receivers[0]
    return first

  def plan_sums(
    self,
    variables: Sequence[tf.Operation],
    parts: Sequence[Sequence[gradient_lib.Gradient]],
    made: Sequence[int],
  ) -> tuple[gradient_sums.GradientSum, ...]:
    """Decides how the gradients of one request are summed over replicas.

    Args:
      variables: The op of each gradient's variable.
      parts: For every gradient that of each replica.
      made: When the backward pass makes each, compared with others.
    """
    if self.count == 1:
      return ()
    shards = [self._zero.of(x) if self._zero else 0 for x in variables]
    have_mirrors = [x not in self._spread for x in variables]
    described = map(
      gradient_sums.describe, variables, parts, made, shards, have_mirrors
    )
    return gradient_sums.plan_sums([*described], self._config)

  def sum(
    self,
    parts: Sequence[Sequence[gradient_lib.Gradient]],
    planned: Sequence[gradient_sums.GradientSum],
  ) -> list[gradient_lib.Gradient]:
    """Returns the sums of gradients over replicas, for model_fn to go on with.

    Args:
      parts: For every gradient that of each replica.
      planned: The result of `plan_sums`.
    """
    if self.count == 1:
      return [of_variable[0] for of_variable in parts]
    totals = replica_sums.sum_over_replicas(parts, planned)
    receivers = {
      index: found.receiver
      for found in planned
      for index in found.bucket.gradients
    }
    for index, receiver in receivers.items():
      first, *others = totals[index]
      if receiver is None:
        self._pair(first, others)
      else:
        tensors = tf.nest.flatten(first, expand_composites=True)
        # Without the shape of a table, which is no sum.
        self._shards_of_sums |= {x.op: receiver for x in tensors[:2]}
    return [on_each[0] for on_each in totals]

  def _pair(
    self,
    total: gradient_lib.Gradient,
    others: Sequence[gradient_lib.Gradient],
  ) -> None:
    """Lets further replicas repeat updates with sums of their own."""
    for tensor, *copies in zip(
      *(tf.nest.flatten(x, expand_composites=True) for x in (total, *others)),
      strict=True,
    ):
      if copies[0] is not tensor:  # As the shape of a table is.
        self._clones.pair(tensor, copies)
        self._sums.add(tensor.name)

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
    rest = self._rest(forward)
    repeated = {}
    if self._zero is None:
      repeated = self._repeat_updates(rest)
    else:
      # An op with a gradient beside it, as a transposed variable, stays.
      beside = {name for x in forward for name in colocation.colocated_with(x)}
      updates = [
        op for op in rest if op_types.is_variable(op) or op.name not in beside
      ]
      devices = zero.devices_of_updates(
        updates, self._zero.shards, self._device_of, self._shards_of_sums
      )
      _move(devices)
    return mirroring.with_mirrors(spec, self._mirrored(), forward, repeated)

  def _mirrored(self) -> list[mirrors_lib.Mirrored]:
    """Returns the variables that there are mirrors of, with these."""
    handles = [variable.outputs[0] for variable in self.variables]
    return [
      mirrors_lib.Mirrored(
        handle.op, [x for x in self._clones.of(handle) if x is not handle]
      )
      for handle in handles
    ]

  def _rest(self, forward: Collection[tf.Operation]) -> list[tf.Operation]:
    """Returns the ops of replica 0 that are in no forward or backward pass."""
    starts = set(variables_lib.initial_writes())
    graph = tf.compat.v1.get_default_graph()
    return [
      op
      for op in graph.get_operations()
      if op not in starts and op not in forward and op not in self._made
    ]

  def _repeat_updates(
    self, rest: Sequence[tf.Operation]
  ) -> dict[tf.Operation, list[tf.Operation]]:
    """Lets replicas make the updates that they can make themselves."""
    found = replica_updates.find_updates(rest, self.variables, self._sums)
    self._copy(found.ops, "replica_{}/update")
    self.variables += found.slots
    return {op: self._clones.ops(op) for op in found.writes}


def _move(devices: Mapping[tf.Operation, str]) -> None:
  """Puts ops on other devices."""
  for op, device in devices.items():
    graph_edits.set_device(op, device)


def _device_map(mesh: mesh_lib.Mesh, replica: int) -> Callable[[str], str]:
  """Returns a function from devices of replica 0 to those of another."""
  of: dict[str, str] = {}
  for stage in range(mesh.axis_size("stage")):
    devices = mesh.model_devices(stage=stage)
    others = mesh.model_devices(stage=stage, data=replica)
    of.update(zip(devices, others, strict=True))
  for first, other in tuple(of.items()):
    of.setdefault(devices_lib.host_of(first), devices_lib.host_of(other))
  return lambda device: of.get(device, device)
