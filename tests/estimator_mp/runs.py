"""Runs of Estimators, plain and sharded, to be compared."""

import contextlib
import dataclasses
import functools
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

import estimator_mp
from compat.private import keras
from estimator_mp import toolbox
from tests.estimator_mp import session_configs
from tests.estimator_mp.models import data

import numpy as np
import tensorflow as tf
from absl.testing import absltest


@dataclasses.dataclass(frozen=True)
class Run:
  """What training gave.

  Attributes:
    losses: The loss of each training step.
    variables: Every variable of the last checkpoint, slots too.
    devices: What each device executed in the first step.
    estimator: The Estimator that trained.
    input_fn: What it trained on.
  """

  losses: list[float]
  variables: dict[str, np.ndarray]
  devices: Mapping[str, Any]
  estimator: tf.estimator.Estimator
  input_fn: Callable[[], tf.data.Dataset]

  @functools.cached_property
  def serving(self) -> tuple[Mapping[str, Any], np.ndarray]:
    """The metrics of all examples, and the logits that it predicts."""
    metrics = self.estimator.evaluate(self.input_fn)
    return metrics, predict(self.estimator, self.input_fn)


class LossRecorder(tf.estimator.SessionRunHook):
  """Collects the loss of each step."""

  def __init__(self):
    self.losses = []

  def before_run(self, run_context):
    losses = run_context.session.graph.get_collection(
      tf.compat.v1.GraphKeys.LOSSES
    )
    return tf.estimator.SessionRunArgs(losses[-1])

  def after_run(self, run_context, run_values):
    self.losses.append(float(run_values.results))


class LosingHook(tf.estimator.SessionRunHook):
  """Does once what a session does when a task of its cluster has died."""

  def __init__(self, after_steps):
    self._after_steps = after_steps

  def begin(self):
    self._steps, self.has_lost = 0, False

  def before_run(self, run_context):
    if self._steps == self._after_steps and not self.has_lost:
      self.has_lost = True
      raise tf.errors.AbortedError(None, None, "a task has died")
    self._steps += 1


class SignalHook(tf.estimator.SessionRunHook):
  """Sends a signal to this process after some steps, and waits until it came.

  Attributes:
    steps: How many steps there were.
  """

  def __init__(self, number, after_steps, has_come):
    self.steps = 0
    self._number, self._after_steps = number, after_steps
    self._has_come = has_come

  def after_run(self, run_context, run_values):
    self.steps += 1
    if self.steps == self._after_steps:
      self.send()

  def send(self):
    os.kill(os.getpid(), self._number)
    deadline = time.monotonic() + 600
    while not self._has_come() and time.monotonic() < deadline:
      time.sleep(0.01)


def make_estimator(
  model_fn, config, params, model_dir, warm_start_from=None, **run_config
):
  """Returns an Estimator; `config` is None for a plain one.

  It writes no graph beside its checkpoints: as text, that takes as long as some
  steps of training.
  """
  run_config = {
    "tf_random_seed": 11,
    "model_dir": model_dir,
    "checkpoint_save_graph_def": False,
    "session_config": session_configs.default(
      allow_soft_placement=config is None
    ),
  } | run_config
  made = (
    tf.estimator.RunConfig(**run_config)
    if config is None
    else estimator_mp.run_config(config, **run_config)
  )
  return tf.estimator.Estimator(
    model_fn,
    config=made,
    params=params,
    warm_start_from=warm_start_from,
  )


def train(model_fn, config, params, model_dir, steps, input_fn=data.input_fn):
  """Trains an Estimator and returns the losses of the steps."""
  recorder = LossRecorder()
  estimator = make_estimator(model_fn, config, params, model_dir)
  with _seeded_layers(11):
    estimator.train(lambda: input_fn().repeat(), steps=steps, hooks=[recorder])
  return recorder.losses


@contextlib.contextmanager
def _seeded_layers(seed):
  """Lets layers draw their seeds as after `tf.keras.utils.set_random_seed`.

  What other tests of the process seeded does not count, and they do not see
  this one.
  """
  seeds = keras.seeds_of_layers(tf)
  before = getattr(seeds, "generator", None)
  seeds.generator = random.Random(seed)
  try:
    yield
  finally:
    seeds.generator = before


def go_on(
  model_fn,
  config,
  params,
  start_dir,
  model_dir,
  steps=4,
  input_fn=data.input_fn,
):
  """Trains on from a copy of a checkpoint."""
  shutil.copytree(start_dir, model_dir)
  estimator = make_estimator(model_fn, config, params, model_dir)
  recorder = LossRecorder()
  observer = toolbox.PlacementVerificationHook()
  estimator.train(
    lambda: input_fn().repeat(), steps=steps, hooks=[recorder, observer]
  )
  return Run(
    recorder.losses,
    variables_of(model_dir),
    observer.observed,
    estimator,
    input_fn,
  )


@functools.cache
def _plain(model_fn, params, before, steps, input_fn):
  """Returns a folder to start from, and the plain run from there."""
  params = dict(params) or None
  start = f"{tempfile.mkdtemp(dir=absltest.get_default_test_tmpdir())}/start"
  train(model_fn, None, params, start, before, input_fn)
  plain_dir = f"{start}_plain"
  return start, go_on(model_fn, None, params, start, plain_dir, steps, input_fn)


def plain_and_sharded(
  test,
  model_fn,
  config,
  params=None,
  before=1,
  steps=4,
  sharded=None,
  input_fn=data.input_fn,
):
  """Trains a model on from one checkpoint, plain and sharded.

  The plain run is made once in a process.

  Args:
    test: The test, whose folder the sharded run is in.
    model_fn: The model_fn.
    config: How to shard it.
    params: Its params.
    before: How many plain steps the checkpoint is after.
    steps: How many steps both train then.
    sharded: The model_fn that is sharded, if a test made it itself.
    input_fn: What both train on.

  Returns:
    The plain run, and the sharded one.
  """
  start, plain = _plain(
    model_fn, tuple((params or {}).items()), before, steps, input_fn
  )
  if sharded is None:
    sharded = estimator_mp.shard_model_fn(model_fn, config)
  folder = f"{test.create_tempdir().full_path}/sharded"
  return plain, go_on(sharded, config, params, start, folder, steps, input_fn)


def predict(estimator, input_fn=data.input_fn):
  """Returns the logits that an Estimator predicts for all examples."""
  return np.stack([p["logits"] for p in estimator.predict(input_fn)])


def variables_of(model_dir):
  """Returns every variable of the last checkpoint."""
  checkpoint = tf.train.load_checkpoint(model_dir)
  names = checkpoint.get_variable_to_shape_map()
  return {name: checkpoint.get_tensor(name) for name in names}


def assert_same_training(test, run, plain, rtol=1e-6):
  """Asserts that training gave the losses and variables of another run."""
  np.testing.assert_allclose(run.losses, plain.losses, rtol=rtol)
  test.assertCountEqual(run.variables, plain.variables)
  for name, value in plain.variables.items():
    test.assertEqual(run.variables[name].shape, value.shape, name)
    np.testing.assert_allclose(
      run.variables[name], value, rtol=rtol, atol=1e-7, err_msg=name
    )


def assert_same_serving(test, run, plain, rtol=1e-6):
  """Asserts that evaluation and prediction give what another run's give."""
  (metrics, logits), (expected, plain_logits) = run.serving, plain.serving
  test.assertCountEqual(metrics, expected)
  for name, value in expected.items():
    np.testing.assert_allclose(metrics[name], value, rtol=rtol, err_msg=name)
  # A logit near 0 is a sum of larger terms, and has their rounding errors.
  atol = rtol * np.abs(plain_logits).max()
  np.testing.assert_allclose(logits, plain_logits, rtol=rtol, atol=atol)
