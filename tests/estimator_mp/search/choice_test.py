"""mesh="auto": it trains as one device does, and keeps its choice."""

import json
import pathlib

import estimator_mp

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_DEVICES = tuple(f"/cpu:{i}" for i in range(4))
_X = np.random.RandomState(0).randn(64, 16).astype(np.float32)


def _model_fn(features, labels, mode, params):
  net = features["x"]
  for units in params["units"]:
    net = v1.layers.dense(net, units, tf.nn.relu)
  predictions = v1.layers.dense(net, 1)
  loss = v1.losses.mean_squared_error(labels, predictions)
  step = v1.train.get_global_step()
  train_op = v1.train.AdamOptimizer(0.01).minimize(loss, step)
  return tf.estimator.EstimatorSpec(
    mode, {"y": predictions}, loss=loss, train_op=train_op
  )


def _input_fn():
  data = ({"x": _X}, _X.sum(1, keepdims=True))
  return tf.data.Dataset.from_tensors(data).repeat()


def _estimator(model_dir, **options):
  tf.keras.utils.set_random_seed(5)  # The seeds that layers draw.
  config = tf.estimator.RunConfig(model_dir, tf_random_seed=7)
  plain = tf.estimator.Estimator(
    _model_fn, config=config, params={"units": [256, 256, 256]}
  )
  sharding = estimator_mp.ShardingConfig(**options)
  return estimator_mp.shard_estimator(plain, sharding)


def _tables_model_fn(features, labels, mode, params):
  """Two tables of 0.5 and 0.25 MB, with as much of slots, and small layers."""
  with v1.variable_scope("tables"):
    sizes = {"user": 8000, "item": 4000}
    tables = {x: v1.get_variable(x, [n, 16]) for x, n in sizes.items()}
  rows = [tf.nn.embedding_lookup(tables[x], features[x]) for x in sizes]
  net = v1.layers.dense(tf.concat(rows, 1), params["units"], tf.nn.relu)
  loss = v1.losses.mean_squared_error(labels, v1.layers.dense(net, 1))
  optimizer = v1.train.AdagradOptimizer(0.1)
  train_op = optimizer.minimize(loss, v1.train.get_global_step())
  return tf.estimator.EstimatorSpec(
    mode, {"loss": loss}, loss=loss, train_op=train_op
  )


def _ids_input_fn():
  random = np.random.RandomState(3)
  users, items = random.randint(8000, size=64), random.randint(4000, size=64)
  labels = random.rand(64, 1).astype(np.float32)
  data = ({"user": users, "item": items}, labels)
  return tf.data.Dataset.from_tensors(data).repeat()


class ChoiceTest(parameterized.TestCase):
  def test_it_trains_as_on_one_device_and_goes_on_with_the_same_mesh(self):
    folder = self.create_tempdir().full_path
    options = {"mesh": "auto", "machine": "v100", "devices": _DEVICES}
    for steps in (3, 6):
      _estimator(folder, **options).train(_input_fn, max_steps=steps)
    path = pathlib.Path(folder, "auto_mesh.json")
    chosen = json.loads(path.read_text())
    self.assertNotEqual(chosen["mesh"], "stage:1")
    sharded = _estimator(folder, **options)
    alone = _estimator(self.create_tempdir().full_path, mesh="stage:1")
    alone.train(_input_fn, max_steps=6)
    losses = [x.evaluate(_input_fn, steps=1)["loss"] for x in (sharded, alone)]
    self.assertAlmostEqual(losses[0], losses[1], delta=1e-4 * losses[1])

  def test_a_kept_choice_counts(self):
    folder = self.create_tempdir().full_path
    path = pathlib.Path(folder, "auto_mesh.json")
    path.write_text('{"format": 1, "mesh": "stage:2", "num_micro_batches": 2}')
    estimator = _estimator(folder, mesh="auto", devices=_DEVICES)
    estimator.train(_input_fn, max_steps=1)
    placement = json.loads(pathlib.Path(folder, "placement.json").read_text())
    self.assertEqual(placement["mesh"], "stage:2")

  def test_a_model_that_needs_the_size_of_its_batch(self):
    def model_fn(features, labels, mode, params):
      x = tf.reshape(features["x"], [int(features["x"].shape[0]), 16])
      return _model_fn({"x": x}, labels, mode, params)

    config = estimator_mp.ShardingConfig(
      mesh="auto", machine="v100", devices=("4",)
    )
    found = estimator_mp.plan(
      model_fn, _input_fn, config, params={"units": [256, 256]}
    )
    self.assertNotEqual(str(found.mesh), "stage:1")
    self.assertIn("estimator_mp.ShardingConfig(mesh=", found.table())

  @parameterized.parameters(None, 1e6, 700e3, 450e3)
  def test_variables_keep_the_limit_of_memory(self, limit):
    options = {"mesh": "auto", "machine": "v100", "devices": _DEVICES}
    plan = estimator_mp.plan(
      _tables_model_fn,
      _ids_input_fn,
      estimator_mp.ShardingConfig(memory_limit=limit and int(limit), **options),
      params={"units": 8},
    )
    held = [x.variable_bytes for x in plan.placement.replicas]
    if limit is not None:
      self.assertLess(max(held), limit)

  def test_tables_that_are_larger_than_a_device_are_split_over_replicas(self):
    def trained(**options):
      folder = self.create_tempdir().full_path
      for steps in (2, 4):  # The second time from the choice that is kept.
        tf.keras.utils.set_random_seed(5)
        plain = tf.estimator.Estimator(
          _tables_model_fn,
          config=tf.estimator.RunConfig(folder, tf_random_seed=7),
          params={"units": 8},
        )
        sharding = estimator_mp.ShardingConfig(**options)
        estimator = estimator_mp.shard_estimator(plain, sharding)
        estimator.train(_ids_input_fn, max_steps=steps)
      return estimator

    sharded = trained(
      mesh="auto", machine="v100", devices=_DEVICES, memory_limit=420_000
    )
    alone = trained(mesh="stage:1")
    path = pathlib.Path(sharded.model_dir, "auto_mesh.json")
    chosen = json.loads(path.read_text())
    self.assertEqual(chosen["mesh"], "data:4")
    rules = [["^tables/user$", "div"], ["^tables/item$", "div"]]
    self.assertEqual(chosen["split"], rules)
    for name in alone.get_variable_names():
      np.testing.assert_allclose(
        sharded.get_variable_value(name),
        alone.get_variable_value(name),
        1e-5,
        1e-6,
        err_msg=name,
      )

  @parameterized.parameters(
    ("{", "delete it to choose again"),
    ('{"mesh": "stage:8"}', "stage:8, but there are 4 device"),
    ('{"meshes": 1}', "meshes"),
  )
  def test_a_choice_that_is_damaged(self, text, expected):
    folder = self.create_tempdir().full_path
    pathlib.Path(folder, "auto_mesh.json").write_text(text)
    estimator = _estimator(folder, mesh="auto", devices=_DEVICES)
    with self.assertRaisesRegex(ValueError, expected):
      estimator.train(_input_fn, max_steps=1)

  def test_nothing_fits(self):
    estimator = _estimator(
      self.create_tempdir().full_path,
      mesh="auto",
      devices=_DEVICES,
      memory_limit=1000,
    )
    with self.assertRaisesRegex(ValueError, "a device lacks .* of 1.00 kB"):
      estimator.train(_input_fn, max_steps=1)

  @parameterized.parameters(
    ({"num_micro_batches": 2}, "finds num_micro_batches, too"),
    ({"machine": "cray"}, "machine='cray' is unknown; give the path"),
  )
  def test_wrong_options(self, options, expected):
    with self.assertRaisesRegex(ValueError, expected):
      estimator_mp.ShardingConfig(mesh="auto", **options)


if __name__ == "__main__":
  absltest.main()
