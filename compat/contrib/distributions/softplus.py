"""Distributions whose parameters are made positive, and Chi2."""

from typing import Any

import tensorflow as tf

_softplus = tf.nn.softplus


class Chi2(tf.compat.v1.distributions.Gamma):
  """The sum of the squares of df normal numbers."""

  def __init__(
    self,
    df: Any,
    validate_args: bool = False,
    allow_nan_stats: bool = True,
    name: str = "Chi2",
  ):
    """Makes the distribution.

    Args:
      df: how many numbers, positive.
      validate_args: whether values are checked when they are computed.
      allow_nan_stats: whether what is undefined is NaN, and no error.
      name: of the ops.
    """
    with tf.compat.v1.name_scope(name):
      df = tf.convert_to_tensor(df, name="df")
      half = tf.constant(0.5, df.dtype)
    self._df = df
    super().__init__(half * df, half, validate_args, allow_nan_stats, name)

  @property
  def df(self) -> Any:
    """How many numbers."""
    return self._df


class Chi2WithAbsDf(Chi2):
  """Chi2 of floor(abs(df))."""

  def __init__(
    self,
    df: Any,
    validate_args: bool = False,
    allow_nan_stats: bool = True,
    name: str = "Chi2WithAbsDf",
  ):
    """Makes the distribution; see Chi2."""
    df = tf.floor(tf.abs(df))
    super().__init__(df, validate_args, allow_nan_stats, name)


class BetaWithSoftplusConcentration(tf.compat.v1.distributions.Beta):
  """Beta of the softplus of its arguments."""

  def __init__(
    self,
    concentration1: Any,
    concentration0: Any,
    validate_args: bool = False,
    allow_nan_stats: bool = True,
    name: str = "BetaWithSoftplusConcentration",
  ):
    """Makes the distribution; see tf.distributions.Beta."""
    super().__init__(
      _softplus(concentration1),
      _softplus(concentration0),
      validate_args,
      allow_nan_stats,
      name,
    )


class ExponentialWithSoftplusRate(tf.compat.v1.distributions.Exponential):
  """Exponential of the softplus of its argument."""

  def __init__(
    self,
    rate: Any,
    validate_args: bool = False,
    allow_nan_stats: bool = True,
    name: str = "ExponentialWithSoftplusRate",
  ):
    """Makes the distribution; see tf.distributions.Exponential."""
    super().__init__(_softplus(rate), validate_args, allow_nan_stats, name)


class GammaWithSoftplusConcentrationRate(tf.compat.v1.distributions.Gamma):
  """Gamma of the softplus of its arguments."""

  def __init__(
    self,
    concentration: Any,
    rate: Any,
    validate_args: bool = False,
    allow_nan_stats: bool = True,
    name: str = "GammaWithSoftplusConcentrationRate",
  ):
    """Makes the distribution; see tf.distributions.Gamma."""
    super().__init__(
      _softplus(concentration),
      _softplus(rate),
      validate_args,
      allow_nan_stats,
      name,
    )


class LaplaceWithSoftplusScale(tf.compat.v1.distributions.Laplace):
  """Laplace with the softplus of its scale."""

  def __init__(
    self,
    loc: Any,
    scale: Any,
    validate_args: bool = False,
    allow_nan_stats: bool = True,
    name: str = "LaplaceWithSoftplusScale",
  ):
    """Makes the distribution; see tf.distributions.Laplace."""
    super().__init__(
      loc, _softplus(scale), validate_args, allow_nan_stats, name
    )


class NormalWithSoftplusScale(tf.compat.v1.distributions.Normal):
  """Normal with the softplus of its scale."""

  def __init__(
    self,
    loc: Any,
    scale: Any,
    validate_args: bool = False,
    allow_nan_stats: bool = True,
    name: str = "NormalWithSoftplusScale",
  ):
    """Makes the distribution; see tf.distributions.Normal."""
    super().__init__(
      loc, _softplus(scale), validate_args, allow_nan_stats, name
    )


class StudentTWithAbsDfSoftplusScale(tf.compat.v1.distributions.StudentT):
  """StudentT of floor(abs(df)), with the softplus of its scale."""

  def __init__(
    self,
    df: Any,
    loc: Any,
    scale: Any,
    validate_args: bool = False,
    allow_nan_stats: bool = True,
    name: str = "StudentTWithAbsDfSoftplusScale",
  ):
    """Makes the distribution; see tf.distributions.StudentT."""
    super().__init__(
      tf.floor(tf.abs(df)),
      loc,
      _softplus(scale),
      validate_args,
      allow_nan_stats,
      name,
    )
