"""run_n, run_feeds and infer of tf.contrib.learn: runs of a graph, at once."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf


def no_op_train_fn(loss: Any) -> Any:
  """Returns an op that does nothing, as a head's train_op_fn."""
  del loss
  return tf.no_op()


def _graph_of(outputs: Mapping[Any, Any]) -> tf.Graph:
  graphs = {value.graph for value in outputs.values()}
  if len(graphs) != 1:
    raise ValueError(
      f"output_dict has tensors of {len(graphs)} graphs; it needs one."
    )
  return graphs.pop()


def _feeds(
  output_dict: Mapping[Any, Any],
  feed_dicts: Iterable[Any],
  restore_checkpoint_path: str | None,
) -> Iterator[dict[Any, Any]]:
  graph = _graph_of(output_dict)
  with graph.as_default(), tf.compat.v1.Session() as session:
    if restore_checkpoint_path:
      saver = tf.compat.v1.train.Saver()
      saver.restore(session, restore_checkpoint_path)
    else:
      session.run(tf.compat.v1.global_variables_initializer())
    session.run(tf.compat.v1.local_variables_initializer())
    session.run(tf.compat.v1.tables_initializer())
    coordinator = tf.train.Coordinator()
    threads = []
    if tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.QUEUE_RUNNERS):
      threads = tf.compat.v1.train.start_queue_runners(session, coordinator)
    try:
      for feed in feed_dicts:
        yield session.run(dict(output_dict), feed)
    finally:
      coordinator.request_stop()
      coordinator.join(threads, 120, ignore_live_threads=True)


def run_feeds(
  output_dict: Mapping[Any, Any],
  feed_dicts: Iterable[Any],
  restore_checkpoint_path: str | None = None,
) -> list[dict[Any, Any]]:
  """Returns values of tensors, for each of several feeds.

  Args:
    output_dict: tensors by any key.
    feed_dicts: what to feed each time, or None.
    restore_checkpoint_path: the variables' values; initial ones by default.

  Raises:
    ValueError: if there are no tensors, or of several graphs.
  """
  return list(_feeds(output_dict, feed_dicts, restore_checkpoint_path))


def run_n(
  output_dict: Mapping[Any, Any],
  feed_dict: Any = None,
  restore_checkpoint_path: str | None = None,
  n: int = 1,
) -> list[dict[Any, Any]]:
  """Returns values of tensors, n times; see run_feeds."""
  return run_feeds(output_dict, [feed_dict] * n, restore_checkpoint_path)


def infer(
  restore_checkpoint_path: str | None,
  output_dict: Mapping[Any, Any],
  feed_dict: Any = None,
) -> dict[Any, Any]:
  """Returns values of tensors, once; see run_feeds."""
  return run_n(output_dict, feed_dict, restore_checkpoint_path)[0]
