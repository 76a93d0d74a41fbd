"""Feeds: the tensors of a program that a hook may feed.

All readers of a tensor read the value that is fed for it. So a constant that
the program has made for itself, such as a learning rate, is there once, and is
sent; a copy would keep the old value. An op that has copies is not fed.
"""

import re

from compat.private import graph_reads
from estimator_mp.graph import traversal

import tensorflow as tf


def can_be_copied(op: tf.Operation) -> bool:
  """Whether an op is a constant that the program has not made for itself.

  That is a number that an op was given, which TensorFlow names after the op and
  its argument ("mul/y"); a part of a gradient; or a vector or more that is
  named after the function that made it ("zeros", "Const_1").

  Args:
    op: Any op.
  """
  if op.type != "Const" or op.control_inputs:
    return False
  if graph_reads.differentiated(op) is not None:
    return True
  scope, _, name = op.name.rpartition("/")
  if any(reader.name == scope for reader in traversal.consumers(op)):
    return True
  maker = re.sub(r"_\d+$", "", name)
  is_unnamed = maker in ("Const", "Shape") or hasattr(tf, maker)
  return is_unnamed and op.outputs[0].shape.rank != 0


def prevent_feeding(op: tf.Operation) -> None:
  """Lets sessions refuse to feed an op's outputs: it has copies.

  Args:
    op: The op.
  """
  for tensor in op.outputs:
    op.graph.prevent_feeding(tensor)
