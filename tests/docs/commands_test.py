"""Commands of the guides, and programs of those to models, do what they say."""

import contextlib
import functools
import io
import math
import re
from unittest import mock

from estimator_mp.cli import plan_flags, run_train, train_flags
from model_fns.datasets import clicks
from tests import tiers
from tests.docs import guide_case, guides

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_REPLICAS = "docs/replicas.md"
# Criteo's format: 25 lines of which two are held out, one with a click.
_LINE = "\t".join(["{}", *map(str, range(13)), *["0123abcd"] * 26])
_CRITEO = "".join(f"{_LINE.format(int(i % 4 == 1))}\n" for i in range(25))


def _train_options(guide):
  """Returns what each train command of a guide means."""
  return [
    train_flags.TRAIN.parse(["train", *arguments])
    for arguments in guide_case.commands(guide, "train")
  ]


class CommandsTest(guide_case.GuideCase):
  @tiers.slow
  @parameterized.parameters(
    ("keras", "stage:2", "accuracy", None),
    ("replicas", "data:2,stage:3", "accuracy", None),
    ("resnet", "stage:2", "accuracy", 0.94),
    ("two_tower", "stage:2", "recall_at_10", 0.23),
  )
  def test_train(self, guide, mesh, figure, baseline):
    arguments, *_ = guide_case.commands(f"docs/{guide}.md", "train")
    result = self.train(arguments)
    self.assertEqual((result.mesh, result.figure), (mesh, figure))
    size = math.prod(map(int, re.findall(r"\d+", mesh)))
    self.assertLen(result.devices, size)
    if baseline is not None:
      self.assertAlmostEqual(result.baseline_value, baseline, delta=0.005)

  @tiers.slow
  @parameterized.parameters(("transformer", "stage:2"), ("moe", "model:2"))
  def test_train_on_texts(self, guide, mesh):
    """tests/model_fns/recipes runs the command."""
    (options,) = _train_options(f"docs/{guide}.md")
    self.assertEqual(options.mesh, mesh)
    recipe = run_train.prepare(options).recipe
    self.assertEqual(recipe.figure, "perplexity")
    # Each version of Python has a text of its own.
    self.assertBetween(recipe.baseline().value, 10.0, 25.0)

  @tiers.slow
  def test_train_on_clicks(self):
    """A test of recipes trains these three."""
    *options, _ = _train_options("docs/ranking.md")
    self.assertEqual(
      [x.model for x in options], ["dlrm", "wide_deep", "deepfm"]
    )
    self.assertEqual({x.mesh for x in options}, {"data:4"})
    some = functools.partial(clicks.load, 5_000)
    with mock.patch.object(clicks, "load", some):
      recipe = run_train.prepare(options[0]).recipe
    self.assertIn("the best possible auc is 0.8", recipe.data)
    self.assertStartsWith(recipe.baseline().name, "logistic regression on ha")

  @tiers.slow
  def test_criteo(self):
    *_, arguments = guide_case.commands("docs/ranking.md", "train")
    (self.folder / "criteo").mkdir()
    (self.folder / "criteo" / "train.txt").write_text(_CRITEO)
    smaller = ["--batch_size=8", "--mesh=data:2"]
    result = self.train([*arguments, *smaller])
    self.assertEqual((result.dataset, result.global_step), ("criteo", 3))

  @tiers.slow
  @parameterized.parameters(
    tiers.sample(
      [
        (
          "transformer",
          "sum +decoder/layer_1/attention/output/",
          "<!-- decoder/layer_*/attention/output/MatMul -->",
        ),
        (
          "moe",
          r"slice +decoder/layer_1/.*/experts/one_hot:0",
          "<!-- decoder/layer_1/feed_forward/experts/one_hot -->",
        ),
        (
          "two_tower",
          r"0 +/device:CPU:0 +query/\S+, .*\n1 +/device:CPU:1 +item/\S+, ",
          "/device:CPU:1",
        ),
        (
          "ranking",  # Each device has a quarter of each table.
          r"tables/user +1000000 x 16 +0 +4 x 250",
          "4,945 parameters, whole in each replica",
        ),
        ("resnet", r"1 +/device:CPU:1 +resnet/group_\S+, ", None),
      ]
    )
  )
  def test_plan(self, guide, printed, drawn):
    self.assertRegex(self.plan(f"docs/{guide}.md"), printed)
    if drawn is not None:
      picture = self.picture(f"docs/{guide}.md").with_suffix(".svg").read_text()
      self.assertIn(drawn, picture)
      self.assertNotIn("Not drawn", picture)

  @tiers.slow
  def test_trace(self):
    (arguments,) = guide_case.commands(_REPLICAS, "trace")
    output = guide_case.printed(train_flags.TRACE.main, *arguments)
    self.picture(_REPLICAS)
    self.assertIn(" between replicas, ", output)

  @tiers.slow
  def test_plan_replicas(self):
    first, *others = guide_case.commands(_REPLICAS, "plan")
    (example,) = re.findall(
      r"^```\n(\d+ replicas; .*?)```", guides.read(_REPLICAS), re.M | re.S
    )
    self.assertIn(example, guide_case.printed(plan_flags.COMMAND.main, *first))
    self.assertNotEmpty(others)
    for arguments in others:
      self.assertRegex(
        guide_case.printed(plan_flags.COMMAND.main, *arguments),
        r" sums? by ring; ",
      )


class ProgramsTest(guide_case.GuideCase):
  @tiers.slow
  def test_sampling(self):
    found = guides.run(guides.programs("docs/transformer.md")[-1])
    with tf.Graph().as_default() as graph:
      features = {"tokens": tf.constant([[1, 2, 3]])}
      config = tf.estimator.RunConfig(
        session_config=tf.compat.v1.ConfigProto(device_count={"CPU": 2})
      )
      tf.compat.v1.train.create_global_step()
      spec = found["sampling"](features, None, "infer", config=config)
      self.assertEqual(spec.predictions["tokens"].shape, [1, 8])
      # The graph has no loop.
      types = {op.type for op in graph.get_operations()}
      self.assertNoCommonElements(types, {"While", "StatelessWhile", "Enter"})
      with tf.compat.v1.Session(config=config.session_config) as session:
        session.run(tf.compat.v1.global_variables_initializer())
        tokens = session.run(spec.predictions["tokens"])
    self.assertTrue(np.all((tokens >= 0) & (tokens < 256)))

  @tiers.slow
  def test_ranking(self):
    _, training, two_optimizers = guides.programs("docs/ranking.md")
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

  @tiers.slow
  def test_retrieval(self):
    with contextlib.redirect_stdout(io.StringIO()) as output:
      found = guides.run(guides.programs("docs/two_tower.md")[-1])
    # By chance it is 0.01.
    self.assertGreater(float(output.getvalue().split()[-1]), 0.05)
    scores, ids = found["scores"], found["ids"]
    every = np.asarray(found["queries"]) @ found["items"].vectors.T
    np.testing.assert_allclose(
      scores, np.take_along_axis(every, ids, axis=1), rtol=1e-5
    )
    np.testing.assert_allclose(scores, -np.sort(-every)[:, :10], rtol=1e-5)


if __name__ == "__main__":
  absltest.main()
