"""Multivariate normal and Wishart distributions by 1.15's arguments."""

from typing import Any

import tensorflow as tf


def _scaled(loc: Any, scale_diag: Any, multiplier: Any) -> tuple[Any, Any]:
  """The diagonal with its multiplier, and loc in the shape of the event."""
  if multiplier is None:
    return loc, scale_diag
  multiplier = tf.convert_to_tensor(multiplier)[..., tf.newaxis]
  if scale_diag is not None:
    # 1.15 adds the two matrices.
    return loc, tf.convert_to_tensor(scale_diag) + multiplier
  if loc is None:
    raise ValueError(
      "scale_identity_multiplier needs loc or scale_diag, to know how many "
      "numbers an event has."
    )
  return loc, multiplier * tf.ones_like(tf.convert_to_tensor(loc))


def diag(
  target: Any,
  loc: Any = None,
  scale_diag: Any = None,
  scale_identity_multiplier: Any = None,
  validate_args: bool = False,
  allow_nan_stats: bool = True,
  name: str = "MultivariateNormalDiag",
) -> Any:
  """Makes a normal distribution of independent numbers."""
  loc, scale = _scaled(loc, scale_diag, scale_identity_multiplier)
  return target(
    loc=loc,
    scale_diag=scale,
    validate_args=validate_args,
    allow_nan_stats=allow_nan_stats,
    name=name,
  )


def softplus_diag(
  target: Any,
  loc: Any,
  scale_diag: Any,
  validate_args: bool = False,
  allow_nan_stats: bool = True,
  name: str = "MultivariateNormalDiagWithSoftplusScale",
) -> Any:
  """Makes one whose scale is the softplus of its argument."""
  return target(
    loc=loc,
    scale_diag=tf.nn.softplus(scale_diag),
    validate_args=validate_args,
    allow_nan_stats=allow_nan_stats,
    name=name,
  )


def diag_plus_low_rank(
  target: Any,
  loc: Any = None,
  scale_diag: Any = None,
  scale_identity_multiplier: Any = None,
  scale_perturb_factor: Any = None,
  scale_perturb_diag: Any = None,
  validate_args: bool = False,
  allow_nan_stats: bool = True,
  name: str = "MultivariateNormalDiagPlusLowRank",
) -> Any:
  """Makes one with a diagonal scale and a perturbation of low rank."""
  loc, scale = _scaled(loc, scale_diag, scale_identity_multiplier)
  return target(
    loc=loc,
    scale_diag=scale,
    scale_perturb_factor=scale_perturb_factor,
    scale_perturb_diag=scale_perturb_diag,
    validate_args=validate_args,
    allow_nan_stats=allow_nan_stats,
    name=name,
  )


def full_covariance(
  target: Any,
  loc: Any = None,
  covariance_matrix: Any = None,
  validate_args: bool = False,
  allow_nan_stats: bool = True,
  name: str = "MultivariateNormalFullCovariance",
) -> Any:
  """Makes one with any covariance."""
  return target(
    loc=loc,
    covariance_matrix=covariance_matrix,
    validate_args=validate_args,
    allow_nan_stats=allow_nan_stats,
    name=name,
  )


def tri_l(
  target: Any,
  loc: Any = None,
  scale_tril: Any = None,
  validate_args: bool = False,
  allow_nan_stats: bool = True,
  name: str = "MultivariateNormalTriL",
) -> Any:
  """Makes one with a triangular scale."""
  return target(
    loc=loc,
    scale_tril=scale_tril,
    validate_args=validate_args,
    allow_nan_stats=allow_nan_stats,
    name=name,
  )


def wishart_cholesky(
  target: Any,
  df: Any,
  scale: Any,
  cholesky_input_output_matrices: bool = False,
  validate_args: bool = False,
  allow_nan_stats: bool = True,
  name: str = "WishartCholesky",
) -> Any:
  """Makes a Wishart distribution of its scale's Cholesky factor."""
  return target(
    df=df,
    scale_tril=scale,
    input_output_cholesky=cholesky_input_output_matrices,
    validate_args=validate_args,
    allow_nan_stats=allow_nan_stats,
    name=name,
  )


def wishart_full(
  target: Any,
  df: Any,
  scale: Any,
  cholesky_input_output_matrices: bool = False,
  validate_args: bool = False,
  allow_nan_stats: bool = True,
  name: str = "WishartFull",
) -> Any:
  """Makes a Wishart distribution of its scale."""
  return wishart_cholesky(
    target,
    df,
    tf.linalg.cholesky(scale),
    cholesky_input_output_matrices,
    validate_args,
    allow_nan_stats,
    name,
  )
