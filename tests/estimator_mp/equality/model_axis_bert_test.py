"""BERT on a model axis, as its code has it: two sums a layer, each way.

A masked language model whose head shares the table of words (Devlin et al.,
2018, arXiv:1810.04805), in the way of the published code: matrices in place of
batches, masks that are added to scores, losses of `log_softmax` and `one_hot`,
positions that are gathered from flat rows, and an Adam of its own. What
`split="auto"` makes of it is Megatron-LM's (Shoeybi et al., 2019,
arXiv:1909.08053).
"""

import collections
import functools
import os
import re

import estimator_mp
from estimator_mp.graph import shapes
from estimator_mp.model_axis import costs
from estimator_mp.plan import sharding_plan
from tests.estimator_mp import runs, versions, zoo
from tests.estimator_mp.model_axis import observed_steps

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1

_BATCH = shapes.NOMINAL_BATCH  # Unknown dimensions are planned for as this.
_LENGTH, _MASKED = 6, 2
# All heads together are wider than the stream, so that each kernel of a layer
# has a shape of its own.
_WORDS, _WIDTH, _HEADS, _HEAD_WIDTH, _INNER = 120, 16, 4, 6, 72
_LAYERS = 2
# How many rows of tables are whose is in the ids of a batch.
_ROWS = re.compile("/split/.*(embedding_lookup/|DynamicPartition|GatherV2)")

_rng = np.random.RandomState(31)
_EXAMPLES = {
  "ids": _rng.randint(_WORDS, size=[2 * _BATCH, _LENGTH]).astype(np.int32),
  "mask": (np.arange(_LENGTH) < _rng.randint(3, 7, [2 * _BATCH, 1])) * 1,
  "types": _rng.randint(2, size=[2 * _BATCH, _LENGTH]).astype(np.int32),
  "where": _rng.randint(_LENGTH, size=[2 * _BATCH, _MASKED]).astype(np.int32),
  "words": _rng.randint(_WORDS, size=[2 * _BATCH, _MASKED]).astype(np.int32),
  "weights": _rng.randint(2, size=[2 * _BATCH, _MASKED]).astype(np.float32),
}
_LABELS = _rng.randint(2, size=[2 * _BATCH]).astype(np.int32)


def _input_fn():
  data = tf.data.Dataset.from_tensor_slices((_EXAMPLES, _LABELS))
  return data.batch(_BATCH, drop_remainder=True)


def _sizes(tensor):
  """Returns the sizes of a tensor, as numbers where they are known."""
  known, actual = tensor.shape.as_list(), tf.shape(tensor)
  return [actual[i] if x is None else x for i, x in enumerate(known)]


def _initializer():
  return v1.truncated_normal_initializer(stddev=0.2, seed=5)


def _gelu(x):
  return 0.5 * x * (1.0 + tf.math.erf(x / np.sqrt(2.0).astype(np.float32)))


def _dense(net, units, name, activation=None):
  return v1.layers.dense(
    net, units, activation, name=name, kernel_initializer=_initializer()
  )


def _layer_norm(net):
  with v1.variable_scope("LayerNorm"):
    shape = net.shape[-1:]
    beta = v1.get_variable("beta", shape, initializer=v1.zeros_initializer())
    gamma = v1.get_variable("gamma", shape, initializer=v1.ones_initializer())
    mean, variance = tf.nn.moments(net, [-1], keepdims=True)
    return tf.nn.batch_normalization(net, mean, variance, beta, gamma, 1e-12)


def _embeddings(features):
  """Returns what the layers read, [batch, length, width], and the table."""
  create = functools.partial(v1.get_variable, initializer=_initializer())
  table = create("word_embeddings", [_WORDS, _WIDTH])
  net = tf.nn.embedding_lookup(table, features["ids"])
  batch, length, width = _sizes(net)
  types = tf.one_hot(tf.reshape(features["types"], [-1]), 2)
  types = tf.matmul(types, create("token_type_embeddings", [2, width]))
  net += tf.reshape(types, [batch, length, width])
  positions = create("position_embeddings", [2 * _LENGTH, width])
  with tf.control_dependencies([v1.assert_less_equal(length, 2 * _LENGTH)]):
    positions = tf.slice(positions, [0, 0], [length, -1])
  return _layer_norm(net + tf.reshape(positions, [1, length, width])), table


def _attention(net, mask, batch):
  """Returns what heads make of a matrix, [batch * length, heads * width]."""

  def by_head(name):
    rows = _dense(net, _HEADS * _HEAD_WIDTH, name)
    shape = [batch, _LENGTH, _HEADS, _HEAD_WIDTH]
    return tf.transpose(tf.reshape(rows, shape), [0, 2, 1, 3])

  with v1.variable_scope("self"):
    query, key, value = map(by_head, ("query", "key", "value"))
    scores = tf.matmul(query, key, transpose_b=True)
    scores = tf.multiply(scores, 1.0 / np.sqrt(float(_HEAD_WIDTH)))
    adder = (1.0 - tf.cast(mask, tf.float32)) * -10000.0
    scores += tf.expand_dims(adder, axis=[1])
    mixed = tf.matmul(tf.nn.softmax(scores), value)
    mixed = tf.transpose(mixed, [0, 2, 1, 3])
    return tf.reshape(mixed, [batch * _LENGTH, _HEADS * _HEAD_WIDTH])


def _encoder(net, mask):
  """Returns what the last layer makes, [batch, length, width]."""
  batch, length, width = _sizes(net)
  mask = tf.reshape(mask, [batch, 1, length])
  mask = tf.ones([batch, length, 1]) * tf.cast(mask, tf.float32)
  net = tf.reshape(net, [-1, width])
  for i in range(_LAYERS):
    with v1.variable_scope(f"layer_{i}"):
      with v1.variable_scope("attention"):
        heads = _attention(net, mask, batch)
        with v1.variable_scope("output"):
          net = _layer_norm(_dense(heads, width, "dense") + net)
      with v1.variable_scope("intermediate"):
        inner = _dense(net, _INNER, "dense", _gelu)
      with v1.variable_scope("output"):
        net = _layer_norm(_dense(inner, width, "dense") + net)
  return tf.reshape(net, [batch, length, width])


def _masked_words(net, features, table):
  """Returns the loss of the words that were masked, and the logits."""
  batch, length, width = _sizes(net)
  offsets = tf.reshape(tf.range(0, batch, dtype=tf.int32) * length, [-1, 1])
  where = tf.reshape(features["where"] + offsets, [-1])
  net = tf.gather(tf.reshape(net, [batch * length, width]), where)
  with v1.variable_scope("cls"):
    net = _layer_norm(_dense(net, width, "transform", _gelu))
    bias = v1.get_variable(
      "output_bias", [_WORDS], initializer=v1.zeros_initializer()
    )
    logits = tf.nn.bias_add(tf.matmul(net, table, transpose_b=True), bias)
    log_probs = tf.nn.log_softmax(logits, axis=-1)
    words = tf.one_hot(tf.reshape(features["words"], [-1]), _WORDS)
    losses = -tf.reduce_sum(log_probs * words, axis=[-1])
    weights = tf.reshape(features["weights"], [-1])
    loss = tf.reduce_sum(weights * losses) / tf.reduce_sum(weights + 1e-5)
  return loss


def _sentence(net, labels):
  """Returns the loss of a classifier of the first token."""
  first = tf.squeeze(net[:, 0:1, :], axis=1)
  pooled = _dense(first, _WIDTH, "pooler", tf.tanh)
  weights = v1.get_variable("weights", [2, _WIDTH], None, _initializer())
  logits = tf.matmul(pooled, weights, transpose_b=True)
  log_probs = tf.nn.log_softmax(logits, axis=-1)
  losses = -tf.reduce_sum(tf.one_hot(labels, 2) * log_probs, axis=-1)
  return tf.reduce_mean(losses), logits


def _bert(features, labels, mode):
  """A model_fn as BERT's pretraining has it, without dropout."""
  with v1.variable_scope("bert"):
    net, table = _embeddings(features)
    net = _encoder(net, features["mask"])
  loss, logits = _sentence(net, labels)
  loss += _masked_words(net, features, table)
  variables = v1.trainable_variables()
  gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 1.0)
  update = zoo.adam_by_hand(zip(gradients, variables, strict=True), 0.002)
  with tf.control_dependencies([update]):
    train_op = v1.assign_add(v1.train.get_or_create_global_step(), 1)
  return tf.estimator.EstimatorSpec(
    mode, {"logits": logits}, loss, train_op=train_op
  )


class BertTest(parameterized.TestCase):
  @parameterized.parameters(
    versions.some(
      [
        ("model:2", 1),
        ("model:3", 4),
        ("data:2,model:2", 4),
      ],
      "model:3",
    )
  )
  def test_training_is_the_plain_one_s(self, mesh, num_micro_batches):
    folder = self.create_tempdir().full_path
    start = os.path.join(folder, "start")
    runs.train(_bert, None, None, start, 1, _input_fn)
    config = estimator_mp.ShardingConfig(
      mesh, num_micro_batches=num_micro_batches
    )
    sharded = estimator_mp.shard_model_fn(_bert, config)
    plain, run = (
      runs.go_on(fn, c, None, start, f"{folder}/{name}", 20, _input_fn)
      for fn, c, name in ((_bert, None, "plain"), (sharded, config, "sharded"))
    )
    np.testing.assert_allclose(run.losses, plain.losses, rtol=1e-5)
    self.assertCountEqual(run.variables, plain.variables)
    for name, value in plain.variables.items():
      # What nothing depends on, as the bias of keys, moves by what is rounded.
      np.testing.assert_allclose(
        run.variables[name], value, rtol=1e-4, atol=1e-5, err_msg=name
      )


class StepTest(parameterized.TestCase):
  """What a step computes and sends, read from its partition graphs."""

  def _step(self, num_parts):
    graph = tf.Graph()
    context = graph.as_default()
    context.__enter__()
    self.addCleanup(context.__exit__, None, None, None)
    fed = {
      name: v1.placeholder(value.dtype, [None, *value.shape[1:]])
      for name, value in {**_EXAMPLES, "labels": _LABELS}.items()
    }
    # A placeholder that is fed has another name where it runs.
    features = {name: tf.identity(tensor) for name, tensor in fed.items()}
    labels = features.pop("labels")
    v1.train.get_or_create_global_step()
    config = estimator_mp.ShardingConfig(f"model:{num_parts}")
    sharded = estimator_mp.shard_model_fn(_bert, config)
    spec = sharded(features, labels, tf.estimator.ModeKeys.TRAIN)
    examples = {**_EXAMPLES, "labels": _LABELS}
    feed = {fed[name]: value[:_BATCH] for name, value in examples.items()}
    self.plan = sharding_plan.get_plan(graph).splits
    return observed_steps.ObservedStep(spec.train_op, feed, num_parts)

  def test_is_megatron_lm_s(self):
    num_parts = 2
    step = self._step(num_parts)
    graph = v1.get_default_graph()
    values = step.values(
      tensor.name
      for op in graph.get_operations()
      if op.name in step.graph.nodes and op.type != "Placeholder"
      for tensor in op.outputs
      if tensor.dtype.is_floating
    )
    self._assert_two_sums_in_each_layer_each_way(step, values, num_parts)
    self._assert_no_whole_kernel(values)
    self._assert_sends_what_is_planned(step, num_parts)

  def _assert_two_sums_in_each_layer_each_way(self, step, values, num_parts):
    """Counts sums over all devices of what layers pass on."""
    found = collections.Counter()
    for name, node in step.graph.nodes.items():
      value = values.get(f"{name}:0")
      if node.op not in ("Add", "AddN", "AddV2") or value is None:
        continue
      beside = {step.device_of(x) for x in step.graph.inputs_of(name)}
      if len(beside) == num_parts and value.size == _BATCH * _LENGTH * _WIDTH:
        found["gradients" in name] += 1
    self.assertEqual(found, {False: 2 * _LAYERS, True: 2 * _LAYERS})

  def _assert_no_whole_kernel(self, tensors):
    """Asserts that nothing is as large as what is split, nor as logits."""
    whole = {x.shape for x in self.plan.variables if len(x.shape) > 1}
    kernels = [(_WIDTH, _HEADS * _HEAD_WIDTH), (_WIDTH, _INNER)]
    kernels += [shape[::-1] for shape in kernels]
    self.assertCountEqual(whole, [*kernels, (_WORDS, _WIDTH)])
    self.assertEmpty(
      {
        name: value.shape
        for name, value in tensors.items()
        if value.shape in whole or _WORDS in value.shape
      }
    )
    self.assertEmpty(self.plan.gathers)

  def _assert_sends_what_is_planned(self, step, num_parts):
    """Compares bytes, but for what only the ids of a batch tell.

    Of the softmax over words all send a maximum and a sum for each word that is
    masked, and hear of the whole sum; backward one number each way.
    """
    sent = [x for x in step.transfers if not _ROWS.search(x.op)]
    values = step.values({f"{x.op}:{x.output}" for x in sent})
    sizes = [(x.op, values[f"{x.op}:{x.output}"].nbytes) for x in sent]
    statistics = [size for name, size in sizes if "LogSoftmax" in name]
    self.assertEqual(statistics, [_BATCH * _MASKED * 4] * 5 * (num_parts - 1))
    planned = [x for x in self.plan.sent if x.kind != costs.EXCHANGE]
    self.assertEqual(
      sum(size for _, size in sizes) - sum(statistics),
      sum(x.num_bytes for x in planned),
    )


if __name__ == "__main__":
  absltest.main()
