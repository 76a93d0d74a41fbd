"""Gradient requests: who asks for gradients of a graph, however they ask.

Every way of asking for gradients in a graph ends in one of two functions of
TensorFlow, and `observed` stands before both while it is entered:

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
from typing import Any, TypeAlias

import tensorflow as tf
from tensorflow.python.eager import backprop
from tensorflow.python.ops import gradients_util

_LOCK = threading.RLock()
Observer: TypeAlias = Callable[[list[Any], list[Any]], None]

_observers: dict[int, list[Observer]] = {}
_undo: list[Callable[[], None]] = []
_inside = threading.local()


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
  with _LOCK:
    if not _undo:
      _patch()
    _observers.setdefault(id(graph), []).append(observer)
  try:
    yield
  finally:
    with _LOCK:
      _observers[id(graph)].remove(observer)
      if not _observers[id(graph)]:
        del _observers[id(graph)]
      if not _observers:
        while _undo:
          _undo.pop()()


def _patch() -> None:
  """Puts the functions of this file into their places."""
  helper = gradients_util._GradientsHelper
  gradient = backprop.GradientTape.gradient
  parameters = inspect.signature(helper)

  @functools.wraps(helper)
  def gradients_helper(*args: Any, **kwargs: Any) -> Any:
    sources = parameters.bind(*args, **kwargs).arguments["xs"]
    return _told(lambda: helper(*args, **kwargs), sources)

  @functools.wraps(gradient)
  def tape_gradient(
    tape: tf.GradientTape, target: Any, sources: Any, *args: Any, **kwargs: Any
  ) -> Any:
    return _told(
      lambda: gradient(tape, target, sources, *args, **kwargs), sources
    )

  def unpatch() -> None:
    gradients_util._GradientsHelper = helper
    backprop.GradientTape.gradient = gradient

  _undo.append(unpatch)
  gradients_util._GradientsHelper = gradients_helper
  backprop.GradientTape.gradient = tape_gradient


def _told(compute: Callable[[], Any], sources: Any) -> Any:
  """Returns gradients, of which the observers of their graph hear.

  A request that TensorFlow makes to answer another one is none.
  """
  is_inside = getattr(_inside, "request", False)
  if is_inside or tf.executing_eagerly():
    return compute()
  observers = _observers.get(id(tf.compat.v1.get_default_graph()), ())
  _inside.request = bool(observers)
  try:
    found = compute()
  finally:
    _inside.request = False
  # IndexedSlices are one gradient: tf.nest takes them apart only if asked.
  for observer in [*observers]:
    observer(tf.nest.flatten(sources), tf.nest.flatten(found))
  return found
