"""A sharded model is called equal if it is, and the registry has each once."""

import collections
import dataclasses
from unittest import mock

from benchmarks import ordinary_models
from tests.estimator_mp import parts
from tests.estimator_mp.models import catalogue, comparison, registry

import numpy as np
import tensorflow as tf
from absl.testing import absltest

_MODEL = catalogue.MODELS["plain_mean"]


def _weighted_mean(features, labels, mode):
  """Another function: the losses of the same model, weighed."""
  losses = parts.losses(labels, parts.logits(features["x"]))
  return parts.spec(mode, tf.reduce_mean(losses * (1.0 + labels)))


def _fails(features, labels, mode):
  raise ValueError("what model_fn says\nin two lines")


def _trained(difference=0.0, **variables):
  """Returns a run whose values are off by a number."""
  variables = {"w": [2.0, 1000.0], "n": np.int64(3)} | variables
  variables = {name: np.array(value) for name, value in variables.items()}
  variables["w"] *= 1.0 + difference
  return comparison.Trained([0.5, 0.25], variables)


class JudgeTest(absltest.TestCase):
  def _judge(self, run, **fields):
    model = dataclasses.replace(_MODEL, **fields)
    return comparison.judge(model, run, _trained())

  def test_what_is_nearly_the_plain_run(self):
    self.assertEqual(self._judge(_trained(2e-6)).verdict, "equal")
    self.assertEqual(self._judge(_trained(-5e-5)).verdict, "close")

  def test_what_is_not_the_plain_run(self):
    found = self._judge(_trained(0.125))
    self.assertEqual(found, comparison.Outcome("another", "1.2e-01 of w"))
    off = self._judge(_trained(0.125), is_random=True)
    self.assertEqual(off.verdict, "random")
    for run in (
      _trained(n=np.int64(4)),
      _trained(n=np.int32(3)),
      _trained(w=[2.0, np.nan]),
      _trained(w=[2.0]),
      _trained(more=1.0),
      dataclasses.replace(_trained(), losses=[0.5, 0.26]),
    ):
      self.assertEqual(self._judge(run).verdict, "another", run)


class CompareTest(absltest.TestCase):
  def test_a_sharded_model_is_equal_and_another_function_is_not(self):
    plain = comparison.train(_MODEL, registry.OPEN, 2)
    self.assertLen(plain.losses, 2)
    self.assertIn("global_step", plain.variables)
    stages = comparison.sharding_of("stage:2")
    for model_fn, verdict in (
      (_MODEL.model_fn, "equal"),
      (_weighted_mean, "another"),
    ):
      model = dataclasses.replace(_MODEL, model_fn=model_fn)
      found = comparison.compare(model, registry.OPEN, plain, stages)
      self.assertEqual(found.verdict, verdict)

  def test_only_what_estimator_mp_refuses_is_refused(self):
    failing = dataclasses.replace(_MODEL, model_fn=_fails)
    for model, mesh, verdict, what in (
      (_MODEL, "stage:9", "refused", "fewer than the 9 stages"),
      (failing, "stage:2*4", "crash", "^ValueError: what model_fn says$"),
    ):
      config = comparison.sharding_of(mesh)
      found = comparison.compare(model, registry.STATIC, _trained(), config)
      self.assertEqual(found.verdict, verdict, found.what)
      self.assertRegex(found.what, what)

  def test_a_mesh_and_its_micro_batches(self):
    config = comparison.sharding_of("data:2,stage:2*4")
    self.assertEqual(config.mesh, "data:2,stage:2")
    self.assertEqual(config.num_micro_batches, 4)
    self.assertEqual(comparison.sharding_of("data:2").num_micro_batches, 1)

  def test_a_model_that_fails_without_sharding_is_unstable(self):
    failing = dataclasses.replace(_MODEL, model_fn=_fails)
    with mock.patch.dict(catalogue.MODELS, failing=failing):
      found = [*ordinary_models.rows("failing", registry.OPEN, 1, {})]
    (row,) = found
    what = "ValueError: what model_fn says"
    self.assertEqual(row, ("plain", comparison.Outcome("unstable", what)))


class RegistryTest(absltest.TestCase):
  def test_no_model_is_there_twice(self):
    with self.assertRaisesRegex(ValueError, "name plain_mean; rename one"):
      registry.model("x")(_MODEL.model_fn)
    codes = collections.defaultdict(list)
    for name, model in catalogue.tagged("ordinary").items():
      code = model.model_fn.__code__
      # What a docstring says is no difference.
      constants = [x for x in code.co_consts if x != model.model_fn.__doc__]
      key = (code.co_code, repr(constants), code.co_names)
      codes[key, model.features, model.labels].append(name)
    twice = [names for names in codes.values() if len(names) > 1]
    self.assertEmpty(twice)

  def test_the_batches_are_those_that_the_inputs_say(self):
    model = dataclasses.replace(_MODEL, features=("x", "words", "tags"))
    for size, shape, sizes in (
      (registry.STATIC, 8, [8, 8, 8, 8, 8]),
      (registry.OPEN, None, [8, 8, 8, 8, 5]),
    ):
      data = model.input_fn(size)
      features, labels = data.element_spec
      self.assertEqual(features["x"].shape.as_list(), [shape, 12])
      self.assertEqual(features["words"].shape.as_list(), [shape, None, 1])
      self.assertEqual(labels.shape.as_list(), [shape, 1])
      self.assertEqual([len(y) for _, y in data.as_numpy_iterator()], sizes)


if __name__ == "__main__":
  absltest.main()
