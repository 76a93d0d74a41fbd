"""Names of tf.contrib.lookup."""

from typing import Any

from compat.contrib import absent

import tensorflow as tf

# `from ... import ABSENT` then asks the import system, which explains.
__path__: list[str] = []
__getattr__ = absent.getter(__name__)

KeyValueTensorInitializer = tf.lookup.KeyValueTensorInitializer
TextFileIndex = tf.lookup.TextFileIndex
TextFileInitializer = tf.lookup.TextFileInitializer
HashTable = tf.compat.v1.lookup.StaticHashTable


def TextFileIdTableInitializer(
  filename: Any, vocab_size: int | None = None, name: str | None = None
) -> tf.lookup.TextFileInitializer:
  """Returns an initializer that maps each line of a file to its number.

  Args:
    filename: the vocabulary, a word per line.
    vocab_size: the number of lines, if known.
    name: of the operation.
  """
  return tf.lookup.TextFileInitializer(
    filename,
    tf.string,
    tf.lookup.TextFileIndex.WHOLE_LINE,
    tf.int64,
    tf.lookup.TextFileIndex.LINE_NUMBER,
    vocab_size=vocab_size,
    name=name,
  )


def TextFileStringTableInitializer(
  filename: Any, vocab_size: int | None = None, name: str | None = None
) -> tf.lookup.TextFileInitializer:
  """Returns an initializer that maps each line's number to the line.

  Args:
    filename: the vocabulary, a word per line.
    vocab_size: the number of lines, if known.
    name: of the operation.
  """
  return tf.lookup.TextFileInitializer(
    filename,
    tf.int64,
    tf.lookup.TextFileIndex.LINE_NUMBER,
    tf.string,
    tf.lookup.TextFileIndex.WHOLE_LINE,
    vocab_size=vocab_size,
    name=name,
  )


def index_table_from_tensor(
  mapping: Any,
  num_oov_buckets: int = 0,
  default_value: int = -1,
  dtype: tf.DType = tf.string,
  name: str | None = None,
) -> Any:
  """Returns a table that maps each word to its place in `mapping`.

  Args:
    mapping: the words, a vector of strings or integers.
    num_oov_buckets: how many further indices unknown words are hashed to.
    default_value: the index of unknown words, without buckets.
    dtype: the type of the keys.
    name: of the table.

  Raises:
    ValueError: if the mapping is None, or the number of buckets negative.
  """
  if mapping is None:
    raise ValueError("mapping is None; give the words as a vector.")
  words = tf.convert_to_tensor(mapping)
  if words.dtype.is_integer:
    words = tf.cast(words, tf.int64)
  places = tf.range(tf.size(words, tf.int64), dtype=tf.int64)
  keys = tf.int64 if words.dtype == tf.int64 else dtype
  initializer = KeyValueTensorInitializer(words, places, keys, tf.int64)
  return _table(initializer, num_oov_buckets, default_value, dtype, name)


def index_table_from_file(
  vocabulary_file: Any = None,
  num_oov_buckets: int = 0,
  vocab_size: int | None = None,
  default_value: int = -1,
  name: str | None = None,
) -> Any:
  """Returns a table that maps each line of a file to its number.

  Args:
    vocabulary_file: a word per line.
    num_oov_buckets: how many further indices unknown words are hashed to.
    vocab_size: the number of lines, if known.
    default_value: the index of unknown words, without buckets.
    name: of the table.

  Raises:
    ValueError: if there is no file, or the number of buckets is negative.
  """
  if not vocabulary_file:
    raise ValueError("vocabulary_file is empty; give the file of the words.")
  initializer = TextFileIdTableInitializer(vocabulary_file, vocab_size)
  return _table(initializer, num_oov_buckets, default_value, tf.string, name)


def _table(
  initializer: Any, buckets: int, default: int, dtype: tf.DType, name: Any
) -> Any:
  if buckets < 0:
    raise ValueError(f"num_oov_buckets={buckets} must be at least 0.")
  if buckets:
    return tf.compat.v1.lookup.StaticVocabularyTable(
      initializer, buckets, lookup_key_dtype=dtype, name=name
    )
  return HashTable(initializer, default, name=name)


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
  words = tf.convert_to_tensor(mapping, tf.string)
  places = tf.range(tf.size(words, tf.int64), dtype=tf.int64)
  initializer = KeyValueTensorInitializer(places, words, tf.int64, tf.string)
  return HashTable(initializer, default_value, name=name)


def index_to_string_table_from_file(
  vocabulary_file: Any,
  vocab_size: int | None = None,
  default_value: str = "UNK",
  name: str | None = None,
) -> Any:
  """Returns a table that maps each line's number to the line.

  Args:
    vocabulary_file: a word per line.
    vocab_size: the number of lines, if known.
    default_value: the word of unknown numbers.
    name: of the table.

  Raises:
    ValueError: if there is no file.
  """
  if not vocabulary_file:
    raise ValueError("vocabulary_file is empty; give the file of the words.")
  initializer = TextFileStringTableInitializer(vocabulary_file, vocab_size)
  return HashTable(initializer, default_value, name=name)
