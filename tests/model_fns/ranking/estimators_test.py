"""Estimators of ranking models: checkpoints, warm starts, exports, slots."""

import os

import estimator_mp
from tests import tiers
from tests.estimator_mp import runs
from tests.model_fns.ranking import logs

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_DIV, _MOD = ((("tables/", way),) for way in ("div", "mod"))


def setUpModule():
  # Its table of placement is long.
  tf.get_logger().setLevel("FATAL")


def _config(mesh, split=_DIV, **fields):
  return estimator_mp.ShardingConfig(mesh, split=split, **fields)


def _estimator(model, config, model_dir, **fields):
  model_fn = logs.MODELS[model](config=config)
  return runs.make_estimator(model_fn, config, None, model_dir, **fields)


def _train(estimator, steps=3):
  recorder = runs.LossRecorder()
  estimator.train(
    lambda: logs.sparse_input_fn().repeat(), steps=steps, hooks=[recorder]
  )
  return recorder.losses


def _logits(estimator):
  found = estimator.predict(logs.sparse_input_fn)
  return np.stack([x["logits"] for x in found])


class CheckpointTest(parameterized.TestCase):
  @tiers.slow
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("dlrm", "dlrm", (None, _config("data:4"))),
        ("deepfm", "deepfm", (_config("data:4"), None)),
        (
          "wide_deep",
          "wide_deep",
          (_config("data:2", _MOD), None, _config("data:4")),
        ),
        (
          "wide_deep_on_all_meshes",
          "wide_deep",
          (
            None,
            _config("data:4"),
            None,
            _config("data:2", _MOD),
            _config("stage:2,model:2"),
          ),
        ),
      ]
    )
  )
  def test_moves_between_split_tables_and_the_plain_model(self, model, configs):
    """Three steps each; tags are sparse, and the last batch has 10 examples."""
    folder = self.create_tempdir().full_path
    dirs = [os.path.join(folder, name) for name in ("plain", "moved")]
    for config in configs:
      plain, moved = (
        _estimator(model, c, d)
        for c, d in zip((None, config), dirs, strict=True)
      )
      with self.subTest(config=config):
        np.testing.assert_allclose(_train(moved), _train(plain), rtol=1e-5)
        found, expected = map(runs.variables_of, reversed(dirs))
        self.assertCountEqual(found, expected)
        for name, value in expected.items():
          np.testing.assert_allclose(
            found[name], value, rtol=1e-5, atol=1e-6, err_msg=name
          )
    metrics, expected = (
      x.evaluate(logs.sparse_input_fn) for x in (moved, plain)
    )
    self.assertCountEqual(
      metrics, ["auc", "calibration", "global_step", "logloss", "loss"]
    )
    for name, value in expected.items():
      np.testing.assert_allclose(metrics[name], value, rtol=1e-5, err_msg=name)
    np.testing.assert_allclose(_logits(moved), _logits(plain), atol=1e-5)

  @tiers.slow
  def test_warm_start(self):
    folder = self.create_tempdir().full_path
    plain = _estimator("wide_deep", None, os.path.join(folder, "plain"))
    _train(plain)
    config = _config("data:4")
    warm = {
      where: _estimator(
        "wide_deep",
        c,
        os.path.join(folder, where),
        warm_start_from=plain.model_dir,
      )
      for where, c in (("warm_plain", None), ("warm_split", config))
    }
    np.testing.assert_allclose(
      _train(warm["warm_split"]), _train(warm["warm_plain"]), rtol=1e-6
    )

  @tiers.slow
  def test_export(self):
    folder = self.create_tempdir().full_path
    estimator = _estimator("deepfm", _config("data:2"), folder)
    _train(estimator)
    path = estimator.export_saved_model(
      os.path.join(folder, "export"), logs.serving_input_receiver_fn
    )
    with tf.Graph().as_default(), v1.Session() as session:
      saved = v1.saved_model.load(session, ["serve"], path.decode())
      signature = saved.signature_def["predict"]
      feed = {
        signature.inputs[name].name: values
        for name, values in logs.FEATURES.items()
      }
      logits = session.run(signature.outputs["logits"].name, feed)
    np.testing.assert_allclose(logits, _logits(estimator), atol=1e-6)


class SlotsTest(absltest.TestCase):
  def test_slots_of_both_optimizers_are_split_with_their_tables(self):
    """The last device has the last rows, and what Ftrl and Adagrad keep."""
    config = _config("data:4")
    model_fn = logs.MODELS["wide_deep"](config=config)
    with tf.Graph().as_default():
      v1.train.create_global_step()
      features, labels = v1.data.make_one_shot_iterator(
        logs.sparse_input_fn()
      ).get_next()
      model_fn(features, labels, "train", estimator_mp.run_config(config))
      found = {
        v.op.name: (v.device, v.shape[0])
        for v in v1.global_variables()
        if "tables/item/" in v.op.name and v.op.name.endswith("/part_3")
      }
    self.assertEqual(
      found,
      {
        f"{part}/tables/item{slot}/part_3": ("/device:CPU:3", 5)
        for part, slots in (
          ("wide", ("", "/Ftrl", "/Ftrl_1")),
          ("deep", ("", "/Adagrad")),
        )
        for slot in slots
      },
    )


if __name__ == "__main__":
  absltest.main()
