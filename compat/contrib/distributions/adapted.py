"""Distributions and bijectors of tensorflow-probability by 1.15's arguments."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from compat.contrib import packages
from compat.contrib.distributions import multivariate

import tensorflow as tf

_CHECKS = "validate_args allow_nan_stats name"

# By the name: 1.15's arguments in their order, and where the package has other
# names, (its class, its names by 1.15's).
_ARGUMENTS = {
  "Autoregressive": f"distribution_fn sample0 num_steps {_CHECKS}",
  "BatchReshape": f"distribution batch_shape {_CHECKS}",
  "Binomial": f"total_count logits probs {_CHECKS}",
  "Cauchy": f"loc scale {_CHECKS}",
  "Deterministic": f"loc atol rtol {_CHECKS}",
  "ExpRelaxedOneHotCategorical": f"temperature logits probs dtype {_CHECKS}",
  "Geometric": f"logits probs {_CHECKS}",
  "HalfNormal": f"scale {_CHECKS}",
  "Independent": "distribution reinterpreted_batch_ndims validate_args name",
  "InverseGamma": f"concentration rate {_CHECKS}",
  "InverseGammaWithSoftplusConcentrationRate": f"concentration rate {_CHECKS}",
  "Kumaraswamy": f"concentration1 concentration0 {_CHECKS}",
  "Logistic": f"loc scale {_CHECKS}",
  "Mixture": (
    "cat components validate_args allow_nan_stats use_static_graph name"
  ),
  "MixtureSameFamily": (
    f"mixture_distribution components_distribution {_CHECKS}"
  ),
  "NegativeBinomial": f"total_count logits probs {_CHECKS}",
  "OneHotCategorical": f"logits probs dtype {_CHECKS}",
  "Poisson": f"rate log_rate {_CHECKS}",
  "PoissonLogNormalQuadratureCompound": (
    f"loc scale quadrature_size quadrature_fn {_CHECKS}"
  ),
  "QuantizedDistribution": "distribution low high validate_args name",
  "RelaxedBernoulli": "temperature logits probs validate_args allow_nan_stats "
  "name",
  "RelaxedOneHotCategorical": f"temperature logits probs dtype {_CHECKS}",
  "SinhArcsinh": f"loc scale skewness tailweight distribution {_CHECKS}",
  "TransformedDistribution": (
    "distribution bijector batch_shape event_shape validate_args name"
  ),
  "VectorDeterministic": f"loc atol rtol {_CHECKS}",
}

# Those that are made of others' arguments.
_MADE: Mapping[str, Callable[..., Any]] = {
  "MultivariateNormalDiag": multivariate.diag,
  "MultivariateNormalDiagPlusLowRank": multivariate.diag_plus_low_rank,
  "MultivariateNormalDiagWithSoftplusScale": multivariate.softplus_diag,
  "MultivariateNormalFullCovariance": multivariate.full_covariance,
  "MultivariateNormalTriL": multivariate.tri_l,
  "WishartCholesky": multivariate.wishart_cholesky,
  "WishartFull": multivariate.wishart_full,
}

DISTRIBUTIONS = (*_ARGUMENTS, *_MADE)

_CLASSES = {
  "InverseGammaWithSoftplusConcentrationRate": "InverseGamma",
  "MultivariateNormalDiagWithSoftplusScale": "MultivariateNormalDiag",
  "WishartCholesky": "WishartTriL",
  "WishartFull": "WishartTriL",
}
_RENAMED = {"InverseGamma": {"rate": "scale"}}
_RENAMED["InverseGammaWithSoftplusConcentrationRate"] = {"rate": "scale"}
# What may only have the value that says nothing.
_UNUSED: Mapping[str, Any] = {
  "batch_shape": None,
  "dtype": None,
  "event_shape": None,
  "use_static_graph": False,
}
_SOFTPLUS = {
  "InverseGammaWithSoftplusConcentrationRate": ("concentration", "rate"),
}


def probability(path: str, name: str) -> Any:
  """Returns a name of tensorflow-probability.

  Args:
    path: below the package, "stats.percentile".
    name: the name below tf.contrib.distributions that it serves.
  """
  module, _, last = path.rpartition(".")
  found = packages.find(
    f"tensorflow_probability:{module}", f"distributions.{name}"
  )
  return getattr(found, last)


class _Adapted(type):
  """The class of a stand-in: made like 1.15's class, an instance of another."""

  target: Any
  make: Callable[..., Any]

  def __call__(cls, *args: Any, **kwargs: Any) -> Any:
    return cls.make(*args, **kwargs)

  def __instancecheck__(cls, instance: Any) -> bool:
    return isinstance(instance, cls.target)


def stand_in(name: str, target: Any, make: Callable[..., Any]) -> Any:
  """Returns what is called as 1.15's class, and knows its instances.

  Args:
    name: of the class.
    target: the class of tensorflow-probability.
    make: makes an instance of 1.15's arguments.
  """
  return _Adapted(
    name,
    (),
    {
      "__doc__": f"{name} of tensorflow-probability, by 1.15's arguments.",
      "target": target,
      "make": staticmethod(make),
    },
  )


def distribution(name: str) -> Any:
  """Returns a class of tf.contrib.distributions.

  Args:
    name: one of DISTRIBUTIONS.

  Raises:
    ImportError: if tensorflow-probability is not installed.
  """
  target = probability(f"distributions.{_CLASSES.get(name, name)}", name)
  if name in _MADE:
    made = _MADE[name]

    def make(*args: Any, **kwargs: Any) -> Any:
      return made(target, *args, **kwargs)

    return stand_in(name, target, make)
  arguments = _ARGUMENTS[name].split()
  return stand_in(name, target, by_arguments(name, target, arguments))


def by_arguments(
  name: str, target: Any, arguments: list[str]
) -> Callable[..., Any]:
  """Returns a function that makes a class's instance of 1.15's arguments.

  Args:
    name: of 1.15's class.
    target: the class.
    arguments: the names of 1.15's arguments in their order.
  """
  renamed = _RENAMED.get(name, {})

  def make(*args: Any, **kwargs: Any) -> Any:
    given = _bound(name, arguments, args, kwargs)
    for unused in set(given) & set(_UNUSED) & set(arguments):
      if name == "OneHotCategorical" or name == "BatchReshape":
        break
      value = given.pop(unused)
      if unused == "dtype" and value is not None:
        _check_dtype(name, value, given)
      elif value != _UNUSED[unused]:
        raise NotImplementedError(
          f"tf.contrib.distributions.{name} does not take {unused}={value!r} "
          "any more. Leave it out."
        )
    for key in _SOFTPLUS.get(name, ()):
      given[key] = tf.nn.softplus(given[key])
    given = {renamed.get(key, key): own(one) for key, one in given.items()}
    return target(**{k: v for k, v in given.items() if v is not None})

  return make


def _check_dtype(name: str, dtype: Any, given: Mapping[str, Any]) -> None:
  parameter = given.get("logits", given.get("probs"))
  found = tf.convert_to_tensor(parameter).dtype
  if tf.as_dtype(dtype) != found:
    raise NotImplementedError(
      f"tf.contrib.distributions.{name} of {found.name} does not take "
      f"dtype={dtype!r} any more. Cast its samples."
    )


def _bound(
  name: str, arguments: list[str], args: Any, kwargs: Mapping[str, Any]
) -> dict[str, Any]:
  """The arguments by name."""
  if len(args) > len(arguments):
    raise TypeError(
      f"{name} takes {len(arguments)} arguments, and {len(args)} were given."
    )
  given = dict(zip(arguments, args, strict=False))
  for key, value in kwargs.items():
    if key in given or key not in arguments:
      raise TypeError(f"{name} was given {key!r} twice, or has no {key!r}.")
    given[key] = value
  return given


_OWN = (
  "Bernoulli",
  "Beta",
  "Categorical",
  "Dirichlet",
  "DirichletMultinomial",
  "Exponential",
  "Gamma",
  "Laplace",
  "Multinomial",
  "Normal",
  "StudentT",
  "Uniform",
)


def own(value: Any) -> Any:
  """Returns an argument as tensorflow-probability takes it.

  Args:
    value: a distribution of tf.distributions is made one of the package, also
      in a list; anything else stays.
  """
  if isinstance(value, list | tuple):
    return (
      type(value)(map(own, value)) if not hasattr(value, "_fields") else (value)
    )
  for name in _OWN:
    kind = getattr(tf.compat.v1.distributions, name)
    if isinstance(value, kind):
      return _converted(name, value)
  return value


def _converted(name: str, value: Any) -> Any:
  target = probability(f"distributions.{name}", name)
  takes = inspect.signature(target.__init__).parameters
  given = {
    key: getattr(value, key)
    for key in takes
    if key in ("validate_args", "allow_nan_stats")
    or (key != "name" and value.parameters.get(key) is not None)
  }
  return target(**given)
