"""Losses that compare the examples of a batch are those of the whole batch."""

from typing import Any
from unittest import mock

import estimator_mp
from estimator_mp import toolbox
from estimator_mp.replicas import horovod
from tests import tiers
from tests.estimator_mp import programs, shapes

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_BATCH = programs.examples(shapes.BATCH, 0, 24)


def _weight(name, shape):
  return v1.get_variable(
    name, shape, initializer=v1.truncated_normal_initializer(stddev=0.3)
  )


def _towers(features):
  words = tf.nn.embedding_lookup(_weight("words", [50, 8]), features["ids"])
  query = tf.tanh(tf.matmul(tf.reduce_mean(words, 1), _weight("query", [8, 6])))
  item = tf.tanh(tf.matmul(features["x"], _weight("item", [10, 8])))
  return query, tf.matmul(item, _weight("item_2", [8, 6]))


def _contrasts(query, item):
  """Returns each query's loss among all items, as in sampled softmax."""
  logits = tf.matmul(query, item, transpose_b=True)
  return tf.nn.sparse_softmax_cross_entropy_with_logits(
    tf.range(tf.shape(logits)[0]), logits
  )


def _spec(mode, loss, clip=None):
  optimizer = v1.train.AdagradOptimizer(0.1)
  pairs = optimizer.compute_gradients(loss)
  if clip is not None:
    gradients, variables = zip(*pairs, strict=True)
    gradients, _ = tf.clip_by_global_norm(gradients, clip)
    pairs = [*zip(gradients, variables, strict=True)]
  step = v1.train.get_global_step()
  train_op = optimizer.apply_gradients(pairs, step)
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def contrast(features, labels, mode):
  del labels
  query, item = toolbox.whole_batch(_towers(features))
  return _spec(mode, tf.reduce_mean(_contrasts(query, item)))


def with_variables_behind(features, labels, mode):
  """Of one it looks up rows, which clipping sees as they are listed."""
  query, item = _towers(features)
  joined = toolbox.whole_batch(
    {"query": query, "item": item, "id": features["ids"][:, 0], "y": labels}
  )
  bias = tf.nn.embedding_lookup(_weight("bias", [50, 1]), joined["id"])
  heat = _weight("heat", [])
  losses = _contrasts(joined["query"] * tf.exp(heat), joined["item"] + bias)
  loss = tf.reduce_mean(losses * (1.0 + joined["y"][:, 0]))
  return _spec(mode, loss, clip=0.05)


def with_another_loss(features, labels, mode):
  """The towers have a loss of single examples, too, and a penalty.

  Clipping sees rows of words once, although both losses have a part in them.
  """
  query, item = _towers(features)
  losses = tf.nn.sigmoid_cross_entropy_with_logits(
    labels, tf.matmul(query, _weight("ranker", [6, 1]))
  )
  query, item = toolbox.whole_batch((query, item))
  loss = tf.reduce_mean(_contrasts(query, item)) + tf.reduce_mean(losses)
  penalty = tf.add_n([tf.nn.l2_loss(w) for w in v1.trainable_variables()])
  return _spec(mode, loss + 0.01 * penalty, clip=0.05)


def of_three_joins(features, labels, mode):
  """A tower reads the mean of another over the batch."""
  del labels
  query, item = _towers(features)
  center = tf.reduce_mean(toolbox.whole_batch(item), 0)
  item = tf.matmul(item - center, _weight("after", [6, 6]))
  query = toolbox.whole_batch(query)
  return _spec(
    mode, tf.reduce_mean(_contrasts(query, toolbox.whole_batch(item)))
  )


def of_whole_items(features, labels, mode):
  """Slices compare their own queries with the items of all."""
  del labels
  query, item = _towers(features)
  logits = tf.matmul(query, toolbox.whole_batch(item), transpose_b=True)
  losses = tf.reduce_logsumexp(logits, 1) - tf.reduce_sum(query * item, 1)
  return _spec(mode, tf.reduce_mean(losses))


def of_a_gradient(features, labels, mode):
  """The gradient with respect to what was joined is whole, too."""
  del labels
  query, item = toolbox.whole_batch(_towers(features))
  loss = tf.reduce_mean(_contrasts(query, item))
  gradient = tf.gradients(loss, [query])[0]
  return _spec(mode, loss + tf.reduce_sum(tf.square(gradient)))


def by_tape(features, labels, mode):
  del labels
  with tf.GradientTape() as tape:
    query, item = toolbox.whole_batch(_towers(features))
    loss = tf.reduce_sum(_contrasts(query, item)[1:])
  variables = v1.trainable_variables()
  optimizer = v1.train.GradientDescentOptimizer(0.01)
  train_op = optimizer.apply_gradients(
    zip(tape.gradient(loss, variables), variables, strict=True),
    v1.train.get_global_step(),
  )
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


_RULES = [("item/|item$", 1), ("words", "div")]
_CASES: tuple[tuple[Any, ...], ...] = (
  ("replicas", contrast, "data:2", 1, {}),
  ("stages", contrast, "stage:2", 4, {}),
  ("parts", contrast, "data:2,model:2", 1, {}),
  ("rows_behind", with_variables_behind, "data:2", 2, {}),
  (
    "rows_behind_zero",
    with_variables_behind,
    "data:2,stage:2",
    2,
    {"optimizer_state": "sharded"},
  ),
  ("two_losses", with_another_loss, "data:2", 2, {"variables": "shared"}),
  (
    "two_losses_again",
    with_another_loss,
    "stage:2",
    4,
    {"schedule": "gpipe", "recompute": "always"},
  ),
  ("joins", of_three_joins, "data:2,stage:2", 2, {}),
  ("joins_of_parts", of_three_joins, "stage:2,model:2", 4, {"split": _RULES}),
  ("items_alone", of_whole_items, "data:2,stage:2", 2, {}),
  ("of_a_gradient", of_a_gradient, "data:2", 1, {}),
  ("tape", by_tape, "data:3", 1, {}),
)


class WholeBatchTest(parameterized.TestCase):
  @parameterized.named_parameters(tiers.sample(_CASES))
  def test_equals_the_plain_model(self, model_fn, mesh, count, fields):
    """Batches of a short last one, too, in which slices lack examples."""
    config = estimator_mp.ShardingConfig(
      mesh, num_micro_batches=count, **fields
    )
    shapes.assert_equals_the_full_batch(
      self, model_fn, shapes.BATCH, config, [shapes.DYNAMIC]
    )

  def test_batches_of_a_known_size(self):
    config = estimator_mp.ShardingConfig("data:2,stage:2", num_micro_batches=2)
    shapes.assert_equals_the_full_batch(
      self, with_variables_behind, shapes.BATCH, config, [shapes.STATIC]
    )

  def test_accumulation_in_rounds(self):
    config = estimator_mp.ShardingConfig(
      "stage:2", num_micro_batches=2, gradient_accumulation_steps=2
    )
    shapes.assert_equals_the_full_batch(
      self, of_whole_items, shapes.BATCH, config, [shapes.STATIC]
    )

  def test_without_slices_there_is_no_op_more(self):
    program = programs.Program(contrast, None, _BATCH)
    sharded = programs.Program(
      contrast, estimator_mp.ShardingConfig("stage:2"), _BATCH
    )
    names = [
      [op.name for op in x.graph.get_operations() if "/" not in op.name]
      for x in (program, sharded)
    ]
    self.assertEqual(*names)


def _without(features, labels, mode):
  del labels
  return _spec(mode, tf.reduce_mean(_contrasts(*_towers(features))))


def _one_side(features, labels, mode):
  """Queries are compared with the items of a slice."""
  del labels
  query, item = _towers(features)
  scores = tf.matmul(toolbox.whole_batch(query), item, transpose_b=True)
  return _spec(mode, tf.reduce_mean(tf.reduce_logsumexp(scores, 1)))


def _penalty(features, labels, mode):
  """The gradients of variables went back to slices before."""
  del labels
  query, item = toolbox.whole_batch(_towers(features))
  loss = tf.reduce_mean(_contrasts(query, item))
  dense = [x for x in v1.trainable_variables() if "words" not in x.name]
  norms = [tf.nn.l2_loss(x) for x in tf.gradients(loss, dense)]
  return _spec(mode, loss + tf.add_n(norms))


def _slopes(features, labels, mode):
  """The same, of a tensor of the slice."""
  del labels
  query, item = _towers(features)
  loss = tf.reduce_mean(_contrasts(*toolbox.whole_batch((query, item))))
  slopes = tf.gradients(loss, [query])[0]
  return _spec(mode, loss + tf.reduce_sum(tf.square(slopes)))


def _some_rows(features, labels, mode):
  query, _ = _towers(features)
  kept = toolbox.whole_batch(tf.boolean_mask(query, labels[:, 0] > 0.5))
  return _spec(mode, tf.reduce_mean(kept))


def _scalar(features, labels, mode):
  query, _ = _towers(features)
  return _spec(mode, toolbox.whole_batch(tf.reduce_mean(query)))


def _dropped(features, labels, mode):
  """What is drawn for each slice would be other numbers for each of them."""
  del labels
  query, item = toolbox.whole_batch(_towers(features))
  query = tf.nn.dropout(query, rate=0.5)
  return _spec(mode, tf.reduce_mean(_contrasts(query, item)))


def _in_a_function(features, labels, mode):
  del labels
  query, _ = _towers(features)
  whole = tf.function(toolbox.whole_batch)(query)
  return _spec(mode, tf.reduce_mean(whole))


def _ragged(features, labels, mode):
  ragged = tf.RaggedTensor.from_tensor(features["x"])
  return _spec(mode, tf.reduce_mean(toolbox.whole_batch(ragged)))


class RefusalTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (
      "pairs",
      _without,
      ValueError,
      r"MatMul_3:0 \(MatMul, shape \(None, None\)\) compares the examples of "
      "a slice of the batch with each other; join what it reads by "
      r"estimator_mp.toolbox.whole_batch\(...\)",
    ),
    (
      "one_side",
      _one_side,
      ValueError,
      "is neither a mean nor a sum over the examples of the batch",
    ),
    (
      "dropped",
      _dropped,
      ValueError,
      "is neither a mean nor a sum over the examples of the batch",
    ),
    (
      "penalty",
      _penalty,
      ValueError,
      "depends on a gradient that went back through whole_batch, and its "
      "gradient is asked for; micro-batches and replicas cannot",
    ),
    (
      "slopes",
      _slopes,
      ValueError,
      "add:0 depends on a gradient that went back through whole_batch",
    ),
    (
      "some_rows",
      _some_rows,
      ValueError,
      "whose rows are not the examples of the batch in their order; give it "
      "tensors with a row for each example$",
    ),
    (
      "scalar",
      _scalar,
      ValueError,
      r"whole_batch got Mean_1:0 of shape \(\); give it tensors with a row",
    ),
    (
      "function",
      _in_a_function,
      ValueError,
      "whole_batch got .*, which is inside of a function or a loop; call "
      "whole_batch outside of it$",
    ),
    (
      "ragged",
      _ragged,
      TypeError,
      "a RaggedTensor; give it dense tensors with a row for each example$",
    ),
  )
  def test_what_cannot_be_joined(self, model_fn, error, text):
    config = estimator_mp.ShardingConfig("stage:2", num_micro_batches=4)
    with self.assertRaisesRegex(error, text):
      programs.Program(model_fn, config, _BATCH)

  @mock.patch.object(horovod, "Processes")
  def test_processes_of_horovod(self, processes):
    """Each has a batch that the others do not see."""
    config = estimator_mp.ShardingConfig("stage:1", aggregation="horovod")
    with self.assertRaisesRegex(
      ValueError,
      r"whole_batch got \S+, but with aggregation=\"horovod\" each process has "
      "a batch of its own; use replicas in one process",
    ):
      programs.Program(contrast, config, _BATCH)
    processes.assert_called_once()

  def test_outside_of_sharding_tensors_are_what_they_are(self):
    nest = {"a": tf.zeros([2]), "b": (tf.ones([2, 3]),)}
    self.assertIs(toolbox.whole_batch(nest), nest)


if __name__ == "__main__":
  absltest.main()
