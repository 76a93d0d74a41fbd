"""tf.contrib.distributions and bayesflow: densities, moments, divergences."""

import numpy as np
import tensorflow as tf

ds = tf.contrib.distributions
_A = np.array([0.5, 1.5], np.float32)
_B = np.array([2.0, 0.75], np.float32)
_MATRIX = np.array([[2.0, 0.0], [-0.5, 1.25]], np.float32)


def _fed(value):
  return tf.placeholder_with_default(value, value.shape)


def _known(distribution, values, *methods):
  """Densities of values, and what the methods give."""
  found = {"log_prob": distribution.log_prob(values)}
  for method in methods:
    if method == "cdf":
      found[method] = distribution.cdf(values)
    else:
      found[method] = getattr(distribution, method)()
  found["batch_shape"] = np.array(distribution.batch_shape.as_list())
  found["event_shape"] = np.array(distribution.event_shape.as_list())
  return found


_MOMENTS = ("mean", "variance", "stddev")


def own():
  a, b = _fed(_A), _fed(_B)
  found = {}
  for name, one in [
    ("normal", ds.Normal(a, b)),
    ("softplus", ds.NormalWithSoftplusScale(a, b)),
    ("gamma", ds.GammaWithSoftplusConcentrationRate(a, b)),
    ("laplace", ds.LaplaceWithSoftplusScale(a, b)),
    ("beta", ds.BetaWithSoftplusConcentration(a, b)),
    ("exponential", ds.ExponentialWithSoftplusRate(a)),
    ("student", ds.StudentTWithAbsDfSoftplusScale(b + 3.0, a, b)),
    ("chi2", ds.Chi2(a + 1.0)),
    ("chi2abs", ds.Chi2WithAbsDf(-a - 2.0)),
  ]:
    known = _known(one, _fed(np.array([0.25, 0.5], np.float32)), *_MOMENTS)
    found.update({name + "/" + key: value for key, value in known.items()})
  found["sample"] = ds.Normal(a, b).sample(2, seed=3)
  found["kl"] = ds.kl_divergence(ds.Normal(a, b), ds.Normal(b, a))
  return found


def multivariate_normals():
  a, b = _fed(_A), _fed(_B)
  covariance = tf.matmul(_fed(_MATRIX), _fed(_MATRIX), transpose_b=True)
  made = {
    "diag": ds.MultivariateNormalDiag(a, b),
    "times": ds.MultivariateNormalDiag(a, scale_identity_multiplier=2.0),
    "both": ds.MultivariateNormalDiag(a, b, 0.5),
    "softplus": ds.MultivariateNormalDiagWithSoftplusScale(a, b),
    "tril": ds.MultivariateNormalTriL(a, _fed(_MATRIX)),
    "full": ds.MultivariateNormalFullCovariance(a, covariance),
    "low_rank": ds.MultivariateNormalDiagPlusLowRank(
      a, b, scale_perturb_factor=_fed(_A[:, np.newaxis])
    ),
  }
  found = {}
  for name, one in made.items():
    known = _known(one, b, "mean", "variance", "covariance", "entropy")
    found.update({name + "/" + key: value for key, value in known.items()})
  found["kl"] = ds.kl_divergence(made["diag"], made["tril"])
  found["kl2"] = made["both"].kl_divergence(made["diag"])
  return found


def scalars():
  a, b = _fed(_A), _fed(_B)
  counts = _fed(np.array([1.0, 3.0], np.float32))
  found = {}
  for name, one, values, methods in [
    ("cauchy", ds.Cauchy(a, b), b, ("mode", "entropy", "cdf")),
    ("half", ds.HalfNormal(b), a, (*_MOMENTS, "entropy", "cdf")),
    ("logistic", ds.Logistic(a, b), b, (*_MOMENTS, "entropy", "cdf")),
    ("inverse", ds.InverseGamma(a + 3.0, b), b, (*_MOMENTS, "mode")),
    (
      "inverse_softplus",
      ds.InverseGammaWithSoftplusConcentrationRate(a + 3.0, b),
      b,
      ("mean",),
    ),
    ("poisson", ds.Poisson(b), counts, _MOMENTS),
    ("log_poisson", ds.Poisson(log_rate=b), counts, ("mean",)),
    ("binomial", ds.Binomial(5.0, probs=a / 2), counts, _MOMENTS),
    ("negative", ds.NegativeBinomial(b, a), counts, _MOMENTS),
    ("geometric", ds.Geometric(probs=a / 2), counts, _MOMENTS),
    ("kumaraswamy", ds.Kumaraswamy(a, b), a / 2, ()),
    ("relaxed", ds.RelaxedBernoulli(0.5, b), a / 2, ()),
    ("deterministic", ds.Deterministic(a), a, ("mean",)),
    ("sinh", ds.SinhArcsinh(a, b, 0.5, 1.5), b, ()),
  ]:
    known = _known(one, values, *methods)
    found.update({name + "/" + key: value for key, value in known.items()})
  return found


def vectors():
  a, b = _fed(_A), _fed(_B)
  one_hot = _fed(np.array([0.0, 1.0], np.float32))
  found = {}
  for name, one, values, methods in [
    (
      "one_hot",
      ds.OneHotCategorical(a, dtype=tf.float32),
      one_hot,
      ("entropy",),
    ),
    ("relaxed", ds.RelaxedOneHotCategorical(0.5, a), tf.nn.softmax(b), ()),
    (
      "log_relaxed",
      ds.ExpRelaxedOneHotCategorical(0.5, a),
      tf.nn.log_softmax(b),
      (),
    ),
    ("fixed", ds.VectorDeterministic(a), a, ("mean",)),
    ("independent", ds.Independent(ds.Normal(a, b), 1), b, _MOMENTS),
    ("wishart", ds.WishartCholesky(4.0, _fed(_MATRIX)), tf.eye(2), ("mean",)),
    ("full", ds.WishartFull(4.0, tf.eye(2) * 2.0), tf.eye(2), ("mean",)),
  ]:
    known = _known(one, values, *methods)
    found.update({name + "/" + key: value for key, value in known.items()})
  found["kl"] = ds.kl_divergence(
    ds.OneHotCategorical(a), ds.OneHotCategorical(b)
  )
  return found


def mixtures():
  a, b = _fed(_A), _fed(_B)
  x = _fed(np.float32(0.3))
  mixture = ds.Mixture(
    cat=ds.Categorical(logits=a),
    components=[ds.Normal(a[0], b[0]), ds.Normal(a[1], b[1])],
  )
  family = ds.MixtureSameFamily(ds.Categorical(probs=a / 2), ds.Normal(a, b))
  several = ds.MixtureSameFamily(
    ds.Categorical(logits=a),
    ds.MultivariateNormalDiag(_fed(_MATRIX), tf.ones([2, 2])),
  )
  return {
    "mixture": mixture.log_prob(x),
    "mean": mixture.mean(),
    "family": family.log_prob(x),
    "family_mean": family.mean(),
    "family_variance": family.variance(),
    "several": several.log_prob(a),
  }


def transformed():
  a, b = _fed(_A), _fed(_B)
  log_normal = ds.TransformedDistribution(
    distribution=ds.Normal(a, b), bijector=ds.bijectors.Exp()
  )
  shifted = ds.TransformedDistribution(
    ds.Normal(a, b), ds.bijectors.AffineScalar(shift=1.0, scale=2.0)
  )
  steps = ds.QuantizedDistribution(ds.Logistic(a * 3, b), low=0.0, high=5.0)
  return {
    "log_normal": log_normal.log_prob(b),
    "cdf": log_normal.cdf(b),
    "shifted": shifted.log_prob(b),
    "steps": steps.log_prob(_fed(np.array([1.0, 5.0], np.float32))),
    "reshaped": ds.BatchReshape(ds.Normal(a, b), [2, 1]).log_prob(
      _fed(_B[:, np.newaxis])
    ),
  }


def bijectors():
  bs = ds.bijectors
  a, x = _fed(_A), _fed(_B)
  unit = _fed(np.array([0.25, 0.5], np.float32))
  found = {}
  for name, one, values, dims in [
    ("affine", bs.Affine(a, 2.0, a), x, 1),
    ("tril", bs.Affine(a, scale_tril=_fed(_MATRIX)), x, 1),
    ("times", bs.Affine(scale_identity_multiplier=0.5), x, 1),
    ("scalar", bs.AffineScalar(a, x), x, 0),
    (
      "operator",
      bs.AffineLinearOperator(a, tf.linalg.LinearOperatorDiag(a)),
      x,
      1,
    ),
    ("chain", bs.Chain([bs.Exp(), bs.Softplus()]), x, 0),
    ("gumbel", bs.Gumbel(a, x), x, 0),
    ("identity", bs.Identity(), x, 0),
    ("invert", bs.Invert(bs.Exp()), x, 0),
    ("kumaraswamy", bs.Kumaraswamy(a, x), unit, 0),
    ("ordered", bs.Ordered(), tf.sort(x), 1),
    ("permute", bs.Permute([1, 0]), x, 1),
    ("power", bs.PowerTransform(0.5), x, 0),
    ("sigmoid", bs.Sigmoid(), x, 0),
    ("sinh", bs.SinhArcsinh(0.5, 1.5), x, 0),
    ("softplus", bs.Softplus(), x, 0),
    ("softsign", bs.Softsign(), x, 0),
    ("square", bs.Square(), x, 0),
    ("fill", bs.FillTriangular(), _fed(np.float32([1.0, 2.0, 3.0])), 1),
    ("scale_tril", bs.ScaleTriL(), _fed(np.float32([1.0, 2.0, 3.0])), 1),
    ("reshape", bs.Reshape([1, 2], [2]), x, 1),
  ]:
    forward = one.forward(values)
    found[name + "/forward"] = forward
    back = tf.identity(forward)
    # 1.15's Grappler loses the sign of forward_log_det_jacobian.
    found[name + "/slope"] = one.inverse_log_det_jacobian(
      back, 2 if name in ("fill", "scale_tril", "reshape") else dims
    )
    found[name + "/inverse"] = one.inverse(back)
  return found


def functions():
  x = _fed(np.random.RandomState(2).normal(size=[3, 5]).astype(np.float32))
  prior = ds.Normal(_fed(_A), _fed(_B))
  total = _fed(np.float32(7.0))
  posterior = ds.normal_conjugates_known_scale_posterior(prior, 2.0, total, 3)
  next_one = ds.normal_conjugates_known_scale_predictive(prior, 2.0, total, 3)
  return {
    "softplus_inverse": ds.softplus_inverse(_fed(_A)),
    "fill": ds.fill_triangular(x[0, :3]),
    "fill_upper": ds.fill_triangular(x[:, :3], upper=True),
    "unfill": ds.fill_triangular_inverse(_fed(_MATRIX)),
    "percentile": ds.percentile(x, 30.0, axis=1),
    "higher": ds.percentile(x, 30.0, interpolation="higher", keep_dims=True),
    "correlation": ds.auto_correlation(x),
    "logsumexp": ds.reduce_weighted_logsumexp(x, tf.abs(x), 1, keep_dims=True),
    "diagonal": ds.matrix_diag_transform(_fed(_MATRIX), tf.exp),
    "tridiag": ds.tridiag(x[0, :2], x[1, :3], x[2, :2]),
    "mean": posterior.loc,
    "scale": posterior.scale,
    "next_mean": next_one.loc,
    "next_scale": next_one.scale,
  }


def moving():
  value = _fed(_A)
  mean, variance = ds.moving_mean_variance(value, 0.9)
  logarithm = tf.get_variable("log", [2], initializer=tf.zeros_initializer())
  moved = ds.assign_log_moving_mean_exp(logarithm, value, 0.75)
  step = tf.train.get_or_create_global_step()
  return {"value": value}, tf.group(
    mean, variance, moved, tf.assign_add(step, 1)
  )


def monte_carlo():
  carlo = tf.contrib.bayesflow.monte_carlo
  loc = tf.get_variable("loc", [2])
  normal = ds.Normal(loc, _fed(_B))
  z = _fed(np.random.RandomState(2).normal(size=[6, 2]).astype(np.float32))
  other = ds.Normal(_fed(_B), 1.5)
  return {
    "mean": carlo.expectation(tf.square, z + loc),
    "score": carlo.expectation(
      tf.square, z, normal.log_prob, use_reparametrization=False
    ),
    "sampler": carlo.expectation_importance_sampler(
      lambda x: x * 2.0, other.log_prob, normal, z=z
    ),
    "logspace": carlo.expectation_importance_sampler_logspace(
      tf.square, other.log_prob, normal, z=z
    ),
  }
