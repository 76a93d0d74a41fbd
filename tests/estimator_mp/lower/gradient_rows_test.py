"""Sparse gradients of slices list the rows that the plain model lists."""

import estimator_mp
from tests import tiers
from tests.estimator_mp import programs

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1

_WORDS = 11
_random = np.random.RandomState(3)
_BATCH = (
  {
    # Some words of each example are 0: there is none.
    "ids": _random.randint(1, _WORDS, [24, 5])
    * (_random.rand(24, 5) < 0.6).astype(np.int64),
    "other": _random.randint(1, _WORDS, [24, 3]),
    "weights": _random.rand(24, 5).astype(np.float32) + 0.5,
  },
  _random.randint(0, 2, [24, 1]).astype(np.float32),
)
_MESHES: tuple[tuple[str, str, dict[str, object]], ...] = (
  ("micro_batches", "stage:2", {"num_micro_batches": 4}),
  ("replicas", "data:2", {}),
  ("both", "data:2", {"num_micro_batches": 4}),
  ("sharded", "data:2,stage:2", {"optimizer_state": "sharded"}),
  ("shared", "data:3", {"variables": "shared", "num_micro_batches": 2}),
  ("again", "stage:2", {"num_micro_batches": 2, "recompute": "always"}),
)


def _table(name="table", size=_WORDS):
  initializer = v1.random_normal_initializer(seed=4)
  return v1.get_variable(name, [size, 4], initializer=initializer)


def _words(features, name="ids", values=None):
  """Returns which words there are, as a sparse tensor."""
  where = tf.where(features[name] > 0)
  values = tf.gather_nd(features[name] if values is None else values, where)
  shape = tf.shape(features[name], out_type=tf.int64)
  return tf.SparseTensor(where, values, shape)


def combined(features):
  """A mean of the words of each example."""
  return v1.nn.embedding_lookup_sparse(
    _table(), _words(features), None, combiner="mean"
  )


def weighted(features):
  """Words with weights, and examples without words."""
  return tf.nn.safe_embedding_lookup_sparse(
    _table(),
    _words(features),
    _words(features, values=features["weights"]),
    combiner="sqrtn",
    max_norm=1.0,
  )


def shared(features):
  """One table for two features, and a lookup that keeps its duplicates."""
  table = _table()
  net = v1.nn.embedding_lookup_sparse(table, _words(features), None)
  net += v1.nn.embedding_lookup_sparse(table, _words(features, "other"), None)
  return net + tf.reduce_sum(tf.gather(table, features["other"][:, 0:2]), 1)


def gathered(features):
  """Each id counts, however often it is there."""
  return tf.reduce_sum(tf.gather(_table(), features["ids"]), axis=1)


def transposed(features):
  """Ids word by word, each of all examples."""
  found = tf.gather(_table(), tf.transpose(features["ids"]))
  return tf.reduce_sum(found, axis=0)


def positions(features):
  """All slices look up the same rows."""
  length = tf.shape(features["ids"])[1]
  rows = tf.gather(_table(), tf.range(length)) + tf.gather(
    _table("twice", 3), [1, 0, 1, 2, 2]
  )
  return tf.reduce_sum(rows * features["weights"][:, :, tf.newaxis], axis=1)


def hashed(features):
  """Two distinct words may share a row."""
  words, numbers = tf.unique(tf.reshape(features["other"], [-1]))
  found = tf.gather(tf.gather(_table(), words % 4), numbers)
  return tf.reduce_sum(tf.reshape(found, [-1, 3, 4]), axis=1)


def joined(features):
  """Distinct words of two features, one after another."""
  words, numbers = tf.unique(tf.reshape(features["other"], [-1]))
  ids = tf.concat([words, features["ids"][:, 0]], axis=0)
  found = tf.gather(_table(), ids)
  size = tf.size(words)
  net = tf.gather(found[:size], numbers)
  return tf.reduce_sum(tf.reshape(net, [-1, 3, 4]), axis=1) + found[size:]


def partitioned(features):
  """A table that model_fn itself has in parts."""
  table = v1.get_variable(
    "table",
    [_WORDS, 4],
    initializer=v1.random_normal_initializer(seed=4),
    partitioner=v1.fixed_size_partitioner(2),
  )
  return v1.nn.embedding_lookup_sparse(
    table, _words(features), None, partition_strategy="div"
  )


def columns(features):
  """Feature columns that share a table."""
  column = tf.feature_column
  found = v1.feature_column.shared_embedding_columns(
    [
      column.categorical_column_with_identity(name, _WORDS)
      for name in ("ids", "other")
    ],
    4,
  )
  sparse = {name: _words(features, name) for name in ("ids", "other")}
  return v1.feature_column.input_layer(sparse, found)


def segments(features):
  """TensorFlow sums the rows of a segment, and lists them sorted."""
  words = _words(features)
  return tf.sparse.segment_sum(
    _table(), words.values, words.indices[:, 0], sparse_gradient=True
  )


def in_function(features):
  """What a function looks up, it alone knows."""

  @tf.function
  def embed(table, words, other):
    return v1.nn.embedding_lookup_sparse(table, words, None) + tf.reduce_sum(
      tf.gather(table, other), axis=1
    )

  return embed(_table(), _words(features), features["other"])


def in_python(features):
  """Distinct words, found by numpy."""
  words = tf.reshape(features["other"], [-1])
  distinct, numbers = tf.numpy_function(
    lambda x: np.unique(x, return_inverse=True), [words], [tf.int64, tf.int64]
  )
  found = tf.gather(tf.gather(_table(), tf.reshape(distinct, [-1])), numbers)
  return tf.reduce_sum(tf.reshape(found, [-1, 3, 4]), axis=1)


def _model_fn(embed, clips=True):
  """Returns a model_fn that clips by the norm of what gradients list."""

  def model_fn(features, labels, mode):
    net = v1.layers.dense(tf.tanh(embed(features)), 3, name="a")
    logits = v1.layers.dense(net, 1, name="b")
    loss = tf.reduce_mean(
      tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
    )
    variables = v1.trainable_variables()
    gradients = tf.gradients(loss, variables)
    for gradient, variable in zip(gradients, variables, strict=True):
      if clips and isinstance(gradient, tf.IndexedSlices):
        tf.identity(gradient.values, f"{variable.op.name}/listed_values")
        tf.identity(gradient.indices, f"{variable.op.name}/listed_indices")
    if clips:
      gradients, norm = tf.clip_by_global_norm(gradients, 0.01)
      tf.identity(norm, "norm_of_gradients")
    train_op = v1.train.AdagradOptimizer(0.5).apply_gradients(
      zip(gradients, variables, strict=True), v1.train.get_global_step()
    )
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

  return model_fn


def _listed(program):
  """Returns the tensors that list rows of gradients."""
  names = [
    op.name
    for op in program.graph.get_operations()
    if op.name.endswith(("listed_values", "listed_indices"))
  ]
  return {name: f"{name}:0" for name in [*names, "norm_of_gradients"]}


class RowsTest(parameterized.TestCase):
  def _check(self, model_fn, mesh, options, sizes=(24, 23)):
    config = estimator_mp.ShardingConfig(mesh, **options)
    plain = programs.Program(model_fn, None, _BATCH)
    program = programs.Program(model_fn, config, _BATCH)
    program.load(plain.variables())
    for size in sizes:
      with self.subTest(size=size):
        batch = programs.examples(_BATCH, 24 - size, 24)
        expected = plain.step(batch, _listed(plain))
        step = program.step(batch, _listed(plain))
        np.testing.assert_allclose(step.loss, expected.loss, rtol=1e-5)
        for name, value in expected.fetched.items():
          np.testing.assert_allclose(
            step.fetched[name], value, rtol=1e-5, atol=1e-7, err_msg=name
          )
        programs.assert_same_variables(
          self, step.variables, expected.variables, 1e-5
        )

  @parameterized.named_parameters(
    tiers.sample(
      [(name, shared, mesh, options) for name, mesh, options in _MESHES]
    )
  )
  def test_on_every_mesh(self, embed, mesh, options):
    self._check(_model_fn(embed), mesh, options)

  @parameterized.named_parameters(
    tiers.sample(
      [
        (embed.__name__, embed)
        for embed in (
          positions,
          joined,
          weighted,
          gathered,
          hashed,
          partitioned,
          columns,
          segments,
        )
      ]
    )
  )
  def test_of_lookups(self, embed):
    options = {"num_micro_batches": 2, "optimizer_state": "sharded"}
    self._check(_model_fn(embed), "data:2", options, sizes=(24,))

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("over_replicas", "data:2", "div"),
        ("over_a_model_axis", "model:2", "div"),
        ("columns", "model:2", "columns"),
      ]
    )
  )
  def test_of_split_tables(self, mesh, how):
    """The rows of one lookup may come before those of another."""
    options = {"num_micro_batches": 2, "split": [("table", how)]}
    self._check_but_order(_model_fn(shared), mesh, options, sizes=(24,))

  def test_order(self):
    """What clips by a norm does not see the order of rows, nor rows of zero."""
    options = {"num_micro_batches": 2}
    self._check_but_order(_model_fn(transposed), "data:2", options, (24, 3))

  def _check_but_order(self, model_fn, mesh, options, sizes):
    config = estimator_mp.ShardingConfig(mesh, **options)
    plain = programs.Program(model_fn, None, _BATCH)
    program = programs.Program(model_fn, config, _BATCH)
    program.load(plain.variables())
    for size in sizes:
      batch = programs.examples(_BATCH, 0, size)
      expected = plain.step(batch, _listed(plain)).fetched
      found = program.step(batch, _listed(plain)).fetched
      name = "norm_of_gradients"
      np.testing.assert_allclose(found[name], expected[name], rtol=1e-5)
      listed = [
        sorted(
          (int(index), *np.round(row, 5).tolist())
          for index, row in zip(
            of["table/listed_indices"], of["table/listed_values"], strict=True
          )
          if np.any(np.abs(row) > 1e-9)
        )
        for of in (found, expected)
      ]
      np.testing.assert_allclose(*listed, atol=2e-5)

  @parameterized.named_parameters(
    ("function", in_function), ("python", in_python)
  )
  def test_what_is_not_known(self, embed):
    """An optimizer adds up repeated rows; a norm takes each by itself."""
    plain = programs.Program(_model_fn(embed, clips=False), None, _BATCH)
    config = estimator_mp.ShardingConfig("data:2", num_micro_batches=2)
    program = programs.Program(_model_fn(embed, clips=False), config, _BATCH)
    program.load(plain.variables())
    expected = plain.step(_BATCH).variables
    programs.assert_same_variables(
      self, program.step(_BATCH).variables, expected, 1e-5
    )
    with self.assertRaises(ValueError) as caught:
      programs.Program(_model_fn(embed), config, _BATCH)
    values = "aggregate/reduce_slices/concat:0"
    self.assertEqual(
      str(caught.exception),
      "global_norm/L2Loss reads the rows of the gradient of table as they are "
      f"listed in {values}, but it is not known which of the rows that "
      "micro-batches and replicas list are one row of the whole batch's; find "
      "distinct ids by tf.unique, outside of functions, let it read "
      "tf.convert_to_tensor(gradient), or use num_micro_batches=1 and no data "
      "axis",
    )


if __name__ == "__main__":
  absltest.main()
