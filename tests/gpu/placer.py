"""What TensorFlow's placer refuses of a graph under hard placement.

It can be told from the graph, so that a placement on GPUs is tested where there
are none: an op that was put on a device of a type without a kernel for it, in
its branches and its body, too, and ops that have to share a device and were put
on several.
"""

import collections

from compat.private import graph_reads, op_registry
from estimator_mp.graph import colocation, op_types, variables
from estimator_mp.graph.calls import functions

import tensorflow as tf


def refusals(graph):
  """Returns a line for each thing that a session would not run.

  Args:
    graph: A complete graph, whose session has hard placement.
  """
  ops = graph.get_operations()
  placed = [op for op in ops if "GPU" in op.device]
  lines = [
    f"{op.name}: no {name} on {op.device}"
    for op in placed
    for name in _without_kernel(graph, op.node_def)
  ]
  return lines + [
    f"{name}: on {sorted(of_group)}"
    for name, of_group in sorted(_devices_of_groups(ops).items())
    if len(of_group) > 1
  ]


def _without_kernel(graph, node):
  """Yields the types of an op, and of what is in its bodies, without one."""
  if not op_registry.has_kernel(node, "GPU"):
    yield node.op
  if node.op in op_types.FUNCTIONAL_BRANCHES | op_types.FUNCTIONAL_LOOPS:
    for function in functions.functions_of(node):
      body = graph_reads.function_definition(graph, function.name)
      for inner in body.node_def:
        if not inner.device:
          yield from _without_kernel(graph, inner)


def _devices_of_groups(ops):
  """Returns the devices of each group of ops that have to share one."""
  found = collections.defaultdict(set)
  for op in ops:
    device = _device(op)
    for name in colocation.colocated_with(op):
      found[name].add(device)
    if op.type not in op_types.SAVES:
      for tensor in filter(op_types.is_handle, op.inputs):
        variable = variables.variable_of(tensor)
        found[variable.name] |= {device, _device(variable)}
    if op.type in op_types.VARIABLES:
      found[op.name].add(device)
  return {name: of_group - {""} for name, of_group in found.items()}


def _device(op):
  """Returns an op's device in one spelling; it may be partial, or empty."""
  return tf.compat.v1.DeviceSpec.from_string(op.device).to_string()
