"""Tables of tf.contrib.lookup."""

import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.contrib import lookup

_WORDS = ["red", "green", "blue"]
_ASKED = np.array([["blue", "red"], ["mauve", "green"]])


def _file(text):
  handle, path = tempfile.mkstemp()
  with os.fdopen(handle, "w") as file:
    file.write(text)
  return path


def _asked():
  return tf.placeholder_with_default(_ASKED, [None, 2])


def _numbers():
  return tf.placeholder_with_default(np.array([2, 7, 0]), [3])


def of_tensors():
  words = tf.constant(_WORDS)
  buckets = lookup.index_table_from_tensor(words, 3)
  plain = lookup.index_table_from_tensor(words, default_value=9, name="named")
  strong = lookup.index_table_from_tensor(
    words, 5, hasher_spec=lookup.StrongHashSpec([3, 4])
  )
  back = lookup.index_to_string_table_from_tensor(words, "none")
  return {
    "buckets": buckets.lookup(_asked()),
    "size": buckets.size(),
    "plain": plain.lookup(_asked()),
    "strong": strong.lookup(_asked()),
    "back": back.lookup(_numbers()),
  }


def of_numbers():
  table = lookup.index_table_from_tensor(
    np.array([10, 7, 2]), 4, dtype=tf.int64
  )
  return {"found": table.lookup(_numbers())}


def of_files():
  path = _file("\n".join(_WORDS) + "\n")
  columns = _file("1 red\n5 green\n6 blue\n")
  buckets = lookup.index_table_from_file(path, 2, 3)
  plain = lookup.index_table_from_file(path, vocab_size=2)
  by_column = lookup.index_table_from_file(
    columns, key_column_index=1, value_column_index=0, delimiter=" "
  )
  back = lookup.index_to_string_table_from_file(path, default_value="none")
  back_by_column = lookup.index_to_string_table_from_file(
    columns, key_column_index=0, value_column_index=1, delimiter=" "
  )
  return {
    "buckets": buckets.lookup(_asked()),
    "plain": plain.lookup(_asked()),
    "by_column": by_column.lookup(_asked()),
    "back": back.lookup(_numbers()),
    "back_by_column": back_by_column.lookup(_numbers() + 4),
  }


def sparse():
  table = lookup.index_table_from_tensor(_WORDS, default_value=5)
  words = tf.SparseTensor([[0, 1], [2, 0]], ["blue", "x"], [3, 2])
  return {"found": table.lookup(words)}


def hash_table():
  table = lookup.HashTable(
    lookup.KeyValueTensorInitializer(_WORDS, [1.5, 2.5, 3.5]), -1.0, "shared"
  )
  assert table.init is table.initializer
  other = lookup.HashTable(
    lookup.TextFileInitializer(
      _file("1,a\n2,b\n"), tf.int64, 0, tf.string, 1, delimiter=","
    ),
    "none",
    name="of_file",
  )
  ids = lookup.HashTable(
    lookup.TextFileIdTableInitializer(_file("x\nred\n"), vocab_size=2), -7
  )
  words = lookup.HashTable(
    lookup.TextFileStringTableInitializer(_file("x\nred\n")), "none"
  )
  return {
    "found": table.lookup(_asked()),
    "default": table.default_value,
    "kinds": "%s %s" % (table.key_dtype.name, table.value_dtype.name),
    "file": other.lookup(_numbers()),
    "ids": ids.lookup(_asked()),
    "words": words.lookup(_numbers()),
    "size": table.size(),
  }


def id_table():
  plain = lookup.IdTableWithHashBuckets(None, 6)
  table = lookup.HashTable(
    lookup.KeyValueTensorInitializer(_WORDS, np.array([0, 1, 2])), -1
  )
  buckets = lookup.IdTableWithHashBuckets(
    table, 4, lookup.HasherSpec("stronghash", [1, 2]), "named"
  )
  numbers = lookup.IdTableWithHashBuckets(None, 6, key_dtype=tf.int64)
  return {
    "plain": plain.lookup(_asked()),
    "buckets": buckets.lookup(_asked()),
    "size": buckets.size(),
    "numbers": numbers.lookup(_numbers()),
    "fast": lookup.FastHashSpec.hasher,
  }


def deprecated():
  words = tf.constant(_WORDS)
  return {
    "indices": lookup.string_to_index(_asked(), words, 8),
    "words": lookup.index_to_string(_numbers(), words, "none"),
    "table": lookup.string_to_index_table_from_tensor(_WORDS, 2).lookup(
      _asked()
    ),
    "file": lookup.string_to_index_table_from_file(
      _file("red\nblue"), default_value=5
    ).lookup(_asked()),
  }


def mutable():
  table = lookup.MutableHashTable(tf.string, tf.int64, -1)
  dense = lookup.MutableDenseHashTable(
    tf.int64, tf.float32, [-1.0, -2.0], empty_key=-5, deleted_key=-6
  )
  step = tf.train.get_or_create_global_step()
  rows = tf.constant([[1.0, 2.0], [3.0, 4.0]])
  train_op = tf.group(
    table.insert(tf.constant(["red", "blue"]), tf.stack([step, step + 5])),
    dense.insert(tf.stack([step, step + 2]), rows),
  )
  with tf.control_dependencies([train_op]):
    train_op = step.assign_add(1).op
  saver = tf.train.Saver()
  operations = tf.get_default_graph().get_operations()
  (save,) = [one for one in operations if one.type == "SaveV2"]
  saved = b" ".join(tf.get_static_value(save.inputs[1])).decode()
  keys, values = table.export()
  order = tf.argsort(values)
  return {
    "saved": saved,
    "saver": saver.saver_def.restore_op_name,
    "size": table.size(),
    "found": table.lookup(_asked()),
    "dense": dense.lookup(_numbers()),
    "dense_size": dense.size(),
    "keys": tf.gather(keys, order),
    "values": tf.gather(values, order),
  }, train_op
