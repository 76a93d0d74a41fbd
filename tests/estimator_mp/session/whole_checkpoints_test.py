"""Which checkpoint a run begins with, and whether it is of the model."""

import os

import estimator_mp  # noqa: F401
from estimator_mp.session import restoring, whole_checkpoints

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_DATA = "10.data-00000-of-00001"


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

  @parameterized.parameters(
    (_cut, "10.index", "model.ckpt-10.index cannot be read"),
    (os.remove, "10.index", "model.ckpt-10.index is missing"),
    (_cut, _DATA, "its data files have 24 bytes of 48"),
    (os.remove, _DATA, f"model.ckpt-{_DATA} is missing"),
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

  @parameterized.parameters(
    ("", "names no checkpoint"),
    ('model_checkpoint_path: "model.ckpt-90"', "ckpt-90.index is missing"),
  )
  def test_a_file_that_names_no_checkpoint(self, text, problem):
    _save(self.model_dir, [5, 10])
    with open(os.path.join(self.model_dir, "checkpoint"), "w") as file:
      file.write(text)
    with self.assertLogs("tensorflow", "WARNING") as logged:
      self.assertEqual(self._newest(), "model.ckpt-10")
    self.assertIn(problem, logged.records[0].getMessage())

  def test_without_the_file_a_run_begins_anew_as_a_plain_one_does(self):
    _save(self.model_dir, [5, 10])
    os.remove(os.path.join(self.model_dir, "checkpoint"))
    self.assertIsNone(self._newest())

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
    self.assertIsNone(whole_checkpoints.missing_part(self._path("7")))

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


tpu = v1.estimator.tpu


class RestoringTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def _save(self):
    """Saves a model with the variable w of three entries, at step 7."""
    with tf.Graph().as_default(), v1.Session() as session:
      v1.get_variable("w", [3])
      session.run(v1.global_variables_initializer())
      v1.train.Saver().save(session, os.path.join(self.folder, "model.ckpt"), 7)

  def _check(self, sizes, make=tf.estimator.EstimatorSpec, **fields):
    """Checks a graph that has variables of these sizes."""
    with tf.Graph().as_default():
      for name, size in sizes.items():
        v1.get_variable(name, [size])
      if "scaffold" in fields:
        fields = {"scaffold": fields["scaffold"]()}
      spec = make("train", loss=tf.zeros([]), train_op=tf.zeros([]), **fields)
      restoring.check_fits(spec, self.folder)

  @parameterized.parameters(tf.estimator.EstimatorSpec, tpu.TPUEstimatorSpec)
  def test_what_fits(self, make):
    self._check({"other": 5}, make)  # There is no checkpoint yet.
    self._save()
    self._check({"w": 3}, make)

  @parameterized.parameters(tf.estimator.EstimatorSpec, tpu.TPUEstimatorSpec)
  def test_another_model_and_another_size(self, make):
    self._save()
    path = os.path.join(self.folder, "model.ckpt-7")
    with self.assertRaisesRegex(
      ValueError, f"^{path} is of another model: it has no a and 1 more;"
    ):
      self._check({"w": 3, "a": 1, "b": 2}, make)
    with self.assertRaisesRegex(
      ValueError, rf"^{path} has w .* \[3\], but the model makes it \[4\];"
    ):
      self._check({"w": 4}, make)

  def test_what_model_fn_has_partitioned_and_its_slots(self):
    """TensorFlow names slots after the scope that they are made in, too."""
    for check in (False, True):
      with tf.Graph().as_default(), v1.variable_scope("top"):
        table = v1.get_variable(
          "table", [4, 2], partitioner=v1.fixed_size_partitioner(2)
        )
        loss = tf.reduce_sum(tf.nn.embedding_lookup([*table], [0, 1, 2]))
        train_op = v1.train.AdagradOptimizer(0.1).minimize(loss)
        names = [v.op.name for v in v1.global_variables()]
        self.assertContainsSubset(["top/table/part_1"], names)
        if check:
          spec = tf.estimator.EstimatorSpec(
            "train", loss=loss, train_op=train_op
          )
          restoring.check_fits(spec, self.folder)
          continue
        with v1.Session() as session:
          session.run(v1.global_variables_initializer())
          path = os.path.join(self.folder, "model.ckpt")
          v1.train.Saver().save(session, path, 1)

  def test_a_saver_of_its_own_says_itself_what_it_restores(self):
    self._save()
    sizes = {"w": 3, "new": 1}

    def scaffold():
      return v1.train.Scaffold(saver=v1.train.Saver(v1.global_variables()[:1]))

    self._check(sizes, scaffold=scaffold)
    self._check(sizes, tpu.TPUEstimatorSpec, scaffold_fn=scaffold)


if __name__ == "__main__":
  absltest.main()
