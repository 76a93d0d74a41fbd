"""Batches of records of files, through queues."""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

_train = tf.compat.v1.train
ParseFn = Callable[[Any], Any]


def _check(
  batch_size: Any,
  queue_capacity: int,
  num_threads: int,
  read_batch_size: int,
  num_epochs: int | None,
) -> None:
  if queue_capacity is None or queue_capacity <= 0:
    raise ValueError(f"queue_capacity={queue_capacity} must be positive.")
  if isinstance(batch_size, int) and not 0 < batch_size <= queue_capacity:
    raise ValueError(
      f"batch_size={batch_size} must be from 1 to "
      f"queue_capacity={queue_capacity}."
    )
  for name, value in (
    ("num_threads", num_threads),
    ("read_batch_size", read_batch_size),
    ("num_epochs", 1 if num_epochs is None else num_epochs),
  ):
    if value is None or value <= 0:
      raise ValueError(f"{name}={value} must be positive.")


def _files(file_pattern: Any, randomize: bool) -> list[str]:
  """The files of a pattern, or of several."""
  if isinstance(file_pattern, list):
    if not file_pattern:
      raise ValueError("file_pattern=[] names no files.")
    found = [name for one in file_pattern for name in tf.io.gfile.glob(one)]
  else:
    found = list(tf.io.gfile.glob(file_pattern))
  if not found:
    raise ValueError(f"file_pattern={file_pattern!r} matches no files.")
  return found if randomize else sorted(found)


def _keyed_records(
  names: Any, reader: Callable[[], Any], read_batch_size: int
) -> tuple[Any, Any]:
  one = reader()
  if read_batch_size > 1:
    pair: tuple[Any, Any] = one.read_up_to(names, read_batch_size)
    return pair
  key, record = one.read(names)
  return key, record


def _parsed(records: Any, parse_fn: ParseFn | None, several: bool) -> Any:
  if parse_fn is None:
    return records
  if not several:
    return parse_fn(records)
  raise ValueError(
    "parse_fn takes one record; leave it out, or give read_batch_size=1."
  )


def read_keyed_batch_examples(
  file_pattern: Any,
  batch_size: Any,
  reader: Callable[[], Any],
  randomize_input: bool = True,
  num_epochs: int | None = None,
  queue_capacity: int = 10000,
  num_threads: int = 1,
  read_batch_size: int = 1,
  parse_fn: ParseFn | None = None,
  name: str | None = None,
  seed: int | None = None,
) -> tuple[Any, Any]:
  """Returns batches of records, and where they come from.

  Args:
    file_pattern: files, or a pattern of their names.
    batch_size: how many records make a batch.
    reader: makes a reader, such as tf.compat.v1.TFRecordReader.
    randomize_input: whether files and records are shuffled.
    num_epochs: how often files are read; None is without end. It is counted in
      a local variable.
    queue_capacity: how many records are held.
    num_threads: how many readers.
    read_batch_size: how many records are read at a time.
    parse_fn: makes tensors of one record.
    name: of the ops.
    seed: of the order.

  Returns:
    The keys [batch_size], and the records [batch_size] or what parse_fn makes.

  Raises:
    ValueError: if a number is not positive, or there are no files.
  """
  _check(batch_size, queue_capacity, num_threads, read_batch_size, num_epochs)
  with tf.compat.v1.name_scope(name, "read_batch_examples") as at:
    names = _train.string_input_producer(
      tf.constant(_files(file_pattern, randomize_input), name="input"),
      shuffle=randomize_input,
      num_epochs=num_epochs,
      name="file_name_queue",
      seed=seed,
    )
    several = read_batch_size > 1
    examples = []
    for _ in range(num_threads):
      key, records = _keyed_records(names, reader, read_batch_size)
      examples.append([key, _parsed(records, parse_fn, several)])
    given: dict[str, Any] = dict(
      capacity=queue_capacity,
      enqueue_many=several,
      allow_smaller_final_batch=num_epochs is not None,
      name=at,
    )
    structure = examples[0]
    examples = [tf.nest.flatten(pair) for pair in examples]

    if not randomize_input:
      batches = _train.batch_join(examples, batch_size, **given)
    else:
      left = queue_capacity - (1 if several else num_threads) * batch_size
      batches = _train.shuffle_batch_join(
        examples,
        batch_size,
        min_after_dequeue=max(left, queue_capacity // 4),
        seed=seed,
        **given,
      )
    key, value = tf.nest.pack_sequence_as(structure, batches)
    return key, value


def read_batch_examples(
  file_pattern: Any,
  batch_size: Any,
  reader: Callable[[], Any],
  randomize_input: bool = True,
  num_epochs: int | None = None,
  queue_capacity: int = 10000,
  num_threads: int = 1,
  read_batch_size: int = 1,
  parse_fn: ParseFn | None = None,
  name: str | None = None,
  seed: int | None = None,
) -> Any:
  """Returns batches of records; see read_keyed_batch_examples."""
  _, examples = read_keyed_batch_examples(
    file_pattern,
    batch_size,
    reader,
    randomize_input,
    num_epochs,
    queue_capacity,
    num_threads,
    read_batch_size,
    parse_fn,
    name,
    seed,
  )
  return examples


def read_keyed_batch_features(
  file_pattern: Any,
  batch_size: Any,
  features: Mapping[str, Any],
  reader: Callable[[], Any],
  randomize_input: bool = True,
  num_epochs: int | None = None,
  queue_capacity: int = 10000,
  reader_num_threads: int = 1,
  feature_queue_capacity: int = 100,
  num_enqueue_threads: int = 2,
  parse_fn: ParseFn | None = None,
  name: str | None = None,
  read_batch_size: int | None = None,
) -> tuple[Any, Any]:
  """Returns batches of parsed tf.Examples, and where they come from.

  Args:
    file_pattern: files, or a pattern of their names.
    batch_size: how many examples make a batch.
    features: as tf.io.parse_example takes them.
    reader: makes a reader.
    randomize_input: whether files and examples are shuffled.
    num_epochs: how often files are read; None is without end.
    queue_capacity: how many records are held.
    reader_num_threads: how many readers.
    feature_queue_capacity: how many parsed batches are held.
    num_enqueue_threads: how many threads parse.
    parse_fn: changes one record before it is parsed.
    name: of the ops.
    read_batch_size: how many records are read at a time.

  Returns:
    The keys [batch_size], and tensors by name.
  """
  with tf.compat.v1.name_scope(name, "read_batch_features") as at:
    keys, examples = read_keyed_batch_examples(
      file_pattern,
      batch_size,
      reader,
      randomize_input=randomize_input,
      num_epochs=num_epochs,
      queue_capacity=queue_capacity,
      num_threads=reader_num_threads,
      read_batch_size=read_batch_size or 1,
      parse_fn=parse_fn,
      name=at,
    )
    parsed = tf.io.parse_example(examples, dict(features))
    keys, found = queue_parsed_features(
      parsed,
      keys,
      feature_queue_capacity,
      num_enqueue_threads,
      name=at,
    )
    return keys, found


def read_batch_features(
  file_pattern: Any,
  batch_size: Any,
  features: Mapping[str, Any],
  reader: Callable[[], Any],
  randomize_input: bool = True,
  num_epochs: int | None = None,
  queue_capacity: int = 10000,
  feature_queue_capacity: int = 100,
  reader_num_threads: int = 1,
  num_enqueue_threads: int = 2,
  parse_fn: ParseFn | None = None,
  name: str | None = None,
  read_batch_size: int | None = None,
) -> Any:
  """Returns batches of parsed tf.Examples; see read_keyed_batch_features."""
  _, found = read_keyed_batch_features(
    file_pattern,
    batch_size,
    features,
    reader,
    randomize_input=randomize_input,
    num_epochs=num_epochs,
    queue_capacity=queue_capacity,
    reader_num_threads=reader_num_threads,
    feature_queue_capacity=feature_queue_capacity,
    num_enqueue_threads=num_enqueue_threads,
    parse_fn=parse_fn,
    name=name,
    read_batch_size=read_batch_size,
  )
  return found


def read_batch_record_features(
  file_pattern: Any,
  batch_size: Any,
  features: Mapping[str, Any],
  randomize_input: bool = True,
  num_epochs: int | None = None,
  queue_capacity: int = 10000,
  reader_num_threads: int = 1,
  name: str | None = "dequeue_record_examples",
) -> Any:
  """Returns batches of parsed tf.Examples of TFRecord files.

  See read_keyed_batch_features.
  """
  return read_batch_features(
    file_pattern,
    batch_size,
    features,
    tf.compat.v1.TFRecordReader,
    randomize_input=randomize_input,
    num_epochs=num_epochs,
    queue_capacity=queue_capacity,
    reader_num_threads=reader_num_threads,
    name=name,
  )


def queue_parsed_features(
  parsed_features: Mapping[str, Any],
  keys: Any = None,
  feature_queue_capacity: int = 100,
  num_enqueue_threads: int = 2,
  name: str | None = None,
) -> Any:
  """Puts parsed tensors into a queue, so that parsing runs ahead.

  Args:
    parsed_features: tensors and sparse tensors by name.
    keys: where they come from, or None.
    feature_queue_capacity: how many batches are held.
    num_enqueue_threads: how many threads fill the queue.
    name: of the ops.

  Returns:
    The keys and the tensors by name, or these alone without keys.
  """
  held: dict[str, Any] = dict(parsed_features)
  given = [*held.values(), *([] if keys is None else [keys])]
  with tf.compat.v1.name_scope(name, "queue_parsed_features", given):
    flat = tf.nest.flatten([held, keys], expand_composites=True)
    flat = [one for one in flat if one is not None]
    queue = tf.queue.FIFOQueue(
      feature_queue_capacity, [tensor.dtype for tensor in flat]
    )
    fraction = tf.cast(queue.size(), tf.float32) / feature_queue_capacity
    tf.compat.v1.summary.scalar(
      f"queue/parsed_features/{queue.name}/fraction_of_{feature_queue_capacity}"
      "_full",
      fraction,
    )
    _train.add_queue_runner(
      _train.QueueRunner(
        queue,
        [queue.enqueue(flat) for _ in range(num_enqueue_threads)],
        queue_closed_exception_types=(
          tf.errors.OutOfRangeError,
          tf.errors.CancelledError,
        ),
      )
    )
    taken = queue.dequeue()
    taken = list(taken) if isinstance(taken, list | tuple) else [taken]
    for after, before in zip(taken, flat, strict=True):
      after.set_shape(before.shape)
    if keys is None:
      return tf.nest.pack_sequence_as(held, taken, expand_composites=True)
    found, keys = tf.nest.pack_sequence_as(
      [held, keys], taken, expand_composites=True
    )
    return keys, found
