"""Gradient requests: who asks for gradients of a graph, however they ask.

Every way of asking for gradients in a graph ends in one of two functions of
TensorFlow, and `intercepted` and `observed` stand before both while they are
entered:

- `gradients_util._GradientsHelper`: tf.gradients (v1 and v2), the v1
  optimizers' compute_gradients and minimize, the tf_keras optimizers'
  get_updates and get_gradients.
- `GradientTape.gradient`: tapes, the tf_keras optimizers' minimize.

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
from typing import Any, Protocol, TypeAlias

import tensorflow as tf
from tensorflow.python.eager import backprop
from tensorflow.python.ops import gradients_util

_LOCK = threading.RLock()
Observer: TypeAlias = Callable[[list[Any], list[Any]], None]

_handlers: dict[int, list["GradientRequestHandler"]] = {}
_observers: dict[int, list[Observer]] = {}
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


@contextlib.contextmanager
def intercepted(
  graph: tf.Graph, handler: GradientRequestHandler
) -> Iterator[None]:
  """Asks a handler at every request for gradients in a graph.

  Inside the block, `tf.gradients` also puts each gradient op beside its
  forward op (`colocate_gradients_with_ops=True`), whatever the caller says.

  Args:
    graph: The graph; requests while another graph is the default one pass.
    handler: It is told before and after.

  Yields:
    None.
  """
  with _entered(_handlers, graph, handler):
    yield


@contextlib.contextmanager
def observed(graph: tf.Graph, observer: Observer) -> Iterator[None]:
  """Tells an observer of every request for gradients in a graph.

  Nothing else changes: it hears what the caller gets.

  Args:
    graph: The graph; requests while another graph is the default one pass.
    observer: It is called with the sources and the gradient of each: a tensor,
      `IndexedSlices` or None.

  Yields:
    None.
  """
  with _entered(_observers, graph, observer):
    yield


@contextlib.contextmanager
def _entered(
  registry: dict[int, list[Any]], graph: tf.Graph, entry: Any
) -> Iterator[None]:
  """Has an entry in a registry, and both functions patched, for a block."""
  with _LOCK:
    if not _undo:
      _patch()
    registry.setdefault(id(graph), []).append(entry)
  try:
    yield
  finally:
    with _LOCK:
      registry[id(graph)].remove(entry)
      if not registry[id(graph)]:
        del registry[id(graph)]
      if not _handlers and not _observers:
        while _undo:
          _undo.pop()()


def _patch() -> None:
  """Puts both functions of this file into their places."""
  helper = gradients_util._GradientsHelper
  gradient = backprop.GradientTape.gradient
  parameters = inspect.signature(helper)

  @functools.wraps(helper)
  def gradients_helper(*args, **kwargs):
    graph = _graph_of_request()
    if graph is None:
      return helper(*args, **kwargs)
    bound = parameters.bind(*args, **kwargs)
    if graph in _handlers:
      bound.arguments["colocate_gradients_with_ops"] = True

    def compute(seeds: Any) -> Any:
      bound.arguments["grad_ys"] = seeds
      return helper(*bound.args, **bound.kwargs)

    ys, xs = bound.arguments["ys"], bound.arguments["xs"]
    return _answer(graph, ys, xs, bound.arguments.get("grad_ys"), compute)

  @functools.wraps(gradient)
  def tape_gradient(
    tape, target, sources, output_gradients=None, *args, **kwargs
  ):
    def compute(seeds: Any) -> Any:
      return gradient(tape, target, sources, seeds, *args, **kwargs)

    graph = _graph_of_request()
    if graph is None:
      return compute(output_gradients)
    return _answer(graph, target, sources, output_gradients, compute)

  def unpatch():
    gradients_util._GradientsHelper = helper
    backprop.GradientTape.gradient = gradient

  _undo.append(unpatch)
  gradients_util._GradientsHelper = gradients_helper
  backprop.GradientTape.gradient = tape_gradient


def _graph_of_request() -> int | None:
  """Returns the graph of a request that someone wants to hear of."""
  if getattr(_inside, "request", False) or tf.executing_eagerly():
    return None
  graph = id(tf.compat.v1.get_default_graph())
  return graph if graph in _handlers or graph in _observers else None


def _answer(
  graph: int,
  targets: Any,
  sources: Any,
  seeds: Any,
  compute: Callable[[Any], Any],
) -> Any:
  """Computes gradients, with the graph's handler asked before and after."""
  handler = _handlers[graph][-1] if graph in _handlers else None
  flat_targets = tf.nest.flatten(targets)
  flat_sources = tf.nest.flatten(sources)
  if handler is not None:
    seeds = handler.before_gradients(flat_targets, flat_sources, seeds)
  _inside.request = True
  try:
    result = compute(seeds)
  finally:
    _inside.request = False
  gradients = tf.nest.flatten(result)
  if handler is not None:
    gradients = handler.after_gradients(flat_targets, flat_sources, gradients)
  for observer in _observers.get(graph, ()):
    observer(flat_sources, gradients)
  return tf.nest.pack_sequence_as(result, gradients)
