"""Whole batches: where a model_fn joins the examples of all slices.

A loss that compares the examples of a batch with each other, as a softmax over
the items of a batch does, is no sum of what slices can compute alone. So
model_fn says from where on it needs all examples. What comes before is computed
slice by slice, and what comes after once.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import TypeVar

import tensorflow as tf

Join = Callable[[tf.Tensor], tf.Tensor]
_Nest = TypeVar("_Nest")

_current: contextvars.ContextVar[Join | None] = contextvars.ContextVar(
  "join", default=None
)


@contextlib.contextmanager
def joined_by(join: Join | None) -> Iterator[None]:
  """Says what joins the tensors of slices inside of the block.

  Args:
    join: From a tensor of the first slice to that of the whole batch; None if
      model_fn sees the whole batch.

  Yields:
    None.
  """
  token = _current.set(join)
  try:
    yield
  finally:
    _current.reset(token)


def whole_batch(tensors: _Nest) -> _Nest:
  """Returns what tensors of a model_fn are in the whole batch.

  A model_fn that is sharded with micro-batches or replicas sees a slice of the
  batch. What it computes of the result of this function is there once, for the
  examples of all slices, and gradients go back from there to each slice:

      queries, items = toolbox.whole_batch((queries, items))
      logits = tf.matmul(queries, items, transpose_b=True)

  All slices have to get there before anything behind it begins, so that a
  pipeline runs all forward passes and then all backward passes, as GPipe does
  (Huang et al., 2019). That losses of pairs of examples need the embeddings of
  all replicas, and how gradients go back, is described for CLIP (Radford et
  al., 2021, arXiv:2103.00020) and, with slices that are computed one after
  another, for GradCache (Gao et al., 2021, arXiv:2101.06983).

  Args:
    tensors: A dense tensor with a row for each example on axis 0, of any dtype
      and shape behind that; or several, nested in dicts, lists and tuples.

  Returns:
    The same where model_fn sees the whole batch anyway: in a plain model_fn, in
    evaluation and prediction, and with stages or a model axis alone. Otherwise
    a tensor for each, with the rows of all slices in their order.

  Raises:
    TypeError: If something is no dense tensor.
    ValueError: If it is none of the graph that is sharded, or the batch is
      divided among processes by Horovod. When gradients are asked for: if it
      has no row for each example on axis 0.
  """
  join = _current.get()
  for tensor in tf.nest.flatten(tensors):
    if not isinstance(tensor, tf.Tensor):
      raise TypeError(
        f"whole_batch got {tensor!r}, a {type(tensor).__name__}; give it dense "
        "tensors with a row for each example"
      )
  return tensors if join is None else tf.nest.map_structure(join, tensors)
