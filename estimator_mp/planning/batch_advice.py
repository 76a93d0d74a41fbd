"""Advice: options that would put most of a batch in parts.

Each is tried before it is given: the batch is planned as if a user had said it.
"""

import dataclasses
from collections.abc import Callable, Collection

from estimator_mp.planning import finished_report
from estimator_mp.planning.batch_report import BatchReport
from estimator_mp.planning.finished_report import PlannedBatch
from estimator_mp.sizes.polynomials import Size

import numpy as np
import tensorflow as tf

# How many ops `per_example` is tried for.
_MOST = 4

# Plans the batch again: of so many examples, if not None, and with such ops for
# `per_example`.
Replan = Callable[[int | None, Collection[tf.Operation]], PlannedBatch]


def with_advice(
  report: BatchReport, batch: PlannedBatch, replan: Replan
) -> BatchReport:
  """Returns a report that says how most of the batch comes in parts.

  Args:
    report: The report of the batch.
    batch: Its plan.
    replan: Plans it again.
  """
  if report.stopped_by is None:
    return report
  first = batch.ops[0].graph.get_operation_by_name(report.stopped_by.name)
  return dataclasses.replace(
    report,
    helpful_batch_size=_batch_size(first, batch, replan),
    helpful_ops=tuple(op.name for op in _per_example(batch, replan)),
  )


def _batch_size(
  op: tf.Operation, batch: PlannedBatch, replan: Replan
) -> int | None:
  """Returns a number of examples that helps, if an op has it from model_fn."""
  if isinstance(batch.shapes.num_examples, int):
    return None
  sizes: list[Size] = []
  for tensor in op.inputs:
    value, shape = batch.shapes.value(tensor), batch.shapes.shape(tensor)
    sizes += [] if value is None else np.ravel(value)[:1].tolist()
    sizes += [] if shape is None else shape[:1]
  for size in dict.fromkeys(sizes):
    if not isinstance(size, int) or size < 2:
      continue
    tried = _tried(replan, size, ())
    if tried is not None and not tried.is_stopped:
      return size
  return None


def _tried(
  replan: Replan, size: int | None, ops: Collection[tf.Operation]
) -> PlannedBatch | None:
  """Returns a plan with options; None if the model contradicts them."""
  try:
    return replan(size, ops)
  except (ArithmeticError, IndexError, ValueError):
    return None


def _per_example(batch: PlannedBatch, replan: Replan) -> list[tf.Operation]:
  """Returns ops that help if each computes each example by itself."""
  ops: list[tf.Operation] = []
  while batch.is_stopped:
    op = finished_report.stopping_op(batch)
    if op is None or op in ops or len(ops) == _MOST:
      return []
    can_be_said = finished_report.why_once(op, batch).can_be_said
    if not can_be_said or _has_rows_of_its_own(op, batch):
      return []
    ops.append(op)
    tried = _tried(replan, None, ops)
    if tried is None:
      return []
    batch = tried
  return ops


def _has_rows_of_its_own(op: tf.Operation, batch: PlannedBatch) -> bool:
  """Whether an op has one number of rows for any number of examples."""
  if isinstance(batch.shapes.num_examples, int):
    return False
  return any(x.shape.rank and x.shape.as_list()[0] for x in op.outputs)
