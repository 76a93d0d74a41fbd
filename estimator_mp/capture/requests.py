"""Requests: model_fn asks for gradients, and gets those of the whole batch.

A gradient penalty, MAML or a Hessian-vector product differentiates a gradient
once more. The sum over slices that model_fn got is no place to go on from: the
chain rule would walk into the clones, which are no part of the plain model. So
such a request becomes two: with respect to the sum, as if it was a variable,
and then from the sum to the slices' gradients.
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
  """A gradient that model_fn got: the whole batch's and the first slice's."""

  total: tf.Tensor
  part: tf.Tensor


class Requests:
  """The requests of one graph; a `GradientRequestHandler`.

  Attributes:
    count: How many were answered.
  """

  def __init__(
    self,
    answer: Callable[[Request], Answer],
    add_terms: Callable[[list[tf.Tensor]], tf.Tensor],
  ):
    """Starts without a request.

    Args:
      answer: Makes the gradients of a request.
      add_terms: Adds the terms of a gradient that are on several devices.
    """
    self.count = 0
    self.add_terms = add_terms
    self._answer = answer
    self._earlier: dict[str, _Earlier] = {}
    self._sparse: dict[str, str] = {}

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
    totals = [entry.total for entry in earlier]
    sources = [*request.sources, *totals]
    found = self._answered(
      dataclasses.replace(request, sources=sources, constants=totals)
    )
    results = found[: len(request.sources)]
    inner = [
      (entry.part, gradient)
      for entry, gradient in zip(
        earlier, found[len(request.sources) :], strict=True
      )
      if gradient is not None
    ]
    if not inner:
      return results
    parts, grad_ys = (list(x) for x in zip(*inner, strict=True))
    more = self._gradients(
      Request(parts, request.sources, grad_ys, request.compute, are_sums=True)
    )
    return [
      gradient_lib.add(one, other)
      for one, other in zip(results, more, strict=True)
    ]

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

  def _before(self, targets: Sequence[tf.Tensor]) -> list[_Earlier]:
    """Returns the last earlier gradients on every way to targets.

    Raises:
      ValueError: If a sparse gradient is among them.
    """
    found: dict[str, _Earlier] = {}
    if not self._earlier and not self._sparse:
      return []
    for tensor in traversal.tensors_before(
      targets, lambda x: x.name in self._earlier
    ):
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
