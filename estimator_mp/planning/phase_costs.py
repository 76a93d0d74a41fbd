"""The costs of phases: how long each pass through each stage takes.

They are estimates from FLOPs and bytes, or measurements of the same ops.
"""

from collections.abc import Mapping

from estimator_mp.config.schedules.schedule import Phase
from estimator_mp.graph import traversal
from estimator_mp.pipeline import cells
from estimator_mp.pipeline.auto_schedule import Costs
from estimator_mp.placement import costs as costs_lib

import tensorflow as tf


def phase_costs(
  passes: Mapping[tf.Operation, cells.Pass],
  num_stages: int,
  measured_seconds: Mapping[str, float] | None = None,
) -> Costs:
  """Returns the costs of passes.

  Args:
    passes: Those that ops are part of.
    num_stages: How many stages there are.
    measured_seconds: The seconds of ops for a whole batch, by name, if they
      were measured.
  """
  op_costs = costs_lib.op_costs([*passes])
  seconds = {phase: [0.0] * num_stages for phase in Phase}
  measured = measured_seconds or {}
  is_measured = any(op.name in measured for op in passes)
  for op, (stage, phase) in passes.items():
    seconds[phase][stage] += (
      measured.get(op.name, 0.0) if is_measured else op_costs[op].seconds
    )
  return Costs(
    tuple(seconds[Phase.FORWARD]),
    tuple(seconds[Phase.BACKWARD]),
    tuple(seconds[Phase.WEIGHT]),
    _sends(passes, num_stages, op_costs),
  )


def _sends(
  passes: Mapping[tf.Operation, cells.Pass],
  num_stages: int,
  op_costs: Mapping[tf.Operation, costs_lib.OpCost],
) -> tuple[float, ...]:
  """Returns how long it takes from each stage to the next one.

  The gradients sent back have the shapes of the activations sent forward.
  """
  sent = [0] * max(num_stages - 1, 0)
  for op, (stage, phase) in passes.items():
    if phase is Phase.FORWARD:
      readers = [
        passes[x].stage for x in traversal.consumers(op) if x in passes
      ]
      for boundary in range(stage, max(readers, default=stage)):
        sent[boundary] += op_costs[op].output_bytes
  return tuple(map(costs_lib.transfer_seconds, sent))
