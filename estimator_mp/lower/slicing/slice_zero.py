"""Slice 0: its part of a model, and its gradients.

The chain rule meets the ops of slice 0, bridges, and ops executed once. So a
request for gradients is answered for the whole batch by the program's own
gradient functions, and what they make is slice 0's backward pass.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from compat.private import gradient_requests
from estimator_mp.graph import gradient as gradient_lib
from estimator_mp.graph.ledger import Ledger, made_in
from estimator_mp.lower.slicing import bridges as bridges_lib
from estimator_mp.lower.slicing import own_gradients
from estimator_mp.lower.slicing import slices as slices_lib
from estimator_mp.lower.slicing import template as template_lib
from estimator_mp.plan.batch_plan import BatchPlan, Rows
from estimator_mp.plan.bridge import Bridge, Kind

import tensorflow as tf


class SliceZero:
  """Slice 0 of one graph.

  Attributes:
    template: Its ops.
    bridges: The bridges between it and ops that are executed once.
  """

  def __init__(
    self, slices: slices_lib.Slices, ledger: Ledger, plan: own_gradients.Plan
  ):
    """Starts before model_fn is called.

    Args:
      slices: All slices.
      ledger: The ledger of the ops that lowering makes in the graph.
      plan: Decides which ops of gradients are done in parts.
    """
    self._ledger = ledger
    first = slices.first
    is_known = not tf.is_tensor(first.examples)
    self.bridges = bridges_lib.Bridges(first.examples if is_known else None)
    self.template = template_lib.Template(
      self.bridges, first, ledger, own_gradients.TYPE
    )
    self._own_gradients = own_gradients.OwnGradients(
      plan, self.template, self.bridges, slices.count
    )

  @property
  def joined(self) -> Mapping[str, Rows]:
    """How slices lie in gradients that were joined, by the tensors' names."""
    return self.template.joined

  def split(self, new: Sequence[tf.Operation], plan: BatchPlan) -> None:
    """Makes slice 0's ops of new ops of the program.

    Args:
      new: New ops that no request for gradients has made; they have devices.
      plan: The ops among them that are executed in parts.
    """
    with tf.control_dependencies(None):
      self.template.add(plan)
      self.template.redirect(new)

  def gradients(
    self,
    targets: Sequence[tf.Tensor],
    sources: Sequence[Any],
    grad_ys: Sequence[Any] | None,
    compute: gradient_requests.Compute,
  ) -> list[Any]:
    """Returns gradients of the whole batch.

    Args:
      targets: The targets of gradients.
      sources: The tensors or variables to differentiate with respect to.
      grad_ys: The gradients of the targets, to start with; None for ones.
      compute: Makes gradient ops.
    """
    graph = tf.compat.v1.get_default_graph()
    # Sums of the forward pass do not wait for what gradients wait for.
    wholes = self.whole(list(targets))
    given = None if grad_ys is None else self.whole(list(grad_ys))
    with made_in(graph) as made, self._ledger.answering() as request:
      self.bridges.request = request
      asked: list[Any] = []
      of_source: list[list[int]] = []
      for source in sources:
        both = self._of_slice(source)
        of_source.append([*range(len(asked), len(asked) + len(both))])
        asked += both
      with made_in(graph) as computed:
        found = compute(wholes, asked, given)
      self._add_shares(computed, found)
      results = []
      for source, indices in zip(sources, of_source, strict=True):
        terms = [self._joined(source, asked[i], found[i]) for i in indices]
        results.append(functools.reduce(gradient_lib.add, terms))
      self.bridges.request = None
    self.template.redirect(made)
    return results

  def _add_shares(self, made: Sequence[tf.Operation], found: list[Any]) -> None:
    """Lets each slice add its shares of a gradient: a sum of sums is one sum.

    So a weight that layers share, or steps of time, is summed once over slices.

    Args:
      made: The ops of gradients.
      found: The gradients, of which some change.
    """
    for op in made:
      if op.type != "AddN":
        continue
      of_device: dict[str, list[Bridge]] = {}
      for tensor in op.inputs:
        bridge = self.bridges.all.get(tensor.op.name)
        if bridge is None or bridge.kind is not Kind.SUM or bridge.of is None:
          continue
        if len(tensor.consumers()) == 1:
          of_device.setdefault(bridge.op.device, []).append(bridge)
      terms = [*op.inputs]
      for group in of_device.values():
        if len(group) == 1:
          continue
        with bridges_lib.outside(group[0].op.device):
          share = tf.add_n([x.source for x in group])
        terms.append(self.bridges.sum(share, group[0].of))
        for bridge in group:
          terms = [x for x in terms if x is not bridge.output]
          del self.bridges.all[bridge.op.name]
      if len(terms) == len(op.inputs):
        continue
      whole = terms[0]
      if len(terms) > 1:
        with bridges_lib.outside(op.device):
          whole = tf.add_n(terms)
      bridges_lib.replace(op.outputs[0], whole)
      found[:] = [whole if x is op.outputs[0] else x for x in found]

  def constants(self, tensors: Sequence[Any]) -> list[tf.Tensor]:
    """Returns what slice 0 makes of tensors that are taken for constants.

    Args:
      tensors: Tensors of the plain graph.
    """
    flat = [x for x in tensors if isinstance(x, tf.Tensor)]
    parts = map(self.template.part, flat)
    return [part for part in parts if part is not None]

  def _of_slice(self, source: Any) -> list[Any]:
    """Returns what the chain rule meets instead of a source."""
    if not isinstance(source, tf.Tensor):
      return [source]
    part = self.template.part(source)
    if part is None or self.template.rows(source) is None:
      return [self.template.whole(source)]
    if self.template.is_made_twice(source):
      return [part, source]
    return [part]

  def _joined(self, source: Any, asked: Any, gradient: Any) -> Any:
    """Returns the gradient of a source, of the whole batch."""
    if gradient is None or not isinstance(asked, tf.Tensor):
      return gradient
    part = self.template.part(source)
    rows = self.template.rows(source)
    if part is not asked or rows is None:
      return gradient
    return self._own_gradients.join(gradient, rows, source.shape)

  def whole(self, tensors: Any) -> Any:
    """Returns whole tensors in place of those that slices make."""
    return tf.nest.map_structure(
      lambda x: self.template.whole(x) if isinstance(x, tf.Tensor) else x,
      tensors,
    )
