"""Requests: model_fn asks for gradients, and gets those of the whole batch."""

import dataclasses
from collections.abc import Callable
from typing import Any

from compat.private import gradient_requests

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Request:
  """A request for gradients.

  Attributes:
    targets: The tensors whose gradients are asked for.
    sources: The tensors and variables with respect to which they are.
    grad_ys: What the chain rule starts with, for each target; None for ones.
    compute: Makes gradient ops, for these or for others.
  """

  targets: list[Any]
  sources: list[Any]
  grad_ys: list[Any] | None
  compute: gradient_requests.Compute


class Requests:
  """The requests of one graph; a `GradientRequestHandler`.

  Attributes:
    count: How many were answered.
    constants: Returns what else is a constant if some tensors are.
  """

  def __init__(
    self,
    answer: Callable[[Request], list[Any]],
    add_terms: Callable[[list[tf.Tensor]], tf.Tensor],
  ):
    """Starts without a request.

    Args:
      answer: Makes the gradients of a request.
      add_terms: Adds the terms of a gradient that are on several devices.
    """
    self.count = 0
    self.add_terms = add_terms
    self.constants: Callable[[list[Any]], list[Any]] = lambda tensors: []
    self._answer = answer

  def gradients(
    self,
    targets: list[Any],
    sources: list[Any],
    grad_ys: list[Any] | None,
    compute: gradient_requests.Compute,
  ) -> list[Any]:
    """Answers a request; see `GradientRequestHandler`."""
    self.count += 1
    return self._answer(Request(targets, sources, grad_ys, compute))
