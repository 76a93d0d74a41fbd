"""Names of tf.contrib.image."""

from compat.contrib import absent
from compat.contrib.image.components import connected_components
from compat.contrib.image.matching import bipartite_match
from compat.contrib.image.projective import (
  angles_to_projective_transforms,
  compose_transforms,
  flat_transforms_to_matrices,
  matrices_to_flat_transforms,
  rotate,
  transform,
  translate,
  translations_to_projective_transforms,
)
from compat.contrib.image.spline import interpolate_spline
from compat.contrib.image.warp import dense_image_warp, sparse_image_warp

__getattr__ = absent.getter(__name__)

__all__ = [
  "angles_to_projective_transforms",
  "bipartite_match",
  "compose_transforms",
  "connected_components",
  "dense_image_warp",
  "flat_transforms_to_matrices",
  "interpolate_spline",
  "matrices_to_flat_transforms",
  "rotate",
  "sparse_image_warp",
  "transform",
  "translate",
  "translations_to_projective_transforms",
]
