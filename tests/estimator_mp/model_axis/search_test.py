"""Which splits are found for graphs whose best ones are known."""

import itertools

from estimator_mp.model_axis import costs, evaluation, inference, search
from estimator_mp.model_axis.decisions import Shard, even_sizes
from estimator_mp.model_axis.rules.table import TABLE
from estimator_mp.placement import costs as placement_costs
from tests.estimator_mp import zoo

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


def _variable(name, shape):
  return v1.get_variable(name, shape, use_resource=True)


def _dense(net, units, name):
  kernel = _variable(f"{name}/kernel", [net.shape[-1], units])
  bias = _variable(f"{name}/bias", [units])
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
  return normed * _variable(f"{name}/gamma", [net.shape[-1]])


class SearchTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.graph = self.enter_context(tf.Graph().as_default())

  def _choose(self, num_parts, **options):
    ops = self.graph.get_operations()
    variables = v1.global_variables()
    self.arguments = {
      "variables": {x.op.name: x.shape.as_list() for x in variables},
      "initial_writes": [x.initializer for x in variables],
      "trained": [x.op.name for x in v1.trainable_variables()],
    } | options
    problem = evaluation.Problem(ops, TABLE, num_parts, **self.arguments)
    return search.choose_splits(problem)

  def _sent(self, chosen, num_parts):
    ops = self.graph.get_operations()
    writes = self.arguments["initial_writes"]
    adoptable = [x.op.name for x in v1.global_variables() if x.shape.rank == 1]
    inferred = inference.Inference(ops, TABLE).infer(
      {name: split for name, split in chosen.items() if split is not None},
      adoptable=adoptable,
      whole_values=writes,
    )
    step = [op for op in ops if op not in writes]
    gradients = costs.tensors_with_gradients(ops, self.arguments["trained"])
    return costs.Traffic(step, num_parts, TABLE, gradients).sent(inferred)

  @parameterized.named_parameters(
    ("two_parts", 2, (6, 6)),
    ("as_many_heads_as_parts", 4, (3, 3, 3, 3)),
    ("heads_that_do_not_divide", 3, (6, 3, 3)),
  )
  def test_attention_is_split_by_heads(self, num_parts, sizes):
    net = v1.placeholder(tf.float32, [None, 6, 12], "net")
    _attention(net, heads=4)
    chosen = self._choose(num_parts)
    self.assertEqual(
      chosen,
      {
        "query/kernel": Shard(1, sizes),
        "key/kernel": Shard(1, sizes),
        "value/kernel": Shard(1, sizes),
        "output/kernel": Shard(0, sizes),
      },
    )
    sums = [x for x in self._sent(chosen, num_parts) if x.kind == "sum"]
    self.assertEqual([x.tensor for x in sums], ["MatMul_5:0"])

  def test_layers_that_look_alike_are_columns_and_rows_in_turns(self):
    net = v1.placeholder(tf.float32, [None, 12], "net")
    tf.reduce_mean(_mlp(net, layers=4), name="loss")
    chosen = self._choose(2)
    columns, rows = Shard(1, (6, 6)), Shard(0, (6, 6))
    self.assertEqual(
      chosen,
      {
        "dense_0/kernel": columns,
        "dense_1/kernel": rows,
        "dense_2/kernel": columns,
        "dense_3/kernel": rows,
      },
    )

  def test_what_a_small_product_adds_to_does_not_follow_it(self):
    """BERT multiplies token types, each as one of 16, with a table."""
    ids = v1.placeholder(tf.int32, [96], "ids")
    types = v1.placeholder(tf.float32, [96, 16], "types")
    net = tf.nn.embedding_lookup(_variable("words", [50, 32]), ids)
    net += tf.matmul(types, _variable("token_types", [16, 32]))
    net = _layer_norm(net, "norm")
    for i in range(2):
      hidden = tf.nn.relu(_dense(net, 128, f"layer_{i}/up"))
      net += _dense(hidden, 32, f"layer_{i}/down")
      net = _layer_norm(net, f"layer_{i}/norm")
    tf.reduce_mean(net, name="loss")
    columns, rows = Shard(1, (64, 64)), Shard(0, (64, 64))
    self.assertEqual(
      self._choose(2),
      {
        "words": Shard(0, (25, 25)),
        "token_types": None,
        "layer_0/up/kernel": columns,
        "layer_0/down/kernel": rows,
        "layer_1/up/kernel": columns,
        "layer_1/down/kernel": rows,
      },
    )

  @parameterized.parameters(True, False)
  def test_a_vocabulary_is_split_by_words(self, is_tied):
    """No device has all logits, be their weights the embeddings or not."""
    ids = v1.placeholder(tf.int64, [None, 6], "ids")
    labels = v1.placeholder(tf.int64, [None], "labels")
    table = _variable("embeddings", [500, 8])
    net = tf.reshape(tf.nn.embedding_lookup(table, ids), [-1, 8])
    net = tf.nn.relu(_dense(net, 8, "dense"))
    if is_tied:
      logits = tf.matmul(net, table, transpose_b=True)
    else:
      logits = tf.matmul(net, _variable("softmax", [8, 500]))
    tf.reduce_mean(
      tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    )
    chosen = self._choose(2)
    words = (250, 250)
    if is_tied:
      self.assertEqual(chosen["embeddings"], Shard(0, words))
    else:
      self.assertEqual(chosen["softmax"], Shard(1, words))
    self.assertIsNotNone(chosen["embeddings"])
    sent = self._sent(chosen, 2)
    self.assertNotIn(logits.name, [x.tensor for x in sent])

  def test_a_variable_in_a_loop_stays_whole(self):
    net = v1.placeholder(tf.float32, [None, 12], "net")
    kernel = _variable("recurrent", [12, 12])
    v1.while_loop(
      lambda i, x: i < 3,
      lambda i, x: (i + 1, tf.matmul(x, kernel)),
      [0, _dense(net, 12, "dense")],
    )
    chosen = self._choose(2)
    self.assertIsNone(chosen["recurrent"])
    self.assertIsNotNone(chosen["dense/kernel"])

  def test_what_nobody_has_a_rule_for_stays_whole(self):
    kernel = _variable("kernel", [12, 12])
    bias = _variable("bias", [8])
    tf.raw_ops.ResourceGatherNd(
      resource=kernel.handle, indices=[[0]], dtype=tf.float32
    )
    net = v1.placeholder(tf.float32, [None, 12], "net")
    hidden = tf.nn.bias_add(tf.matmul(net, _variable("up", [12, 8])), bias)
    tf.raw_ops.ResourceGatherNd(
      resource=bias.handle, indices=[[0]], dtype=tf.float32
    )
    tf.reduce_mean(hidden)
    chosen = self._choose(2)
    self.assertEqual(
      chosen, {"kernel": None, "bias": None, "up": Shard(1, (4, 4))}
    )

  def test_rules_of_the_user_stay_and_others_go_with_them(self):
    net = v1.placeholder(tf.float32, [None, 12], "net")
    hidden = _dense(net, 20, "up")
    tf.reduce_mean(_dense(hidden, 12, "down"))
    shapes = {"down/kernel": [20, 12], "up/bias": [20], "down/bias": [12]}
    columns = {"up/kernel": Shard(1, (15, 5))}
    chosen = self._choose(2, variables=shapes, fixed=columns)
    self.assertEqual(chosen, {"down/kernel": Shard(0, (15, 5))})

  def test_more_is_split_under_a_memory_limit(self):
    net = v1.placeholder(tf.float32, [None, 40], "net")
    small = _dense(net, 4, "small")
    tf.reduce_mean(_dense(small, 2, "smaller"))
    tf.reduce_mean(_mlp(net, layers=2))
    self.assertIsNone(self._choose(2)["smaller/kernel"])
    num_bytes = sum(x.shape.num_elements() for x in v1.global_variables()) * 4
    limit = 4 * (num_bytes // 2)
    chosen = self._choose(2, memory_limit=limit)
    self.assertIsNotNone(chosen["smaller/kernel"])

  def _zoo(self, name):
    """Makes the forward graph of a model of the zoo."""
    v1.enable_resource_variables()
    features = {
      key: v1.placeholder(value.dtype, [None, *value.shape[1:]], key)
      for key, value in zoo.FEATURES.items()
      if value.dtype.kind != "S"
    }
    labels = v1.placeholder(tf.int32, [None, 1], "labels")
    model = zoo.PURE_MODELS[name]
    arguments = {} if model.params is None else {"params": model.params}
    mode = tf.estimator.ModeKeys.EVAL
    loss = model.model_fn(features, labels, mode, **arguments).loss.op
    sizes = placement_costs.nominal_bytes(self.graph.get_operations())
    return {"targets": [loss], "num_bytes": sizes}

  def test_a_transformer_is_split_as_megatron_lm_does(self):
    options = self._zoo("transformer")
    chosen = self._choose(2, **options)
    columns, rows = Shard(1, (8, 8)), Shard(0, (8, 8))
    layer = {
      "query/kernel": columns,
      "key/kernel": columns,
      "value/kernel": columns,
      "output/kernel": rows,
      "up/kernel": Shard(1, (16, 16)),
      "down/kernel": Shard(0, (16, 16)),
    }
    self.assertEqual(
      chosen,
      {
        "encoder/embeddings": Shard(0, (25, 25)),
        "pooler/kernel": None,
        "classifier/kernel": None,
        **{
          f"encoder/layer_{i}/{name}": split
          for i in range(2)
          for name, split in layer.items()
        },
      },
    )
    sent = self._sent(chosen, 2)
    sums = [x.tensor for x in sent if x.kind == "sum" and x.backward_bytes]
    self.assertEqual(
      sums,
      [
        f"encoder/layer_{i}/{name}/MatMul:0"
        for i in range(2)
        for name in ("output", "down")
      ],
    )
    # Backward, what all devices read is summed: twice in each layer, too.
    large = [x for x in sent if x.kind == "broadcast" and x.backward_bytes]
    self.assertLen(large, 4)
    self.assertEmpty([x for x in sent if x.kind in ("gather", "slice")])

  @parameterized.parameters(("mlp_adam", 3), ("cnn", 2))
  def test_nothing_else_is_better(self, name, num_parts):
    options = self._zoo(name)
    chosen = self._choose(num_parts, **options)
    ops = self.graph.get_operations()
    problem = evaluation.Problem(ops, TABLE, num_parts, **self.arguments)
    variables = problem.variables
    evaluate = evaluation.Evaluation(problem)
    evaluate.count(chosen)
    choices = [
      [None]
      + [
        Shard(axis, even_sizes(size, num_parts))
        for axis, size in enumerate(variables[variable])
        if size >= num_parts
      ]
      for variable in chosen
    ]
    least = min(
      evaluate.cost(dict(zip(chosen, splits, strict=True)))
      for splits in itertools.product(*choices)
    )
    self.assertEqual(evaluate.cost(chosen), least)


if __name__ == "__main__":
  absltest.main()
