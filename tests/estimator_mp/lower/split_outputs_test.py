"""What a model_fn returns names whole tensors, once some are split."""

from estimator_mp.lower.splitting import outputs

import tensorflow as tf
from absl.testing import absltest

export = tf.estimator.export


class OutputsTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    graph = tf.Graph().as_default()
    graph.__enter__()
    self.addCleanup(graph.__exit__, None, None, None)
    self.split = tf.zeros([], name="split")
    self.other = tf.zeros([1], name="other")
    self.whole = tf.zeros([1], name="whole")
    self.of_split = tf.zeros([], name="of_split")

  def _with_wholes(self, spec):
    """Replaces "split", "other" and the op "update"; the rest is as it is."""
    wholes = {"split:0": self.of_split, "other:0": self.whole}
    return outputs.with_wholes(
      spec,
      lambda x: wholes.get(x.name, x),
      lambda op: self.whole.op if op.name == "update" else op,
    )

  def test_of_training(self):
    hook = tf.estimator.LoggingTensorHook({"x": self.other}, every_n_iter=1)
    spec = self._with_wholes(
      tf.estimator.EstimatorSpec(
        "train",
        predictions={"scores": self.other, "as_it_is": self.whole},
        loss=self.split,
        train_op=self.other,
        training_hooks=[hook],
      )
    )
    self.assertEqual(spec.mode, "train")
    self.assertIs(spec.loss, self.of_split)
    self.assertEqual(set(spec.predictions), {"scores", "as_it_is"})
    self.assertIs(spec.predictions["scores"], self.whole)
    self.assertIs(spec.predictions["as_it_is"], self.whole)
    self.assertIs(spec.train_op, self.whole)
    self.assertEqual(spec.training_hooks, (hook,))

  def test_of_an_op(self):
    for name, expected in (("update", self.whole.op), ("step", None)):
      op = tf.no_op(name)
      spec = self._with_wholes(
        tf.estimator.EstimatorSpec("train", loss=self.split, train_op=op)
      )
      self.assertIs(spec.train_op, expected or op)

  def test_of_evaluation(self):
    update = tf.zeros([], name="update")
    spec = self._with_wholes(
      tf.estimator.EstimatorSpec(
        "eval", loss=self.split, eval_metric_ops={"mean": (self.split, update)}
      )
    )
    value, its_update = spec.eval_metric_ops["mean"]
    self.assertIs(value, self.of_split)
    self.assertIs(its_update, update)

  def test_of_signatures(self):
    names = tf.constant(["a"])
    spec = self._with_wholes(
      tf.estimator.EstimatorSpec(
        "infer",
        predictions=self.other,
        export_outputs={
          "serving_default": export.PredictOutput({"x": self.other}),
          "classify": export.ClassificationOutput(self.other, names),
          "regress": export.RegressionOutput(self.other),
        },
      )
    )
    self.assertIs(spec.predictions, self.whole)
    found = spec.export_outputs
    self.assertIs(found["serving_default"].outputs["x"], self.whole)
    self.assertIs(found["classify"].scores, self.whole)
    self.assertIs(found["classify"].classes, names)
    self.assertIs(found["regress"].value, self.whole)

  def test_classes_may_be_all_that_there_is(self):
    names = tf.constant(["a"])
    spec = self._with_wholes(
      tf.estimator.EstimatorSpec(
        "infer",
        predictions=self.other,
        export_outputs={"classify": export.ClassificationOutput(classes=names)},
      )
    )
    found = spec.export_outputs["classify"]
    self.assertIsNone(found.scores)
    self.assertIs(found.classes, names)


if __name__ == "__main__":
  absltest.main()
