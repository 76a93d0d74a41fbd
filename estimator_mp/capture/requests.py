"""Requests: model_fn asks for gradients, and gets those of the whole batch.

A gradient penalty, MAML or a Hessian-vector product differentiates a gradient
once more. The sum over slices that model_fn got is no place to go on from: the
chain rule would walk into the clones, which are no part of the plain model. So
such a request becomes two: with respect to the sum, as if it was a variable,
and then from the sum to the slices' gradients. So does one behind a tensor that
was joined of all slices' (`whole_batches`): there each slice goes on with its
rows.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from compat.private import gradient_requests
from estimator_mp.graph import gradient as gradient_lib
from estimator_mp.graph import traversal

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Request:
  """A request for gradients for which no earlier ones are differentiated.

  Attributes:
    targets: The tensors whose gradients are wanted.
    sources: The tensors and variables with respect to which they are.
    grad_ys: What the chain rule starts with, for each target; None for ones.
    compute: Makes gradient ops, for these or for others.
    constants: What is taken for constants: earlier gradients.
    are_sums: Whether the targets are the first slice's parts of earlier
      gradients, which add up to those of the whole batch.
  """

  targets: list[Any]
  sources: list[Any]
  grad_ys: list[Any] | None
  compute: gradient_requests.Compute
  constants: Sequence[tf.Tensor] = ()
  are_sums: bool = False

  def gradients(self, grad_ys: Sequence[Any] | None) -> list[Any]:
    """Makes the gradient ops of the first slice.

    Args:
      grad_ys: What the chain rule starts with instead.
    """
    return list(
      self.compute(self.targets, self.sources, grad_ys, self.constants)
    )


@dataclasses.dataclass(frozen=True)
class Answer:
  """What is made of a request.

  Attributes:
    gradients: What model_fn gets: those of the whole batch.
    sources: With respect to what gradients were made: what model_fn asked for,
      with the shards of split variables in place of these.
    parts: For each of them, that of the first slice; others' are its clones.
    totals: That of the whole batch; the same one where nothing was added.
  """

  gradients: list[Any]
  sources: list[Any]
  parts: list[Any]
  totals: list[Any]


@dataclasses.dataclass(frozen=True)
class _Earlier:
  """What model_fn got: the whole batch's tensor and the first slice's.

  Attributes:
    total: The sum of slices' gradients, or their examples.
    part: The first slice's gradient, or its examples.
    share: Makes the gradient with respect to the part of that with respect to
      the whole; None for a sum, where they are the same.
  """

  total: tf.Tensor
  part: tf.Tensor
  share: Callable[[Any], tf.Tensor] | None = None


class Requests:
  """The requests of one graph; a `GradientRequestHandler`.

  Attributes:
    count: How many were answered.
    constants: Returns what else is a constant if some tensors are.
  """

  def __init__(
    self,
    answer: Callable[[Request], Answer],
    add_terms: Callable[[list[tf.Tensor]], tf.Tensor],
    is_input: Callable[[tf.Tensor], bool] = lambda tensor: False,
  ):
    """Starts without a request.

    Args:
      answer: Makes the gradients of a request.
      add_terms: Adds the terms of a gradient that are on several devices.
      is_input: Whether a tensor is an input of the first slice.
    """
    self.count = 0
    self.add_terms = add_terms
    self.constants: Callable[[list[Any]], list[Any]] = lambda tensors: []
    self._answer = answer
    self._is_input = is_input
    self._shares: set[str] = set()
    self._earlier: dict[str, _Earlier] = {}
    self._sparse: dict[str, str] = {}

  def join(
    self,
    whole: tf.Tensor,
    part: tf.Tensor,
    share: Callable[[Any], tf.Tensor],
  ) -> None:
    """Hears of a tensor of all slices' examples.

    Args:
      whole: The tensor, through which no gradient goes.
      part: The examples of the first slice.
      share: Makes the gradient with respect to these of that with respect to
        the whole.
    """

    def noted(gradient: Any) -> tf.Tensor:
      rows = share(gradient)
      self._shares.add(rows.name)
      return rows

    self._earlier[whole.name] = _Earlier(whole, part, noted)

  def gradients(
    self,
    targets: list[Any],
    sources: list[Any],
    seeds: list[Any] | None,
    compute: gradient_requests.Compute,
  ) -> list[Any]:
    """Answers a request; see `GradientRequestHandler`."""
    return self._gradients(Request(targets, sources, seeds, compute))

  def _gradients(self, request: Request) -> list[Any]:
    tensors = [tf.convert_to_tensor(x) for x in request.targets]
    earlier = self._before(tensors)
    if not earlier:
      return self._answered(request)
    if any(x.share for x in earlier) and self._read_slices(tensors):
      return self._of_slices(request, earlier)
    totals = [entry.total for entry in earlier]
    sources = [*request.sources, *totals]
    found = self._answered(
      dataclasses.replace(request, sources=sources, constants=totals)
    )
    results = found[: len(request.sources)]
    inner = [
      (entry, gradient)
      for entry, gradient in zip(
        earlier, found[len(request.sources) :], strict=True
      )
      if gradient is not None
    ]
    sums = [(x.part, y) for x, y in inner if x.share is None]
    rows = [(x.part, x.share(y)) for x, y in inner if x.share is not None]
    for pairs, are_sums in ((sums, True), (rows, False)):
      if pairs:
        parts, grad_ys = (list(x) for x in zip(*pairs, strict=True))
        more = self._gradients(
          Request(
            parts, request.sources, grad_ys, request.compute, (), are_sums
          )
        )
        results = [
          gradient_lib.add(one, other)
          for one, other in zip(results, more, strict=True)
        ]
    return results

  def _of_slices(
    self, request: Request, earlier: Sequence[_Earlier]
  ) -> list[Any]:
    """Answers a request for gradients of what slices make of whole batches.

    What was joined last comes first: where its gradient is known, each slice
    has its rows of it. With all of them the chain rule begins at the targets
    and at the slices' own examples at once, so that it passes each op once, and
    lists the rows of a table once.

    Args:
      request: The request; its targets differ between slices.
      earlier: What is on the way to its targets.

    Raises:
      ValueError: If a gradient that model_fn got is on the way, too.
    """
    joins = self._joins_before(earlier)
    if any(x.share is None for x in joins):
      raise ValueError(
        f"{request.targets[0].name} depends on an earlier gradient and on "
        "whole_batch; micro-batches and replicas cannot differentiate both at "
        "once: use num_micro_batches=1 and no data axis"
      )
    wholes = [x.total for x in joins]
    needed = {
      x.total.name: {y.total.name for y in self._before([x.part])}
      for x in joins
    }
    targets = list(request.targets)
    grad_ys = list(request.grad_ys or [None] * len(targets))
    while needed:
      ready = [
        x
        for x in joins
        if x.total.name in needed
        and not any(x.total.name in names for names in needed.values())
      ]
      found = self._answered(
        dataclasses.replace(
          request,
          targets=list(targets),
          sources=[x.total for x in ready],
          grad_ys=list(grad_ys),
          constants=wholes,
        )
      )
      for entry, gradient in zip(ready, found, strict=True):
        del needed[entry.total.name]
        if gradient is not None and entry.share is not None:
          targets.append(entry.part)
          grad_ys.append(entry.share(gradient))
    return self._answered(
      dataclasses.replace(
        request, targets=targets, grad_ys=grad_ys, constants=wholes
      )
    )

  def _joins_before(self, last: Sequence[_Earlier]) -> list[_Earlier]:
    """Returns some joins, and those on the way to their slices' examples."""
    found: dict[str, _Earlier] = {}
    todo = list(last)
    while todo:
      entry = todo.pop()
      if entry.total.name not in found:
        found[entry.total.name] = entry
        todo += self._before([entry.part])
    return list(found.values())

  def _answered(self, request: Request) -> list[Any]:
    """Answers a request, and keeps what it got."""
    self.count += 1
    answer = self._answer(request)
    for source, part, total in zip(
      answer.sources, answer.parts, answer.totals, strict=True
    ):
      if total is part or total is None:
        continue
      if isinstance(total, tf.Tensor) and isinstance(part, tf.Tensor):
        self._earlier[total.name] = _Earlier(total, part)
      else:
        name = getattr(source, "handle", source).op.name
        for tensor in tf.nest.flatten(total, expand_composites=True):
          self._sparse[tensor.name] = name
    return answer.gradients

  def _read_slices(self, targets: Sequence[tf.Tensor]) -> bool:
    """Whether targets differ between slices, besides what these have joined."""
    return any(
      self._is_input(x) and x.name not in self._earlier
      for x in traversal.tensors_before(
        targets, lambda x: x.name in self._earlier or self._is_input(x)
      )
    )

  def _before(self, targets: Sequence[tf.Tensor]) -> list[_Earlier]:
    """Returns the last earlier gradients on every way to targets.

    Raises:
      ValueError: If a sparse gradient is among them, or rows of one that went
        back through `whole_batch`.
    """
    found: dict[str, _Earlier] = {}
    if not self._earlier and not self._sparse:
      return []
    for tensor in traversal.tensors_before(
      targets, lambda x: x.name in self._earlier
    ):
      if tensor.name in self._shares:
        raise ValueError(
          f"{targets[0].name} depends on a gradient that went back through "
          "whole_batch, and its gradient is asked for; micro-batches and "
          "replicas cannot differentiate that: use num_micro_batches=1 and no "
          "data axis"
        )
      if tensor.name in self._sparse:
        raise ValueError(
          f"{targets[0].name} depends on the gradient of "
          f"{self._sparse[tensor.name]}, which is sparse, and its gradient is "
          "asked for; micro-batches and replicas cannot differentiate a sparse "
          "gradient: read the variable whole (tf.identity of it), or use "
          "num_micro_batches=1 and no data axis"
        )
      if tensor.name in self._earlier:
        found[tensor.name] = self._earlier[tensor.name]
    return list(found.values())
