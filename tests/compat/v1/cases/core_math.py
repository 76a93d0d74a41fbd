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


def old_casts():
  x = _x() * 10
  return {
    "int32": tf.to_int32(x),
    "int64": tf.to_int64(x),
    "float": tf.to_float(tf.to_int32(x)),
    "double": tf.to_double(x),
    "bfloat": tf.cast(tf.to_bfloat16(x), tf.float32),
    "complex": tf.real(tf.to_complex64(x)),
    "saturate": tf.saturate_cast(x * 100, tf.int8),
    "bitcast": tf.bitcast(x, tf.int32),
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
    "realdiv": tf.realdiv(x, 3.0),
    "no_nan": tf.div_no_nan(x, x * 0),
    "power": (x * x) ** 0.5,
    "matmul": tf.matmul(x, x, False, True),
    "at": tf.matmul(x, x, transpose_a=True),
    "named": tf.matmul(x, x, False, True, False, False, False, False, "mm"),
    "dot": tf.tensordot(x, x, [[1], [1]]),
    "einsum": tf.einsum("ij,kj->ik", x, x),
    "top": tf.nn.top_k(x, 2, True, "best").values,
    "in_top": tf.nn.in_top_k(x, [1, 2, 3], 2),
    "round": tf.round(x * 10 + 0.5),
    "rint": tf.rint(x * 10),
    "sign": tf.sign(x),
    "erf": tf.erf(x),
    "lgamma": tf.lgamma(tf.abs(x)),
    "digamma": tf.digamma(tf.abs(x) + 1),
    "igamma": tf.igamma(tf.abs(x), 1.0),
    "log1p": tf.log1p(tf.abs(x)),
    "squared": tf.squared_difference(x, 1.0),
    "equal": tf.equal(n, 3),
    "operator": x == x,
    "clip": tf.clip_by_value(x, -0.5, 0.5),
    "by_norm": tf.clip_by_norm(x, 1.0),
    "average_norm": tf.clip_by_average_norm(x, 0.1),
    "global": tf.global_norm([x, x]),
    "accumulate": tf.accumulate_n([x, x]),
    "add_n": tf.add_n([x, x]),
    "segments": tf.segment_sum(x, [0, 0, 1]),
    "unsorted": tf.unsorted_segment_mean(x, [1, 0, 1], 2),
    "sparse_segments": tf.sparse_segment_mean(x, [0, 2], [0, 0]),
    "range": tf.range(1, 6, 2),
    "linspace": tf.lin_space(0.0, 1.0, 3),
    "fill": tf.fill([2, 2], 3.0),
    "eye": tf.eye(2, batch_shape=[2]),
    "bincount": tf.bincount([1, 1, 2]),
    "histogram": tf.histogram_fixed_width(x, [-1.0, 1.0], 4),
    "unique": tf.unique([3, 1, 3])[0],
    "setdiff": tf.setdiff1d([1, 2, 3], [2])[0],
    "foldl": tf.foldl(lambda a, b: a + b, x),
    "scan": tf.scan(lambda a, b: a + b, x),
    "map": tf.map_fn(lambda a: a * 2, x),
    "rank": tf.rank(x),
    "size": tf.size(x),
    "shape": tf.shape(x),
    "shape_n": tf.shape_n([x])[0],
  }


def linear_algebra():
  x = _x()
  a = tf.matmul(x, x, transpose_a=True) + 2 * tf.eye(4)
  values, _ = tf.self_adjoint_eig(a)
  return {
    "inverse": tf.matrix_inverse(a),
    "determinant": tf.matrix_determinant(a),
    "cholesky": tf.cholesky(a),
    "solve": tf.matrix_solve(a, tf.transpose(x)),
    "triangular": tf.matrix_triangular_solve(tf.cholesky(a), tf.transpose(x)),
    "cholesky_solve": tf.cholesky_solve(tf.cholesky(a), tf.transpose(x)),
    "ls": tf.matrix_solve_ls(a, tf.transpose(x), fast=False),
    "values": values,
    "singular": tf.svd(a, compute_uv=False),
    "trace": tf.trace(a),
    "part": tf.matrix_band_part(a, 1, 0),
    "diagonal": tf.matrix_diag_part(a),
    "diag": tf.matrix_diag(x),
    "set": tf.matrix_set_diag(a, tf.ones([4])),
    "vector": tf.diag([1.0, 2.0]),
    "vector_part": tf.diag_part(a),
    "cross": tf.cross(x[:, :3], x[:, 1:]),
    "transpose": tf.matrix_transpose(x),
    "logdet": tf.linalg.logdet(a),
  }


def space_and_padding():
  x = tf.placeholder_with_default(
    np.arange(32, dtype=np.float32).reshape(1, 4, 4, 2), [None, 4, 4, 2]
  )
  return {
    "pad": tf.pad(x, [[0, 0], [1, 1], [0, 1], [0, 0]], "SYMMETRIC"),
    "value": tf.pad(x, [[0, 0], [1, 1], [0, 1], [0, 0]], constant_values=3),
    "space": tf.space_to_depth(x, 2),
    "depth": tf.depth_to_space(tf.space_to_depth(x, 2), 2),
    "batch": tf.space_to_batch(x, [[0, 0], [0, 0]], 2),
    "back": tf.batch_to_space(
      tf.space_to_batch(x, [[0, 0], [0, 0]], 2), [[0, 0], [0, 0]], 2
    ),
    "nd": tf.space_to_batch_nd(x, [2, 2], [[0, 0], [0, 0]]),
    "patches": tf.extract_image_patches(
      x, [1, 2, 2, 1], [1, 1, 1, 1], [1, 1, 1, 1], "VALID"
    ),
    "patches_named": tf.image.extract_image_patches(
      images=x,
      ksizes=[1, 2, 2, 1],
      strides=[1, 2, 2, 1],
      rates=[1, 1, 1, 1],
      padding="SAME",
    ),
    "slice": tf.strided_slice(x, [0, 1], [1, 3]),
    "mask": tf.sequence_mask([1, 3], 4, tf.float32),
    "transpose": tf.transpose(x, perm=[3, 0, 1, 2]),
    "roll": tf.roll(x, 1, 1),
    "tile": tf.tile(x, [1, 2, 1, 1]),
    "edit": tf.edit_distance(
      tf.SparseTensor([[0, 0], [0, 1]], [1, 2], [1, 2]),
      tf.SparseTensor([[0, 0]], [1], [1, 1]),
    ),
  }


def spectra():
  x = tf.placeholder_with_default(_X, [3, 4])
  return {
    "fft": tf.abs(tf.fft(tf.cast(x, tf.complex64))),
    "rfft": tf.abs(tf.spectral.rfft(x)),
    "dct": tf.spectral.dct(x),
    "stft": tf.abs(tf.signal.stft(tf.reshape(x, [-1]), 4, 2)),
    "frame": tf.signal.frame(tf.reshape(x, [-1]), 4, 2),
    "window": tf.signal.hann_window(8),
    "mel": tf.signal.linear_to_mel_weight_matrix(4, 9, 8000),
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
