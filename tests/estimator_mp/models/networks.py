"""Networks as people wrote them for Estimators, with metrics and predictions.

None of them imports this project, and nobody edits them to shard them.
"""

from tests.estimator_mp import parts
from tests.estimator_mp.models import registry

import tensorflow as tf

v1 = tf.compat.v1
TRAIN = tf.estimator.ModeKeys.TRAIN


def spec(mode, logits, labels, train_op_fn):
  """What most model_fns end with."""
  predictions = {"logits": logits}
  if mode == tf.estimator.ModeKeys.PREDICT:
    return tf.estimator.EstimatorSpec(mode, predictions)
  loss = tf.reduce_mean(
    tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(labels, tf.float32), logits)
  )
  metrics = {
    "accuracy": v1.metrics.accuracy(labels, tf.cast(logits > 0, "int32"))
  }
  train_op = train_op_fn(loss) if mode == TRAIN else None
  v1.summary.scalar("mean_logit", tf.reduce_mean(logits))
  return tf.estimator.EstimatorSpec(
    mode, predictions, loss, train_op, eval_metric_ops=metrics
  )


def minimize(optimizer):
  return lambda loss: optimizer.minimize(loss, v1.train.get_global_step())


def mlp(features, labels, mode, params):
  """tf.layers, and whatever optimizer the test asks for."""
  net = features["x"]
  for units in (16, 16, 8):
    net = v1.layers.dense(net, units, tf.nn.relu)
  logits = v1.layers.dense(net, 1)
  return spec(mode, logits, labels, params["train"])


def cnn(features, labels, mode):
  """Convolutions with batch normalisation and dropout."""
  return _cnn(features, labels, mode, dropout=0.4)


def cnn_without_randomness(features, labels, mode):
  """Without what micro-batches have otherwise than the whole batch."""
  return _cnn(features, labels, mode, normalize_batch=False)


def cnn_with_batch_norm(features, labels, mode):
  return _cnn(features, labels, mode)


def _cnn(features, labels, mode, dropout=0.0, normalize_batch=True):
  training = mode == TRAIN
  net = features["image"]
  for filters in (8, 16):
    net = v1.layers.conv2d(net, filters, 3, padding="same", use_bias=False)
    net = v1.layers.batch_normalization(
      net, training=training and normalize_batch, momentum=0.9
    )
    net = v1.layers.max_pooling2d(tf.nn.relu(net), 2, 2)
  net = v1.layers.dropout(v1.layers.flatten(net), dropout, training=training)
  net = v1.layers.dense(net, 16, tf.nn.relu)
  logits = v1.layers.dense(net, 1)

  def train(loss):
    with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
      return minimize(v1.train.MomentumOptimizer(0.02, 0.9))(loss)

  return spec(mode, logits, labels, train)


def _dense(net, units, name, activation=None):
  with v1.variable_scope(name):
    kernel = v1.get_variable(
      "kernel",
      [net.shape[-1], units],
      initializer=v1.truncated_normal_initializer(stddev=0.1),
    )
    bias = v1.get_variable("bias", [units], initializer=v1.zeros_initializer())
    net = tf.nn.bias_add(tf.matmul(net, kernel), bias)
    return activation(net) if activation else net


def _layer_norm(net, name):
  with v1.variable_scope(name):
    width = net.shape[-1]
    gamma = v1.get_variable("gamma", [width], initializer=v1.ones_initializer())
    beta = v1.get_variable("beta", [width], initializer=v1.zeros_initializer())
    mean, variance = tf.nn.moments(net, [-1], keepdims=True)
    return tf.nn.batch_normalization(net, mean, variance, beta, gamma, 1e-6)


def _attention(net, batch, length, heads):
  width = int(net.shape[-1])

  def split(tensor):
    shape = [batch, length, heads, width // heads]
    return tf.transpose(tf.reshape(tensor, shape), [0, 2, 1, 3])

  query, key, value = (
    split(_dense(net, width, name)) for name in ("query", "key", "value")
  )
  scores = tf.matmul(query, key, transpose_b=True) / (width // heads) ** 0.5
  mixed = tf.matmul(tf.nn.softmax(scores), value)
  merged = tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [-1, width])
  return _dense(merged, width, "output")


def adam_by_hand(gradients_and_variables, rate):
  """Adam with decoupled weight decay, in plain ops and variables."""
  updates = []
  for gradient, variable in gradients_and_variables:
    name = variable.op.name
    zeros = v1.zeros_initializer()
    m = v1.get_variable(
      name + "/m", variable.shape, None, zeros, trainable=False
    )
    v = v1.get_variable(
      name + "/v", variable.shape, None, zeros, trainable=False
    )
    gradient = tf.convert_to_tensor(gradient)
    next_m = 0.9 * m + 0.1 * gradient
    next_v = 0.999 * v + 0.001 * tf.square(gradient)
    step = next_m / (tf.sqrt(next_v) + 1e-6) + 0.01 * variable
    updates += [
      v1.assign(variable, variable - rate * step),
      v1.assign(m, next_m),
      v1.assign(v, next_v),
    ]
  return tf.group(*updates)


def transformer(features, labels, mode):
  """An encoder in BERT's style: its own clipping, and its own Adam."""
  return _transformer(features, labels, mode, dropout=0.1, num_layers=3)


def transformer_without_dropout(features, labels, mode):
  # Trained often; what goes wrong with three layers does so with two.
  return _transformer(features, labels, mode, dropout=0.0, num_layers=2)


def _transformer(features, labels, mode, dropout, num_layers):
  ids = features["ids"]
  batch, length, width = tf.shape(ids)[0], ids.shape[1], 16
  with v1.variable_scope("encoder"):
    table = v1.get_variable("embeddings", [50, width])
    net = tf.reshape(tf.nn.embedding_lookup(table, ids), [-1, width])
    for i in range(num_layers):
      with v1.variable_scope(f"layer_{i}"):
        attended = _attention(net, batch, length, heads=2)
        net = _layer_norm(net + attended, "norm_1")
        hidden = _dense(net, 32, "up", tf.nn.relu)
        if mode == TRAIN and dropout:
          hidden = tf.nn.dropout(hidden, rate=dropout)
        net = _layer_norm(net + _dense(hidden, width, "down"), "norm_2")
  first = tf.reshape(net, [batch, length, width])[:, 0]
  logits = _dense(_dense(first, width, "pooler", tf.tanh), 1, "classifier")

  def train(loss):
    variables = v1.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 1.0)
    step = v1.train.get_or_create_global_step()
    rate = v1.train.polynomial_decay(0.01, step, 100, 0.0)
    update = adam_by_hand(zip(gradients, variables, strict=True), rate)
    # Unordered, as in BERT, the rate is sometimes that of the next step.
    with tf.control_dependencies([update]):
      return v1.assign(step, step + 1)

  return spec(mode, logits, labels, train)


def lstm(features, labels, mode):
  """An embedding, two LSTMs as loops, and a dense layer."""
  table = v1.get_variable("embeddings", [50, 8])
  net = tf.nn.embedding_lookup(table, features["ids"])
  for i in range(2):
    cell = v1.nn.rnn_cell.LSTMCell(8, name=f"cell_{i}")
    net, _ = v1.nn.dynamic_rnn(cell, net, dtype=tf.float32, scope=f"rnn_{i}")
  logits = _dense(net[:, -1], 1, "classifier")
  return spec(mode, logits, labels, minimize(v1.train.AdagradOptimizer(0.1)))


def deepfm(features, labels, mode):
  """A factorisation machine and a deep part on feature columns."""
  column = tf.feature_column
  city = column.categorical_column_with_vocabulary_list(
    "city", ["ulm", "rom", "oslo"]
  )
  item = column.categorical_column_with_identity("item", 30)
  sparse = [column.embedding_column(c, 4) for c in (city, item)]
  dense = [column.numeric_column("x", [10])]
  linear = v1.feature_column.linear_model(features, [city, item, *dense])
  embedded = v1.feature_column.input_layer(features, sparse)
  fields = tf.reshape(embedded, [-1, 2, 4])
  total = tf.reduce_sum(fields, axis=1)
  crossed = 0.5 * tf.reduce_sum(
    tf.square(total) - tf.reduce_sum(tf.square(fields), axis=1),
    axis=1,
    keepdims=True,
  )
  deep = tf.concat(
    [embedded, v1.feature_column.input_layer(features, dense)], 1
  )
  for units in (16, 8):
    deep = v1.layers.dense(deep, units, tf.nn.relu)
  logits = linear + crossed + v1.layers.dense(deep, 1)
  return spec(mode, logits, labels, minimize(v1.train.AdamOptimizer(0.01)))


def keras_functional(features, labels, mode):
  """A functional tf_keras model, trained by a tape and a v1 optimizer."""
  layers = tf.keras.layers
  inputs = tf.keras.Input([10], name="x")
  net = layers.Dense(16, "relu", name="dense_a")(inputs)
  side = layers.Dense(8, "relu", name="dense_b")(net)
  net = layers.Concatenate(name="both")([net, side])
  outputs = layers.Dense(1, name="dense_c")(net)
  model = tf.keras.Model(inputs, outputs)
  with tf.GradientTape(persistent=True) as tape:
    logits = model(features["x"], training=mode == TRAIN)
    if mode == TRAIN:
      floats = tf.cast(labels, tf.float32)
      loss = tf.reduce_mean(
        tf.nn.sigmoid_cross_entropy_with_logits(floats, logits)
      )

  def train(same_loss):
    del same_loss
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer = v1.train.AdamOptimizer(0.01)
    return parts.apply(optimizer, gradients, model.trainable_variables)

  return spec(mode, logits, labels, train)


def two_optimizers(features, labels, mode):
  """Wide and deep: FTRL on one set of variables, Adam on the other."""
  with v1.variable_scope("wide"):
    wide = v1.layers.dense(features["x"], 1)
  with v1.variable_scope("deep"):
    deep = v1.layers.dense(features["x"], 16, tf.nn.relu)
    deep = v1.layers.dense(deep, 8, tf.nn.relu)
    deep = v1.layers.dense(deep, 1)

  def train(loss):
    wide_variables = v1.trainable_variables("wide/")
    deep_variables = v1.trainable_variables("deep/")
    step = v1.train.get_global_step()
    return tf.group(
      v1.train.FtrlOptimizer(0.1).minimize(loss, var_list=wide_variables),
      v1.train.AdamOptimizer(0.01).minimize(loss, step, deep_variables),
    )

  return spec(mode, wide + deep, labels, train)


def canned(features, labels, mode, config):
  """DNNLinearCombinedClassifier's own model_fn."""
  column = tf.feature_column
  item = column.categorical_column_with_identity("item", 30)
  estimator = v1.estimator.DNNLinearCombinedClassifier(
    linear_feature_columns=[item],
    dnn_feature_columns=[
      column.embedding_column(item, 4),
      column.numeric_column("x", [10]),
    ],
    dnn_hidden_units=[16, 8],
    config=config,
  )
  return estimator.model_fn(features, labels, mode, config)


NET_RULES = ((r"^net/a/", 0), (r"^net/b/", 1), (r".", 2))


def net(tensor, scope="net", width=1):
  """Three dense layers, made once for each scope."""
  with v1.variable_scope(scope, reuse=v1.AUTO_REUSE):
    tensor = v1.layers.dense(tensor, 16, tf.tanh, name="a")
    tensor = v1.layers.dense(tensor, 8, tf.tanh, name="b")
    return v1.layers.dense(tensor, width, name="c")


def _keras_adam(loss):
  optimizer = tf.keras.optimizers.legacy.Adam(0.01)
  optimizer.iterations = v1.train.get_global_step()
  (update,) = optimizer.get_updates(loss, v1.trainable_variables())[:1]
  return update


OPTIMIZERS = {
  "sgd": lambda loss: minimize(v1.train.GradientDescentOptimizer(0.1))(loss),
  "momentum": lambda loss: minimize(v1.train.MomentumOptimizer(0.1, 0.9))(loss),
  "adam": lambda loss: minimize(v1.train.AdamOptimizer(0.01))(loss),
  "adagrad": lambda loss: minimize(v1.train.AdagradOptimizer(0.1))(loss),
  "ftrl": lambda loss: minimize(v1.train.FtrlOptimizer(0.1))(loss),
  "keras_adam": _keras_adam,
}
_MLP_RULES = ((r"^dense/", 0), (r"^dense_1/", 1), (r"^dense_[23]/", 2))


_CNN_RULES = (
  (r"^(conv2d|batch_normalization)/", 0),
  (r"^(conv2d|batch_normalization)_1/", 1),
  (r"^dense", 2),
)
_TRANSFORMER_RULES = (
  (r"^encoder/(embeddings|layer_0/)", 0),
  (r"/layer_1/", 1),
  (r".", 2),
)


def _enter(model_fn, tags, rules, **fields):
  made = registry.Model(model_fn, rules, **fields)
  registry.enter(model_fn.__name__, made, tags)


for _name, _train in OPTIMIZERS.items():
  registry.enter(
    f"mlp_{_name}",
    registry.Model(mlp, _MLP_RULES, {"train": _train}),
    # Slots follow their variables, whatever the optimizer.
    "network dense pairs" if "adam" in _name else "network dense slots",
  )
_enter(cnn, "network conv", _CNN_RULES, is_random=True)
_enter(transformer, "network table", _TRANSFORMER_RULES, is_random=True)
_enter(
  lstm,
  "network rnn table pairs",
  ((r"^embeddings", 0), (r"^rnn_0/", 0), (r"^rnn_1/", 1), (r"^cla", 2)),
)
_enter(
  deepfm,
  "network table pairs",
  ((r"linear_model|input_layer", 0), (r"^dense/", 1), (r"^dense", 2)),
)
_enter(
  keras_functional,
  "network keras pairs shallow",
  ((r"dense_a/", 0), (r"dense_b/", 1), (r"dense_c/", 2)),
)
_enter(
  two_optimizers,
  "network dense pairs",
  ((r"^wide/", 0), (r"^deep/dense/", 1), (r"^deep/", 2)),
)
_enter(
  canned,
  "network table pairs",
  ((r"^linear/", 0), (r"^dnn/(input|hiddenlayer_0)", 1), (r"^dnn/", 2)),
)
_enter(cnn_without_randomness, "conv pairs", _CNN_RULES)
_enter(cnn_with_batch_norm, "conv state", _CNN_RULES)
_enter(transformer_without_dropout, "table pairs", _TRANSFORMER_RULES)
