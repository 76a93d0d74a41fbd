"""Costs: computation and memory of each op of a forward graph.

Floating-point operations are TensorFlow's own statistics. They need complete
shapes, and a graph usually does not know its batch size: so the graph is
imported once more into a graph of its own, with inputs of a nominal batch, and
TensorFlow's shape functions do the rest.
"""

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from compat.private import graph_reads, op_registry
from estimator_mp.graph import op_types, shapes, traversal, variables
from estimator_mp.graph.calls import functions
from estimator_mp.machines.machine import Device, Link, Machine
from estimator_mp.placement.rounds import Rounds, ops_of_round

import tensorflow as tf

# Near a GPU with its PCIe link. Where nothing else is said, only ratios matter.
NOMINAL = Machine(
  "nominal",
  Device("GPU", {"float32": 10e12}, 16e9, 500e9, 2e-6),
  (Link("host", 4096, 10e9, 10e-6),),
)
# The most numbers that a tensor of sizes has.
_MOST_SIZES = 64
# The attributes of an op's place, and of its shapes when it was made.
_ANNOTATIONS = ("_class", "_output_shapes")
# A gradient takes a product for the op's input and one for its weights.
_PASSES = 3
# An update reads a value, its gradient and two slots, and writes all but one.
_UPDATE_TOUCHES = 7


@dataclasses.dataclass(frozen=True)
class OpCost:
  """The cost of one op for a nominal batch.

  Attributes:
    flops: Floating-point operations.
    touched_bytes: The bytes that it reads and writes.
    output_bytes: The bytes of all its outputs.
    seconds: The time of computing, or of reading and writing memory.
    step_seconds: The same in a training step, with its gradients.
    one_core: The part of the seconds in which it uses one core.
  """

  flops: int
  touched_bytes: int
  output_bytes: int
  seconds: float
  step_seconds: float
  one_core: float = 0.0


def transfer_seconds(num_bytes: float) -> float:
  """Returns the time of sending one tensor to another device.

  Args:
    num_bytes: Its bytes.
  """
  return NOMINAL.links[0].seconds(num_bytes)


def sending_seconds(num_bytes: float) -> float:
  """Returns the time of sending bytes along with others.

  Args:
    num_bytes: The bytes.
  """
  return num_bytes / NOMINAL.links[0].bandwidth


def update_seconds(
  variables: Sequence[tf.Operation],
  gradient_bytes: float,
  measured_seconds: Mapping[str, float] | None = None,
) -> float:
  """Returns the time of updating variables in a training step.

  Args:
    variables: The variables.
    gradient_bytes: The bytes of their gradients: of a table, the rows that a
      nominal batch looks up.
    measured_seconds: As of `op_costs`.
  """
  if measured_seconds is not None:
    return sum(measured_seconds.get(op.name, 0.0) for op in variables)
  return _UPDATE_TOUCHES * gradient_bytes / NOMINAL.device.memory_bandwidth


def seconds_with_gradients(
  ops: Iterable[tf.Operation], measured_seconds: Mapping[str, float]
) -> dict[str, float]:
  """Returns the seconds of forward ops, in which those of gradients are.

  And those of variables: the seconds of their updates.

  Args:
    ops: The ops of a training step.
    measured_seconds: The seconds of each of them, by name.
  """
  total = collections.defaultdict[str, float](float)
  for op in ops:
    if op.name in measured_seconds:
      total[_owner(op).name] += measured_seconds[op.name]
  return total


def _owner(op: tf.Operation) -> tf.Operation:
  """Returns the forward op, or variable, that an op is a gradient or update of.

  An op of a tape's gradient names no forward op: it is the last one it reads.
  """
  while graph_reads.is_of_gradient(op):
    before = [
      x for x in traversal.inputs(op) if not graph_reads.is_of_gradient(x)
    ]
    of_op = graph_reads.differentiated(op) or next(reversed(before), None)
    if of_op is None:
      return op
    op = of_op
  return next(iter(variables.written_variables(op)), op)


def op_costs(
  ops: Sequence[tf.Operation],
  measured_seconds: Mapping[str, float] | None = None,
  device: Device = NOMINAL.device,
) -> dict[tf.Operation, OpCost]:
  """Returns the costs of ops of one graph.

  Args:
    ops: The ops.
    measured_seconds: Those of `seconds_with_gradients`, in the place of an
      estimate; an op that was not seen took none.
    device: What executes them.

  Returns:
    Their costs, by op.

  Raises:
    ValueError: If none of the ops was measured.
  """
  if measured_seconds is not None:
    _check_measured(ops, measured_seconds)
  twins = _twins(ops)
  costs = {}
  rounds = Rounds(_graph_of(ops))
  for op, twin in twins.items():
    cost = _cost(twin, op, device, rounds.of(op))
    if measured_seconds is not None:
      seconds = measured_seconds.get(op.name, 0.0)
      cost = dataclasses.replace(cost, seconds=seconds, step_seconds=seconds)
    costs[op] = cost
  return costs


def _check_measured(
  ops: Sequence[tf.Operation], measured_seconds: Mapping[str, float]
) -> None:
  names = [op.name for op in ops]
  if names and not any(name in measured_seconds for name in names):
    raise ValueError(
      f"measured_costs has none of the model's {len(names)} ops, such as "
      f"{names[-1]!r}: it is of another model; measure this one with "
      "estimator_mp.measure_costs"
    )


def nominal_bytes(ops: Sequence[tf.Operation]) -> dict[str, int]:
  """Returns the bytes of the outputs of ops for a nominal batch.

  In a graph of an unknown batch, [batch x length, width] becomes [?, width].
  Here TensorFlow computes such shapes from a nominal batch.

  Args:
    ops: Ops of one graph.

  Returns:
    The bytes of their outputs, by the tensors' names.
  """
  sizes = {}
  for op, twin in _twins(ops).items():
    for tensor, other in zip(op.outputs, twin.outputs, strict=True):
      sizes[tensor.name] = shapes.tensor_bytes(other)
  return sizes


def _twins(ops: Sequence[tf.Operation]) -> dict[tf.Operation, tf.Operation]:
  """Returns ops of known shapes for a nominal batch, by those of a graph."""
  computed = [op for op in ops if not (_is_known(op) or _is_source(op))]
  try:
    graph = _with_nominal_batch(computed)
  except ValueError:
    # Some dimension is unknown, but not free: the nominal batch contradicts
    # the model. Sizes are then estimated from the graph's own shapes.
    graph = _graph_of(ops)
  inside = set(computed)
  return {
    op: graph.get_operation_by_name(op.name) if op in inside else op
    for op in ops
  }


def _is_source(op: tf.Operation) -> bool:
  """Whether an op brings tensors into the graph: placeholders, iterators."""
  is_read = all(t.dtype in (tf.resource, tf.variant) for t in op.inputs)
  return is_read and not all(t.shape.is_fully_defined() for t in op.outputs)


def _cost(
  twin: tf.Operation, op: tf.Operation, device: Device, rounds: int
) -> OpCost:
  """Returns the cost of an op, from its twin with known shapes."""
  output_bytes = sum(map(shapes.tensor_bytes, twin.outputs))
  if op.type in op_types.VIEWS or op.type == "Shape":
    return OpCost(0, 0, output_bytes, 0.0, 0.0)
  values = [x for x in twin.inputs if x.dtype != tf.resource]
  touched = output_bytes + sum(map(shapes.tensor_bytes, values))
  if op.type in op_types.SHARES_MEMORY:
    touched = 0
  if op_types.is_write(op):
    # It reads and writes all of each variable, or the rows that it gets.
    written = [
      shapes.variable_bytes(x)
      for x in variables.written_variables(op)
      if op_types.is_variable(x)
    ]
    rows = max(map(shapes.tensor_bytes, values), default=0)
    touched += 2 * sum(min(x, rows) if rows else x for x in written)
  flops = op_registry.registered_flops(twin)
  if flops is None:
    flops = _estimated_flops(twin, op)
  dtype = next((x.dtype.name for x in (*twin.outputs, *values)), "float32")
  launches = 1
  if op.type in op_types.FUNCTIONAL_LOOPS:
    launches = ops_of_round(op)
  strided = sum(map(shapes.tensor_bytes, _read_by_columns(twin, op)))
  seconds = rounds * device.seconds(flops, touched, dtype, launches, strided)
  return OpCost(
    rounds * flops,
    rounds * touched,
    output_bytes,
    seconds,
    _PASSES * seconds,
    rounds * device.strided_seconds(strided) / (seconds or 1.0),
  )


def _read_by_columns(
  twin: tf.Operation, op: tf.Operation
) -> Sequence[tf.Tensor]:
  """Returns the factors that products of an op read column by column."""
  names = {"MatMul": "transpose_b", "BatchMatMulV2": "adj_y"}
  if op.type in names and op.get_attr(names[op.type]):
    return [twin.inputs[1]]
  if op.type in op_types.FUNCTIONAL_LOOPS and graph_reads.is_of_gradient(op):
    return [x for x in twin.inputs if x.shape.rank == 2 and x.dtype.is_floating]
  return ()


def _estimated_flops(twin: tf.Operation, op: tf.Operation) -> int:
  """Returns the operations of an op for which TensorFlow has no statistics."""
  if twin.type == "Einsum":
    return _einsum_flops(twin)
  if twin.type in op_types.FUNCTIONAL_LOOPS:
    # Each round multiplies a batch with the weights that the loop captures.
    weights = sum(map(_variable_elements, op.inputs))
    return 2 * weights * shapes.NOMINAL_BATCH
  return sum(shapes.num_elements(tensor.shape) for tensor in twin.outputs)


def _variable_elements(tensor: tf.Tensor) -> int:
  """Returns the elements of a variable that a tensor is, or was read from."""
  op = tensor.op
  while op.type in (*op_types.WHOLE_READS, "Cast") and op.inputs:
    op = op.inputs[0].op
  if op.type != "VarHandleOp":
    return 0
  return shapes.num_elements(tf.TensorShape(op.get_attr("shape")))


def _einsum_flops(op: tf.Operation) -> int:
  """Returns 2 x the product of all dimensions that an Einsum names."""
  terms = op.get_attr("equation").decode().partition("->")[0].split(",")
  sizes: dict[str, int] = {}
  for term, tensor in zip(terms, op.inputs, strict=True):
    dimensions = tensor.shape.as_list() if tensor.shape.rank else []
    labels = term.replace("...", "")
    for label, size in zip(
      reversed(labels), reversed(dimensions), strict=False
    ):
      sizes[label] = size or shapes.NOMINAL_BATCH
  product = 2
  for size in sizes.values():
    product *= size
  return product


def _with_nominal_batch(ops: Sequence[tf.Operation]) -> tf.Graph:
  """Returns a graph of the same ops, by the same names, with known shapes.

  The tensors that the ops read from outside, such as features, have the nominal
  batch in the place of each unknown dimension, and no op has a device. Without
  ops it is the default graph.
  """
  source = _graph_of(ops)
  if not ops:
    return source
  definition = tf.compat.v1.GraphDef()
  definition.versions.CopyFrom(source.graph_def_versions)
  # Constants come along: a shape that `Reshape` reads is known by its values.
  inside = _with_constants(ops)
  if any(map(_calls_function, inside)):
    definition.library.CopyFrom(source.as_graph_def().library)
  outside: dict[str, tf.Tensor] = {}
  for op in source.get_operations():
    if op not in inside:
      continue
    node = definition.node.add()
    node.CopyFrom(op.node_def)
    node.device = ""
    inputs = [x for x in node.input if x[0] != "^"]
    del node.input[:]
    node.input.extend(inputs)
    for attribute in (*_ANNOTATIONS, *_optional_shapes(op)):
      node.attr.pop(attribute, None)
    outside |= {x.name: x for x in op.inputs if x.op not in inside}
  with tf.Graph().as_default() as graph:
    stand_ins = {
      name: tf.compat.v1.placeholder(
        x.dtype, _nominal(x.shape), name="estimator_mp_outside"
      )
      for name, x in outside.items()
    }
    tf.graph_util.import_graph_def(definition, stand_ins, name="")
  # A loop in frames has shapes that the model declared, or its code did.
  for op in inside:
    twin = graph.get_operation_by_name(op.name)
    for tensor, other in zip(op.outputs, twin.outputs, strict=True):
      if tensor.shape.is_compatible_with(other.shape):
        other.set_shape(tensor.shape)
  return graph


def _is_known(op: tf.Operation) -> bool:
  """Whether the shapes of an op's inputs and outputs are known."""
  return all(
    tensor.shape.is_fully_defined() for tensor in (*op.inputs, *op.outputs)
  )


def _graph_of(ops: Sequence[tf.Operation]) -> tf.Graph:
  return ops[0].graph if ops else tf.compat.v1.get_default_graph()


def _optional_shapes(op: tf.Operation) -> list[str]:
  """Returns the attributes that repeat shapes; datasets need theirs."""
  return [
    attribute.name
    for attribute in op_registry.definition_of(op).attr
    if attribute.name == "output_shapes" and attribute.HasField("default_value")
  ]


def _calls_function(op: tf.Operation) -> bool:
  """Whether an op calls a function of the graph's library."""
  is_function = not hasattr(tf.raw_ops, op.type)  # As those of v1 are.
  return is_function or bool(functions.functions_of(op.node_def))


def _with_constants(
  ops: Sequence[tf.Operation],
) -> set[tf.Operation]:
  """Returns ops, and the ancestors that make sizes of known ones."""

  def known(op: tf.Operation) -> list[tf.Operation]:
    return [
      x
      for x in traversal.inputs(op)
      if all(
        tensor.shape.is_fully_defined()
        and tensor.shape.num_elements() <= _MOST_SIZES
        for tensor in x.outputs
      )
    ]

  return set(traversal.walk(ops, known))


def _nominal(shape: tf.TensorShape) -> tf.TensorShape:
  if shape.rank is None:
    return shape
  return tf.TensorShape(
    [shapes.NOMINAL_BATCH if d is None else d for d in shape.as_list()]
  )
