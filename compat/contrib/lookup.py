"""Names of tf.contrib.lookup.

TensorFlow has them all still, some under other names and most without a public
one; those that tf.contrib made of them are here.
"""

from typing import Any

from compat.contrib import absent
from compat.private.contrib import lookup as _private

import tensorflow as tf

# `from ... import ABSENT` then asks the import system, which explains.
__path__: list[str] = []
__getattr__ = absent.getter(__name__)

FastHashSpec = _private.FastHashSpec
HashTable = _private.HashTable
HasherSpec = _private.HasherSpec
IdTableWithHashBuckets = _private.IdTableWithHashBuckets
InitializableLookupTableBase = _private.InitializableLookupTableBase
KeyValueTensorInitializer = tf.lookup.KeyValueTensorInitializer
LookupInterface = _private.LookupInterface
MutableDenseHashTable = tf.lookup.experimental.DenseHashTable
MutableHashTable = tf.lookup.experimental.MutableHashTable
StrongHashSpec = _private.StrongHashSpec
TableInitializerBase = _private.TableInitializerBase
TextFileIdTableInitializer = _private.TextFileIdTableInitializer
TextFileIndex = tf.lookup.TextFileIndex
TextFileInitializer = tf.lookup.TextFileInitializer
TextFileStringTableInitializer = _private.TextFileStringTableInitializer
index_table_from_file = _private.index_table_from_file
index_to_string_table_from_file = _private.index_to_string_table_from_file


def index_table_from_tensor(
  mapping: Any,
  num_oov_buckets: int = 0,
  default_value: int = -1,
  hasher_spec: Any = FastHashSpec,
  dtype: tf.DType = tf.string,
  name: str | None = None,
) -> Any:
  """Returns a table that maps each word to its place in `mapping`.

  Args:
    mapping: the words, a vector of strings or integers.
    num_oov_buckets: how many further indices unknown words are hashed to.
    default_value: the index of unknown words, without buckets.
    hasher_spec: how they are hashed.
    dtype: the type of the keys.
    name: of the table.

  Raises:
    ValueError: if the mapping is None, or the number of buckets negative.
  """
  if mapping is None:
    raise ValueError("mapping is None; give the words as a vector.")
  return _private.index_table_from_tensor(
    mapping, num_oov_buckets, default_value, hasher_spec, dtype, name
  )


def index_to_string_table_from_tensor(
  mapping: Any, default_value: str = "UNK", name: str | None = None
) -> Any:
  """Returns a table that maps each place in `mapping` to the word there.

  Args:
    mapping: the words, a vector of strings.
    default_value: the word of unknown places.
    name: of the table.

  Raises:
    ValueError: if the mapping is None.
  """
  if mapping is None:
    raise ValueError("mapping is None; give the words as a vector.")
  return _private.index_to_string_table_from_tensor(
    mapping, default_value, name
  )


def string_to_index_table_from_tensor(
  mapping: Any,
  num_oov_buckets: int = 0,
  default_value: int = -1,
  hasher_spec: Any = FastHashSpec,
  name: str | None = None,
) -> Any:
  """As `index_table_from_tensor`, of strings.

  Args:
    mapping: the words, a vector of strings.
    num_oov_buckets: how many further indices unknown words are hashed to.
    default_value: the index of unknown words, without buckets.
    hasher_spec: how they are hashed.
    name: of the table.

  Returns:
    The table.
  """
  return index_table_from_tensor(
    mapping, num_oov_buckets, default_value, hasher_spec, name=name
  )


def string_to_index_table_from_file(
  vocabulary_file: Any = None,
  num_oov_buckets: int = 0,
  vocab_size: int | None = None,
  default_value: int = -1,
  hasher_spec: Any = FastHashSpec,
  name: str | None = None,
) -> Any:
  """As `index_table_from_file`, of strings.

  Args:
    vocabulary_file: a word per line.
    num_oov_buckets: how many further indices unknown words are hashed to.
    vocab_size: the number of lines, if known.
    default_value: the index of unknown words, without buckets.
    hasher_spec: how they are hashed.
    name: of the table.

  Returns:
    The table.
  """
  return index_table_from_file(
    vocabulary_file,
    num_oov_buckets,
    vocab_size,
    default_value,
    hasher_spec,
    name=name,
  )


def string_to_index(
  tensor: Any, mapping: Any, default_value: int = -1, name: str | None = None
) -> tf.Tensor:
  """Returns the place in `mapping` of each word of a tensor.

  tf.compat.v1.tables_initializer() has to have run.

  Args:
    tensor: words.
    mapping: the words, a vector of strings.
    default_value: the index of unknown words.
    name: of the table.
  """
  table = index_table_from_tensor(
    mapping, default_value=default_value, name=name
  )
  return table.lookup(tensor)


def index_to_string(
  tensor: Any,
  mapping: Any,
  default_value: str = "UNK",
  name: str | None = None,
) -> tf.Tensor:
  """Returns the word in `mapping` at each index of a tensor.

  tf.compat.v1.tables_initializer() has to have run.

  Args:
    tensor: indices, int64.
    mapping: the words, a vector of strings.
    default_value: the word of unknown indices.
    name: of the table.
  """
  table = index_to_string_table_from_tensor(mapping, default_value, name)
  return table.lookup(tensor)
