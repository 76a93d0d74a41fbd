"""tf.contrib.learn.io: arrays, pandas and files of records as input.

The readers of files stand on queues, as they did. The two whose queue is shared
among workers are refused: `tf.data.Dataset.shard` gives each worker its part.
"""

from compat.contrib import absent
from compat.contrib.learn.io.arrays import (
  extract_dask_data,
  extract_dask_labels,
  extract_pandas_data,
  extract_pandas_labels,
  extract_pandas_matrix,
  generator_input_fn,
  numpy_input_fn,
  pandas_input_fn,
)
from compat.contrib.learn.io.records import (
  queue_parsed_features,
  read_batch_examples,
  read_batch_features,
  read_batch_record_features,
  read_keyed_batch_examples,
  read_keyed_batch_features,
)

__path__: list[str] = __path__
__getattr__ = absent.getter(__name__)

__all__ = [
  "extract_dask_data",
  "extract_dask_labels",
  "extract_pandas_data",
  "extract_pandas_labels",
  "extract_pandas_matrix",
  "generator_input_fn",
  "numpy_input_fn",
  "pandas_input_fn",
  "queue_parsed_features",
  "read_batch_examples",
  "read_batch_features",
  "read_batch_record_features",
  "read_keyed_batch_examples",
  "read_keyed_batch_features",
]
