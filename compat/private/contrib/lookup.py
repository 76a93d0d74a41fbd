"""Tables of tf.contrib.lookup that TensorFlow keeps without a public name.

Tested on TensorFlow 2.15.1 and 2.21.0: `lookup_ops` has most of what
tf.contrib.lookup had, feature columns use it.
"""

from typing import Any

from tensorflow.python.ops import lookup_ops

FastHashSpec = lookup_ops.FastHashSpec
HasherSpec = lookup_ops.HasherSpec
IdTableWithHashBuckets = lookup_ops.IdTableWithHashBuckets
InitializableLookupTableBase = lookup_ops.InitializableLookupTableBase
LookupInterface = lookup_ops.LookupInterface
StrongHashSpec = lookup_ops.StrongHashSpec
TableInitializerBase = lookup_ops.TableInitializerBase
TextFileIdTableInitializer = lookup_ops.TextFileIdTableInitializer
TextFileStringTableInitializer = lookup_ops.TextFileStringTableInitializer
index_table_from_file = lookup_ops.index_table_from_file
index_table_from_tensor = lookup_ops.index_table_from_tensor
index_to_string_table_from_file = lookup_ops.index_to_string_table_from_file
index_to_string_table_from_tensor = lookup_ops.index_to_string_table_from_tensor

_Table: Any = lookup_ops.StaticHashTableV1


class HashTable(_Table):
  """A table that an initializer fills, and that does not change then."""

  def __init__(
    self,
    initializer: Any,
    default_value: Any,
    shared_name: str | None = None,
    name: str | None = None,
  ):
    """Makes the table; tf.compat.v1.tables_initializer() fills it.

    Args:
      initializer: what fills it.
      default_value: of keys that it has not.
      shared_name: under which sessions on one server share the table.
      name: of the operation.
    """
    self._given_shared_name = shared_name
    super().__init__(initializer, default_value, name)

  @property
  def init(self) -> Any:
    """The operation that fills the table."""
    return self.initializer

  def _create_resource(self) -> Any:
    if self._given_shared_name is not None:
      self._shared_name = self._given_shared_name
    return super()._create_resource()
