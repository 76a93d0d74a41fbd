"""Verification: did every op run on the device it was placed on?

A placement is a wish until a session runs. Soft placement, which is the
default of `tf.estimator`, moves an op to another device without a word, and a
model "on three devices" may train happily on one. So the first step of a
session is asked for its partition graphs, the graphs that its devices really
executed, and they are compared with the plan.
"""

import collections
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from estimator_mp import devices, notices
from estimator_mp.graph import op_types
from estimator_mp.observe import executed_graph

import tensorflow as tf

# The types of ops, and the devices that they were placed on, by their names.
_Plan: TypeAlias = Mapping[str, tuple[str, str]]


class PlacementError(RuntimeError):
  """An op ran on another device than planned, or nothing was compared."""


@dataclasses.dataclass(frozen=True)
class DeviceContents:
  """The ops that one device executed in a step.

  Attributes:
    variables: The names of the variables that it holds, sorted.
    variable_bytes: The bytes of these variables.
    op_types: How many ops of each type it ran.
  """

  variables: tuple[str, ...]
  variable_bytes: int
  op_types: Mapping[str, int]


def planned_devices(graph: tf.Graph) -> _Plan:
  """Returns the type and device of every op that has one, by the op's name.

  A device's name may be partial ("/job:worker"). Ops that only hand on a tensor
  into a branch, or around a loop, are left out: a session moves them to the
  device that makes or reads the tensor.

  Args:
    graph: A graph.
  """
  moved = op_types.V1_CONTROL_FLOW - op_types.MERGES
  return {
    op.name: (op.type, op.device)
    for op in graph.get_operations()
    if op.device and op.type not in moved
  }


def check_placement(
  plan: _Plan,
  partition_graphs: Iterable[tf.compat.v1.GraphDef],
) -> int:
  """Compares a plan with the executed graphs of a session.

  Ops that the session's optimizer removed, added or made one with others (a
  _FusedMatMul with the name of its activation) are not compared.

  Args:
    plan: The result of `planned_devices`.
    partition_graphs: `RunMetadata.partition_graphs` of a step.

  Returns:
    How many ops were compared.

  Raises:
    PlacementError: If an op ran elsewhere; it names the op, the planned
      device and the actual one. If no op was compared; it says why.
  """
  partitions = list(partition_graphs)
  compared = 0
  for partition in partitions:
    for node in partition.node:
      op_type, device = plan.get(node.name, ("", ""))
      if op_type != node.op:
        continue
      compared += 1
      if not _is_part_of(device, node.device):
        raise PlacementError(
          f"op {node.name!r} ({node.op}) was placed on {device} but "
          f"ran on {node.device}; use "
          "config=estimator_mp.run_config(...), which turns soft placement "
          "off and makes the mesh's devices exist"
        )
  if not compared:
    raise PlacementError(_why_nothing_was_compared(plan, partitions))
  return compared


def _why_nothing_was_compared(
  plan: _Plan,
  partitions: Sequence[tf.compat.v1.GraphDef],
) -> str:
  """Returns the text of the error: a check of nothing has shown nothing."""
  if not plan:
    return (
      "the placement was not verified: no op of the graph was placed; shard "
      "the model_fn with estimator_mp.shard_model_fn, or place ops with "
      "mesh.stage"
    )
  if not any(partition.node for partition in partitions):
    return (
      f"the placement of {len(plan)} ops was not verified: the step returned "
      "no partition graphs; run it with "
      "tf.compat.v1.RunOptions(output_partition_graphs=True)"
    )
  return (
    f"the placement was not verified: the step ran none of the {len(plan)} "
    f"placed ops, such as {next(iter(plan))!r}; verify a step that does, such "
    "as one of train_op"
  )


def _is_part_of(planned: str, actual: str) -> bool:
  """Whether an actual device matches a planned name, which may be partial.

  "/device:CPU:1" means CPU 1 of the task that runs the op.
  """
  wish = tf.compat.v1.DeviceSpec.from_string(planned)
  fact = tf.compat.v1.DeviceSpec.from_string(actual)
  return all(
    getattr(wish, field) in (None, getattr(fact, field))
    for field in ("job", "replica", "task", "device_type", "device_index")
  )


def contents_of_devices(
  partition_graphs: Iterable[tf.compat.v1.GraphDef],
) -> dict[str, DeviceContents]:
  """Returns the ops and variables of each device in an executed step.

  Args:
    partition_graphs: `RunMetadata.partition_graphs` of a step.

  Returns:
    Contents by canonical device name.
  """
  ops: dict[str, tuple[collections.Counter[str], dict[str, int]]] = {}
  for partition in partition_graphs:
    for node in partition.node:
      device = devices.canonical_device(node.device)
      types, variables = ops.setdefault(device, (collections.Counter(), {}))
      types[node.op] += 1
      if node.op in op_types.VARIABLES:
        variables[node.name] = _bytes_of_variable(node)
  return {
    device: DeviceContents(
      tuple(sorted(variables)), sum(variables.values()), dict(types)
    )
    for device, (types, variables) in sorted(ops.items())
  }


def _bytes_of_variable(node: tf.compat.v1.NodeDef) -> int:
  """Returns the bytes of a variable's value; 0 if its shape is unknown."""
  shape = tf.TensorShape(node.attr["shape"].shape)
  dtype = tf.dtypes.as_dtype(node.attr["dtype"].type)
  return int((shape.num_elements() or 0) * dtype.size)


class PlacementVerificationHook(tf.estimator.SessionRunHook):
  """Verifies the placement of a graph on the first step of a session.

  The check costs one step that also returns its partition graphs; later steps
  are not touched. It runs again in each new session.

  Attributes:
    observed: The ops that each device executed in that step, by canonical
      device name; empty before it.
    transfers: The transfers between devices in that step; empty before it.
  """

  def __init__(
    self, say: Callable[[str], None] = tf.compat.v1.logging.info
  ) -> None:
    """Makes a hook.

    Args:
      say: Takes the line that says that it is verified.
    """
    self._say = say
    self.observed: dict[str, DeviceContents] = {}
    self.transfers: tuple[executed_graph.MeasuredTransfer, ...] = ()
    self._plan: _Plan = {}
    self._verified = False

  def begin(self) -> None:
    """Reads the plan from the graph."""
    self._plan = planned_devices(tf.compat.v1.get_default_graph())

  def after_create_session(
    self, session: tf.compat.v1.Session, coord: tf.train.Coordinator
  ) -> None:
    """Asks for a verification of the new session's first step."""
    self._verified = False

  def before_run(
    self, run_context: tf.estimator.SessionRunContext
  ) -> tf.estimator.SessionRunArgs | None:
    """Asks the first step for its partition graphs."""
    if self._verified:
      return None
    options = tf.compat.v1.RunOptions(output_partition_graphs=True)
    return tf.estimator.SessionRunArgs(fetches=None, options=options)

  def after_run(
    self,
    run_context: tf.estimator.SessionRunContext,
    run_values: tf.estimator.SessionRunValues,
  ) -> None:
    """Compares them with the plan.

    Raises:
      PlacementError: If an op ran elsewhere, or nothing was compared.
    """
    if self._verified:
      return
    partitions = run_values.run_metadata.partition_graphs
    compared = check_placement(self._plan, partitions)
    self.observed = contents_of_devices(partitions)
    self.transfers = tuple(executed_graph.measured_transfers(partitions))
    self._verified = True
    self._say(
      f"Placement verified on {len(self.observed)} device(s): {compared} ops "
      "ran where they were placed"
    )


def with_placement_verification(
  spec: tf.estimator.EstimatorSpec,
) -> tf.estimator.EstimatorSpec:
  """Returns a spec whose sessions verify the placement on their first step.

  Args:
    spec: The spec that a model_fn would return.

  Returns:
    The same spec, with a `PlacementVerificationHook` for training, evaluation
    and prediction.
  """
  hook = PlacementVerificationHook()
  of_training = PlacementVerificationHook(notices.show)
  return spec._replace(
    training_hooks=(*spec.training_hooks, of_training),
    evaluation_hooks=(*spec.evaluation_hooks, hook),
    prediction_hooks=(*spec.prediction_hooks, hook),
  )
