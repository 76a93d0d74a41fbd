"""tf.contrib.distributions.bijectors, of tensorflow-probability.

Refused are `BatchNormalization` and `ConditionalBijector`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from compat.contrib import absent
from compat.contrib.distributions import adapted

import tensorflow as tf

__path__: list[str] = []
_absent = absent.getter(__name__)

# By the name: 1.15's arguments in their order.
_ARGUMENTS = {
  "AbsoluteValue": "validate_args name",
  "CholeskyOuterProduct": "validate_args name",
  "Exp": "validate_args name",
  "FillTriangular": "upper validate_args name",
  "Identity": "validate_args name",
  "Invert": "bijector validate_args name",
  "MaskedAutoregressiveFlow": (
    "shift_and_log_scale_fn is_constant_jacobian validate_args unroll_loop name"
  ),
  "MatrixInverseTriL": "validate_args name",
  "Permute": "permutation validate_args name",
  "PowerTransform": "power validate_args name",
  "RealNVP": (
    "num_masked shift_and_log_scale_fn is_constant_jacobian validate_args name"
  ),
  "Reshape": "event_shape_out event_shape_in validate_args name",
  "Sigmoid": "validate_args name",
  "SoftmaxCentered": "validate_args name",
  "Softplus": "hinge_softness validate_args name",
  "Softsign": "validate_args name",
  "Square": "validate_args name",
  "TransformDiagonal": "diag_bijector validate_args name",
}
# Those whose arguments are the package's.
_SAME = (
  "Bijector",
  "Chain",
  "Inline",
  "masked_autoregressive_default_template",
  "masked_dense",
  "real_nvp_default_template",
)


def _tfb(name: str) -> Any:
  return adapted.probability(f"bijectors.{name}", f"bijectors.{name}")


def _chain(bijectors: list[Any], validate_args: bool, name: str) -> Any:
  return _tfb("Chain")(bijectors, validate_args=validate_args, name=name)


def _affine_scalar(
  shift: Any = None,
  scale: Any = None,
  validate_args: bool = False,
  name: str = "affine_scalar",
) -> Any:
  parts = [] if shift is None else [_tfb("Shift")(shift)]
  parts += [] if scale is None else [_tfb("Scale")(scale)]
  return _chain(parts, validate_args, name)


def _affine_linear_operator(
  shift: Any = None,
  scale: Any = None,
  validate_args: bool = False,
  name: str = "affine_linear_operator",
) -> Any:
  parts = [] if shift is None else [_tfb("Shift")(shift)]
  if scale is not None:
    parts.append(_tfb("ScaleMatvecLinearOperator")(scale))
  return _chain(parts, validate_args, name)


def _affine(
  shift: Any = None,
  scale_identity_multiplier: Any = None,
  scale_diag: Any = None,
  scale_tril: Any = None,
  scale_perturb_factor: Any = None,
  scale_perturb_diag: Any = None,
  validate_args: bool = False,
  name: str = "affine",
) -> Any:
  if scale_perturb_factor is not None or scale_perturb_diag is not None:
    raise NotImplementedError(
      "Affine does not take scale_perturb_factor any more. Use "
      "AffineLinearOperator with a tf.linalg.LinearOperatorLowRankUpdate."
    )
  parts = [] if shift is None else [_tfb("Shift")(shift)]
  matrix = scale_tril
  if scale_tril is not None:
    matrix = tf.linalg.band_part(tf.convert_to_tensor(scale_tril), -1, 0)
    extra = [one for one in (scale_diag,) if one is not None]
    if scale_identity_multiplier is not None:
      multiplier = tf.convert_to_tensor(scale_identity_multiplier)
      extra.append(multiplier[..., tf.newaxis])
    for one in extra:
      diagonal = tf.linalg.diag_part(matrix) + one
      matrix = tf.linalg.set_diag(matrix, diagonal)
    parts.append(_tfb("ScaleMatvecTriL")(matrix))
  elif scale_diag is not None:
    diagonal = tf.convert_to_tensor(scale_diag)
    if scale_identity_multiplier is not None:
      multiplier = tf.convert_to_tensor(scale_identity_multiplier)
      diagonal += multiplier[..., tf.newaxis]
    parts.append(_tfb("ScaleMatvecDiag")(diagonal))
  elif scale_identity_multiplier is not None:
    multiplier = tf.convert_to_tensor(scale_identity_multiplier)
    parts.append(_tfb("Scale")(multiplier[..., tf.newaxis]))
  return _chain(parts, validate_args, name)


def _gumbel(
  loc: Any = 0.0,
  scale: Any = 1.0,
  validate_args: bool = False,
  name: str = "gumbel",
) -> Any:
  return _tfb("GumbelCDF")(loc, scale, validate_args=validate_args, name=name)


def _kumaraswamy(
  concentration1: Any = None,
  concentration0: Any = None,
  validate_args: bool = False,
  name: str = "kumaraswamy",
) -> Any:
  cdf = _tfb("KumaraswamyCDF")(
    concentration1, concentration0, validate_args=validate_args
  )
  return _tfb("Invert")(cdf, name=name)


def _ordered(validate_args: bool = False, name: str = "ordered") -> Any:
  ascending = _tfb("Ascending")(validate_args=validate_args)
  return _tfb("Invert")(ascending, name=name)


def _sinh_arcsinh(
  skewness: Any = None,
  tailweight: Any = None,
  validate_args: bool = False,
  name: str = "SinhArcsinh",
) -> Any:
  # The package's own has a factor that 1.15's had not.
  sinh = _tfb("Sinh")()
  parts = [sinh]
  parts += [] if tailweight is None else [_tfb("Scale")(tailweight)]
  parts += [] if skewness is None else [_tfb("Shift")(skewness)]
  return _chain([*parts, _tfb("Invert")(sinh)], validate_args, name)


def _scale_tril(
  diag_bijector: Any = None,
  diag_shift: Any = 1e-5,
  validate_args: bool = False,
  name: str = "scale_tril",
) -> Any:
  return _tfb("FillScaleTriL")(
    diag_bijector=diag_bijector or _tfb("Softplus")(),
    diag_shift=diag_shift,
    validate_args=validate_args,
    name=name,
  )


# By the name: what makes it, and the package's class.
_MADE: Mapping[str, tuple[Callable[..., Any], str]] = {
  "Affine": (_affine, "Chain"),
  "AffineLinearOperator": (_affine_linear_operator, "Chain"),
  "AffineScalar": (_affine_scalar, "Chain"),
  "Gumbel": (_gumbel, "GumbelCDF"),
  "Kumaraswamy": (_kumaraswamy, "Invert"),
  "Ordered": (_ordered, "Invert"),
  "ScaleTriL": (_scale_tril, "FillScaleTriL"),
  "SinhArcsinh": (_sinh_arcsinh, "Chain"),
}


def __getattr__(name: str) -> Any:
  if name in _SAME:
    found = _tfb(name)
  elif name in _ARGUMENTS:
    target = _tfb(name)
    arguments = _ARGUMENTS[name].split()
    made = adapted.by_arguments(name, target, arguments)
    found = adapted.stand_in(name, target, made)
  elif name in _MADE:
    made, base = _MADE[name]
    found = adapted.stand_in(name, _tfb(base), made)
  else:
    return _absent(name)
  globals()[name] = found
  return found


def __dir__() -> list[str]:
  return sorted({*_SAME, *_ARGUMENTS, *_MADE})
