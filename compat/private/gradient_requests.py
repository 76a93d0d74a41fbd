"""Gradient requests: who asks for gradients of a graph, however they ask.

Every way of asking for gradients in a graph ends in one of two functions of
TensorFlow, and `intercepted` and `observed` stand before both while they are
entered:

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
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

import tensorflow as tf
from tensorflow.python.eager import backprop
from tensorflow.python.ops import gradients_util

_COLOCATE = "_colocate_with_for_gradient"
_LOCK = threading.RLock()
Observer: TypeAlias = Callable[[list[Any], list[Any]], None]

_handlers: dict[int, list["GradientRequestHandler"]] = {}
_observers: dict[int, list[Observer]] = {}
_undo: list[Callable[[], None]] = []
_inside = threading.local()


# From targets, sources and grad_ys (None for ones) to a gradient, or None, for
# each source.
Compute = Callable[
  [Sequence[Any], Sequence[Any], Sequence[Any] | None], list[Any]
]


class GradientRequestHandler(Protocol):
  """A handler of the gradient requests of one graph."""

  def gradients(
    self,
    targets: list[Any],
    sources: list[Any],
    grad_ys: list[Any] | None,
    compute: Compute,
  ) -> list[Any]:
    """Returns the gradients that the caller gets.

    Args:
      targets: The tensors whose gradients are wanted.
      sources: The tensors and variables with respect to which they are.
      grad_ys: The start of the chain rule, for each target, as the caller
        gave it; None for ones.
      compute: Makes gradient ops, for these or for others.

    Returns:
      A tensor, `IndexedSlices` or None for each source.
    """

  def constants(self, tensors: list[Any]) -> list[Any]:
    """Returns what else is taken for constants if a caller names some.

    Args:
      tensors: Those that the caller names (`stop_gradients`).
    """

  def add_terms(self, terms: list[tf.Tensor]) -> tf.Tensor:
    """Is called for a gradient whose terms are on several devices.

    Its ops are colocated with the forward op, unless it says otherwise.

    Args:
      terms: The terms, in the order in which a single device adds them.

    Returns:
      Their sum.
    """


@contextlib.contextmanager
def intercepted(
  graph: tf.Graph, handler: GradientRequestHandler
) -> Iterator[None]:
  """Asks a handler at every request for gradients in a graph.

  Inside the block, `tf.gradients` also puts each gradient op beside its
  forward op (`colocate_gradients_with_ops=True`), whatever the caller says. The
  gradient of an op that calls functions is on the op's device, and not in its
  colocation group: TensorFlow puts the bodies' ops into that, and a body may
  read variables of other tasks.

  Args:
    graph: The graph; requests while another graph is the default one pass.
    handler: It is told before and after.

  Yields:
    None.
  """
  colocate = getattr(graph, _COLOCATE)

  def place(
    op: Any, gradient_uid: str | None, ignore_existing: bool = False
  ) -> Any:
    if None not in (op, gradient_uid) and _has_functions(op):
      return _on_device_of(graph, op)
    return colocate(op, gradient_uid, ignore_existing)

  with _entered(_handlers, graph, handler):
    setattr(graph, _COLOCATE, place)
    try:
      yield
    finally:
      setattr(graph, _COLOCATE, colocate)


def _has_functions(op: tf.Operation) -> bool:
  """Whether attributes of an op are functions."""
  return any(attribute.type == "func" for attribute in op.op_def.attr)


@contextlib.contextmanager
def _on_device_of(graph: tf.Graph, op: tf.Operation) -> Iterator[None]:
  """Puts ops on the device of another one, and colocates them with none."""
  with graph.colocate_with(None, ignore_existing=True), graph.device(op.device):
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


@contextlib.contextmanager
def _colocated_with_nothing_else() -> Iterator[None]:
  """Leaves the blocks of `tf.colocate_with` that a request is in.

  A gradient op is beside its forward op, which may be on another device than
  what such a block names.
  """
  graph = tf.compat.v1.get_default_graph()
  if not graph._colocation_stack.peek_objs():
    yield
    return
  with graph.colocate_with(None, ignore_existing=True):
    yield


def _patch() -> None:
  """Puts the functions of this file into their places."""
  helper = gradients_util._GradientsHelper
  add_n = gradients_util._MultiDeviceAddN
  gradient = backprop.GradientTape.gradient
  parameters = inspect.signature(helper)

  @functools.wraps(helper)
  def gradients_helper(*args: Any, **kwargs: Any) -> Any:
    graph = _graph_of_request()
    if graph is None:
      return helper(*args, **kwargs)
    bound = parameters.bind(*args, **kwargs)
    if graph in _handlers:
      bound.arguments["colocate_gradients_with_ops"] = True
    stops = _listed(bound.arguments.get("stop_gradients"))

    def compute(
      targets: Sequence[Any],
      sources: Sequence[Any],
      grad_ys: Sequence[Any] | None,
    ) -> Any:
      own = _handlers[graph][-1].constants(stops) if graph in _handlers else []
      bound.arguments.update(
        ys=list(targets),
        xs=list(sources),
        grad_ys=grad_ys,
        stop_gradients=[*stops, *own] or None,
      )
      if graph not in _handlers:
        return helper(*bound.args, **bound.kwargs)
      with _colocated_with_nothing_else():
        return helper(*bound.args, **bound.kwargs)

    ys, xs = bound.arguments["ys"], bound.arguments["xs"]
    return _answer(graph, ys, xs, bound.arguments.get("grad_ys"), compute)

  @functools.wraps(gradient)
  def tape_gradient(
    tape: tf.GradientTape,
    target: Any,
    sources: Any,
    output_gradients: Any = None,
    *args: Any,
    **kwargs: Any,
  ) -> Any:
    graph = _graph_of_request()
    if graph is None:
      return gradient(tape, target, sources, output_gradients, *args, **kwargs)
    flat_target, flat_sources = (
      tf.nest.flatten(target),
      tf.nest.flatten(sources),
    )

    def compute(
      targets: Sequence[Any],
      wanted: Sequence[Any],
      grad_ys: Sequence[Any] | None,
    ) -> Any:
      if targets is flat_target and wanted is flat_sources:
        found = gradient(tape, target, sources, grad_ys, *args, **kwargs)
        return tf.nest.flatten(found)
      # A tape knows nothing of what was made after it: ask the graph.
      return helper(
        list(targets),
        list(wanted),
        grad_ys,
        colocate_gradients_with_ops=True,
      )

    found = _answer(graph, flat_target, flat_sources, output_gradients, compute)
    return tf.nest.pack_sequence_as(sources, found)

  @functools.wraps(add_n)
  def multi_device_add_n(
    terms: list[tf.Tensor], gradient_uid: str | None
  ) -> tf.Tensor:
    handler = _handler_of_graph() if _is_inside() else None
    if handler is None or len({term.device for term in terms}) == 1:
      return add_n(terms, gradient_uid)
    return handler.add_terms(terms)

  def unpatch() -> None:
    gradients_util._GradientsHelper = helper
    gradients_util._MultiDeviceAddN = add_n
    backprop.GradientTape.gradient = gradient

  _undo.append(unpatch)
  gradients_util._GradientsHelper = gradients_helper
  gradients_util._MultiDeviceAddN = multi_device_add_n
  backprop.GradientTape.gradient = tape_gradient


def _graph_of_request() -> int | None:
  """Returns the graph of a request that someone wants to hear of."""
  if _is_inside() or tf.executing_eagerly():
    return None
  graph = id(tf.compat.v1.get_default_graph())
  return graph if graph in _handlers or graph in _observers else None


def _is_inside() -> bool:
  """Whether this thread is making the gradients of a request."""
  return getattr(_inside, "request", False)


def _handler_of_graph() -> GradientRequestHandler | None:
  """Returns who hears of the requests of the default graph, if anyone."""
  found = _handlers.get(id(tf.compat.v1.get_default_graph()))
  return found[-1] if found else None


def _listed(value: Any) -> list[Any]:
  return [] if value is None else tf.nest.flatten(value)


def _answer(
  graph: int, targets: Any, sources: Any, grad_ys: Any, compute: Compute
) -> list[Any]:
  """Lets a graph's handler answer; its own requests are not intercepted."""

  def computed(*request: Any) -> list[Any]:
    _inside.request = True
    try:
      return compute(*request)
    finally:
      _inside.request = False

  flat_targets = targets if isinstance(targets, list) else _listed(targets)
  flat_sources = sources if isinstance(sources, list) else _listed(sources)
  flat_grad_ys = None if grad_ys is None else _listed(grad_ys)
  if graph in _handlers:
    handler = _handlers[graph][-1]
    found = handler.gradients(
      flat_targets, flat_sources, flat_grad_ys, computed
    )
  else:
    found = computed(flat_targets, flat_sources, flat_grad_ys)
  for observer in _observers.get(graph, ()):
    observer(flat_sources, list(found))
  return found
