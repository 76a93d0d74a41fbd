"""Queues that make batches of elements that are alike."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1
# A batch has the structure of an element: a list, or tensors by name.
Tensors = Sequence[Any] | Mapping[str, Any]
_CLOSED = (tf.errors.OutOfRangeError, tf.errors.CancelledError)


def bucket(
  tensors: Tensors,
  which_bucket: Any,
  batch_size: Any,
  num_buckets: int,
  num_threads: int = 1,
  capacity: int = 32,
  bucket_capacities: Sequence[int] | None = None,
  shapes: Any = None,
  dynamic_pad: bool = False,
  allow_smaller_final_batch: bool = False,
  keep_input: Any = True,
  shared_name: str | None = None,
  name: str | None = None,
) -> tuple[tf.Tensor, Any]:
  """Returns batches whose elements come from one bucket each.

  Two queue runners fill buckets, and make batches of what is in them;
  tf.compat.v1.train.start_queue_runners starts them.

  Args:
    tensors: one element: a list, or tensors by name.
    which_bucket: its bucket, an int32 scalar.
    batch_size: of all buckets, or a list with that of each.
    num_buckets: how many buckets there are.
    num_threads: how many threads fill them.
    capacity: how many batches may wait, and how many elements in a bucket.
    bucket_capacities: how many elements may wait in each bucket.
    shapes: of the tensors; by default those that they have.
    dynamic_pad: whether unknown dimensions are padded, with zeros or "".
    allow_smaller_final_batch: whether what is left at the end is a batch.
    keep_input: whether the element is wanted, a bool scalar.
    shared_name: under which other sessions share the queues.
    name: of the operations.

  Returns:
    The bucket of the batch, and the batch in the structure of `tensors`, but of
    a list of one the tensor only.

  Raises:
    ValueError: if a list is not as long as there are buckets, or a shape is
      not known as far as it has to be.
  """
  sizes = _of_each(batch_size, num_buckets, "batch_size")
  capacities = _of_each(
    bucket_capacities or capacity, num_buckets, "bucket_capacities"
  )
  make_queue = tf.queue.PaddingFIFOQueue if dynamic_pad else tf.queue.FIFOQueue
  with tf.name_scope(name or "bucket"):
    parts = [tf.convert_to_tensor(part) for part in _values(tensors)]
    dtypes = [part.dtype for part in parts]
    shapes = [
      tf.TensorShape(shape)
      for shape in shapes or [part.shape for part in parts]
    ]
    _check_shapes(shapes, dynamic_pad)
    queues = [
      make_queue(
        size,
        dtypes,
        shapes,
        shared_name=shared_name and f"{shared_name}_{i}",
        name=f"bucket_queue_{i}",
      )
      for i, size in enumerate(capacities)
    ]
    is_list = isinstance(batch_size, (list, tuple))
    is_known = not is_list and not allow_smaller_final_batch
    first = tf.TensorShape([batch_size if is_known else None])
    batch_shapes = [tf.TensorShape([]), *map(first.concatenate, shapes)]
    batches = (make_queue if is_known else tf.queue.PaddingFIFOQueue)(
      capacity,
      [tf.int32, *dtypes],
      batch_shapes,
      shared_name=shared_name,
      name="top_queue",
    )
    _fill_buckets(queues, parts, which_bucket, keep_input, num_threads)
    _make_batches(queues, batches, sizes, allow_smaller_final_batch)
    fullness = tf.cast(batches.size(), tf.float32) / capacity
    v1.summary.scalar(f"fraction_of_{capacity}_full", fullness)
    which, *found = batches.dequeue(name="dequeue_top")
    for part, shape in zip(found, batch_shapes[1:], strict=True):
      part.set_shape(shape)
  if len(found) == 1 and not isinstance(tensors, Mapping):
    return which, found[0]
  return which, _like(tensors, found)


def bucket_by_sequence_length(
  input_length: Any,
  tensors: Tensors,
  batch_size: Any,
  bucket_boundaries: list[int],
  num_threads: int = 1,
  capacity: int = 32,
  bucket_capacities: Sequence[int] | None = None,
  shapes: Any = None,
  dynamic_pad: bool = False,
  allow_smaller_final_batch: bool = False,
  keep_input: Any = True,
  shared_name: str | None = None,
  name: str | None = None,
) -> tuple[tf.Tensor, Any]:
  """Returns batches of sequences whose lengths are between two bounds.

  Args:
    input_length: the length of this element, an int32 scalar.
    tensors: one element: a list, or tensors by name.
    batch_size: of all buckets, or a list with that of each.
    bucket_boundaries: the lengths, increasing, at which a new bucket begins;
      there is one bucket more than these.
    num_threads: as of `bucket`, like all that follow.
    capacity: see there.
    bucket_capacities: see there.
    shapes: see there.
    dynamic_pad: see there.
    allow_smaller_final_batch: see there.
    keep_input: see there.
    shared_name: see there.
    name: see there.

  Returns:
    The lengths of the batch's sequences, and the batch in the structure of
    `tensors`. Under a name alone there is a list of the tensor, as in
    TensorFlow 1.15.

  Raises:
    TypeError: if the boundaries are no list of integers.
    ValueError: if there are none, or they do not increase.
  """
  if not isinstance(bucket_boundaries, (list, tuple)) or not all(
    isinstance(bound, int) for bound in bucket_boundaries
  ):
    raise TypeError(
      f"bucket_boundaries={bucket_boundaries!r} must be a list of integers."
    )
  pairs = itertools.pairwise(bucket_boundaries)
  if not bucket_boundaries or any(low >= high for low, high in pairs):
    raise ValueError(
      f"bucket_boundaries={bucket_boundaries!r} must be increasing numbers, "
      "one at least."
    )
  with tf.name_scope(name or "bucket_by_sequence_length"):
    length = tf.cast(input_length, tf.int32)
    is_beyond = tf.cast(length >= tf.constant(bucket_boundaries), tf.int32)
    which = tf.reduce_sum(is_beyond)
    if shapes is not None:
      shapes = [tf.TensorShape([]), *shapes]
    _, (lengths, *found) = bucket(
      [length, *_values(tensors)],
      which,
      batch_size,
      len(bucket_boundaries) + 1,
      num_threads,
      capacity,
      bucket_capacities,
      shapes,
      dynamic_pad,
      allow_smaller_final_batch,
      keep_input,
      shared_name,
    )
  if len(found) == 1 and isinstance(tensors, Mapping):
    return lengths, {name: found for name in tensors}
  return lengths, _like(tensors, found)


def _values(tensors: Tensors) -> list[Any]:
  if isinstance(tensors, Mapping):
    return [tensors[name] for name in sorted(tensors)]
  return list(tensors)


def _like(tensors: Tensors, found: list[tf.Tensor]) -> Any:
  if isinstance(tensors, Mapping):
    return dict(zip(sorted(tensors), found, strict=True))
  return found


def _of_each(given: Any, count: int, argument: str) -> list[Any]:
  """Returns what was given for all buckets, or each, as a list."""
  if not isinstance(given, (list, tuple)):
    return [given] * count
  if len(given) != count:
    raise ValueError(
      f"{argument} has {len(given)} values; there are {count} buckets."
    )
  return list(given)


def _check_shapes(shapes: list[tf.TensorShape], dynamic_pad: bool) -> None:
  for shape in shapes:
    if dynamic_pad and shape.rank is None:
      raise ValueError("the rank of a tensor is unknown; give `shapes`.")
    if not dynamic_pad and not shape.is_fully_defined():
      raise ValueError(
        f"a tensor is of the shape {shape}; give `shapes`, or let "
        "dynamic_pad=True fill it up."
      )


def _fill_buckets(
  queues: list[Any],
  parts: list[tf.Tensor],
  which: Any,
  keep: Any,
  num_threads: int,
) -> None:
  """Adds the queue runner that puts elements into buckets."""
  wanted = tf.convert_to_tensor(keep, tf.bool)

  def put(queue: Any) -> Any:
    return lambda: tf.group(queue.enqueue(parts))

  enqueued = [
    v1.cond(wanted & tf.equal(which, i), put(queue), tf.no_op)
    for i, queue in enumerate(queues)
  ]
  runner = v1.train.QueueRunner(
    queues[0],
    [tf.group(*enqueued, name="group_enqueues")] * num_threads,
    close_op=tf.group(*[queue.close() for queue in queues]),
    cancel_op=tf.group(
      *[queue.close(cancel_pending_enqueues=True) for queue in queues]
    ),
    queue_closed_exception_types=_CLOSED,
  )
  v1.train.add_queue_runner(runner)


def _make_batches(
  queues: list[Any], batches: Any, sizes: list[Any], smaller: bool
) -> None:
  """Adds the queue runner that takes batches from buckets."""
  enqueued = []
  for i, (queue, size) in enumerate(zip(queues, sizes, strict=True)):
    take = queue.dequeue_up_to if smaller else queue.dequeue_many
    found = take(size, name=f"read_bucket_{i}")
    found = found if isinstance(found, list) else [found]
    enqueued.append(
      batches.enqueue([tf.constant(i), *found], name=f"enqueue_from_bucket_{i}")
    )
  runner = v1.train.QueueRunner(
    batches,
    enqueued,
    close_op=batches.close(),
    cancel_op=batches.close(cancel_pending_enqueues=True),
    queue_closed_exception_types=_CLOSED,
  )
  v1.train.add_queue_runner(runner)
