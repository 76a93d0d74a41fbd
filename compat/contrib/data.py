"""Names of tf.contrib.data."""

from collections.abc import Callable

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
