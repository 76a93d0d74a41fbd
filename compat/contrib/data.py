"""Names of tf.contrib.data."""

from collections.abc import Callable, Mapping
from typing import Any

from compat.contrib import absent

import tensorflow as tf

# `from ... import ABSENT` then asks the import system, which explains.
__path__: list[str] = []
__getattr__ = absent.getter(__name__)

AUTOTUNE = tf.data.experimental.AUTOTUNE
Counter = tf.compat.v1.data.experimental.Counter
CsvDataset = tf.compat.v1.data.experimental.CsvDataset
Optional = tf.experimental.Optional
RandomDataset = tf.compat.v1.data.experimental.RandomDataset
Reducer = tf.data.experimental.Reducer
SqlDataset = tf.compat.v1.data.experimental.SqlDataset
TFRecordWriter = tf.data.experimental.TFRecordWriter
bucket_by_sequence_length = tf.data.experimental.bucket_by_sequence_length
choose_from_datasets = tf.compat.v1.data.experimental.choose_from_datasets
copy_to_device = tf.data.experimental.copy_to_device
dense_to_sparse_batch = tf.data.experimental.dense_to_sparse_batch
enumerate_dataset = tf.data.experimental.enumerate_dataset
get_next_as_optional = tf.data.experimental.get_next_as_optional
get_single_element = tf.data.experimental.get_single_element
group_by_reducer = tf.data.experimental.group_by_reducer
group_by_window = tf.data.experimental.group_by_window
ignore_errors = tf.data.experimental.ignore_errors
make_batched_features_dataset = (
  tf.compat.v1.data.experimental.make_batched_features_dataset
)
make_csv_dataset = tf.compat.v1.data.experimental.make_csv_dataset
make_saveable_from_iterator = tf.data.experimental.make_saveable_from_iterator
map_and_batch = tf.data.experimental.map_and_batch
map_and_batch_with_legacy_function = (
  tf.compat.v1.data.experimental.map_and_batch_with_legacy_function
)
parallel_interleave = tf.data.experimental.parallel_interleave
parse_example_dataset = tf.data.experimental.parse_example_dataset
prefetch_to_device = tf.data.experimental.prefetch_to_device
rejection_resample = tf.data.experimental.rejection_resample
sample_from_datasets = tf.compat.v1.data.experimental.sample_from_datasets
scan = tf.data.experimental.scan
shuffle_and_repeat = tf.data.experimental.shuffle_and_repeat
take_while = tf.data.experimental.take_while
unbatch = tf.data.experimental.unbatch
unique = tf.data.experimental.unique


def batch_and_drop_remainder(
  batch_size: int,
) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
  """Returns a transformation into full batches only, for Dataset.apply.

  Args:
    batch_size: how many consecutive elements make a batch.
  """
  return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(
  batch_size: int, padded_shapes: Any, padding_values: Any = None
) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
  """Returns a transformation into full padded batches, for Dataset.apply.

  Args:
    batch_size: how many consecutive elements make a batch.
    padded_shapes: of an element, as Dataset.padded_batch takes them.
    padding_values: what is filled in; zeros and empty strings by default.
  """
  return lambda dataset: dataset.padded_batch(
    batch_size, padded_shapes, padding_values, drop_remainder=True
  )


def sloppy_interleave(
  map_func: Callable[..., tf.data.Dataset],
  cycle_length: int,
  block_length: int = 1,
) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
  """Returns a transformation for Dataset.apply that maps and mixes.

  An element not ready is passed over, so the order is not always the same.

  Args:
    map_func: makes a dataset of an element.
    cycle_length: how many datasets are read at a time.
    block_length: how many elements are taken of each in turn.
  """
  interleave: Callable[[tf.data.Dataset], tf.data.Dataset] = (
    parallel_interleave(map_func, cycle_length, block_length, sloppy=True)
  )
  return interleave


def sliding_window_batch(
  window_size: int,
  stride: int | None = None,
  window_shift: int | None = None,
  window_stride: int = 1,
) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
  """Returns a transformation into overlapping batches, for Dataset.apply.

  Args:
    window_size: how many elements make a batch.
    stride: another name of window_shift.
    window_shift: how far each batch begins after the one before; 1 by default.
    window_stride: how far apart the elements of a batch are.

  Raises:
    ValueError: if both stride and window_shift are given.
  """
  if stride is not None and window_shift is not None:
    raise ValueError(
      f"stride={stride} and window_shift={window_shift} are two names of one "
      "argument; give window_shift only."
    )
  shift = next((n for n in (stride, window_shift) if n is not None), 1)

  def batch(*parts: Any) -> tf.data.Dataset:
    batches = tf.nest.map_structure(
      lambda window: window.batch(window_size, drop_remainder=True),
      parts[0] if len(parts) == 1 else parts,
    )
    if isinstance(batches, tf.data.Dataset):
      return batches
    return tf.data.Dataset.zip(batches)

  return lambda dataset: dataset.window(
    window_size, shift, window_stride, drop_remainder=True
  ).flat_map(batch)


def assert_element_shape(
  expected_shapes: Any,
) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
  """Returns a transformation that checks shapes, for Dataset.apply.

  The shapes of the dataset that it makes are known as far as they are given;
  another one is a ValueError, or at run time an InvalidArgumentError.

  Args:
    expected_shapes: a shape for each component, in an element's structure.
  """

  def apply(dataset: tf.data.Dataset) -> tf.data.Dataset:
    def check(*parts: Any) -> Any:
      element = parts[0] if len(parts) == 1 else parts
      return _with_shapes(element, expected_shapes)

    return dataset.map(check)

  return apply


def _with_shapes(element: Any, shapes: Any) -> Any:
  if isinstance(element, Mapping):
    return {key: _with_shapes(element[key], shapes[key]) for key in element}
  if isinstance(element, tuple):
    pairs = zip(element, shapes, strict=True)
    return tuple(_with_shapes(part, shape) for part, shape in pairs)
  return tf.ensure_shape(element, shapes)


def reduce_dataset(
  dataset: tf.data.Dataset, reducer: tf.data.experimental.Reducer
) -> Any:
  """Returns the state of a reducer after a whole dataset.

  Its `finalize_func` is not called, as in TensorFlow 1.15.

  Args:
    dataset: what is reduced.
    reducer: gets 0 as the key.
  """
  state = reducer.init_func(tf.constant(0, tf.int64))
  return dataset.reduce(state, reducer.reduce_func)


def read_batch_features(
  file_pattern: Any,
  batch_size: int,
  features: Mapping[str, Any],
  reader: Any = tf.compat.v1.data.TFRecordDataset,
  reader_args: Any = None,
  randomize_input: bool = True,
  num_epochs: int | None = None,
  capacity: int = 10000,
) -> dict[str, Any]:
  """Returns batches of parsed tf.train.Example records.

  Args:
    file_pattern: the files, as tf.io.gfile.glob takes them.
    batch_size: how many records make a batch.
    features: as tf.io.parse_example takes them.
    reader: makes a dataset of records of file names.
    reader_args: further arguments of the reader.
    randomize_input: whether records are shuffled.
    num_epochs: how often all records are read; None for ever.
    capacity: of how many records a shuffled one is taken.

  Returns:
    Tensors by feature.
  """
  dataset = make_batched_features_dataset(
    file_pattern,
    batch_size,
    features,
    reader=reader,
    reader_args=reader_args,
    shuffle=randomize_input,
    num_epochs=num_epochs,
    shuffle_buffer_size=capacity,
  )
  iterator = tf.compat.v1.data.make_one_shot_iterator(dataset)
  batch: dict[str, Any] = iterator.get_next()
  return batch
