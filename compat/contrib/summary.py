"""Names of tf.contrib.summary: summaries that are written as the graph runs."""

import sys
from typing import Any

from compat.contrib import absent
from compat.private.contrib.summary import (
  SummaryWriter,
  all_summary_ops,
  always_record_summaries,
  audio,
  create_file_writer,
  create_summary_file_writer,
  eval_dir,
  flush,
  generic,
  histogram,
  image,
  import_event,
  initialize,
  never_record_summaries,
  record_summaries_every_n_global_steps,
  scalar,
  should_record_summaries,
  summary_writer_initializer_op,
  write_graph,
)

import tensorflow as tf

# The import path of 1.15 that programs take for it, tf.contrib.summary.summary.
__path__: list[str] = []
summary = sys.modules[__name__]
__getattr__ = absent.getter(__name__)

__all__ = [
  "SummaryWriter",
  "all_summary_ops",
  "always_record_summaries",
  "audio",
  "create_file_writer",
  "create_summary_file_writer",
  "eval_dir",
  "flush",
  "generic",
  "graph",
  "histogram",
  "image",
  "import_event",
  "initialize",
  "never_record_summaries",
  "record_summaries_every_n_global_steps",
  "scalar",
  "should_record_summaries",
  "summary_writer_initializer_op",
]


def graph(param: Any, step: Any = None, name: str | None = None) -> Any:
  """Writes a graph with the default writer, if there is one.

  Args:
    param: a tensor, the serialized GraphDef; a graph or a GraphDef when
      operations run eagerly.
    step: the global step by default.
    name: of the operation.

  Returns:
    The operation.

  Raises:
    TypeError: if it is no tensor, while a graph is built.
  """
  if not tf.executing_eagerly() and not tf.is_tensor(param):
    raise TypeError(
      "tf.contrib.summary.graph takes a tensor, such as a placeholder, while a "
      "graph is built."
    )
  if isinstance(param, tf.Graph):
    param = param.as_graph_def(add_shapes=True)
  if isinstance(param, tf.compat.v1.GraphDef):
    param = param.SerializeToString()
  return write_graph(param, step, name)
