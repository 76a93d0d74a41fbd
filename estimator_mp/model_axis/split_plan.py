"""What a pass of the old planner splits."""

import dataclasses
from collections.abc import Mapping, Sequence

from estimator_mp.model_axis.decisions import Shard
from estimator_mp.model_axis.inference import Inferred

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class SplitPass:
  """The split of the ops that were made since the last pass.

  Attributes:
    ops: The ops, in the order of the graph.
    inferred: The splits, decisions and gathers that were inferred for them.
    variables: The ops of the variables that are split from now on, and how.
  """

  ops: Sequence[tf.Operation]
  inferred: Inferred
  variables: Mapping[tf.Operation, Shard]
