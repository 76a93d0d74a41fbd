"""Checkpoints that are not of the model that a graph has."""

import os

import estimator_mp  # noqa: F401, before TensorFlow
from estimator_mp.session import restoring

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
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
      ValueError,
      f"^{path} is of another model: it has no a and 1 more; train that model, "
      "or choose another model_dir$",
    ):
      self._check({"w": 3, "a": 1, "b": 2}, make)
    with self.assertRaisesRegex(
      ValueError,
      rf"^{path} has w of the shape \[3\], but the model makes it \[4\]; use "
      "the sizes that it was trained with, or choose another model_dir$",
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
