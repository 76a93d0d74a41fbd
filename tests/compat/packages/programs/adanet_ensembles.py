"""Ensembles that AdaNet grows: of its builders, and of canned Estimators."""

from tests.compat.packages import harness

import adanet
import numpy as np
import tensorflow as tf

_CLASSES = 3
# Two iterations.
_ITERATION_STEPS = harness.STEPS // 2


def grown(directory):
  """In each iteration a network as deep as the last one, and a deeper one."""
  estimator = adanet.Estimator(
    head=_head(),
    subnetwork_generator=_Generator(),
    max_iteration_steps=_ITERATION_STEPS,
    ensemblers=[
      adanet.ensemble.ComplexityRegularizedEnsembler(
        optimizer=tf.train.GradientDescentOptimizer(0.01),
        mixture_weight_type=adanet.ensemble.MixtureWeightType.MATRIX,
        adanet_lambda=0.01,
        use_bias=True,
      )
    ],
    evaluator=adanet.Evaluator(_data),
    config=harness.run_config(directory),
  )
  return _model(estimator)


def of_canned(directory):
  """A linear model and a deep one, as AutoEnsembleEstimator mixes them."""
  columns = [tf.feature_column.numeric_column("x", 8)]
  head = tf.contrib.estimator.multi_class_head(_CLASSES)
  estimator = adanet.AutoEnsembleEstimator(
    head=_head(),
    candidate_pool={
      "linear": tf.estimator.LinearEstimator(
        head, columns, optimizer=tf.train.FtrlOptimizer(0.1)
      ),
      "deep": tf.estimator.DNNEstimator(
        head,
        [6, 4],
        columns,
        optimizer=tf.train.AdagradOptimizer(0.1),
        dropout=0.2,
      ),
    },
    max_iteration_steps=_ITERATION_STEPS,
    config=harness.run_config(directory),
  )
  return _model(estimator)


class _Dense(adanet.subnetwork.Builder):
  """Fully connected layers with a batch norm; momentum trains them."""

  def __init__(self, num_layers):
    self._num_layers = num_layers

  @property
  def name(self):
    return "dense_%d" % self._num_layers

  def build_subnetwork(
    self,
    features,
    logits_dimension,
    training,
    iteration_step,
    summary,
    previous_ensemble=None,
  ):
    net = tf.to_float(features["x"])
    for _ in range(self._num_layers):
      net = tf.layers.dense(net, 6, activation=tf.nn.relu)
      net = tf.layers.dropout(net, 0.1, training=training)
    summary.scalar("mean", tf.reduce_mean(net))
    return adanet.Subnetwork(
      last_layer=net,
      logits=tf.layers.dense(net, logits_dimension),
      complexity=tf.sqrt(tf.to_float(self._num_layers)),
      shared={"num_layers": self._num_layers},
    )

  def build_subnetwork_train_op(
    self,
    subnetwork,
    loss,
    var_list,
    labels,
    iteration_step,
    summary,
    previous_ensemble,
  ):
    rate = tf.train.cosine_decay(0.05, iteration_step, _ITERATION_STEPS)
    optimizer = tf.train.MomentumOptimizer(rate, 0.9)
    return optimizer.minimize(loss, var_list=var_list)


class _Generator(adanet.subnetwork.Generator):
  def generate_candidates(
    self,
    previous_ensemble,
    iteration_number,
    previous_ensemble_reports,
    all_reports,
  ):
    num_layers = 1
    if previous_ensemble:
      last = previous_ensemble.weighted_subnetworks[-1].subnetwork
      num_layers = last.shared["num_layers"]
    return [_Dense(num_layers), _Dense(num_layers + 1)]


def _head():
  return tf.estimator.MultiClassHead(_CLASSES)


def _model(estimator):
  return harness.Model(
    estimator,
    lambda: _data().repeat(),
    _data,
    ("class_ids", "probabilities"),
    lambda: _data().map(lambda features, _: features),
  )


def _data():
  random = np.random.RandomState(1)
  x = random.normal(size=(32, 8)).astype(np.float32)
  labels = np.argmax(x[:, :_CLASSES] + x[:, _CLASSES : 2 * _CLASSES], axis=1)
  data = tf.data.Dataset.from_tensor_slices(({"x": x}, labels))
  return data.batch(8)
