"""The ops of a forward pass that have no stage yet."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from estimator_mp.graph import colocation

import tensorflow as tf

Stages: TypeAlias = Mapping[tf.Operation, int]


@dataclasses.dataclass(frozen=True)
class Unplaced:
  """Ops that a strategy is to place.

  Attributes:
    ops: The ops, in the order in which they were made.
    targets: The targets of gradients, or the results.
    groups: The colocation groups of the ops.
    model: All ops of the model, its variables among them.
  """

  ops: Sequence[tf.Operation]
  targets: Sequence[tf.Operation]
  groups: colocation.ColocationGroups
  model: Sequence[tf.Operation]
