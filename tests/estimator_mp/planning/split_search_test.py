"""Which splits are found for models whose best ones are known."""

import itertools

import estimator_mp
from estimator_mp import partitioner
from estimator_mp.planning import split_search
from estimator_mp.planning.split_candidates import Candidates
from estimator_mp.planning.split_costs import Costs
from estimator_mp.propagate.layouts import Partition, Shard
from tests.estimator_mp import parts
from tests.estimator_mp.models import catalogue
from tests.estimator_mp.planning import split_case

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


def _dense(net, units, name):
  kernel = parts.weight(f"{name}/kernel", [net.shape[-1], units])
  bias = parts.state(f"{name}/bias", [units])
  return tf.nn.bias_add(tf.matmul(net, kernel), bias)


def _attention(net, heads):
  """An encoder's layer of attention: what is fed is [batch, 6, width]."""
  width = net.shape[-1]
  rows = tf.reshape(net, [-1, width])

  def split(name):
    shape = [-1, 6, heads, width // heads]
    return tf.transpose(
      tf.reshape(_dense(rows, width, name), shape), [0, 2, 1, 3]
    )

  query, key, value = split("query"), split("key"), split("value")
  scores = tf.nn.softmax(tf.matmul(query, key, transpose_b=True))
  mixed = tf.transpose(tf.matmul(scores, value), [0, 2, 1, 3])
  return _dense(tf.reshape(mixed, [-1, width]), width, "output")


def _mlp(net, layers):
  for i in range(layers):
    net = tf.nn.relu(_dense(net, net.shape[-1], f"dense_{i}"))
  return net


def _layer_norm(net, name):
  mean, variance = tf.nn.moments(net, [-1], keepdims=True)
  normed = (net - mean) * tf.math.rsqrt(variance + 1e-6)
  return normed * parts.weight(f"{name}/gamma", [net.shape[-1]])


def _token_types(ids, types):
  """BERT multiplies token types, each as one of 16, with a table."""
  net = tf.nn.embedding_lookup(parts.weight("words", [400, 32]), ids)
  net += tf.matmul(types, parts.weight("token_types", [16, 32]))
  net = _layer_norm(net, "norm")
  for i in range(2):
    hidden = tf.nn.relu(_dense(net, 128, f"layer_{i}/up"))
    net += _dense(hidden, 32, f"layer_{i}/down")
    net = _layer_norm(net, f"layer_{i}/norm")
  return net


def _words(ids, labels, is_tied):
  table = parts.weight("embeddings", [500, 8])
  net = tf.reshape(tf.nn.embedding_lookup(table, ids), [-1, 8])
  net = tf.nn.relu(_dense(net, 8, "dense"))
  if is_tied:
    logits = tf.matmul(net, table, transpose_b=True, name="logits")
  else:
    logits = tf.matmul(net, parts.weight("softmax", [8, 500]), name="logits")
  return parts.class_losses(labels, logits)


def _loop(net):
  kernel = parts.weight("recurrent", [12, 12])
  return v1.while_loop(
    lambda i, x: i < 3,
    lambda i, x: (i + 1, tf.matmul(x, kernel)),
    [0, _dense(net, 12, "dense")],
  )[1]


def _without_rules(net):
  kernel = parts.weight("kernel", [12, 12])
  hidden = tf.matmul(net, parts.weight("up", [12, 8]))
  return tf.reduce_mean(hidden) + tf.raw_ops.ResourceGatherNd(
    resource=kernel.handle, indices=[[0, 0]], dtype=tf.float32
  )


def _in_parts(split):
  """Returns an axis and the sizes of parts; None of what is whole."""
  return None if split is None else (split.dim, split.partition.parts)


class SearchTest(split_case.SplitCase):
  """Splits of what makes a tensor, whose mean is the loss."""

  def _loss(self, make, *inputs):
    return tf.reduce_mean(make(*(v1.placeholder(*x) for x in inputs)))

  def _splits(self, loss, num_parts=2, **options):
    """Returns how matrices are split, but for those that are whole."""
    problem = self.problem(loss, num_parts, **options)
    found = split_search.choose_splits(problem)
    return {x.name: _in_parts(split) for x, split in found.items() if split}

  def _plan(self, loss, train_op, *inputs):
    """Returns what is split of two parts, and what that sends."""
    config = estimator_mp.ShardingConfig("model:2")
    made = partitioner.Partitioner(
      parts.inputs(*inputs), [loss, train_op], config, config.create_mesh()
    )
    return made.plan.splits

  @parameterized.named_parameters(
    ("two_parts", 2, (6, 6)),
    ("as_many_heads_as_parts", 4, (3, 3, 3, 3)),
    ("heads_that_do_not_divide", 3, (6, 3, 3)),
  )
  def test_attention_is_split_by_heads(self, num_parts, sizes):
    loss = self._loss(
      lambda net: _attention(net, heads=4), (tf.float32, [None, 6, 12])
    )
    self.assertEqual(
      self._splits(loss, num_parts),
      {
        "query/kernel": (1, sizes),
        "key/kernel": (1, sizes),
        "value/kernel": (1, sizes),
        "output/kernel": (0, sizes),
      },
    )

  def test_attention_is_added_up_once(self):
    x = v1.placeholder(tf.float32, [None, 6, 12])
    loss = tf.reduce_mean(_attention(x, heads=4))
    plan = self._plan(loss, parts.descend(loss), x)
    sums = [x.tensor for x in plan.sent if x.kind == "sum" and x.num_bytes > 50]
    self.assertEqual(sums, ["MatMul_5:0"])

  def test_layers_that_look_alike_are_columns_and_rows_in_turns(self):
    loss = self._loss(lambda net: _mlp(net, layers=4), (tf.float32, [None, 12]))
    columns, rows = (1, (6, 6)), (0, (6, 6))
    self.assertEqual(
      self._splits(loss),
      {
        "dense_0/kernel": columns,
        "dense_1/kernel": rows,
        "dense_2/kernel": columns,
        "dense_3/kernel": rows,
      },
    )

  def test_what_a_small_product_adds_to_does_not_follow_it(self):
    loss = self._loss(_token_types, (tf.int32, [96]), (tf.float32, [96, 16]))
    columns, rows = (1, (64, 64)), (0, (64, 64))
    self.assertEqual(
      self._splits(loss),
      {
        "words": (0, (200, 200)),
        "layer_0/up/kernel": columns,
        "layer_0/down/kernel": rows,
        "layer_1/up/kernel": columns,
        "layer_1/down/kernel": rows,
      },
    )

  @parameterized.parameters(True, False)
  def test_a_vocabulary_is_split_by_words(self, is_tied):
    """No device has all logits, be their weights the embeddings or not."""
    ids = v1.placeholder(tf.int64, [None, 6])
    labels = v1.placeholder(tf.int64, [None])
    loss = tf.reduce_mean(_words(ids, labels, is_tied))
    plan = self._plan(loss, parts.descend(loss), ids, labels)
    found = {x.name: (x.axis, x.sizes) for x in plan.variables}
    if is_tied:
      self.assertEqual(found["embeddings"], (0, (250, 250)))
    else:
      self.assertEqual(found["softmax"], (1, (250, 250)))
    self.assertIn("embeddings", found)
    self.assertNotIn("logits:0", [x.tensor for x in plan.sent])

  def test_a_variable_in_a_loop_stays_whole(self):
    self.use_v1_control_flow()
    loss = self._loss(_loop, (tf.float32, [None, 12]))
    self.assertEqual([*self._splits(loss)], ["dense/kernel"])

  def test_what_nobody_has_a_rule_for_stays_whole(self):
    loss = self._loss(_without_rules, (tf.float32, [None, 12]))
    self.assertEqual(self._splits(loss), {"up": (1, (4, 4))})

  def test_more_is_split_under_a_memory_limit(self):
    net = v1.placeholder(tf.float32, [None, 40])
    small = tf.reduce_mean(_dense(_dense(net, 4, "small"), 2, "smaller"))
    loss = small + tf.reduce_mean(_mlp(net, layers=2))
    num_bytes = sum(x.shape.num_elements() for x in v1.global_variables()) * 4
    self.assertNotIn("smaller/kernel", self._splits(loss))
    limit = 4 * (num_bytes // 2)
    self.assertIn("smaller/kernel", self._splits(loss, memory_limit=limit))

  @parameterized.named_parameters(
    ("attention", [None, 6, 12], lambda net: _attention(net, heads=2)),
    ("layers", [None, 12], lambda net: _mlp(net, layers=4)),
  )
  def test_nothing_else_is_better(self, shape, make):
    problem = self.problem(self._loss(make, (tf.float32, shape)))
    chosen = split_search.choose_splits(problem)
    candidates = Candidates(problem)
    costs = Costs(candidates)
    costs.set_worth(chosen)

    def cost(splits):
      choice = dict(zip(chosen, splits, strict=True))
      return costs.cost(candidates.changed(candidates.whole, choice))

    halves = [None, *(Shard(i, Partition(12, (6, 6))) for i in range(2))]
    others = itertools.product(halves, repeat=len(chosen))
    self.assertEqual(cost(chosen.values()), min(map(cost, others)))

  def test_a_transformer_is_split_as_megatron_lm_does(self):
    model = catalogue.PURE_NETWORKS["transformer"]
    v1.train.create_global_step()
    ids = v1.placeholder(tf.int32, [None, 12])
    labels = v1.placeholder(tf.int32, [None, 1])
    spec = model.model_fn({"ids": ids}, labels, "train")
    plan = self._plan(spec.loss, spec.train_op, ids, labels)
    columns, rows = (1, (8, 8)), (0, (8, 8))
    layer = {
      "query/kernel": columns,
      "key/kernel": columns,
      "value/kernel": columns,
      "output/kernel": rows,
      "up/kernel": (1, (16, 16)),
      "down/kernel": (0, (16, 16)),
    }
    self.assertEqual(
      {
        x.name: (x.axis, x.sizes)
        for x in plan.variables
        if len(x.shape) > 1 and x.name[-2:] not in ("/m", "/v")
      },
      {
        "encoder/embeddings": (0, (25, 25)),
        **{
          f"encoder/layer_{i}/{name}": split
          for i in range(2)
          for name, split in layer.items()
        },
      },
    )
    # Backward, what all devices read is summed: twice in each layer, too. Then
    # all get what is for rows of the table.
    large = [x.kind for x in plan.sent if x.backward_bytes > 10_000]
    self.assertEqual(large, [*(4 * ["broadcast", "sum"]), "broadcast"])
    self.assertEmpty([x for x in plan.sent if x.kind in ("gather", "slice")])


if __name__ == "__main__":
  absltest.main()
