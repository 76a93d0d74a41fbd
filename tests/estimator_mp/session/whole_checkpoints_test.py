"""Which checkpoint a run begins with if it was killed while it saved."""

import os

import estimator_mp  # noqa: F401
from estimator_mp.session import whole_checkpoints

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


def _save(model_dir, steps):
  with tf.Graph().as_default(), v1.Session() as session:
    v1.get_variable("w", [3, 4])
    saver = v1.train.Saver(sharded=True)
    session.run(v1.global_variables_initializer())
    path = os.path.join(model_dir, "model.ckpt")
    for step in steps:
      saver.save(session, path, step)


def _cut(path):
  with open(path, "r+b") as file:
    file.truncate(os.path.getsize(path) // 2)


class WholeCheckpointsTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.model_dir = self.create_tempdir().full_path

  def _newest(self):
    whole_checkpoints.leave_out_broken(self.model_dir)
    path = tf.train.latest_checkpoint(self.model_dir)
    return path and os.path.basename(path)

  def _path(self, ending):
    return os.path.join(self.model_dir, f"model.ckpt-{ending}")

  def test_a_whole_one_stays(self):
    _save(self.model_dir, [5, 10])
    self.assertEqual(self._newest(), "model.ckpt-10")

  def test_without_checkpoints_nothing_happens(self):
    self.assertIsNone(self._newest())

  @parameterized.named_parameters(
    (
      "half_an_index",
      _cut,
      "10.index",
      "model.ckpt-10.index cannot be read",
    ),
    (
      "half_of_the_data",
      _cut,
      "10.data-00000-of-00001",
      "its data files have 24 bytes of 48",
    ),
    (
      "no_data",
      os.remove,
      "10.data-00000-of-00001",
      "model.ckpt-10.data-00000-of-00001 is missing",
    ),
  )
  def test_a_broken_one_is_left_out(self, damage, ending, lack):
    _save(self.model_dir, [5, 10])
    damage(self._path(ending))
    with self.assertLogs("tensorflow", "WARNING") as logged:
      self.assertEqual(self._newest(), "model.ckpt-5")
    self.assertEqual(
      logged.records[0].getMessage(),
      f"{self._path('10')} is incomplete: {lack}; training goes on from "
      f"{self._path('5')}",
    )

  def test_several_files_and_texts_are_whole(self):
    """A text is longer than its elements, and a slice a part of its tensor."""
    config = v1.ConfigProto(device_count={"CPU": 3})
    with tf.Graph().as_default(), v1.Session(config=config) as session:
      for number in range(3):
        with tf.device(f"/cpu:{number}"):
          v1.get_variable(f"w{number}", [3, 4])
      v1.get_variable("text", initializer=["a", "longer than a byte"])
      v1.get_variable("parts", [6, 4], partitioner=v1.fixed_size_partitioner(3))
      session.run(v1.global_variables_initializer())
      v1.train.Saver(sharded=True).save(session, self._path("7"))
    self.assertIsNone(whole_checkpoints.what_is_missing(self._path("7")))

  def test_the_only_one_stays_so_that_restoring_says_why(self):
    _save(self.model_dir, [10])
    _cut(self._path("10.index"))
    state = tf.train.get_checkpoint_state(self.model_dir)
    whole_checkpoints.leave_out_broken(self.model_dir)
    self.assertEqual(tf.train.get_checkpoint_state(self.model_dir), state)

  def test_what_an_interrupted_save_has_left_is_removed(self):
    _save(self.model_dir, [5])
    os.makedirs(self._path("10_temp"))
    self.assertEqual(self._newest(), "model.ckpt-5")
    self.assertFalse(os.path.exists(self._path("10_temp")))


if __name__ == "__main__":
  absltest.main()
