"""Trains a model from weights that every TensorFlow is given, and tells of it.

The weights follow from the names and shapes of the variables, so nothing has to
be kept but what came out: names, shapes, losses, metrics and predictions. It
runs on TensorFlow 1.15 under Python 3.7, and today; `tf` is then the program's.
"""

import collections
import inspect
import zlib

from tests.compat.v1 import recording

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import random_seed

STEPS = 10


class Model(
  collections.namedtuple(
    "Model",
    "estimator train_input_fn input_fn predictions predict_input_fn loaded",
    defaults=(None, ()),
  )
):
  """What a program gives to be run.

  Attributes:
    estimator: an Estimator. What its model draws in training is numbered, so
      dropout is the same on every TensorFlow.
    train_input_fn: gives at least STEPS batches.
    input_fn: gives the few batches to evaluate and to predict; None if the
      model does neither.
    predictions: names of the predictions that are told of, () for none.
    predict_input_fn: gives what to predict, where input_fn does not.
    loaded: beginnings of names of variables that the program loads itself.
  """

  __slots__ = ()


def models_of(program):
  """Returns the functions of a program that make models, by name."""
  return {
    name: function
    for name, function in inspect.getmembers(program, inspect.isfunction)
    if not name.startswith("_") and function.__module__ == program.__name__
  }


def run_config(model_dir, **kwargs):
  """Returns a RunConfig for a program that needs no other."""
  return tf.estimator.RunConfig(
    model_dir=model_dir,
    tf_random_seed=1,
    session_config=session_config(),
    **kwargs,
  )


def session_config():
  """Returns a session configuration for programs that make their RunConfig.

  Without Grappler: it rewrites ops that are on one device, which rounds
  otherwise, and a sharded model has fewer of them on each.
  """
  config = tf.ConfigProto(allow_soft_placement=False)
  config.graph_options.rewrite_options.disable_meta_optimizer = True
  return config


def run(model):
  """Trains, evaluates and predicts.

  Random ops without a seed get theirs by the order in which they are made.

  Returns:
    What JSON can hold: "variables" (shapes by name), "losses" (one a step),
    "metrics" and "predictions" (both by name; a prediction is a list over the
    examples).
  """
  with recording.numbered_seeds(random_seed):
    return _run(model)


def _run(model):
  weights = GivenWeights(model.loaded)
  losses = Losses()
  model.estimator.train(
    model.train_input_fn, hooks=[weights, losses], max_steps=STEPS
  )
  found = {"variables": weights.shapes, "losses": losses.losses}
  if model.input_fn is not None:
    metrics = model.estimator.evaluate(model.input_fn)
    found["metrics"] = {name: _plain(metrics[name]) for name in metrics}
  if model.predictions:
    found["predictions"] = {name: [] for name in model.predictions}
    input_fn = model.predict_input_fn or model.input_fn
    for one in model.estimator.predict(input_fn):
      for name, values in found["predictions"].items():
        values.append(_plain(one[name]))
  return found


def _plain(value):
  """Numbers, or text, in lists."""
  value = np.asarray(value)
  return (
    np.char.decode(value.astype("S")).tolist()
    if (value.dtype.kind in "OS")
    else value.tolist()
  )


class GivenWeights(tf.train.SessionRunHook):
  """Fills the variables of a new session, which no other had, by a rule.

  Weights are normal, with the variance of one over the number of inputs, drawn
  from their name. Those that start as a constant (biases, the scales of a
  normalization) differ from it by a tenth. What is not trained, or counts,
  starts as the program says, and so does what it loads.
  """

  def __init__(self, loaded=()):
    self.shapes = {}
    self._loaded = loaded
    self._variables = []
    self._values = []
    self._trained = set()

  def begin(self):
    self._variables = tf.global_variables()
    self._values = [one.value() for one in self._variables]
    self._trained = {one.op.name for one in tf.trainable_variables()}

  def after_create_session(self, session, coord):
    initial = session.run(self._values)
    for variable, value in zip(self._variables, initial):
      name = variable.op.name
      is_new = name not in self.shapes and not name.startswith(self._loaded)
      self.shapes[name] = list(value.shape)
      if is_new and value.dtype.kind == "f":
        given = _given(name, value, name in self._trained)
        variable.load(given.astype(value.dtype), session)


def _given(name, initial, is_trained):
  """The value of one variable."""
  is_constant = np.all(initial == np.ravel(initial)[:1])
  if is_constant and not is_trained:
    return initial
  normal = np.random.RandomState(zlib.crc32(name.encode())).normal(
    size=initial.shape
  )
  if is_constant and (initial.size > 1 or initial == np.round(initial, 3)):
    return initial + 0.1 * normal
  return normal / np.sqrt(max(1, np.prod(initial.shape[:-1])))


class Losses(tf.train.SessionRunHook):
  """Keeps the loss of every step."""

  def __init__(self):
    self.losses = []
    self._loss = None

  def begin(self):
    # The Estimator puts there, last, what its model_fn gave.
    self._loss = tf.get_collection(tf.GraphKeys.LOSSES)[-1]

  def before_run(self, run_context):
    return tf.train.SessionRunArgs(self._loss)

  def after_run(self, run_context, run_values):
    self.losses.append(float(run_values.results))
