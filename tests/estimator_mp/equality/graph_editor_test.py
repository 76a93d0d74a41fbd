"""A model_fn that edits its graph, by tf.contrib.graph_editor, is sharded."""

import compat
import estimator_mp
from tests import tiers
from tests.estimator_mp import runs
from tests.estimator_mp.equality import transparency
from tests.estimator_mp.models import networks

import tensorflow.compat.v1 as tf
from absl.testing import absltest, parameterized

compat.install(contrib=True)
from compat.contrib import graph_editor as ge  # noqa: E402

tf.disable_v2_behavior()


def recomputed(features, labels, mode):
  """Gradients compute the layers between two checkpoints once more."""
  layers = [features["x"]]
  for name in "abcd":
    layers.append(tf.layers.dense(layers[-1], 8, tf.tanh, name=name))
  logits = tf.layers.dense(layers[-1], 1, name="e")

  def train(loss):
    pairs = _gradients(loss, layers)
    optimizer = tf.train.AdamOptimizer(0.01)
    return optimizer.apply_gradients(pairs, tf.train.get_global_step())

  return networks.spec(mode, logits, labels, train)


def _gradients(loss, layers):
  """Gradients and variables; the first and the third layer are kept."""
  slope, *found = _slopes(loss, [layers[4]], "e")
  pairs = [*zip(found, tf.trainable_variables("e"), strict=True)]
  for begin, end, scope in ((2, 4, "[cd]"), (0, 2, "[ab]")):
    kept = tf.stop_gradient(layers[begin])
    ops = ge.get_walks_intersection_ops([layers[begin]], [layers[end]])
    _, info = ge.copy_with_input_replacements(ge.sgv(ops), {})
    copied = info.transformed(ops)
    ge.reroute_ts([kept], [layers[begin]], can_modify=copied)
    for op in copied:
      if kept in op.inputs:
        ge.add_control_inputs(op, [slope.op])
    again = info.transformed(layers[end])
    slope, *found = _slopes(again, [kept], scope, slope)
    pairs += zip(found, tf.trainable_variables(scope), strict=True)
  return pairs


def _slopes(y, xs, scope, slope=None):
  # Gated: an update would be free to run before a gradient reads its variable.
  xs = [*xs, *tf.trainable_variables(scope)]
  return tf.gradients(y, xs, slope, gate_gradients=True)


def unrolled(features, labels, mode):
  """One layer learns from the loss after two steps of another one."""
  net = tf.layers.dense(features["x"], 8, tf.tanh, name="a")
  logits = tf.layers.dense(net, 1, name="b")

  def train(loss):
    first, second = tf.trainable_variables("a"), tf.trainable_variables("b")
    values = [variable.value() for variable in second]
    slopes = tf.gradients(loss, second)
    steps = [x - 0.1 * slope for x, slope in zip(values, slopes, strict=True)]
    updated = dict(zip(values, steps, strict=True))
    again = ge.graph_replace(steps, updated)
    later = ge.graph_replace(loss, dict(zip(values, again, strict=True)))
    optimizer = tf.train.AdamOptimizer(0.01)
    # No update before all gradients: they read all variables.
    found = tf.tuple([*tf.gradients(later, first), *slopes])
    pairs = zip(found, [*first, *second], strict=True)
    return optimizer.apply_gradients([*pairs], tf.train.get_global_step())

  return networks.spec(mode, logits, labels, train)


class GraphEditorTest(transparency.TransparencyTestCase):
  @parameterized.named_parameters(
    *tiers.sample(
      [
        ("micro_batches", "stage:2", {"num_micro_batches": 4}),
        ("stages", "stage:2", {}),
        ("replicas", "data:2", {}),
        ("model_axis", "model:2", {}),
      ]
    )
  )
  def test_recomputed_layers(self, mesh, options):
    config = estimator_mp.ShardingConfig(mesh, **options)
    plain, run = runs.plain_and_sharded(self, recomputed, config)
    runs.assert_same_training(self, run, plain, rtol=1e-5)

  @tiers.slow
  def test_unrolled_steps(self):
    config = estimator_mp.ShardingConfig("stage:2")
    plain, run = runs.plain_and_sharded(self, unrolled, config)
    runs.assert_same_training(self, run, plain, rtol=1e-5)

  def test_the_value_of_a_resource_is_many_tensors(self):
    config = estimator_mp.ShardingConfig("stage:2", num_micro_batches=2)
    with self.assertRaisesRegex(ValueError, "each value.. is another tensor"):
      runs.plain_and_sharded(self, unrolled, config)


if __name__ == "__main__":
  absltest.main()
