"""Contents of checkpoints, and initial values from them, in another order."""

from collections.abc import Mapping
from typing import Any

from compat.private.contrib.framework import load_and_remap_matrix_initializer

import tensorflow as tf


def load_checkpoint(filepattern: str) -> Any:
  """Returns a reader of a checkpoint, or of the newest one in a folder."""
  return tf.train.load_checkpoint(filepattern)


def load_variable(checkpoint_dir: str, name: str) -> Any:
  """Returns a variable of a checkpoint, or of the newest one in a folder."""
  return tf.train.load_variable(checkpoint_dir, name)


def list_variables(checkpoint_dir: str) -> list[tuple[str, list[int]]]:
  """Returns names and shapes of what a checkpoint, or the newest one, has."""
  found: list[tuple[str, list[int]]] = tf.train.list_variables(checkpoint_dir)
  return found


def init_from_checkpoint(
  checkpoint_dir: str, assignment_map: Mapping[str, Any]
) -> None:
  """Makes variables start from a checkpoint.

  Args:
    checkpoint_dir: its path, or a folder with it.
    assignment_map: variables, or names or scopes of them, by the name or scope
      in the checkpoint.
  """
  tf.compat.v1.train.init_from_checkpoint(checkpoint_dir, assignment_map)


def load_linear_multiclass_bias_initializer(
  ckpt_path: str,
  bias_tensor_name: str,
  new_class_vocab_size: int,
  old_class_vocab_file: str,
  new_class_vocab_file: str,
  num_class_oov_buckets: int = 0,
  initializer: Any = None,
  max_rows_in_memory: int = -1,
) -> Any:
  """Returns initial values for a bias of shape [classes, 1].

  Args:
    ckpt_path: of the checkpoint.
    bias_tensor_name: of the bias in it.
    new_class_vocab_size: how many classes of the new file to take.
    old_class_vocab_file: the classes of the checkpoint, one a line.
    new_class_vocab_file: the classes of the variable, one a line.
    num_class_oov_buckets: how many rows follow for classes in no file.
    initializer: of rows that the checkpoint has not; zeros by default.
    max_rows_in_memory: how many rows to read at once; -1 for all.
  """
  return load_and_remap_matrix_initializer(
    ckpt_path,
    bias_tensor_name,
    new_class_vocab_size,
    1,
    old_row_vocab_file=old_class_vocab_file,
    new_row_vocab_file=new_class_vocab_file,
    num_row_oov_buckets=num_class_oov_buckets,
    initializer=initializer,
    max_rows_in_memory=max_rows_in_memory,
  )


def load_variable_slot_initializer(
  ckpt_path: str,
  old_tensor_name: str,
  primary_partition_info: Any,
  new_row_vocab_size: int,
  new_col_vocab_size: int,
  old_row_vocab_file: str | None = None,
  new_row_vocab_file: str | None = None,
  old_col_vocab_file: str | None = None,
  new_col_vocab_file: str | None = None,
  num_row_oov_buckets: int = 0,
  num_col_oov_buckets: int = 0,
  initializer: Any = None,
  max_rows_in_memory: int = -1,
) -> Any:
  """Returns initial values for an optimizer's slot of a partitioned variable.

  Args:
    ckpt_path: of the checkpoint.
    old_tensor_name: of the slot in it, a matrix.
    primary_partition_info: which part of the variable the slot belongs to; an
      optimizer does not say so when it makes the slot.
    new_row_vocab_size: how many rows of the new file to take.
    new_col_vocab_size: how many columns of the new file to take.
    old_row_vocab_file: what the checkpoint's rows are, one a line; None if the
      rows stay as they are.
    new_row_vocab_file: what the slot's rows are.
    old_col_vocab_file: what the checkpoint's columns are; None if they stay.
    new_col_vocab_file: what the slot's columns are.
    num_row_oov_buckets: how many rows follow for what is in no file.
    num_col_oov_buckets: how many columns follow.
    initializer: of what the checkpoint has not; zeros by default.
    max_rows_in_memory: how many rows to read at once; -1 for all.
  """
  initialize = load_and_remap_matrix_initializer(
    ckpt_path,
    old_tensor_name,
    new_row_vocab_size,
    new_col_vocab_size,
    old_row_vocab_file=old_row_vocab_file,
    new_row_vocab_file=new_row_vocab_file,
    old_col_vocab_file=old_col_vocab_file,
    new_col_vocab_file=new_col_vocab_file,
    num_row_oov_buckets=num_row_oov_buckets,
    num_col_oov_buckets=num_col_oov_buckets,
    initializer=initializer,
    max_rows_in_memory=max_rows_in_memory,
  )

  def of_part(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
    del partition_info
    kwargs = {} if dtype is None else {"dtype": dtype}
    return initialize(shape, partition_info=primary_partition_info, **kwargs)

  return of_part
