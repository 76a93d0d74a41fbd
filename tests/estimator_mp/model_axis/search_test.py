"""Which splits are found for models whose best ones are known."""

import itertools

import estimator_mp
from estimator_mp.model_axis import evaluation, search
from estimator_mp.model_axis.decisions import Shard
from estimator_mp.model_axis.rules.table import TABLE
from estimator_mp.plan import sharding_plan
from tests.estimator_mp import parts
from tests.estimator_mp.models import catalogue

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
  net = tf.nn.embedding_lookup(parts.weight("words", [50, 32]), ids)
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
  kernel, bias = parts.state("kernel", [12, 12]), parts.state("bias", [8])
  hidden = tf.nn.bias_add(tf.matmul(net, parts.weight("up", [12, 8])), bias)
  for variable in (kernel, bias):
    tf.raw_ops.ResourceGatherNd(
      resource=variable.handle, indices=[[0]], dtype=tf.float32
    )
  return tf.reduce_mean(hidden)


class SearchTest(parameterized.TestCase):
  def _plan(self, build, num_parts, *inputs, **config):
    """Returns how matrices are split, and the plan, of what is a spec."""
    config = estimator_mp.ShardingConfig(f"model:{num_parts}", **config)
    with tf.Graph().as_default() as graph:
      v1.train.create_global_step()
      features = [v1.placeholder(*x) for x in inputs]
      model_fn = lambda features, labels, mode: build(*features)  # noqa: E731
      estimator_mp.shard_model_fn(model_fn, config)(features, None, "train")
      plan = sharding_plan.get_plan(graph).splits
    matrices = [x for x in plan.variables if len(x.shape) > 1]
    return {x.name: (x.axis, x.sizes) for x in matrices}, plan

  def _splits(self, make, num_parts, *inputs, **config):
    """Returns that of what makes a tensor, whose mean is the loss."""

    def build(*features):
      return parts.spec("train", tf.reduce_mean(make(*features)))

    return self._plan(build, num_parts, *inputs, **config)

  @parameterized.named_parameters(
    ("two_parts", 2, (6, 6)),
    ("as_many_heads_as_parts", 4, (3, 3, 3, 3)),
    ("heads_that_do_not_divide", 3, (6, 3, 3)),
  )
  def test_attention_is_split_by_heads(self, num_parts, sizes):
    found, plan = self._splits(
      lambda net: _attention(net, heads=4),
      num_parts,
      (tf.float32, [None, 6, 12]),
    )
    self.assertEqual(
      found,
      {
        "query/kernel": (1, sizes),
        "key/kernel": (1, sizes),
        "value/kernel": (1, sizes),
        "output/kernel": (0, sizes),
      },
    )
    sums = [x.tensor for x in plan.sent if x.kind == "sum" and x.num_bytes > 50]
    self.assertEqual(sums, ["MatMul_5:0"])

  def test_layers_that_look_alike_are_columns_and_rows_in_turns(self):
    found, _ = self._splits(
      lambda net: _mlp(net, layers=4), 2, (tf.float32, [None, 12])
    )
    columns, rows = (1, (6, 6)), (0, (6, 6))
    self.assertEqual(
      found,
      {
        "dense_0/kernel": columns,
        "dense_1/kernel": rows,
        "dense_2/kernel": columns,
        "dense_3/kernel": rows,
      },
    )

  def test_what_a_small_product_adds_to_does_not_follow_it(self):
    found, _ = self._splits(
      _token_types, 2, (tf.int32, [96]), (tf.float32, [96, 16])
    )
    columns, rows = (1, (64, 64)), (0, (64, 64))
    self.assertEqual(
      found,
      {
        "words": (0, (25, 25)),
        "layer_0/up/kernel": columns,
        "layer_0/down/kernel": rows,
        "layer_1/up/kernel": columns,
        "layer_1/down/kernel": rows,
      },
    )

  @parameterized.parameters(True, False)
  def test_a_vocabulary_is_split_by_words(self, is_tied):
    """No device has all logits, be their weights the embeddings or not."""
    found, plan = self._splits(
      lambda *features: _words(*features, is_tied),
      2,
      (tf.int64, [None, 6]),
      (tf.int64, [None]),
    )
    if is_tied:
      self.assertEqual(found["embeddings"], (0, (250, 250)))
    else:
      self.assertEqual(found["softmax"], (1, (250, 250)))
    self.assertIn("embeddings", found)
    self.assertNotIn("logits:0", [x.tensor for x in plan.sent])

  def test_a_variable_in_a_loop_stays_whole(self):
    found, _ = self._splits(_loop, 2, (tf.float32, [None, 12]))
    self.assertEqual([*found], ["dense/kernel"])

  def _problem(self, graph, **options):
    """Returns what is to be decided about the forward graph alone."""
    variables = graph.get_collection(v1.GraphKeys.GLOBAL_VARIABLES)
    return evaluation.Problem(
      graph.get_operations(),
      TABLE,
      2,
      variables={x.op.name: x.shape.as_list() for x in variables},
      initial_writes=[x.initializer for x in variables],
      trained=[x.op.name for x in variables],
      **options,
    )

  def test_what_nobody_has_a_rule_for_stays_whole(self):
    with tf.Graph().as_default() as graph:
      _without_rules(v1.placeholder(tf.float32, [None, 12]))
      found = search.choose_splits(self._problem(graph))
    self.assertEqual(
      found, {"kernel": None, "bias": None, "up": Shard(1, (4, 4))}
    )

  def test_more_is_split_under_a_memory_limit(self):
    with tf.Graph().as_default() as graph:
      net = v1.placeholder(tf.float32, [None, 40])
      tf.reduce_mean(_dense(_dense(net, 4, "small"), 2, "smaller"))
      tf.reduce_mean(_mlp(net, layers=2))
      num_bytes = sum(x.shape.num_elements() for x in v1.global_variables()) * 4
      for limit, is_split in ((None, False), (4 * (num_bytes // 2), True)):
        problem = self._problem(graph, memory_limit=limit)
        split = search.choose_splits(problem)["smaller/kernel"]
        self.assertEqual(split is not None, is_split)

  @parameterized.named_parameters(
    ("attention", [None, 6, 12], lambda net: _attention(net, heads=2)),
    ("layers", [None, 12], lambda net: _mlp(net, layers=4)),
  )
  def test_nothing_else_is_better(self, shape, make):
    with tf.Graph().as_default() as graph:
      tf.reduce_mean(make(v1.placeholder(tf.float32, shape)))
      problem = self._problem(graph)
      chosen = search.choose_splits(problem)
    evaluate = evaluation.Evaluation(problem)
    evaluate.count(chosen)
    halves = [None, Shard(0, (6, 6)), Shard(1, (6, 6))]
    least = min(
      evaluate.cost(dict(zip(chosen, splits, strict=True)))
      for splits in itertools.product(halves, repeat=len(chosen))
    )
    self.assertEqual(evaluate.cost(chosen), least)

  def test_a_transformer_is_split_as_megatron_lm_does(self):
    model = catalogue.PURE_NETWORKS["transformer"]
    found, plan = self._plan(
      lambda ids, labels: model.model_fn({"ids": ids}, labels, "train"),
      2,
      (tf.int32, [None, 12]),
      (tf.int32, [None, 1]),
    )
    columns, rows = (1, (8, 8)), (0, (8, 8))
    layer = {
      "query/kernel": columns,
      "key/kernel": columns,
      "value/kernel": columns,
      "output/kernel": rows,
      "up/kernel": (1, (16, 16)),
      "down/kernel": (0, (16, 16)),
    }
    weights = {
      x: split for x, split in found.items() if x[-2:] not in ("/m", "/v")
    }
    self.assertEqual(
      weights,
      {
        "encoder/embeddings": (0, (25, 25)),
        **{
          f"encoder/layer_{i}/{name}": split
          for i in range(2)
          for name, split in layer.items()
        },
      },
    )
    # Backward, what all devices read is summed: twice in each layer, too.
    large = [(x.kind, x.type) for x in plan.sent if x.backward_bytes]
    self.assertEqual(large, 4 * [("broadcast", "MatMul"), ("sum", "MatMul")])
    self.assertEmpty([x for x in plan.sent if x.kind in ("gather", "slice")])


if __name__ == "__main__":
  absltest.main()
