"""Batch shapes: the sizes that the tensors of a graph have for one batch.

A graph mostly leaves the size of a batch open. Where a batch is known, the
costs of a finished graph are those of this batch, and not of a nominal one.
"""

from collections.abc import Mapping, Sequence

from compat.private import graph_edits

import tensorflow as tf


def fill(graph: tf.Graph, batch: Mapping[tf.Tensor, Sequence[int]]) -> None:
  """Sets the shapes of a graph that no session will run.

  TensorFlow's shape functions infer from those of its inputs what they can. If
  they contradict the graph, it keeps its own.

  Args:
    graph: The graph, all of whose ops are made.
    batch: The shapes of its placeholders.
  """
  for placeholder, shape in batch.items():
    graph_edits.set_placeholder_shape(placeholder, shape)
  definition = graph.as_graph_def()
  for node in definition.node:
    if "output_types" not in node.attr:  # Datasets need their shapes.
      node.attr.pop("output_shapes", None)
  with tf.Graph().as_default() as twin:
    try:
      tf.graph_util.import_graph_def(definition, name="")
    except ValueError:
      return
  for op in graph.get_operations():
    inferred = twin.get_operation_by_name(op.name).outputs
    for x, y in zip(op.outputs, inferred, strict=True):
      if x.shape.is_compatible_with(y.shape):
        x.set_shape(y.shape)
