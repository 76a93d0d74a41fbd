"""Models whose variables are split train to the plain model's losses."""

import functools
import os

import estimator_mp
from tests import tiers
from tests.estimator_mp import programs, runs, zoo

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_BATCH = (zoo.FEATURES, zoo.LABELS)
_STEPS = tiers.steps(6, 20)

# A column layer, then a row layer; tables by rows, or by columns.
_MLP = ((r"^dense(_2)?/kernel$", 1), (r"^dense_[13]/kernel$", 0))
_MLP_BY_INPUTS = ((r"^dense(_[12])?/kernel$", 0),)
_CNN = (
  (r"^conv2d/kernel$", 3),
  (r"^conv2d_1/kernel$", 2),
  (r"^dense/kernel$", 1),
)
_TRANSFORMER = (
  (r"embeddings$", "div"),
  (r"/(query|key|value|up|pooler)/kernel$", 1),
  (r"/(output|down|classifier)/kernel$", 0),
)
_LSTM = ((r"^embeddings$", 1), (r"^rnn_0/.*/kernel$", 1), (r"^cla.*/kern", 0))
_DEEPFM = (
  (r"/item_.*embedding_weights$", "div"),
  (r"/item/weights$", 0),
  (r"^dense(_1)?/kernel$", 1),
)
_KERAS = ((r"dense_a/kernel$", 1), (r"dense_b/kernel$", 0))
_WIDE_AND_DEEP = (
  (r"^wide/dense/kernel$", 0),
  (r"^deep/dense/kernel$", 1),
  (r"^deep/dense_1/kernel$", 0),
)
_CANNED = (
  (r"/embedding_weights", "columns"),
  (r"/hiddenlayer_0/kernel", 1),
  (r"/hiddenlayer_1/kernel", 0),
)

# Mesh, micro-batches, and how variables are split. Not the full product, but
# every value often.
_CASES = {
  "mlp_sgd": (("model:2", 1, "auto"), ("data:2,model:2", 4, _MLP)),
  "mlp_momentum": (("model:3", 4, _MLP), ("stage:2,model:2", 1, "auto")),
  "mlp_adam": (("model:4", 1, _MLP), ("data:2,model:2", 1, "auto")),
  "mlp_adagrad": (("model:2", 4, "auto"), ("stage:2,model:2", 4, _MLP)),
  "mlp_ftrl": (("model:3", 1, _MLP_BY_INPUTS),),
  "mlp_keras_adam": (("stage:2,model:2", 4, "auto"), ("model:3", 1, _MLP)),
  "cnn": (
    ("model:2", 4, _CNN),
    ("data:2,model:2", 1, "auto"),
    ("stage:2,model:2", 1, _CNN),
  ),
  "transformer": (
    ("model:2", 4, "auto"),
    ("model:3", 1, _TRANSFORMER),
    ("data:2,model:2", 1, _TRANSFORMER),
    ("stage:2,model:2", 4, "auto"),
  ),
  "lstm": (("model:4", 1, "auto"), ("data:2,model:2", 4, _LSTM)),
  "deepfm": (
    ("model:2", 1, "auto"),
    ("model:3", 4, _DEEPFM),
    ("stage:2,model:2", 1, _DEEPFM),
    ("data:2", 4, (("embedding_weights$", "div"),)),
  ),
  "keras_functional": (
    ("model:4", 4, "auto"),
    ("data:2,model:2", 1, _KERAS),
  ),
  "two_optimizers": (
    ("model:2", 1, _WIDE_AND_DEEP),
    ("stage:2,model:2", 4, "auto"),
  ),
  "canned": (("model:3", 1, "auto"), ("data:2,model:2", 4, _CANNED)),
}
# As for replicas: Adam brings gradients that are 0 but for rounding to full
# size, so that each step starts from the plain variables.
_CHAOTIC = ("deepfm", "transformer")


def _config(mesh, num_micro_batches=1, split="auto", **fields):
  return estimator_mp.ShardingConfig(
    mesh, num_micro_batches=num_micro_batches, split=split, **fields
  )


def _shards(program):
  """Returns the names of the shards of a program's variables."""
  names = [v.op.name for v in program.graph.get_collection("variables")]
  return [name for name in names if "/part_" in name]


def _batches():
  return [programs.examples(_BATCH, i % 12, i % 12 + 48) for i in range(_STEPS)]


@functools.cache
def _plain_steps(name):
  """Returns a model's variables, and what its plain steps give."""
  model = zoo.PURE_MODELS[name]
  plain = programs.Program(model.model_fn, None, _BATCH, model.params)
  before = plain.variables()
  return before, [plain.step(batch) for batch in _batches()]


class ModelsTest(parameterized.TestCase):
  def test_all_models_are_here(self):
    self.assertCountEqual(_CASES, zoo.PURE_MODELS)

  # A transformer is in model_axis_bert_test.
  @parameterized.named_parameters(
    tiers.sample(
      [
        (f"{name}_on_{case[0]}", name, *case)
        for name, cases in _CASES.items()
        for case in cases
      ]
    )
  )
  def test_losses_and_variables(self, name, mesh, num_micro_batches, split):
    """From scratch both start from the same bits; then they train."""
    before, expected = _plain_steps(name)
    model = zoo.PURE_MODELS[name]
    config = _config(mesh, num_micro_batches, split)
    program = programs.Program(model.model_fn, config, _BATCH, model.params)
    self.assertNotEmpty(_shards(program))
    start = program.variables()
    self.assertCountEqual(start, before)
    for variable, value in before.items():
      np.testing.assert_array_equal(start[variable], value, variable)
    variables = before
    for batch, of_plain in zip(_batches(), expected, strict=True):
      if name in _CHAOTIC:
        program.load(variables)
      step = program.step(batch)
      np.testing.assert_allclose(step.loss, of_plain.loss, rtol=1e-5)
      variables = of_plain.variables
    if name not in _CHAOTIC:
      programs.assert_same_variables(self, step.variables, variables, 1e-4)


class CheckpointTest(parameterized.TestCase):
  @tiers.slow
  @parameterized.named_parameters(
    tiers.sample(
      [("mlp_adam", "mlp_adam", _MLP), ("deepfm", "deepfm", _DEEPFM)]
    )
  )
  def test_moves_between_shards_and_the_plain_model(self, name, split):
    """Two steps each on several numbers of devices, between plain ones."""
    model = zoo.PURE_MODELS[name]
    folder = self.create_tempdir().full_path
    dirs = [os.path.join(folder, kind) for kind in ("plain", "moved")]
    meshes = tiers.sample(("model:3", "model:2", "model:4"))
    for mesh in (None, *meshes, None):
      losses = []
      for model_dir, of_mesh in zip(dirs, (None, mesh), strict=True):
        model_fn, config = model.model_fn, None
        if of_mesh is not None:
          config = _config(of_mesh, split=split)
          model_fn = estimator_mp.shard_model_fn(model_fn, config)
        tf.keras.utils.set_random_seed(3)  # Layers draw from Python's numbers.
        losses.append(
          runs.train(model_fn, config, model.params, model_dir, steps=2)
        )
      with self.subTest(mesh=mesh):
        np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
        plain, moved = map(runs.variables_of, dirs)
        self.assertEqual(
          {variable: value.shape for variable, value in moved.items()},
          {variable: value.shape for variable, value in plain.items()},
        )
        self.assertEqual(moved["global_step"], plain["global_step"])


def _one_table(features, labels, mode):
  table = v1.get_variable(
    "table",
    [4000, 8],
    initializer=v1.truncated_normal_initializer(stddev=0.5),
  )
  logits = tf.reduce_sum(
    tf.nn.embedding_lookup(table, features["ids"]), [1, 2], keepdims=True
  )[:, 0]
  return zoo.spec(
    mode, logits, labels, zoo.minimize(v1.train.AdagradOptimizer(0.1))
  )


class InitialValuesTest(parameterized.TestCase):
  def _table(self, seed, **fields):
    config = _config("model:2", split=(("^table$", "div"),), **fields)
    program = programs.Program(_one_table, config, _BATCH, seed=seed)
    return program.variables()["table"]

  def test_each_shard_draws_numbers_of_its_own(self):
    table = self._table(11, initial_values="by_shard")
    first, second = np.split(table, 2)
    self.assertLess(np.mean(first == second), 1e-3)
    for half in (first, second):
      # Cut off at two standard deviations.
      self.assertAlmostEqual(np.std(half), 0.88 * 0.5, delta=0.01)
      self.assertAlmostEqual(np.mean(half), 0.0, delta=0.02)
    again = self._table(11, initial_values="by_shard")
    np.testing.assert_array_equal(again, table)
    other = self._table(12, initial_values="by_shard")
    self.assertLess(np.mean(other == table), 1e-3)

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("cnn", "cnn", r"^dense/kernel$"),
        ("transformer", "transformer", r"pooler/kernel$"),
      ]
    )
  )
  def test_seeds_of_the_graph_are_the_plain_ones(self, name, split):
    """Masks of dropout are those of the plain model, too."""
    model = zoo.MODELS[name]
    config = _config("model:2", split=((split, 1),))
    of_plain, of_split = (
      {
        op.name: (op.get_attr("seed"), op.get_attr("seed2"))
        for op in programs.Program(
          model.model_fn, of, _BATCH, model.params
        ).graph.get_operations()
        if "seed2" in op.node_def.attr
      }
      for of in (None, config)
    )
    self.assertTrue(any("dropout" in name for name in of_plain))
    self.assertLessEqual(of_plain.items(), of_split.items())


if __name__ == "__main__":
  absltest.main()
