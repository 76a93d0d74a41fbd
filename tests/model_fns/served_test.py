"""The factories' models, served stage by stage, predict what they do whole."""

import functools
import os

import estimator_mp
import model_fns
from tests import tiers
from tests.estimator_mp.serving import chains
from tests.model_fns.ranking import logs as click_logs
from tests.model_fns.retrieval import logs as pair_logs
from tests.model_fns.transformers import texts

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_SIZES = (9, 1, 4)
_TOKENS = 2
_TEXT = {"tokens": texts.TOKENS}
_CLICKS = ((click_logs.FEATURES, click_logs.LABELS), click_logs.FEATURES)
_PAIRS = (pair_logs.FEATURES, pair_logs.FEATURES)
# A factory, what it trains on, and what it is asked.
_MODELS = {
  "dlrm": (click_logs.MODELS["dlrm"], *_CLICKS),
  "sampling": (
    functools.partial(
      model_fns.transformer,
      **texts.SIZES,
      sample_length=_TOKENS,
      temperature=0.0,
    ),
    (_TEXT, texts.NEXT),
    {**_TEXT, "length": texts.LENGTHS},
  ),
  "moe": (
    functools.partial(model_fns.moe, **texts.SIZES, num_experts=4),
    (_TEXT, texts.NEXT),
    _TEXT,
  ),
  "wide_deep": (click_logs.MODELS["wide_deep"], *_CLICKS),
  "two_tower": (pair_logs.model_fn, *_PAIRS),
}


def setUpModule():
  tf.get_logger().setLevel("FATAL")


def _receiver_fn(features):
  """Returns a receiver of features as they are."""

  def receive():
    tensors = {
      name: v1.placeholder(
        tf.string if values.dtype.kind == "S" else values.dtype,
        [None, *values.shape[1:]],
        name,
      )
      for name, values in features.items()
    }
    return tf.estimator.export.ServingInputReceiver(tensors, tensors)

  return receive


class ServedTest(parameterized.TestCase):
  @parameterized.named_parameters(tiers.sample([(x, x) for x in _MODELS]))
  def test_equal(self, name):
    factory, batch, features = _MODELS[name]
    folder = self.create_tempdir().full_path
    config = estimator_mp.ShardingConfig("stage:2")
    estimator = tf.estimator.Estimator(
      factory(config=config),
      config=estimator_mp.run_config(
        config,
        os.path.join(folder, "model"),
        checkpoint_save_graph_def=False,
      ),
    )
    data = tf.data.Dataset.from_tensor_slices
    estimator.train(lambda: data(batch).batch(16), steps=2)
    requests = [{k: x[:n] for k, x in features.items()} for n in _SIZES]
    stages = chains.check(
      self, estimator, _receiver_fn(features), folder, requests
    )
    self.assertLen(stages.pipeline.stages, 2)
    # Each token that is drawn goes through all layers.
    rounds = _TOKENS if name == "sampling" else 1
    for signature in stages.pipeline.signatures.values():
      self.assertLessEqual(len(signature.steps), 2 * rounds)
    held = [set(x.variables) for x in stages.pipeline.stages]
    self.assertNotEmpty(held[0] - held[1])
    self.assertNotEmpty(held[1] - held[0])


if __name__ == "__main__":
  absltest.main()
