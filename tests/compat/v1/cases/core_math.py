"""Functions of `tf` with arguments that were deprecated, and their kin."""

import numpy as np
import tensorflow as tf

_R = np.random.RandomState(6)
_X = _R.normal(size=(3, 4)).astype(np.float32)


def _x():
  return tf.placeholder_with_default(_X, [None, 4])


def reductions():
  x = _x()
  return {
    "sum": tf.reduce_sum(x, 1, True),
    "mean": tf.reduce_mean(x, reduction_indices=[1], keep_dims=True),
    "max": tf.reduce_max(x, axis=0, keepdims=True),
    "min": tf.reduce_min(x, [0, 1]),
    "prod": tf.reduce_prod(x, reduction_indices=0),
    "lse": tf.reduce_logsumexp(x, keep_dims=True),
    "any": tf.reduce_any(x > 0, reduction_indices=1),
    "all": tf.reduce_all(x > -3, 1, keep_dims=True),
    "nonzero": tf.count_nonzero(x > 0, 1, keep_dims=True),
    "norm": tf.norm(x, axis=1, keep_dims=True),
    "std": tf.math.reduce_std(x, 1),
    "euclidean": tf.math.reduce_euclidean_norm(x, 1),
  }


def arguments_of_old():
  x = _x()
  return {
    "argmax": tf.argmax(x, dimension=1),
    "argmin": tf.argmin(x, 0),
    "arg_max": tf.arg_max(x, 1),
    "expand": tf.expand_dims(x, dim=1),
    "squeeze": tf.squeeze(tf.expand_dims(x, 0), squeeze_dims=[0]),
    "softmax": tf.nn.softmax(x, dim=0),
    "log_softmax": tf.nn.log_softmax(x, dim=0),
    "l2": tf.nn.l2_normalize(x, dim=1),
    "split": tf.split(x, 2, 1)[1],
    "split_sizes": tf.split(value=x, num_or_size_splits=[1, 3], axis=1)[0],
    "concat": tf.concat([x, x], 1),
    "stack": tf.stack([x, x], 1),
    "unstack": tf.unstack(x, axis=1)[1],
    "reverse": tf.reverse(x, axis=[1]),
    "sequence": tf.reverse_sequence(x, [1, 3, 2], seq_axis=1, batch_axis=0),
    "sequence_dims": tf.reverse_sequence(x, [1, 3, 2], seq_dim=1, batch_dim=0),
    "one_hot": tf.one_hot([0, 2], 3, axis=0),
    "cumsum": tf.cumsum(x, 1, exclusive=True, reverse=True),
    "cumprod": tf.cumprod(x, 1),
    "nothing": tf.zeros_like(x, tf.int32, optimize=False),
    "ones": tf.ones_like(x),
    "where": tf.where(x > 0),
    "choose": tf.where(x > 0, x, -x),
    "rows": tf.where([True, False, True], _X, -_X),
    "gather": tf.gather(x, [2, 0], axis=0),
    "batch_gather": tf.batch_gather(x, [[0], [1], [2]]),
    "boolean": tf.boolean_mask(x, [True, False, True]),
    "boundaries": tf.gather_nd(x, [[0, 1], [2, 3]]),
    "confusion": tf.confusion_matrix([0, 1, 1], [1, 1, 0]),
  }


def arithmetic():
  x = _x()
  n = tf.to_int32(x * 10)
  return {
    "div": tf.div(n, 3),
    "division": n / 3,
    "floor": n // 3,
    "mod": n % 3,
    "floormod": tf.floormod(n, -3),
    "truncatediv": tf.truncatediv(n, 3),
    "truncatemod": tf.truncatemod(n, 3),
    "matmul": tf.matmul(x, x, False, True),
    "at": tf.matmul(x, x, transpose_a=True),
    "named": tf.matmul(x, x, False, True, False, False, False, False, "mm"),
    "top": tf.nn.top_k(x, 2, True, "best").values,
    "operator": x == x,
  }


def static_results():
  x = _x()
  y = tf.placeholder(tf.float32, [None, 3])
  return {
    "shapes": "%s %s %s" % (x.shape, y.get_shape(), x.shape[0]),
    "value": str([x.shape[0].value, x.shape[1].value, int(x.shape[1])]),
    "repr": repr(y.shape),
    "list": str(y.shape.as_list()),
    "dimension": str(tf.Dimension(3) * x.shape[1]),
    "none": str(tf.Dimension(None) + 1),
    "merged": str(x.shape.merge_with([3, None])),
    "truth": str(bool(x.shape.ndims == 2)),
    "equal": str(x.shape[1] == 4),
    "concatenated": str(x.shape.concatenate([2])),
    "string": str(tf.as_dtype("float32")),
    "broadcast": str(tf.broadcast_static_shape(x.shape, y.shape[:1])),
    "hash": str(hash(x) == hash(x)),
    "same": str(x == x) if isinstance(x == x, bool) else "tensor",
    "different": str(x == y),
    "in": str(x in [y, x]),
    "set": len({x, y, x}),
  }
