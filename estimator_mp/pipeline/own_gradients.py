"""Own gradients: what a program computes backward by a rule that it wrote.

The gradients that TensorFlow makes are linear in what they begin with, and so
those of slices add up. A rule of the program's own (`tf.custom_gradient`,
`tf.Graph.gradient_override_map`) may do anything. What it does for each example
is the same in a slice; what it makes of all examples is not, unless it adds
them up and goes on from there as one does with a sum: the norm by which it
clips is that of a slice. The first op of which that is so is found here.
"""

import os
import sysconfig
from collections.abc import (
  Callable,
  Collection,
  Iterable,
  Iterator,
  Sequence,
  Set,
)
from typing import Any

from compat.private import graph_reads
from estimator_mp.graph import functions, op_types
from estimator_mp.pipeline import example_axes
from estimator_mp.pipeline.example_axes import Kind

import numpy as np
import tensorflow as tf

_RULE = "_gradient_op_type"
# In these files TensorFlow calls the rule of an op's gradient.
_CALLS_RULES = ("backprop.py", "gradients_util.py")
_TENSORFLOW = os.path.join(os.path.dirname(os.path.abspath(tf.__file__)), "")
_STANDARD = os.path.join(sysconfig.get_path("stdlib"), "")
_PACKAGES = os.path.join(sysconfig.get_path("purelib"), "")

_LINEAR = (
  op_types.LINEAR
  | op_types.PARTS_OF_SUMS
  | op_types.PRODUCTS
  | op_types.MATRIX_PRODUCTS
)


def have_rules(ops: Iterable[tf.Operation]) -> bool:
  """Whether a program says what the gradient of an op is, in functions or not.

  Args:
    ops: What it has built.
  """
  return any(
    _RULE in op.node_def.attr
    or any(have_rules(graph.get_operations()) for graph in _graphs_of(op))
    for op in ops
  )


def _graphs_of(op: tf.Operation) -> list[Any]:
  """Returns the graphs of the functions that an op calls."""
  if op.type not in op_types.FUNCTIONAL:
    return []
  graphs = [
    graph_reads.function_graph(op.graph, function.name)
    for function in functions.functions_of(op.node_def)
  ]
  return [graph for graph in graphs if graph is not None]


def op_over_examples(
  made: Sequence[tf.Operation],
  starts: Iterable[tf.Tensor],
  axes: example_axes.ExampleAxes,
  differs: Callable[[tf.Tensor], bool],
) -> tf.Operation | None:
  """Returns an op of the program by which slices' gradients do not add up.

  Args:
    made: The ops of the first slice's gradients, in the order of the graph.
    starts: What the chain rule starts with.
    axes: Where tensors have their examples.
    differs: Whether a tensor differs between slices.
  """
  begin = {x.name for x in starts}
  gradients = _depending(made, begin, op_types.SHAPE_ONLY)
  tensors = [x for op in made for x in op.outputs if x.name in gradients]
  axes.add([x for x in tensors if differs(x)])
  return _find(
    made,
    _Backward(
      gradients, lambda x: axes.of(x).kind, axes.kind_by_shape, differs
    ),
  )


def _find(
  ops: Iterable[tf.Operation], backward: "_Backward"
) -> tf.Operation | None:
  """Returns an op of the program by which slices' gradients do not add up."""
  for op in ops:
    if backward.is_read_by(op):
      if not backward.adds_up(op) and _is_own(op):
        return op
      for graph, inner in backward.within(op):
        found = _find(graph.get_operations(), inner)
        if found is not None:
          return found
      backward.pass_by(op)
  return None


def _depending(
  ops: Iterable[tf.Operation],
  begin: Iterable[str],
  but: Collection[str] = (),
) -> set[str]:
  """Returns the names of tensors that depend on some.

  Args:
    ops: Ops, in the order of a graph.
    begin: The names of these.
    but: Types of ops whose outputs do not.
  """
  found = set(begin)
  for op in ops:
    if op.type not in but and any(x.name in found for x in op.inputs):
      found.update(x.name for x in op.outputs)
  return found


class _Backward:
  """What is known of the backward pass of a slice, op by op."""

  def __init__(
    self,
    gradients: Set[str],
    kind_of: Callable[[tf.Tensor], Kind],
    kind_by_shape: Callable[[tf.Tensor], Kind],
    differs: Callable[[tf.Tensor], bool],
    sums: Iterable[str] = (),
  ):
    """Starts where the chain rule does.

    Args:
      gradients: The names of what depends on what it starts with.
      kind_of: What a tensor has to do with examples.
      kind_by_shape: The same, for a tensor in a function.
      differs: Whether a tensor differs between slices.
      sums: What of it was made of all examples of the slice.
    """
    self._gradients = gradients
    self._kind_of = kind_of
    self._kind_by_shape = kind_by_shape
    self._differs = differs
    self._sums = set(sums)

  def is_read_by(self, op: tf.Operation) -> bool:
    """Whether an op reads some of the gradients, and not their shapes alone.

    Args:
      op: An op.
    """
    return op.type not in op_types.SHAPE_ONLY and any(
      x.name in self._gradients for x in op.inputs
    )

  def pass_by(self, op: tf.Operation) -> None:
    """Goes on to the next op.

    Args:
      op: What reads some of the gradients.
    """
    read = [x for x in op.inputs if x.name in self._gradients]
    if any(self._has_rows(x) or x.name in self._sums for x in read):
      self._sums.update(x.name for x in op.outputs if not self._has_rows(x))

  def adds_up(self, op: tf.Operation) -> bool:
    """Whether what slices give adds up to what the whole batch gives.

    Args:
      op: An op that reads some of the gradients.
    """
    if any(self._kind_of(x) is Kind.PAIRS for x in op.outputs):
      return False
    read = [x for x in op.inputs if x.name in self._gradients]
    are_sums = any(x.name in self._sums for x in read)
    has_rows = [self._has_rows(x) for x in op.outputs]
    if any(map(self._has_rows, read)):
      return (
        all(has_rows) or op.type in op_types.ADDS_EXAMPLES
      ) and not are_sums
    if any(has_rows):  # The gradient of a loss goes back into its examples.
      return not are_sums
    return self._is_linear(op, are_sums)

  def within(self, op: tf.Operation) -> Iterator[tuple[tf.Graph, "_Backward"]]:
    """Yields the graphs of functions that an op calls, and what is known.

    Args:
      op: What reads some of the gradients.
    """
    for graph in _graphs_of(op):
      yield graph, self._of_call(op, graph)

  def _of_call(self, op: tf.Operation, graph: Any) -> "_Backward":
    """Returns what is known where a function begins."""
    given = op.inputs[len(op.inputs) - len(graph.inputs) :]
    pairs = [*zip(graph.inputs, given, strict=True)]
    ops = graph.get_operations()
    is_loop = op.type in op_types.FUNCTIONAL_LOOPS

    def depending(begin: set[str], but: Collection[str]) -> set[str]:
      found = _depending(ops, begin, but)
      while is_loop:  # What one round gives is what the next one gets.
        more = {
          x.name
          for x, y in zip(graph.inputs, graph.outputs, strict=False)
          if y.name in found
        }
        if more <= found:
          break
        found = _depending(ops, found | more, but)
      return found

    begin = {x.name for x, y in pairs if y.name in self._gradients}
    gradients = depending(begin, op_types.SHAPE_ONLY)
    differing = depending({x.name for x, y in pairs if self._differs(y)}, ())
    rows = {x.name: self._kind_of(y) for x, y in pairs if x.name in begin}
    return _Backward(
      gradients,
      lambda x: rows.get(x.name) or self._kind_by_shape(x),
      self._kind_by_shape,
      lambda x: x.name in differing,
      {x.name for x, y in pairs if y.name in self._sums}
      | (gradients - begin) & {x.name for x in graph.inputs},
    )

  def _has_rows(self, tensor: tf.Tensor) -> bool:
    """Whether a tensor may have something for each example."""
    return (
      tensor.name in self._gradients and self._kind_of(tensor) is not Kind.NONE
    )

  def _is_linear(self, op: tf.Operation, are_sums: bool) -> bool:
    """Whether an op is linear; in sums, by the same numbers for all slices."""
    read = [x for x in op.inputs if x.name in self._gradients]
    others = [x for x in op.inputs if x.name not in self._gradients]
    if are_sums and any(map(self._differs, others)):
      return False
    if op.type in (*op_types.FUNCTIONAL, "IdentityN"):
      return True  # What is in functions is looked at there.
    if op.type in op_types.TERMS or op.type in op_types.SELECTS:
      return self._are_terms(op)
    if op.type in op_types.QUOTIENTS:
      return len(others) == 1 and others[0].name == op.inputs[1].name
    is_rounded = op.type == "Cast" and op.outputs[0].dtype.is_integer
    return len(read) == 1 and op.type in _LINEAR and not is_rounded

  def _are_terms(self, op: tf.Operation) -> bool:
    """Whether whatever an op adds up, or puts together, depends on gradients.

    Anything else would be there once for each slice.
    """
    conditions = 1 if op.type in op_types.SELECTS else 0
    axes = 1 if op.type == "ConcatV2" else 0
    if any(x.name in self._gradients for x in op.inputs[:conditions]):
      return False
    terms = op.inputs[conditions : len(op.inputs) - axes]
    return all(x.name in self._gradients or _is_zero(x) for x in terms)


def _is_zero(tensor: tf.Tensor) -> bool:
  """Whether a tensor is known to be zero."""
  if tensor.op.type == "ZerosLike":
    return True
  value = tf.get_static_value(tensor)
  return value is not None and not np.any(value)


def _is_own(op: tf.Operation) -> bool:
  """Whether a rule of the program made an op, and none of TensorFlow."""
  files = [frame[0] for frame in op.traceback]
  calls = [
    number
    for number, file in enumerate(files)
    if file.startswith(_TENSORFLOW) and file.endswith(_CALLS_RULES)
  ]
  return bool(calls) and any(map(_is_of_program, files[calls[-1] :]))


def _is_of_program(file: str) -> bool:
  """Whether code is neither TensorFlow's nor Python's."""
  is_standard = file.startswith(_STANDARD) and not file.startswith(_PACKAGES)
  is_module = os.path.isabs(file)  # Others are <frozen ...>, say.
  return is_module and not is_standard and not file.startswith(_TENSORFLOW)


def over_examples(op: tf.Operation) -> str:
  """Returns the text of an error.

  Args:
    op: What was found.
  """
  return (
    f"{op.name} ({op.type}), of a gradient that the program computes by a rule "
    "of its own (tf.custom_gradient), makes of the gradients of all examples "
    "of the batch something that those of slices do not add up to, such as a "
    "norm to clip by: micro-batches and replicas would train another model; "
    "let the rule treat each example by itself (tf.clip_by_norm(..., axes=1), "
    "say), or clip the gradients that the optimizer gets, or use "
    "num_micro_batches=1 and no data axis"
  )
