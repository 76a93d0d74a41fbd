"""The guide to ranking trains, draws and evaluates what it says."""

import contextlib
import functools
import io
from unittest import mock

from estimator_mp.cli import run_train, train_flags
from model_fns.datasets import clicks
from tests import tiers
from tests.docs import guide_case, guides

import tensorflow as tf
from absl.testing import absltest

_GUIDE = "docs/ranking.md"
# Criteo's format: 25 lines of which two are held out, one with a click.
_LINE = "\t".join(["{}", *map(str, range(13)), *["0123abcd"] * 26])
_CRITEO = "".join(f"{_LINE.format(int(i % 4 == 1))}\n" for i in range(25))


class GuideTest(guide_case.GuideCase):
  def _options(self):
    """Returns what each train command of the guide means."""
    return [
      train_flags.parse(["train", *arguments])
      for arguments in guide_case.commands(_GUIDE, "train")
    ]

  @tiers.slow
  def test_train(self):
    """A test of recipes trains these three."""
    *options, _ = self._options()
    self.assertEqual(
      [x.model for x in options], ["dlrm", "wide_deep", "deepfm"]
    )
    self.assertEqual({x.sharding.mesh for x in options}, {"data:4"})
    some = functools.partial(clicks.load, 5_000)
    with mock.patch.object(clicks, "load", some):
      recipe = run_train.prepare(options[0]).recipe
    self.assertIn("the best possible auc is 0.8", recipe.data)
    self.assertStartsWith(recipe.baseline().name, "logistic regression on ha")

  @tiers.slow
  def test_criteo(self):
    *_, arguments = guide_case.commands(_GUIDE, "train")
    (self.folder / "criteo").mkdir()
    (self.folder / "criteo" / "train.txt").write_text(_CRITEO)
    smaller = ["--batch_size=8", "--mesh=data:2"]
    result = self.train([*arguments, *smaller])
    self.assertEqual((result.dataset, result.global_step), ("criteo", 3))

  @tiers.slow
  def test_inspect(self):
    """The picture has a quarter of each table on each of four devices."""
    self.assertRegex(
      self.inspect(_GUIDE), r"tables/user +1000000 x 16 +0 +4 x 250"
    )
    drawn = self.picture(_GUIDE).with_suffix(".svg").read_text()
    for i in range(4):
      self.assertIn(f"/device:CPU:{i}", drawn)
    self.assertIn("4,945 parameters, whole in each replica", drawn)

  @tiers.slow
  def test_programs(self):
    _, training, two_optimizers = guides.programs(_GUIDE)
    with contextlib.redirect_stdout(io.StringIO()) as output:
      found = guides.run(training)
    model_fn = guides.run(two_optimizers)["model_fn"]
    self.assertBetween(float(output.getvalue().split()[-1]), 0.0, 1.0)
    with tf.Graph().as_default():
      tf.compat.v1.train.create_global_step()
      data = tf.compat.v1.data.make_one_shot_iterator(found["input_fn"]())
      # The directory of another model is refused.
      folder = self.create_tempdir().full_path
      run_config = found["estimator"].config.replace(model_dir=folder)
      spec = model_fn(*data.get_next(), "train", run_config)
      names = [v.op.name for v in tf.compat.v1.global_variables()]
    self.assertIsNotNone(spec.train_op)
    self.assertIn("wide/tables/user_x_item/Ftrl/part_3", names)
    self.assertIn("deep/tables/item/Adagrad/part_3", names)


if __name__ == "__main__":
  absltest.main()
