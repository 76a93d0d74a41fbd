"""Savers, and what else reads checkpoints, inside of model_fn."""

import os
import tempfile

import estimator_mp
from tests import tiers
from tests.estimator_mp import programs, runs
from tests.estimator_mp.models import networks

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
EVAL = tf.estimator.ModeKeys.EVAL
CONFIG = estimator_mp.ShardingConfig("stage:3")
_SHAPES = {
  "net/a/kernel": [10, 16],
  "net/a/bias": [16],
  "net/b/kernel": [16, 8],
  "net/b/bias": [8],
  "net/c/kernel": [8, 8],
  "net/c/bias": [8],
  "d/kernel": [8, 1],
  "d/bias": [1],
}
_RULES = ((r"^net/a/", 0), (r"^net/b/", 1), (r"^net/c/", 2), (r".", 2))


# Which modes have a Saver of their own; an early one is made before the model.
_SAVERS = {
  "serving": ("eval", "infer"),
  "early": ("train", "early"),
  "both": ("train", "eval"),
}


def _net(features):
  """Four dense layers."""
  return v1.layers.dense(networks.net(features["x"], width=8), 1, name="d")


def _averages_by_hand(mode):
  """Returns what `ExponentialMovingAverage` does, for any kind of variable."""
  made = {
    variable: v1.get_variable(
      f"{variable.op.name}/average",
      initializer=tf.zeros(variable.shape),
      trainable=False,
    )
    for variable in v1.trainable_variables()
    if mode == networks.TRAIN
  }

  def apply():
    return tf.group(*[v1.assign_add(a, 0.5 * (v - a)) for v, a in made.items()])

  restored = {v.op.name: v for v in v1.global_variables()}
  for variable in v1.trainable_variables():
    restored[f"{variable.op.name}/average"] = restored.pop(variable.op.name)
  return apply, None if mode == networks.TRAIN else restored


def _averages(mode):
  averages = v1.train.ExponentialMovingAverage(0.5)
  restored = averages.variables_to_restore() if mode != networks.TRAIN else None
  return lambda: averages.apply(v1.trainable_variables()), restored


def averaged(features, labels, mode, params):
  """Evaluates with averages; `params` says which Savers it makes itself."""
  logits = _net(features)
  apply, restored = params["averages"](mode)
  if "early" in params["savers"]:  # To load other models' weights, say.
    with tf.device("/cpu:0"):
      v1.train.Saver(v1.trainable_variables()[2:], sharded=params["sharded"])

  def train(loss):
    update = networks.minimize(v1.train.AdamOptimizer(0.05))(loss)
    with tf.control_dependencies([update]):
      return apply()

  spec = networks.spec(mode, logits, labels, train)
  if mode in params["savers"]:
    saver = v1.train.Saver(restored, sharded=params["sharded"])
    spec = spec._replace(scaffold=v1.train.Scaffold(saver=saver))
  return spec


def finetuned(features, labels, mode, params):
  """Begins with the weights of another model, as BERT's fine-tuning does."""
  with v1.variable_scope("mine"):
    logits = _net(features)
  given = {
    variable.op.name.removeprefix("mine/"): variable
    for variable in v1.trainable_variables()
  }
  scaffold = None
  if params["by"] == "names":
    v1.train.init_from_checkpoint(params["path"], given)
  elif params["by"] == "scope":
    v1.train.init_from_checkpoint(params["path"], {"/": "mine/"})
  else:
    saver = v1.train.Saver(given)
    scaffold = v1.train.Scaffold(
      init_fn=lambda _, session: saver.restore(session, params["path"])
    )

  def train(loss):
    update = networks.minimize(v1.train.MomentumOptimizer(0.1, 0.9))(loss)
    if not params["averages"]:
      return update
    with tf.control_dependencies([update]):  # They begin with these weights.
      averages = v1.train.ExponentialMovingAverage(0.5)
      return averages.apply(v1.trainable_variables())

  spec = networks.spec(mode, logits, labels, train)
  return spec._replace(scaffold=scaffold)


def _save_weights(path):
  """Writes a checkpoint of another model's weights."""
  with tf.Graph().as_default(), v1.Session() as session:
    v1.set_random_seed(3)
    for name, shape in _SHAPES.items():
      v1.get_variable(
        name, shape, initializer=v1.random_normal_initializer(0.1)
      )
    session.run(v1.global_variables_initializer())
    return v1.train.Saver().save(session, path)


class SaversTest(parameterized.TestCase):
  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.plain = {}

  def use_kinds(self, has_resources, has_v2_loops):
    """Chooses kinds of variables and of control flow for one test."""
    if not has_resources:
      v1.disable_resource_variables()
      self.addCleanup(v1.enable_resource_variables)
    if not has_v2_loops:
      v1.disable_control_flow_v2()
      self.addCleanup(v1.enable_control_flow_v2)

  @tiers.slow
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("serving_resources_v2", True, True, "serving"),
        ("early_references_v2", False, True, "early"),
        ("early_resources_v1", True, False, "early"),
        ("serving_references_v1", False, False, "serving"),
        ("both_references_v1", False, False, "both"),
      ]
    )
  )
  def test_evaluates_with_averages(self, has_resources, has_v2_loops, savers):
    self.use_kinds(has_resources, has_v2_loops)
    # ExponentialMovingAverage itself cannot do with references in `If`.
    by_hand = has_v2_loops and not has_resources
    params = {
      "averages": _averages_by_hand if by_hand else _averages,
      "savers": _SAVERS[savers],
      "sharded": False,
    }
    self.assert_same(averaged, params, CONFIG)

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("replicas_of_references", {"mesh": "data:2,stage:2"}, False),
        ("zero", {"mesh": "data:2", "optimizer_state": "sharded"}),
        ("micro_batches", {"mesh": "stage:3", "num_micro_batches": 4}),
        (
          "each_micro_batch_updates",
          {
            "mesh": "stage:2",
            "num_micro_batches": 4,
            "batch_norm": "per_micro_batch",
          },
        ),
        (
          "two_stages_on_a_device",
          {
            "mesh": "stage:2",
            "num_micro_batches": 4,
            "schedule": "interleaved",
            "num_virtual_stages": 2,
          },
        ),
        (
          "rules_for_references",
          {"mesh": "stage:3", "placement": _RULES},
          False,
        ),
      ]
    )
  )
  def test_with_all_savers_on(self, settings, has_resources=True):
    self.use_kinds(has_resources, has_v2_loops=has_resources)
    params = {
      "averages": _averages,
      "savers": ("train", "early", "eval"),
      "sharded": True,
    }
    config = estimator_mp.ShardingConfig(**settings)
    self.assert_same(averaged, params, config, rtol=1e-5)

  @tiers.slow
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("by_names_to_references", "names", "stage:3", (False, False)),
        ("by_names_to_mirrors", "names", "data:2,stage:2", (False, False)),
        ("by_scope", "scope", "stage:3", (True, False)),
        ("by_scope_to_replicas", "scope", "data:2,stage:2"),
        ("by_a_saver_to_replicas", "saver", "data:2,stage:2"),
      ]
    )
  )
  def test_begins_with_another_models_weights(
    self, by, mesh, kinds=(True, True)
  ):
    self.use_kinds(*kinds)
    folder = self.create_tempdir().full_path
    params = {
      "path": _save_weights(os.path.join(folder, "weights")),
      "by": by,
      "averages": mesh == "stage:3" and by != "saver",
    }
    config = estimator_mp.ShardingConfig(mesh)
    self.assert_same(finetuned, params, config, 1e-5, 0)

  def assert_same(self, model_fn, params, config, rtol=1e-6, steps=1):
    """Asserts that training, and serving, are the plain model's.

    Args:
      model_fn: The model_fn.
      params: Its params.
      config: How to shard it.
      rtol: The difference that is allowed.
      steps: After how many plain steps both begin.
    """
    start, plain = self._start_and_plain_run(model_fn, params, steps)
    sharded = estimator_mp.shard_model_fn(model_fn, config)
    model_dir = os.path.join(self.create_tempdir().full_path, "sharded")
    run = runs.go_on(sharded, config, params, start, model_dir, 3)
    np.testing.assert_allclose(run.losses, plain.losses, rtol)
    programs.assert_same_variables(self, run.variables, plain.variables, rtol)
    runs.assert_same_serving(self, run, plain, rtol)

  def _start_and_plain_run(self, model_fn, params, steps):
    """Returns a folder to start from, and the plain run from there.

    They are the same for all ways to shard a model.
    """
    kinds = v1.resource_variables_enabled(), v1.control_flow_v2_enabled()
    key = model_fn, str(params), steps, kinds
    if key not in self.plain:
      folder = tempfile.mkdtemp(dir=absltest.get_default_test_tmpdir())
      start = os.path.join(folder, "start")
      os.makedirs(start)
      if steps:
        runs.train(model_fn, None, params, start, steps)
      plain_dir = os.path.join(folder, "plain")
      plain = runs.go_on(model_fn, None, params, start, plain_dir, 3)
      self.plain[key] = start, plain
    return self.plain[key]


if __name__ == "__main__":
  absltest.main()
