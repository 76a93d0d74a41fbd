"""Models with loops, metrics, hooks and savers, as Estimators have them."""

from tests.estimator_mp import parts
from tests.estimator_mp.models import registry

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


@registry.model("seq", "length", tags="ordinary rnn")
def dynamic_rnn(features, labels, mode):
  """An LSTM over padded sequences."""
  net, _ = v1.nn.dynamic_rnn(
    v1.nn.rnn_cell.LSTMCell(8),
    features["seq"],
    sequence_length=features["length"],
    dtype=tf.float32,
  )
  net = v1.layers.dense(tf.reduce_mean(net, 1), 8, tf.tanh)
  return parts.spec(mode, parts.loss_of(labels, net))


@registry.model("seq", "length", tags="ordinary rnn")
def last_relevant_output(features, labels, mode):
  """The output of the last word, by flat indices."""
  outputs, _ = v1.nn.dynamic_rnn(
    v1.nn.rnn_cell.GRUCell(8), features["seq"], dtype=tf.float32
  )
  size, time = tf.shape(outputs)[0], tf.shape(outputs)[1]
  places = tf.range(size) * time + features["length"] - 1
  net = tf.gather(tf.reshape(outputs, [-1, 8]), places)
  return parts.spec(mode, parts.loss_of(labels, net))


@registry.model("x", tags="ordinary rnn")
def map_over_examples(features, labels, mode):
  kernel = parts.weight("kernel", [12, 8])
  net = tf.map_fn(
    lambda row: tf.tanh(tf.linalg.matvec(kernel, row, transpose_a=True)),
    features["x"],
  )
  net = v1.layers.dense(net, 8, tf.tanh)
  return parts.spec(mode, parts.loss_of(labels, net))


@registry.model("x", tags="ordinary state")
def metrics_in_training(features, labels, mode):
  logits = parts.logits(features["x"])
  loss = parts.mean_loss(labels, logits)
  guessed = tf.cast(logits > 0.0, tf.float32)
  metrics = {
    "accuracy": v1.metrics.accuracy(labels, guessed),
    "auc": v1.metrics.auc(labels, tf.sigmoid(logits)),
  }
  v1.summary.scalar("accuracy", metrics["accuracy"][1])
  return parts.spec(mode, loss, eval_metric_ops=metrics)


@registry.model("x", tags="ordinary state")
def summary_of_streaming_metric(features, labels, mode):
  """The update of a metric belongs to the training step."""
  logits = parts.logits(features["x"])
  losses = parts.losses(labels, logits)
  _, update = v1.metrics.mean(losses)
  _, recall = v1.metrics.recall(labels, logits > 0.0)
  v1.summary.scalar("mean_loss", update)
  v1.summary.scalar("recall", recall)
  loss = tf.reduce_mean(losses)
  train_op = tf.group(parts.descend(loss), update, recall)
  return parts.spec(mode, loss, train_op)


@registry.model("x", tags="ordinary state")
def saved_metric(features, labels, mode):
  """A streaming metric that checkpoints have."""
  logits = parts.logits(features["x"])
  _, update = v1.metrics.auc(labels, tf.sigmoid(logits), num_thresholds=11)
  for variable in v1.local_variables():
    v1.add_to_collection(v1.GraphKeys.GLOBAL_VARIABLES, variable)
  loss = parts.mean_loss(labels, logits)
  return parts.spec(mode, loss, tf.group(parts.descend(loss), update))


@registry.model("x")
def histograms_and_images(features, labels, mode):
  """Summaries of activations, gradients and a few examples."""
  net = parts.tower(features["x"])
  loss = parts.loss_of(labels, net)
  optimizer = v1.train.GradientDescentOptimizer(0.1)
  pairs = optimizer.compute_gradients(loss)
  for gradient, variable in pairs:
    v1.summary.histogram(variable.op.name + "/gradient", gradient)
  v1.summary.histogram("net", net)
  v1.summary.image("net", net[:2, :, tf.newaxis, tf.newaxis])
  train_op = optimizer.apply_gradients(pairs, v1.train.get_global_step())
  return parts.spec(mode, loss, train_op)


@registry.model("x")
def saver_in_scaffold(features, labels, mode):
  """A saver and an init_fn of its own."""
  loss = parts.loss_of(labels, parts.tower(features["x"]))
  train_op = parts.descend(loss)
  first = v1.trainable_variables()[0]
  value = np.linspace(-0.5, 0.5, int(np.prod(first.shape)), dtype=np.float32)
  value = value.reshape(first.shape)
  scaffold = v1.train.Scaffold(
    saver=v1.train.Saver(max_to_keep=2),
    init_fn=lambda _, session: first.load(value, session),
  )
  return parts.spec(mode, loss, train_op, scaffold=scaffold)


@registry.model("x")
def logged_tensors(features, labels, mode):
  """A hook that logs tensors by their names."""
  net = tf.identity(parts.tower(features["x"]), name="activations")
  loss = tf.identity(parts.loss_of(labels, net), name="mean_loss")
  hook = v1.train.LoggingTensorHook(
    ["activations:0", "mean_loss:0"], every_n_iter=1
  )
  return parts.spec(mode, loss, training_hooks=[hook])


class _Adapter(tf.estimator.SessionRunHook):
  """Doubles or halves a coefficient after a step, by a tensor's value."""

  def begin(self):
    graph = v1.get_default_graph()
    self._divergence = graph.get_tensor_by_name("divergence:0")
    (self._coefficient,) = v1.global_variables("coefficient")

  def before_run(self, run_context):
    return tf.estimator.SessionRunArgs(self._divergence)

  def after_run(self, run_context, run_values):
    session = run_context.session
    factor = 1.2 if run_values.results > 0.02 else 0.8
    value = session.run(self._coefficient) * factor
    self._coefficient.load(value, session)


@registry.model("x", tags="ordinary state")
def coefficient_of_a_hook(features, labels, mode):
  """PPO's penalty, which a hook adapts to the divergence it fetches."""
  net = parts.tower(features["x"])
  coefficient = parts.state("coefficient", [], v1.ones_initializer())
  divergence = tf.reduce_mean(tf.square(net), name="divergence")
  loss = parts.loss_of(labels, net) + coefficient * divergence
  return parts.spec(mode, loss, training_hooks=[_Adapter()])


class _Recorder(tf.estimator.SessionRunHook):
  """Writes the mean of the activations of a step into a variable."""

  def begin(self):
    graph = v1.get_default_graph()
    self._net = graph.get_tensor_by_name("activations:0")
    (self._mean,) = v1.global_variables("recorded")

  def before_run(self, run_context):
    return tf.estimator.SessionRunArgs(self._net)

  def after_run(self, run_context, run_values):
    self._mean.load(run_values.results.mean(0), run_context.session)


@registry.model("x", tags="ordinary state")
def recorded_activations(features, labels, mode):
  """A hook fetches the activations of all examples by name."""
  net = tf.identity(parts.tower(features["x"]), name="activations")
  parts.state("recorded", [8])
  loss = parts.loss_of(labels, net)
  return parts.spec(mode, loss, training_hooks=[_Recorder()])


@registry.model("x", "user", labels="class", tags="ordinary table")
def feature_columns(features, labels, mode):
  """Wide and deep, by feature columns."""
  column = tf.feature_column
  user = column.categorical_column_with_identity("user", 6)
  wide = v1.feature_column.linear_model(features, [user], registry.CLASSES)
  deep = v1.feature_column.input_layer(
    features, [column.embedding_column(user, 4), column.numeric_column("x", 12)]
  )
  logits = wide + parts.logits(deep, registry.CLASSES)
  loss = tf.reduce_mean(parts.class_losses(labels, logits))
  train_op = v1.train.AdagradOptimizer(0.1).minimize(
    loss, v1.train.get_global_step()
  )
  return parts.spec(mode, loss, train_op)


@registry.model("x", tags="ordinary keras")
def keras_layers(features, labels, mode):
  """A functional model of tf.keras, with its batch normalisation frozen."""
  layers = tf.keras.layers
  inputs = tf.keras.Input([12])
  net = layers.Dense(16, "tanh")(inputs)
  net = layers.BatchNormalization(trainable=False)(net)
  net = layers.Dense(8, "tanh")(net)
  model = tf.keras.Model(inputs, layers.Dense(1)(net))
  loss = tf.keras.losses.BinaryCrossentropy(from_logits=True)
  return parts.spec(mode, loss(labels, model(features["x"], training=True)))


@registry.model("x")
def layer_normalisation(features, labels, mode):
  """Residual layers, each normalised by its own example."""
  net = v1.layers.dense(features["x"], 8)
  for i in range(2):
    mean, variance = tf.nn.moments(net, [1], keepdims=True)
    normal = (net - mean) / tf.sqrt(variance + 1e-6)
    net += v1.layers.dense(normal, 8, tf.nn.relu, name=f"residual_{i}")
  return parts.spec(mode, parts.loss_of(labels, net))


@registry.model("x", tags="ordinary keras state")
def keras_batch_normalisation(features, labels, mode):
  """A layer of tf.keras called as a function, whose updates are run by hand."""
  normalise = tf.keras.layers.BatchNormalization(momentum=0.8)
  net = v1.layers.dense(features["x"], 16)
  net = tf.nn.relu(normalise(net, training=True))
  loss = parts.loss_of(labels, v1.layers.dense(net, 8, tf.tanh))
  with tf.control_dependencies(normalise.updates):
    train_op = parts.descend(loss)
  return parts.spec(mode, loss, train_op)


@registry.model("tags", tags="ordinary rnn table keras")
def sequence_features(features, labels, mode):
  """Sequence feature columns, and an LSTM of tf.keras that has their mask."""
  column = tf.feature_column
  tags = column.sequence_categorical_column_with_identity(
    "tags", registry.VOCABULARY
  )
  net, length = tf.keras.experimental.SequenceFeatures(
    [column.embedding_column(tags, 4)]
  )(features)
  mask = tf.sequence_mask(length, tf.shape(net)[1])
  net = tf.keras.layers.LSTM(8)(net, mask=mask)
  return parts.spec(mode, parts.loss_of(labels, net))


@registry.model("x", labels=("label", "score"))
def two_heads(features, labels, mode):
  """Two heads of tf.estimator on one trunk."""
  net = parts.tower(features["x"])
  head = tf.estimator.MultiHead(
    [
      tf.estimator.BinaryClassHead(name="label"),
      tf.estimator.RegressionHead(name="score"),
    ],
    [1.0, 0.5],
  )
  return head.create_estimator_spec(
    features,
    mode,
    {name: v1.layers.dense(net, 1) for name in ("label", "score")},
    labels,
    train_op_fn=parts.descend,
    trainable_variables=v1.trainable_variables(),
  )


@registry.model("x")
def constrained_weights(features, labels, mode):
  """Losses in the collection of regularization, and a constraint."""
  decay = tf.keras.regularizers.l2(0.01)
  net = v1.layers.dense(
    features["x"],
    8,
    tf.tanh,
    kernel_regularizer=decay,
    kernel_constraint=tf.keras.constraints.MaxNorm(0.5),
  )
  loss = parts.loss_of(labels, net) + v1.losses.get_regularization_loss()
  return parts.spec(mode, loss)
