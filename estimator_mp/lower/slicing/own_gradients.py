"""A program's own gradients, as those of `tf.custom_gradient`.

Such a gradient is a function of Python that has made whole tensors its own. So
it is called for the whole batch: with the gradients of all slices, joined. The
ops that it makes are planned as those of the model are, and what rules allow is
executed in parts; then nothing is joined, and no slice waits.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compat.private import graph_reads
from estimator_mp.graph.ledger import made_in
from estimator_mp.lower.slicing import bridges as bridges_lib
from estimator_mp.lower.slicing import template as template_lib
from estimator_mp.plan.batch_plan import BatchPlan, Cut, PartedOp, Rows

import tensorflow as tf

# From new ops, and the rows of joined tensors, to what is done in parts.
Plan = Callable[[Sequence[tf.Operation], Mapping[str, Rows]], BatchPlan]


class OwnGradients:
  """The ops of slice 0 whose originals have gradients of their own."""

  def __init__(
    self,
    plan: Plan,
    template: template_lib.Template,
    bridges: bridges_lib.Bridges,
    num_slices: int,
  ):
    """Starts without an op.

    Args:
      plan: Decides about the ops of gradients.
      template: The ops of slice 0.
      bridges: The bridges of the graph.
      num_slices: How many slices there are.
    """
    self._plan = plan
    self._template = template
    self._bridges = bridges
    self._num_slices = num_slices
    setattr(tf.compat.v1.get_default_graph(), _ATTRIBUTE, self)

  def answer(
    self, copy: tf.Operation, gradients: Sequence[tf.Tensor]
  ) -> list[Any]:
    """Returns the gradients of what an op of slice 0 reads.

    Args:
      copy: The op.
      gradients: Those of what it makes.
    """
    parted = self._template.own_gradients[copy.name]
    wholes = [
      self._joined(*x) for x in zip(parted.op.outputs, gradients, strict=True)
    ]
    with made_in(parted.op.graph) as made:
      found = graph_reads.gradient_function(parted.op)(parted.op, *wholes)
    if not isinstance(found, list | tuple):
      found = [found]
    with tf.control_dependencies(None), self._bridges.for_no_request():
      self._template.add(self._plan(made, self._template.joined))
    self._template.redirect(made)
    return [self._of_slice(parted, *x) for x in enumerate(found)]

  def _joined(self, whole: tf.Tensor, gradient: Any) -> tf.Tensor:
    """Returns the gradient of what an op makes of the whole batch."""
    rows = self._template.rows(whole)
    if rows is None or gradient is None:  # Nothing reads it.
      return tf.zeros_like(whole)
    return self.join(gradient, rows, whole.shape)

  def join(self, gradient: Any, rows: Rows, shape: tf.TensorShape) -> tf.Tensor:
    """Returns the gradients that all slices make.

    Args:
      gradient: That of slice 0.
      rows: How slices lie in it.
      shape: The shape of the whole, as far as it is known.
    """
    part = tf.convert_to_tensor(gradient)
    joined: tf.Tensor = self._bridges.join(part, rows, shape)
    self._template.pair(joined, part, rows)
    return joined

  def _of_slice(self, parted: PartedOp, index: int, gradient: Any) -> Any:
    """Returns what slice 0 has of a gradient of the whole batch."""
    if gradient is None:
      return None
    whole = tf.convert_to_tensor(gradient)
    reads = parted.reads[index]
    part = self._template.part(whole)
    if isinstance(reads, Cut):
      if part is not None and self._template.rows(whole) == reads.rows:
        with bridges_lib.outside(part.device):
          return self._template.without_stand_in(part)
      return self._bridges.cut(self._template.whole(whole), reads.rows)
    if part is not None and self._template.is_share(whole):
      return part
    # Each slice adds its share of what is there once.
    share = self._bridges.read(self._template.whole(whole))
    return share / tf.cast(self._num_slices, share.dtype)


_ATTRIBUTE = "_estimator_mp_own_gradients"


def _gradient(op: tf.Operation, *gradients: tf.Tensor) -> list[Any]:
  """Returns the gradients of an op that has one of its own."""
  of_graph: OwnGradients = getattr(op.graph, _ATTRIBUTE)
  return of_graph.answer(op, gradients)


TYPE = bridges_lib.register_gradient("EstimatorMpOwnGradient", _gradient)
