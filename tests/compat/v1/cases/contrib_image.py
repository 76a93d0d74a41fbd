"""tf.contrib.image."""

import numpy as np
import tensorflow as tf

_RANDOM = np.random.RandomState(1)
_IMAGES = _RANDOM.normal(size=(2, 7, 6, 3)).astype(np.float32)
_BYTES = _RANDOM.randint(256, size=(2, 7, 6, 3)).astype(np.uint8)
_ANGLES = np.array([0.5, -1.2], np.float32)
_TRANSFORM = np.array([0.9, 0.2, -1.0, -0.1, 1.1, 0.7, 0.01, -0.02], np.float32)
_RANDOM.normal(size=(2, 7, 6, 2))  # Drawn when 1.15.5 ran.
_POINTS = (5 * _RANDOM.uniform(size=(2, 5, 2))).astype(np.float32)
_MOVED = _POINTS + _RANDOM.normal(size=(2, 5, 2)).astype(np.float32)
_VALUES = _RANDOM.normal(size=(2, 5, 3)).astype(np.float32)
_QUERIES = (5 * _RANDOM.uniform(size=(2, 9, 2))).astype(np.float32)


def _images(array=_IMAGES):
  """Images that depend on a variable, so that there are gradients."""
  images = tf.placeholder_with_default(array, [None, None, None, 3])
  return images * tf.get_variable("scale", initializer=[1.0, 0.5, 2.0])


def rotate():
  image = tf.contrib.image
  images = _images()
  angles = tf.placeholder_with_default(_ANGLES, [None])
  return {
    "nearest": image.rotate(images, angles),
    "bilinear": image.rotate(images, angles, interpolation="BILINEAR"),
    "all": image.rotate(images, 0.3, "bilinear"),
    "bytes": image.rotate(tf.constant(_BYTES), np.pi / 2),
    "one": image.rotate(tf.constant(_IMAGES[0]), np.pi / 4, "BILINEAR"),
    "gray": image.rotate(tf.constant(_IMAGES[0, :, :, 0]), -0.7),
  }


def translate():
  image = tf.contrib.image
  images = _images()
  return {
    "all": image.translate(images, [1, -2]),
    "each": image.translate(
      images, [[1.0, 2.0], [-0.5, 0.25]], interpolation="BILINEAR"
    ),
  }


def transform():
  image = tf.contrib.image
  images = _images()
  both = np.stack([_TRANSFORM, np.eye(3, dtype=np.float32).flatten()[:8]])
  return {
    "all": image.transform(images, _TRANSFORM, "BILINEAR"),
    "each": image.transform(images, tf.constant(both)),
    "larger": image.transform(
      images, tf.constant(both), "BILINEAR", output_shape=[9, 8]
    ),
    "known": str(
      image.transform(
        tf.constant(_IMAGES), _TRANSFORM, output_shape=[9, 8]
      ).shape
    ),
    "integers": image.transform(
      tf.constant(_BYTES.astype(np.int64)), _TRANSFORM
    ),
  }


def transforms():
  image = tf.contrib.image
  angles = tf.get_variable("angles", initializer=_ANGLES)
  rotations = image.angles_to_projective_transforms(angles, 7, 6)
  moves = image.translations_to_projective_transforms([[1.0, 2.0], [3.0, -4.0]])
  return {
    "rotations": rotations,
    "of_one": image.angles_to_projective_transforms(
      0.25, tf.constant(5.0), tf.constant(4.0)
    ),
    "moves": moves,
    "composed": image.compose_transforms(rotations, moves, _TRANSFORM),
    "matrices": image.flat_transforms_to_matrices(_TRANSFORM),
    "flat": image.matrices_to_flat_transforms(2 * np.eye(3, dtype=np.float32)),
  }


def _spline(order, weight=0.0):
  # The equations of high orders want all digits.
  points = tf.get_variable("points", initializer=_POINTS.astype(np.float64))
  values = tf.get_variable("values", initializer=_VALUES.astype(np.float64))
  queries = tf.placeholder_with_default(
    _QUERIES.astype(np.float64), [None, None, 2]
  )
  return {
    "values": tf.contrib.image.interpolate_spline(
      points, values, queries, order, weight
    )
  }


def spline_3():
  return _spline(3, 0.01)


def spline_4():
  return _spline(4)


def sparse_image_warp():
  image = tf.contrib.image
  images = tf.placeholder_with_default(_IMAGES, [2, 7, 6, 3])
  source = tf.get_variable("source", initializer=_POINTS)
  warped, flow = image.sparse_image_warp(images, source, _MOVED)
  still, still_flow = image.sparse_image_warp(
    images,
    source,
    _MOVED,
    interpolation_order=1,
    regularization_weight=0.05,
    num_boundary_points=2,
  )
  return {
    "warped": warped,
    "flow": flow,
    "still": still,
    "still_flow": still_flow,
  }


def connected_components():
  image = tf.contrib.image
  spiral = np.array(
    [
      [1, 1, 1, 1, 1, 1, 1],
      [1, 0, 0, 0, 0, 0, 1],
      [1, 0, 1, 1, 1, 0, 1],
      [1, 0, 1, 0, 1, 0, 1],
      [1, 0, 1, 0, 0, 0, 1],
      [1, 0, 1, 1, 1, 1, 1],
    ]
  )
  noise = np.random.RandomState(3).randint(3, size=(3, 8, 9))
  return {
    "spiral": image.connected_components(tf.constant(spiral > 0)),
    "noise": image.connected_components(tf.constant(noise)),
    "floats": image.connected_components(tf.constant(noise[0] * 0.5)),
    "bools": image.connected_components(
      tf.placeholder_with_default(noise > 0, [None, None, None])
    ),
    "none": image.connected_components(tf.zeros([2, 2])),
  }


def bipartite_match():
  match = tf.contrib.image.bipartite_match
  distances = np.random.RandomState(4).uniform(size=(5, 4)).astype(np.float32)
  found = {}
  for name, rows, top in (
    ("every", -1, -1),
    ("some_rows", 3.0, -1),
    ("some_matches", 5, 2),
    ("vector", [2], 0),
  ):
    by_row, by_column = match(
      tf.constant(distances), tf.cast(rows, tf.float32), top_k=top
    )
    found[name + "_rows"] = by_row
    found[name + "_columns"] = by_column
  return found


def resampler():
  # Some of the places are outside, some at the edge.
  places = np.random.RandomState(5).uniform(-2, 8, size=(2, 4, 5, 2))
  warp = tf.get_variable("warp", initializer=places.astype(np.float32))
  images = _images()
  resample = tf.contrib.resampler.resampler
  return {
    "plane": resample(images, warp),
    "row": resample(images, warp[:, 0], name="row"),
    "each": resample(images, warp[:, 0, 0]),
  }
