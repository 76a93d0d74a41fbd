"""The summaries of tf.contrib.summary, which TensorFlow still has.

Tested on TensorFlow 2.15.1 and 2.21.0. `tensorflow.python.ops.summary_ops_v2`
keeps the functions under their old names, next to those of tf.summary. Only
`should_record_summaries` is another there; the old one has become
`_legacy_contrib_should_record_summaries`. A writer's `_resource` is what ops
write to, and `_choose_step` finds the step.
"""

from typing import Any

import tensorflow as tf
from tensorflow.python.ops import summary_ops_v2

SummaryWriter = summary_ops_v2.SummaryWriter
all_summary_ops = summary_ops_v2.all_v2_summary_ops
always_record_summaries = summary_ops_v2.always_record_summaries
audio = summary_ops_v2.audio
create_file_writer = summary_ops_v2.create_file_writer
create_summary_file_writer = summary_ops_v2.create_summary_file_writer
eval_dir = summary_ops_v2.eval_dir
flush = summary_ops_v2.flush
generic = summary_ops_v2.generic
histogram = summary_ops_v2.histogram
image = summary_ops_v2.image
import_event = summary_ops_v2.import_event
initialize = summary_ops_v2.initialize
never_record_summaries = summary_ops_v2.never_record_summaries
record_summaries_every_n_global_steps = (
  summary_ops_v2.record_summaries_every_n_global_steps
)
scalar = summary_ops_v2.scalar
should_record_summaries = summary_ops_v2._legacy_contrib_should_record_summaries
summary_writer_initializer_op = summary_ops_v2.summary_writer_initializer_op


def write_graph(graph: Any, step: Any, name: str | None) -> tf.Operation:
  """Writes a serialized GraphDef with the default writer, if there is one.

  Args:
    graph: a string.
    step: the global step by default.
    name: of the operation.
  """
  writer = summary_ops_v2._summary_state.writer
  if writer is None:
    return tf.no_op()
  with tf.device("cpu:0"):
    return tf.raw_ops.WriteGraphSummary(
      writer=writer._resource,
      step=summary_ops_v2._choose_step(step),
      tensor=tf.identity(graph),
      name=name,
    )
