"""The guides to transformers and to experts run, and draw, what they say."""

from estimator_mp.cli import train_flags
from model_fns.recipes import recipe
from tests import tiers
from tests.docs import guide_case, guides

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_TRANSFORMER, _MOE = "docs/transformer.md", "docs/moe.md"


class GuidesTest(guide_case.GuideCase):
  @tiers.slow
  @parameterized.parameters((_TRANSFORMER, "stage:2"), (_MOE, "model:2"))
  def test_train(self, guide, mesh):
    """tests/model_fns/recipes runs the command."""
    (arguments,) = guide_case.commands(guide, "train")
    options = train_flags.parse(["train", *arguments])
    self.assertEqual(options.sharding.mesh, mesh)
    made = recipe.make(
      recipe.Request(
        options.model,
        options.dataset,
        options.data_dir,
        options.batch_size,
        options.train_steps,
        options.learning_rate,
        options.optimizer,
        options.seed,
      )
    )
    self.assertEqual(made.figure, "perplexity")
    # Each version of Python has a text of its own.
    self.assertBetween(made.baseline().value, 10.0, 25.0)

  @tiers.slow
  @parameterized.parameters(
    tiers.sample(
      [
        (
          _TRANSFORMER,
          "sum +decoder/layer_1/attention/output/",
          "decoder/layer_*/attention/output/MatMul",
        ),
        (
          _MOE,
          r"slice +decoder/layer_1/.*/experts/einsum/Einsum",
          "decoder/layer_1/feed_forward/experts/einsum/Einsum",
        ),
      ]
    ),
  )
  def test_inspect(self, guide, sent, drawn):
    self.assertRegex(self.inspect(guide), sent)
    picture = self.picture(guide).with_suffix(".svg").read_text()
    self.assertIn(f"<!-- {drawn} -->", picture)
    self.assertNotIn("Not drawn", picture)

  @tiers.slow
  def test_sampling(self):
    found = guides.run(guides.programs(_TRANSFORMER)[-1])
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


if __name__ == "__main__":
  absltest.main()
