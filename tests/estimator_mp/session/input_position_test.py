"""Tests that a resumed run goes on with the batch that would have been next."""

import functools
import os
import pathlib
import re
import shutil
import tempfile

import estimator_mp
from estimator_mp import toolbox
from tests import tiers
from tests.estimator_mp import runs
from tests.estimator_mp.models import catalogue, data, networks

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1

MODEL = catalogue.NETWORKS["mlp_adam"]
STAGES = estimator_mp.ShardingConfig("stage:2")


def shuffled(batch_size=20):
  """Batches in an order, and with noise, that seeds decide."""
  dataset = tf.data.Dataset.from_tensor_slices((data.FEATURES, data.LABELS))
  dataset = dataset.shuffle(32, seed=4).repeat().enumerate()

  def noisy(position, example):
    features, label = example
    seed = tf.stack([position, 7])
    noise = tf.random.stateless_normal(features["x"].shape, seed)
    return features | {"x": features["x"] + 0.1 * noise}, label

  return dataset.map(noisy, 2).batch(batch_size, True).prefetch(3)


def unseeded():
  dataset = tf.data.Dataset.from_tensor_slices((data.FEATURES, data.LABELS))
  return dataset.shuffle(60).repeat().batch(20)


def prefetched(device):
  """Batches that wait on a device, without the strings, which no GPU has."""
  dataset = shuffled().map(
    lambda features, labels: ({"x": features["x"]}, labels)
  )
  return dataset.apply(tf.data.experimental.prefetch_to_device(device))


def of_an_iterator():
  """As programs of TensorFlow 1 wrote it."""
  return v1.data.make_one_shot_iterator(shuffled()).get_next()


def train(
  model_dir,
  steps,
  config=STAGES,
  input_fn=shuffled,
  hooks=(),
  saves=True,
  **run_config,
):
  """Trains, as a process would; returns the losses."""
  recorder = runs.LossRecorder()
  estimator = tf.estimator.Estimator(
    estimator_mp.shard_model_fn(networks.mlp, config),
    config=estimator_mp.run_config(
      config,
      model_dir,
      saves,
      tf_random_seed=11,
      checkpoint_save_graph_def=False,
      **run_config,
    ),
    params=MODEL.params,
  )
  estimator.train(input_fn, [recorder, *hooks], steps)
  return recorder.losses


@functools.cache
def _losses_of_ten_steps():
  """Returns the losses of one run of two stages."""
  folder = tempfile.mkdtemp(dir=absltest.get_default_test_tmpdir())
  return train(os.path.join(folder, "whole"), 10)


def positions(model_dir):
  """Returns the steps whose position was saved."""
  found = (
    re.fullmatch(r"input_position-(\d+)\.index", x)
    for x in os.listdir(model_dir)
  )
  return sorted(int(x[1]) for x in found if x)


class InputPositionTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir()

  def _dir(self, name):
    return os.path.join(self.folder.full_path, name)

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("stages", STAGES, shuffled),
        (
          "replicas_and_micro_batches",
          estimator_mp.ShardingConfig("data:2,stage:2", num_micro_batches=2),
          shuffled,
        ),
        ("unseeded_shuffle", STAGES, unseeded),
        ("an_iterator", STAGES, of_an_iterator),
      ]
    )
  )
  def test_five_and_five_steps_are_ten(self, config, input_fn):
    whole = train(self._dir("whole"), 10, config, input_fn)
    halves = [train(self._dir("halves"), 5, config, input_fn) for _ in "ab"]
    self.assertEqual(halves[0] + halves[1], whole)
    found = runs.variables_of(self._dir("halves"))
    expected = runs.variables_of(self._dir("whole"))
    self.assertCountEqual(found, expected)
    for name, value in expected.items():
      np.testing.assert_array_equal(found[name], value, err_msg=name)

  @tiers.slow
  def test_a_session_that_makes_itself_anew_goes_on_where_it_was(self):
    """As one that loses a task does; it failed for want of an input."""
    whole = _losses_of_ten_steps()
    losing = runs.LosingHook(after_steps=5)
    found = train(
      self._dir("lost"), 8, hooks=[losing], save_checkpoints_steps=3
    )
    self.assertTrue(losing.has_lost)
    self.assertEqual(found, whole[:5] + whole[3:8])

  @tiers.slow
  def test_the_mesh_may_change(self):
    config = estimator_mp.ShardingConfig("data:2,stage:3", num_micro_batches=2)
    whole = _losses_of_ten_steps()
    train(self._dir("halves"), 5)
    second = train(self._dir("halves"), 5, config)
    np.testing.assert_allclose(second, whole[5:], rtol=1e-5)

  def test_checkpoints_are_the_plain_models(self):
    train(self._dir("with"), 2)
    train(self._dir("without"), 2, saves=False)
    self.assertCountEqual(
      runs.variables_of(self._dir("with")),
      runs.variables_of(self._dir("without")),
    )

  @tiers.slow
  def test_each_checkpoint_has_its_position(self):
    train(self._dir("run"), 7, save_checkpoints_steps=2, keep_checkpoint_max=2)
    # The first checkpoint is the one of step 0: nothing was read yet.
    self.assertEqual(positions(self._dir("run")), [6, 7])
    whole = _losses_of_ten_steps()
    for name in os.listdir(self._dir("run")):  # Go back to step 6.
      if re.search(r"-7\.|^checkpoint$", name):
        os.remove(os.path.join(self._dir("run"), name))
    v1.train.update_checkpoint_state(
      self._dir("run"), os.path.join(self._dir("run"), "model.ckpt-6")
    )
    self.assertEqual(train(self._dir("run"), 2), whole[6:8])

  @tiers.slow
  def test_an_older_checkpoint_begins_anew_and_says_so(self):
    train(self._dir("run"), 5, saves=False)
    with self.assertLogs("tensorflow", "WARNING") as logs:
      second = train(self._dir("run"), 2)
    self.assertIn(
      "The input starts from its beginning, not from the position of the "
      "checkpoint: step 5 was saved without it",
      "\n".join(logs.output),
    )
    train(self._dir("same"), 5, saves=False)
    self.assertEqual(second, train(self._dir("same"), 2, saves=False))

  @parameterized.named_parameters(
    tiers.sample(
      [("of_other_batches", lambda: shuffled(30)), ("of_other_ops", unseeded)]
    )
  )
  def test_another_input_fn_begins_anew_and_says_so(self, other):
    train(self._dir("run"), 3)
    with self.assertLogs("tensorflow", "WARNING") as logs:
      train(self._dir("run"), 2, input_fn=other)
    self.assertIn(
      f"the input_fn is not that of {self._dir('run')}/input_position-3",
      "\n".join(logs.output),
    )

  @tiers.slow
  def test_data_that_has_ended_begins_anew(self):
    def epoch():
      return shuffled().take(3)

    for step in (3, 6):
      self.assertLen(
        train(self._dir("run"), None, input_fn=epoch, save_checkpoints_steps=1),
        3,
      )
      self.assertNotIn(step, positions(self._dir("run")))

  @tiers.slow
  def test_a_hook_of_the_users_saves_too(self):
    saver = tf.estimator.CheckpointSaverHook(self._dir("run"), save_steps=2)
    train(self._dir("run"), 3, hooks=[saver], save_checkpoints_secs=None)
    self.assertEqual(positions(self._dir("run")), [2, 3])

  @tiers.slow
  @parameterized.parameters(tiers.sample([True, False]))
  def test_an_estimator_that_is_sharded_or_takes_the_hook(self, is_sharded):
    train(self._dir("whole"), 1, saves=False)  # Where both start.
    shutil.copytree(self._dir("whole"), self._dir("halves"))

    def run(name, steps):
      estimator = runs.make_estimator(
        networks.mlp, None, MODEL.params, self._dir(name)
      )
      hooks = [runs.LossRecorder()]
      if is_sharded:
        estimator_mp.shard_estimator(
          estimator, STAGES, save_input_position=True
        )
      else:
        hooks.append(toolbox.InputPositionHook(self._dir(name)))
      estimator.train(shuffled, hooks, steps)
      return hooks[0].losses

    self.assertEqual(run("halves", 2) + run("halves", 2), run("whole", 4))

  @tiers.slow
  def test_a_saver_of_the_model(self):
    def with_saver(features, labels, mode, params):
      spec = networks.mlp(features, labels, mode, params)
      scaffold = v1.train.Scaffold(saver=v1.train.Saver(sharded=True))
      return spec._replace(scaffold=scaffold)

    config = estimator_mp.ShardingConfig("stage:1")
    for _ in "ab":
      estimator = tf.estimator.Estimator(
        estimator_mp.shard_model_fn(with_saver, config),
        config=estimator_mp.run_config(config, self._dir("run"), True),
        params=MODEL.params,
      )
      estimator.train(shuffled, steps=2)
    self.assertEqual(positions(self._dir("run")), [2, 4])

  def test_a_saver_that_nobody_can_see_is_an_error(self):
    tpu = v1.estimator.tpu

    def with_saver(features, labels, mode, params):
      spec = networks.mlp(features, labels, mode, MODEL.params)
      return tpu.TPUEstimatorSpec(
        mode,
        loss=spec.loss,
        train_op=spec.train_op,
        scaffold_fn=lambda: v1.train.Scaffold(saver=v1.train.Saver()),
      )

    config = estimator_mp.ShardingConfig("stage:1")
    estimator = tpu.TPUEstimator(
      estimator_mp.shard_model_fn(with_saver, config),
      config=estimator_mp.run_config(
        config, self._dir("run"), True, tpu_config=tpu.TPUConfig()
      ),
      use_tpu=False,
      train_batch_size=20,
    )
    with self.assertRaisesRegex(
      ValueError,
      "^save_input_position=True .* scaffold_fn .*GraphKeys.SAVERS",
    ):
      estimator.train(lambda params: shuffled(), steps=1)

  @tiers.slow
  @parameterized.named_parameters(
    tiers.sample([("first_stage", "/cpu:0"), ("last_stage", "/cpu:1")])
  )
  def test_batches_that_wait_on_a_device_are_the_same(self, device):
    """An input_fn's own prefetch_to_device, where its position is not saved."""
    config = estimator_mp.ShardingConfig("stage:2", num_micro_batches=2)
    found, expected = (
      train(self._dir(name), 3, config, input_fn, saves=False)
      for name, input_fn in (
        ("prefetched", lambda: prefetched(device)),
        ("plain", shuffled),
      )
    )
    np.testing.assert_array_equal(found, expected)

  @parameterized.named_parameters(
    (
      "a_python_function",
      lambda: shuffled().map(
        lambda features, labels: (
          features
          | {"x": tf.py_function(lambda x: x, [features["x"]], "float")},
          labels,
        )
      ),
      "EagerPyFunc is stateful; make it of tf.data ops alone",
    ),
    (
      "prefetched_to_a_device",
      lambda: prefetched("/cpu:1"),
      ".*SerializeIterator.*; make it of tf.data ops alone",
    ),
    (
      "no_iterator",
      lambda: tf.nest.map_structure(
        lambda x: tf.constant(x[:20]), (data.FEATURES, data.LABELS)
      ),
      "the input_fn made none; return a tf.data.Dataset from it",
    ),
  )
  def test_what_cannot_be_saved_is_an_error_before_the_first_step(
    self, input_fn, message
  ):
    def with_shapes():
      features, labels = (
        input_fn()
        if isinstance(input_fn(), tuple)
        else v1.data.make_one_shot_iterator(input_fn()).get_next()
      )
      features["x"].set_shape([None, 10])
      return features, labels

    with self.assertRaisesRegex(
      ValueError, f"^save_input_position=True.*{message}"
    ):
      train(self._dir("run"), 1, input_fn=with_shapes)

  @tiers.slow
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("a_truncated_index", ".index", lambda data: data[:20]),
        ("an_empty_index", ".index", lambda data: b""),
        (
          "a_flipped_byte",
          ".data-00000-of-00001",
          lambda data: data[:9] + bytes([data[9] ^ 1]) + data[10:],
        ),
        ("no_data", ".data-00000-of-00001", lambda data: None),
      ]
    )
  )
  def test_a_damaged_file_is_an_error_of_one_line(self, ending, damage):
    train(self._dir("run"), 2)
    path = os.path.join(self._dir("run"), "input_position-2")
    file = pathlib.Path(path + ending)
    damaged = damage(file.read_bytes())
    file.unlink()
    if damaged is not None:
      file.write_bytes(damaged)
    with self.assertRaisesRegex(
      ValueError, f"^{path}.index holds no position .*; delete it, .*$"
    ):
      train(self._dir("run"), 1)
    os.remove(path + ".index")
    self.assertLen(train(self._dir("run"), 1), 1)

  def test_several_processes_are_an_error(self):
    config = estimator_mp.ShardingConfig("stage:1", aggregation="horovod")
    with self.assertRaisesRegex(
      ValueError, '^save_input_position=True with aggregation="horovod": '
    ):
      estimator_mp.run_config(config, save_input_position=True)

  def test_a_mesh_by_hand_does_not_save_it(self):
    estimator = tf.estimator.Estimator(
      networks.mlp,
      config=estimator_mp.run_config(
        estimator_mp.ShardingConfig("stage:1"), self._dir("run"), True
      ),
      params=MODEL.params,
    )
    with self.assertRaisesRegex(ValueError, "was never sharded"):
      estimator.train(shuffled, steps=1)


if __name__ == "__main__":
  absltest.main()
