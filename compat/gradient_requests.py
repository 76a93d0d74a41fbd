"""Gradient requests: who asks for gradients of a graph, however they ask.

Every way of asking for gradients in a graph ends in one of two functions of
TensorFlow, and `intercepted` stands before both while it is entered:

- `gradients_util._GradientsHelper`: tf.gradients (v1 and v2), the v1
  optimizers' compute_gradients and minimize, the tf_keras optimizers'
  get_updates and get_gradients.
- `GradientTape.gradient`: tapes, the tf_keras optimizers' minimize.

It also stands before `gradients_util._MultiDeviceAddN`, which adds the terms of
a gradient: those of each device first, so that a sum would be rounded in
another way than without devices, and the names of later ops would move.

The patches are made when the first block is entered, and undone when the last
one is left, on every exit. They let requests in other graphs pass: functions'
bodies, other threads, graphs that model_fns build inside. Tested on TensorFlow
2.15.1 and 2.21.0.
"""

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import tensorflow as tf
from tensorflow.python.eager import backprop
from tensorflow.python.ops import gradients_util

_LOCK = threading.RLock()
_handlers: dict[int, list["GradientRequestHandler"]] = {}
_undo: list[Callable[[], None]] = []
_inside = threading.local()


class GradientRequestHandler(Protocol):
  """What hears of the requests of one graph."""

  def before_gradients(
    self, targets: list[Any], sources: list[Any], seeds: Any
  ) -> Any:
    """Is called before gradient ops are made.

    Args:
      targets: The tensors whose gradients are wanted.
      sources: The tensors and variables with respect to which they are.
      seeds: What the chain rule starts with, as the caller gave it; None for
        ones.

    Returns:
      What it shall start with: `seeds`, or a tensor for each target.
    """

  def after_gradients(
    self, targets: list[Any], sources: list[Any], gradients: list[Any]
  ) -> list[Any]:
    """Is called with the gradients.

    Args:
      targets: The tensors whose gradients are wanted.
      sources: The tensors and variables with respect to which they are.
      gradients: A tensor, `IndexedSlices` or None for each source.

    Returns:
      What the caller gets instead, for each source.
    """

  def add_terms(self, terms: list[tf.Tensor]) -> tf.Tensor:
    """Is called for a gradient whose terms are on several devices.

    What it makes is colocated with the forward op, unless it says otherwise.

    Args:
      terms: The terms, in the order in which a single device adds them.

    Returns:
      Their sum.
    """


@contextlib.contextmanager
def intercepted(
  graph: tf.Graph, handler: GradientRequestHandler
) -> Iterator[None]:
  """Tells a handler of every request for gradients in a graph.

  Inside the block, `tf.gradients` also puts each gradient op beside its
  forward op (`colocate_gradients_with_ops=True`), whatever the caller says.

  Args:
    graph: The graph; requests while another graph is the default one pass.
    handler: It is told before and after.

  Yields:
    None.
  """
  with _LOCK:
    if not _undo:
      _patch()
    _handlers.setdefault(id(graph), []).append(handler)
  try:
    yield
  finally:
    with _LOCK:
      _handlers[id(graph)].remove(handler)
      if not _handlers[id(graph)]:
        del _handlers[id(graph)]
      if not _handlers:
        while _undo:
          _undo.pop()()


def _patch() -> None:
  """Puts the functions of this file into their places."""
  helper = gradients_util._GradientsHelper
  add_n = gradients_util._MultiDeviceAddN
  gradient = backprop.GradientTape.gradient
  parameters = inspect.signature(helper)

  @functools.wraps(helper)
  def gradients_helper(*args, **kwargs):
    handler = _handler_of_request()
    if handler is None:
      return helper(*args, **kwargs)
    bound = parameters.bind(*args, **kwargs)
    bound.arguments["colocate_gradients_with_ops"] = True

    def compute(seeds: Any) -> Any:
      bound.arguments["grad_ys"] = seeds
      return helper(*bound.args, **bound.kwargs)

    ys, xs = bound.arguments["ys"], bound.arguments["xs"]
    return _answer(handler, ys, xs, bound.arguments.get("grad_ys"), compute)

  @functools.wraps(gradient)
  def tape_gradient(
    tape, target, sources, output_gradients=None, *args, **kwargs
  ):
    def compute(seeds: Any) -> Any:
      return gradient(tape, target, sources, seeds, *args, **kwargs)

    handler = _handler_of_request()
    if handler is None:
      return compute(output_gradients)
    return _answer(handler, target, sources, output_gradients, compute)

  @functools.wraps(add_n)
  def multi_device_add_n(terms, gradient_uid):
    handler = _handler_of_graph() if _is_inside() else None
    if handler is None or len({term.device for term in terms}) == 1:
      return add_n(terms, gradient_uid)
    return handler.add_terms(terms)

  def unpatch():
    gradients_util._GradientsHelper = helper
    gradients_util._MultiDeviceAddN = add_n
    backprop.GradientTape.gradient = gradient

  _undo.append(unpatch)
  gradients_util._GradientsHelper = gradients_helper
  gradients_util._MultiDeviceAddN = multi_device_add_n
  backprop.GradientTape.gradient = tape_gradient


def _handler_of_request() -> GradientRequestHandler | None:
  """Returns who has to hear of a request that is being made, if anyone."""
  if _is_inside() or tf.executing_eagerly():
    return None
  return _handler_of_graph()


def _is_inside() -> bool:
  """Whether this thread is making the gradients of a request."""
  return getattr(_inside, "request", False)


def _handler_of_graph() -> GradientRequestHandler | None:
  """Returns who hears of the requests of the default graph, if anyone."""
  found = _handlers.get(id(tf.compat.v1.get_default_graph()))
  return found[-1] if found else None


def _answer(
  handler: GradientRequestHandler,
  targets: Any,
  sources: Any,
  seeds: Any,
  compute: Callable[[Any], Any],
) -> Any:
  """Computes gradients, with the handler asked before and after."""
  flat_targets = tf.nest.flatten(targets)
  flat_sources = tf.nest.flatten(sources)
  seeds = handler.before_gradients(flat_targets, flat_sources, seeds)
  _inside.request = True
  try:
    result = compute(seeds)
  finally:
    _inside.request = False
  gradients = handler.after_gradients(
    flat_targets, flat_sources, tf.nest.flatten(result)
  )
  return tf.nest.pack_sequence_as(result, gradients)
