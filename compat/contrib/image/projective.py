"""Projective transformations of images.

A transformation is eight numbers, (a0, a1, a2, b0, b1, b2, c0, c1): the output
pixel (x, y) is the input's ((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k)
with k = c0 x + c1 y + 1.
"""

from typing import Any

import tensorflow as tf

_DTYPES = (
  tf.uint8,
  tf.int32,
  tf.int64,
  tf.float16,
  tf.float32,
  tf.float64,
)


def transform(
  images: Any,
  transforms: Any,
  interpolation: str = "NEAREST",
  output_shape: Any = None,
  name: str | None = None,
) -> tf.Tensor:
  """Transforms images; what comes from outside of one is 0.

  Args:
    images: [batch, height, width, channels], [height, width, channels] or
      [height, width].
    transforms: [8] for all, or [batch, 8].
    interpolation: "NEAREST" or "BILINEAR".
    output_shape: height and width of the result; the images' by default.
    name: of the operations.

  Returns:
    Images, of the rank of `images`.

  Raises:
    TypeError: if the dtype or a rank is another one.
  """
  with tf.compat.v1.name_scope(name, "transform"):
    images = tf.convert_to_tensor(images, name="images")
    transforms = tf.convert_to_tensor(transforms, tf.float32, name="transforms")
    if images.dtype.base_dtype not in _DTYPES:
      raise TypeError(
        f"images are of the dtype {images.dtype.name}; it must be one of "
        f"{', '.join(dtype.name for dtype in _DTYPES)}."
      )
    batch = _as_batch(images)
    if transforms.shape.rank not in (1, 2):
      raise TypeError(
        f"transforms have the shape {transforms.shape}; they must be [8] or "
        "[batch, 8]."
      )
    if transforms.shape.rank == 1:
      transforms = transforms[tf.newaxis]
    if output_shape is None:
      size, known = tf.shape(batch)[1:3], batch.shape[1:3]
    else:
      size = tf.convert_to_tensor(output_shape, tf.int32, name="output_shape")
      static = tf.get_static_value(size)
      known = [None, None] if static is None else static
    result = tf.raw_ops.ImageProjectiveTransformV2(
      images=batch,
      transforms=transforms,
      output_shape=size,
      interpolation=interpolation.upper(),
    )
    result = tf.ensure_shape(result, [batch.shape[0], *known, batch.shape[3]])
    if images.shape.rank == 2:
      return result[0, :, :, 0]
    return result[0] if images.shape.rank == 3 else result


def _as_batch(images: tf.Tensor) -> tf.Tensor:
  rank = images.shape.rank
  if rank == 2:
    return images[tf.newaxis, :, :, tf.newaxis]
  if rank == 3:
    return images[tf.newaxis]
  if rank == 4:
    return images
  raise TypeError(
    f"images have the shape {images.shape}; their rank must be known, and 2, 3 "
    "or 4."
  )


def rotate(
  images: Any,
  angles: Any,
  interpolation: str = "NEAREST",
  name: str | None = None,
) -> tf.Tensor:
  """Rotates images counterclockwise about their centers.

  Args:
    images: as of transform().
    angles: in radians: a scalar for all, or [batch].
    interpolation: "NEAREST" or "BILINEAR".
    name: of the operations.

  Returns:
    Images, of the shape of `images`.
  """
  with tf.compat.v1.name_scope(name, "rotate"):
    images = tf.convert_to_tensor(images, name="images")
    shape = tf.shape(_as_batch(images))
    height, width = (tf.cast(shape[axis], tf.float32) for axis in (1, 2))
    transforms = angles_to_projective_transforms(angles, height, width)
    return transform(images, transforms, interpolation)


def translate(
  images: Any,
  translations: Any,
  interpolation: str = "NEAREST",
  name: str | None = None,
) -> tf.Tensor:
  """Moves images.

  Args:
    images: as of transform().
    translations: (dx, dy), for all or [batch, 2].
    interpolation: "NEAREST" or "BILINEAR".
    name: of the operations.

  Returns:
    Images, of the shape of `images`.
  """
  with tf.compat.v1.name_scope(name, "translate"):
    transforms = translations_to_projective_transforms(translations)
    return transform(images, transforms, interpolation)


def angles_to_projective_transforms(
  angles: Any, image_height: Any, image_width: Any, name: str | None = None
) -> tf.Tensor:
  """Returns the transformations [batch, 8] of rotations about the center.

  Args:
    angles: in radians: a scalar or [batch].
    image_height: of the images.
    image_width: of the images.
    name: of the operations.

  Raises:
    TypeError: if the angles are neither a scalar nor a vector.
  """
  with tf.compat.v1.name_scope(name, "angles_to_projective_transforms"):
    angles = tf.convert_to_tensor(angles, tf.float32, name="angles")
    if angles.shape.rank not in (0, 1):
      raise TypeError(
        f"angles have the shape {angles.shape}; they must be a scalar or "
        "[batch]."
      )
    angles = tf.reshape(angles, [-1])
    cos, sin = tf.cos(angles), tf.sin(angles)
    # The center stays where it is.
    right, low = image_width - 1, image_height - 1
    x = (right - (cos * right - sin * low)) / 2.0
    y = (low - (sin * right + cos * low)) / 2.0
    zero = tf.zeros_like(angles)
    return tf.stack([cos, -sin, x, sin, cos, y, zero, zero], 1)


def translations_to_projective_transforms(
  translations: Any, name: str | None = None
) -> tf.Tensor:
  """Returns the transformations [batch, 8] that move images.

  Args:
    translations: (dx, dy), or [batch, 2].
    name: of the operations.

  Raises:
    TypeError: if the rank is another one.
  """
  with tf.compat.v1.name_scope(name, "translations_to_projective_transforms"):
    moves = tf.convert_to_tensor(translations, tf.float32, name="translations")
    if moves.shape.rank not in (1, 2):
      raise TypeError(
        f"translations have the shape {moves.shape}; they must be [2] or "
        "[batch, 2]."
      )
    moves = tf.reshape(moves, [-1, 2])
    zero = tf.zeros_like(moves[:, 0])
    one = tf.ones_like(zero)
    x, y = -moves[:, 0], -moves[:, 1]
    return tf.stack([one, zero, x, zero, one, y, zero, zero], 1)


def compose_transforms(*transforms: Any) -> tf.Tensor:
  """Returns one transformation that does several, the first one first.

  Args:
    *transforms: each [8] or [batch, 8].

  Returns:
    [batch, 8].
  """
  with tf.name_scope("compose_transforms"):
    composed = flat_transforms_to_matrices(transforms[0])
    for one in transforms[1:]:
      composed = tf.matmul(composed, flat_transforms_to_matrices(one))
    return matrices_to_flat_transforms(composed)


def flat_transforms_to_matrices(transforms: Any) -> tf.Tensor:
  """Returns transformations as matrices [batch, 3, 3].

  Args:
    transforms: [8] or [batch, 8].

  Raises:
    ValueError: if they have another rank.
  """
  with tf.name_scope("flat_transforms_to_matrices"):
    flat = tf.convert_to_tensor(transforms, name="transforms")
    if flat.shape.rank not in (1, 2):
      raise ValueError(
        f"transforms have the shape {flat.shape}; they must be [8] or "
        "[batch, 8]."
      )
    flat = tf.reshape(flat, [-1, 8])
    ones = tf.ones([tf.shape(flat)[0], 1], flat.dtype)
    return tf.reshape(tf.concat([flat, ones], 1), [-1, 3, 3])


def matrices_to_flat_transforms(transform_matrices: Any) -> tf.Tensor:
  """Returns transformations [batch, 8] of matrices.

  Args:
    transform_matrices: [3, 3] or [batch, 3, 3].

  Raises:
    ValueError: if they have another rank.
  """
  with tf.name_scope("matrices_to_flat_transforms"):
    matrices = tf.convert_to_tensor(transform_matrices, name="matrices")
    if matrices.shape.rank not in (2, 3):
      raise ValueError(
        f"transform_matrices have the shape {matrices.shape}; they must be "
        "[3, 3] or [batch, 3, 3]."
      )
    flat = tf.reshape(matrices, [-1, 9])
    return flat[:, :8] / flat[:, 8:]
