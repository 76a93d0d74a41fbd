"""Prefetching: the next batches wait where the model reads them.

    input -> MapStage on each device        run by a thread, before the step
    number of the batch -> queue of 1

    queue -> number -> MapUnstage on each device -> model         run by a step

A batch has one number everywhere, so that a step that reads a part of it, as
a hook's may, leaves the others where they belong: whoever takes a part of it
takes all. The number is in the queue once all is stored, so that nobody waits
for more than the queue, which the end of the data closes.
"""

import dataclasses
from collections.abc import Sequence

from compat.private import graph_edits
from estimator_mp.capture import input_boundary
from estimator_mp.graph import placed_ops

import tensorflow as tf

_NOT_IN_STEP = (
  "prefetch_inputs=True: the step would run an op of the input itself, which "
  "consumes a batch; let hooks and summaries fetch tensors of the model "
  "instead of those of input_fn, or leave prefetch_inputs out"
)


@dataclasses.dataclass(frozen=True)
class Prefetching:
  """The ops of the part that runs ahead.

  Attributes:
    number: A placeholder for the number of the batch.
    store: Takes a batch from the input and stores it; waits until there is
      room for its number.
    end: Says that there are no more.
    waiting: How many batches are there that no step has taken.
  """

  number: tf.Tensor
  store: tf.Operation
  end: tf.Operation
  waiting: tf.Tensor


def prefetch(boundary: input_boundary.Boundary) -> Prefetching:
  """Lets the model of the default graph read stored batches.

  Args:
    boundary: The tensors and ops of its input that it reads; no session has
      run the graph yet.
  """
  host = boundary.host
  with placed_ops.apart_from_caller("prefetch"):
    with tf.compat.v1.device(host):
      number = tf.compat.v1.placeholder_with_default(
        tf.constant(-1, tf.int64), [], "number"
      )
      is_ahead = tf.raw_ops.Assert(
        condition=number >= 0, data=[tf.constant(_NOT_IN_STEP)]
      )
      queue = tf.queue.FIFOQueue(1, [tf.int64], [()], name="numbers")
      taken = queue.dequeue()
    stores, batches = [], {}
    for device in boundary.reads:
      store, batches[device] = _through_store(
        [tensor for tensor, _ in boundary.reads[device]], number, taken, device
      )
      stores.append(store)
    with tf.compat.v1.device(host):
      with tf.control_dependencies([batch[0].op for batch in batches.values()]):
        all_taken = tf.no_op("all_taken")
      with tf.control_dependencies([*stores, *boundary.awaited]):
        enqueue = queue.enqueue(number)
      end, waiting = queue.close(), queue.size()
    for device, batch in batches.items():
      with tf.compat.v1.device(device), tf.control_dependencies([all_taken]):
        _let_read(boundary.reads[device], batch)
  for op in boundary.getters:
    graph_edits.add_control_inputs(op, [is_ahead])
  for op in boundary.waits:
    others = [x for x in op.control_inputs if x not in boundary.awaited]
    graph_edits.set_control_inputs(op, [*others, taken.op])
  return Prefetching(number, enqueue, end, waiting)


def _through_store(
  tensors: Sequence[tf.Tensor],
  number: tf.Tensor,
  taken: tf.Tensor,
  device: str,
) -> tuple[tf.Operation, Sequence[tf.Tensor]]:
  """Returns the op that stores tensors on a device, and those taken out."""
  graph = tf.compat.v1.get_default_graph()
  settings = {
    "indices": list(range(len(tensors))),
    "dtypes": [x.dtype for x in tensors],
    "shared_name": graph.unique_name("batches"),
  }
  with tf.compat.v1.device(device):
    store = tf.raw_ops.MapStage(key=number, values=tensors, **settings)
    return store, tf.raw_ops.MapUnstage(key=taken, **settings)


def _let_read(reads: input_boundary.Reads, batch: Sequence[tf.Tensor]) -> None:
  """Lets the readers on a device read the batch that was taken there.

  Args:
    reads: The tensors that are read there, each with its readers.
    batch: The tensors that these are to read instead, in the same order.
  """
  for (tensor, readers), value in zip(reads, batch, strict=True):
    # Nothing else tells the session's optimizer its shape.
    is_known = tensor.shape.rank is not None
    read = (
      tf.ensure_shape(value, tensor.shape) if is_known else tf.identity(value)
    )
    for op, index in readers:
      graph_edits.replace_input(op, index, read)
