"""Parts: automatic placement of a model that is built bit by bit.

Most model_fns build a whole model and then ask for its gradients. Some ask
when a part of it exists: one that calls other model_fns (AdaNet), or whose loss
holds a gradient. Gradient ops are made beside their forward ops, so each part
is cut when its gradients are asked for. A part with fewer layers than there are
stages goes to the stages that hold the fewest weights until then.
"""

from collections.abc import Mapping, Sequence

from estimator_mp import amounts
from estimator_mp.graph import colocation, op_types, shapes, traversal
from estimator_mp.placement import auto
from estimator_mp.placement import partition as partition_lib

import tensorflow as tf


class Parts:
  """The parts of a model so far, and what they put on each stage."""

  def __init__(
    self,
    num_stages: int,
    memory_limit: int | None = None,
    measured_seconds: Mapping[str, float] | None = None,
  ):
    """Initializes without a part; see `auto.cut_forward` for the arguments."""
    self._memory_limit = memory_limit
    self._measured_seconds = measured_seconds
    self._held_bytes = [0] * num_stages
    self._num_layers = 0

  def stages_of(
    self,
    ops: Sequence[tf.Operation],
    targets: Sequence[tf.Operation],
    groups: colocation.ColocationGroups,
  ) -> dict[tf.Operation, int]:
    """Cuts what leads to targets, and what else there is with weights.

    Args:
      ops: The ops that have no stage yet, in the order they were made.
      targets: What gradients are wanted of.
      groups: The colocation groups of `ops`.

    Returns:
      The stages of the ops that were cut, and of their variables.

    Raises:
      ValueError: As `auto.cut_forward`, but not for too few layers.
    """
    stages = self._cut_part(traversal.ancestors(targets, ops), groups)
    placed = {groups.of(op) for op in stages}
    left = [op for op in ops if groups.of(op) not in placed]
    trainable = {v.op.name for v in tf.compat.v1.trainable_variables()}
    weights = [v for v in op_types.variables_of(left) if v.name in trainable]
    ends = traversal.descendants(weights, left)
    return stages | self._cut_part(traversal.ancestors(ends, left), groups)

  def check(self, ops: Sequence[tf.Operation]) -> None:
    """Raises if the parts, taken together, do not suit the mesh.

    Raises:
      ValueError: If they have fewer layers than there are stages, or their
        weights do not fit the memory limit.
    """
    del ops
    num_stages = len(self._held_bytes)
    if num_stages > 1:  # On one, marks may have placed all layers already.
      partition_lib.check_layers(self._num_layers, num_stages)
    most = max(self._held_bytes)
    if self._memory_limit is not None and most > self._memory_limit:
      raise ValueError(
        f"memory_limit={self._memory_limit} bytes is too small: the model asks "
        f"for gradients part by part, and its parts need "
        f"{amounts.amount(most, 'B')} on one device; raise the limit, or place "
        "the model by rules"
      )

  def _cut_part(
    self, forward: Sequence[tf.Operation], groups: colocation.ColocationGroups
  ) -> dict[tf.Operation, int]:
    """Cuts a part, or nothing if no weights are in it."""
    num_layers = auto.count_layers(forward, groups)
    if not num_layers:
      return {}
    self._num_layers += num_layers
    emptiest = sorted(
      range(len(self._held_bytes)), key=self._held_bytes.__getitem__
    )
    order = sorted(emptiest[:num_layers])
    cut = auto.cut_forward(
      forward,
      forward,
      groups,
      len(order),
      self._memory_limit,
      self._measured_seconds,
    )
    stages = {op: order[stage] for op, stage in cut.items()}
    for variable in op_types.variables_of(list(stages)):
      self._held_bytes[stages[variable]] += (
        shapes.variable_bytes(variable) * auto.COPIES_OF_WEIGHTS
      )
    return stages


strategy = Parts
