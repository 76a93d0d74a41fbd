"""Ordinary model_fns in slices of the batch, by their finished graphs.

Nothing of a model_fn is intercepted: the graph that it leaves is partitioned,
and the steps of that are the plain graph's.
"""

import functools
import itertools
import random

import estimator_mp
from estimator_mp import partitioner
from tests import tiers
from tests.estimator_mp import partitioned, parts, programs, session_configs
from tests.estimator_mp.models import catalogue, registry

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_v1 = tf.compat.v1
# All slices draw at once, as the plain graph does.
_config = functools.partial(estimator_mp.ShardingConfig, draws="whole")
_CONFIGS = {
  "slices": _config(num_micro_batches=3),
  "stages": _config("stage:2"),
  "1f1b": _config("stage:2", num_micro_batches=4),
  "replicas": _config("data:2", variables="shared"),
  "hybrid": _config("data:2,stage:2", num_micro_batches=2, variables="shared"),
  "zb1p": _config("stage:2", num_micro_batches=4, schedule="zb1p"),
  "mirrors": _config("data:2"),
  "zero": _config(
    "data:2,stage:2", num_micro_batches=2, optimizer_state="sharded"
  ),
}


_FAST = [
  # Convolutions, and a batch normalization whose slices exchange sums.
  ("cnn_open_hybrid", "cnn", "open", "hybrid"),
  # Sums of which one operand is whole were added once for each slice.
  ("normed_static_slices", "batch_normalisation", "static", "slices"),
  # A size was read without what its op waits for: a train_op.
  ("counted_open_slices", "counted_examples", "open", "slices"),
  # Rows of examples are split again after a sort of the batch.
  ("nt_xent_open_1f1b", "nt_xent", "open", "1f1b"),
  ("mlp_adam_open_zb1p", "mlp_adam", "open", "zb1p"),
  ("embeddings_open_zero", "clipped_embeddings", "open", "zero"),
  # What a constant waits for, all that reads it waits for: a lookup in a table.
  ("table_open_replicas", "table_of_last_losses", "open", "replicas"),
  # A loop as one op, with lists for its gradient that have the batch's size.
  ("map_open_stages", "map_over_examples", "open", "stages"),
  # Optimizers one after the other, whose sums may not be in one bucket.
  ("gan_open_mirrors", "gan_after_the_critic", "open", "mirrors"),
]


@functools.cache
def _plain(name, size):
  return partitioned.train(catalogue.MODELS[name], size)


class PartitionerTest(parameterized.TestCase):
  @parameterized.named_parameters(
    _FAST if tiers.FAST else catalogue.in_turns(_CONFIGS, skipped=1)
  )
  def test_steps_are_the_plain_graphs(self, name, size, config):
    losses, variables = _plain(name, size)
    found, found_variables = partitioned.train(
      catalogue.MODELS[name], size, _CONFIGS[config]
    )
    rtol = 1e-4 if "transformer" in name else 2e-5
    np.testing.assert_allclose(found, losses, rtol)
    # A key's bias has no gradient but rounding, which Adam brings to full size.
    but = [x for x in variables if "/key/bias" in x]
    if name == "cox":  # Nor has a bias of all risks: they are compared.
      but.append("head/bias")
    programs.assert_same_variables(self, found_variables, variables, rtol, but)

  @parameterized.parameters(
    ("whole", lambda shape: tf.random.uniform(shape, seed=2)),
    ("whole", lambda shape: tf.random.stateless_uniform(shape, [3, 4])),
    ("per_slice", lambda shape: tf.random.uniform(shape, seed=2)),
    ("per_slice", lambda shape: tf.random.stateless_uniform(shape, [3, 4])),
  )
  def test_random_numbers(self, option, draw):
    """All slices draw at once, as the plain graph does, or each by itself."""
    with tf.Graph().as_default():
      _v1.set_random_seed(3)
      x = _v1.placeholder(tf.float32, [None, 5])
      kernel = _v1.get_variable("kernel", [5, 5], use_resource=True)
      mask = draw(tf.shape(x))
      net = tf.matmul(x, kernel) * mask
      loss = tf.reduce_mean(tf.square(net))
      train_op = _v1.train.GradientDescentOptimizer(0.1).minimize(loss)
      config = estimator_mp.ShardingConfig(num_micro_batches=3, draws=option)
      made = partitioner.Partitioner(
        parts.inputs(x), [loss, train_op], config, config.create_mesh()
      )
      made.lower()
      graph = tf.compat.v1.get_default_graph()
      products = [
        graph.get_tensor_by_name(f"slice_{i}/{net.op.name}:0") for i in range(3)
      ]
      used = [product.op.inputs[1] for product in products]
      options = session_configs.config()
      with _v1.Session(config=options) as session:
        session.run(_v1.global_variables_initializer())
        whole, *drawn = session.run(
          [mask, *used], {x: np.ones([6, 5], np.float32)}
        )
    if option == "whole":
      np.testing.assert_array_equal(np.concatenate(drawn), whole)
    for part, other in itertools.combinations(drawn, 2):
      self.assertEqual(part.shape, (2, 5))
      self.assertFalse(np.any(part == other))

  @parameterized.parameters(tiers.sample(["1f1b", "slices", "hybrid"]))
  def test_a_size_that_may_be_zero_or_one(self, name):
    """Regression: the larger of a tensor's value and 1 was that value."""
    found = {}
    for config in (None, _CONFIGS[name]):
      random.seed(5)
      with tf.Graph().as_default():
        _v1.set_random_seed(3)
        x = _v1.placeholder(tf.float32, [None, 6])
        longest = tf.maximum(tf.cast(tf.reduce_max(x * 0), tf.int32), 1)
        twos = tf.fill([tf.shape(x)[0], longest], 2.0)
        net = _v1.layers.dense(x, 4) * tf.reduce_sum(twos, 1, keepdims=True)
        loss = tf.reduce_mean(tf.square(_v1.layers.dense(net, 1)))
        train_op = _v1.train.GradientDescentOptimizer(0.01).minimize(loss)
        fetches = [loss, train_op]
        if config is not None:
          made = partitioner.Partitioner(
            parts.inputs(x), fetches, config, config.create_mesh()
          )
          fetches = made.lower().fetches
        options = session_configs.config(device_count={"CPU": 4})
        with _v1.Session(config=options) as session:
          session.run(_v1.global_variables_initializer())
          feed = {x: np.arange(42, dtype=np.float32).reshape(7, 6) / 42}
          found[config] = [session.run(fetches, feed)[0] for _ in range(3)]
    np.testing.assert_allclose(found[_CONFIGS[name]], found[None], 1e-5)

  @parameterized.parameters(
    ([], "no tensor with examples, .*give their axes by batch_axis"),
    ([4, 8], "has 4 examples but .* has 8, .*batch_axis"),
  )
  def test_a_batch_that_has_no_slices(self, sizes, message):
    with tf.Graph().as_default():
      loss = tf.reduce_mean(_v1.get_variable("x", [2], use_resource=True))
      inputs = [_v1.placeholder(tf.float32, [size, 3]) for size in sizes]
      train_op = _v1.train.GradientDescentOptimizer(0.1).minimize(loss)
      config = _CONFIGS["slices"]
      with self.assertRaisesRegex(ValueError, message):
        partitioner.Partitioner(
          parts.inputs(*inputs), [loss, train_op], config, config.create_mesh()
        )

  @parameterized.parameters(tiers.sample(["mlp_adam", "cnn"]))
  def test_stages_alone_are_the_plain_graph_bit_for_bit(self, name):
    """Nothing but devices differs, so it is so by construction."""
    losses, variables = _plain(name, registry.OPEN)
    found, found_variables = partitioned.train(
      catalogue.MODELS[name], registry.OPEN, _CONFIGS["stages"]
    )
    self.assertEqual(found, losses)
    for key, value in variables.items():
      np.testing.assert_array_equal(found_variables[key], value)


if __name__ == "__main__":
  absltest.main()
