"""Models that do something of their own with gradients."""

from typing import Any

from tests.estimator_mp import parts
from tests.estimator_mp.models import registry

import tensorflow as tf

v1 = tf.compat.v1


def _mean_loss(features, labels):
  return parts.mean_loss(labels, parts.logits(features["x"]))


@registry.model("x")
def clipped_global_norm(features, labels, mode):
  loss = _mean_loss(features, labels)
  variables = v1.trainable_variables()
  gradients, norm = tf.clip_by_global_norm(tf.gradients(loss, variables), 0.1)
  v1.summary.scalar("norm", norm)
  train_op = parts.apply(
    v1.train.GradientDescentOptimizer(0.5), gradients, variables
  )
  return parts.spec(mode, loss, train_op)


@registry.model("x")
def clipped_each(features, labels, mode):
  """Each variable's gradient is clipped by its own norm."""
  loss = _mean_loss(features, labels)
  optimizer = v1.train.AdamOptimizer(0.01)
  pairs = [
    (tf.clip_by_norm(gradient, 0.05), variable)
    for gradient, variable in optimizer.compute_gradients(loss)
  ]
  step = v1.train.get_global_step()
  return parts.spec(mode, loss, optimizer.apply_gradients(pairs, step))


@registry.model("x")
def passed_after_decay(features, labels, mode):
  """Weights decay, and all gradients pass through one op, which waits for that.

  What reads this op does not wait for the decay itself: TensorFlow leaves that
  wait out.
  """
  loss = _mean_loss(features, labels)
  variables = v1.trainable_variables()
  gradients = tf.gradients(loss, variables)
  with tf.control_dependencies(gradients):
    decays = [x.assign(0.5 * x.read_value()) for x in variables]
  with tf.control_dependencies(decays):
    passed = tf.identity_n(gradients)
    updates = [
      x.assign_sub(0.3 * gradient)
      for x, gradient in zip(variables, passed, strict=True)
    ]
  with tf.control_dependencies(updates):
    train_op = v1.assign_add(v1.train.get_global_step(), 1)
  return parts.spec(mode, loss, train_op)


@registry.model("ids", tags="ordinary table")
def clipped_embeddings(features, labels, mode):
  """The global norm counts the rows of a sparse gradient."""
  table = parts.weight("table", [registry.VOCABULARY, 8])
  net = tf.nn.embedding_lookup(table, features["ids"])
  loss = _mean_loss({"x": tf.reduce_sum(net, 1)}, labels)
  variables = v1.trainable_variables()
  gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 0.1)
  train_op = parts.apply(v1.train.AdamOptimizer(0.01), gradients, variables)
  return parts.spec(mode, loss, train_op)


@registry.model("ids", tags="ordinary table")
def clipped_positions(features, labels, mode):
  """All examples look up the same rows, and the norm counts each once."""
  words = parts.weight("words", [registry.VOCABULARY, 8])
  places = parts.weight("places", [2 * registry.VOCABULARY, 8])
  net = tf.nn.embedding_lookup(words, features["ids"])
  net += tf.nn.embedding_lookup(places, tf.range(tf.shape(net)[1]))
  loss = _mean_loss({"x": tf.reduce_mean(tf.tanh(net), 1)}, labels)
  variables = v1.trainable_variables()
  gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 0.01)
  train_op = parts.apply(v1.train.AdagradOptimizer(0.1), gradients, variables)
  return parts.spec(mode, loss, train_op)


@registry.model("x", tags="ordinary state")
def batch_normalisation(features, labels, mode):
  """v1.layers.batch_normalization between layers, with UPDATE_OPS."""
  net = v1.layers.dense(features["x"], 16, use_bias=False)
  net = v1.layers.batch_normalization(net, momentum=0.9, training=True)
  net = v1.layers.dense(tf.nn.relu(net), 8, tf.tanh)
  loss = parts.loss_of(labels, net)
  updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
  with tf.control_dependencies(updates):
    train_op = parts.descend(loss)
  return parts.spec(mode, loss, train_op)


@registry.model("x", is_random=True)
def dropout(features, labels, mode):
  net = v1.layers.dense(features["x"], 16, tf.nn.relu)
  net = v1.layers.dropout(net, 0.3, training=True)
  net = v1.layers.dense(net, 8, tf.nn.relu)
  loss = parts.loss_of(labels, net)
  return parts.spec(mode, loss)


@registry.model("x", is_random=True)
def shuffled_negatives(features, labels, mode):
  """MINE: the other variable comes from a shuffled batch."""
  x = features["x"]
  joint = parts.tower(x)
  shuffled = tf.random.shuffle(x[:, 6:], seed=5)
  apart = parts.tower(tf.concat([x[:, :6], shuffled], 1))
  bound = tf.reduce_mean(joint) - tf.math.log(tf.reduce_mean(tf.exp(apart)))
  return parts.spec(mode, _mean_loss(features, labels) - bound)


@registry.model("x")
def averaged_weights(features, labels, mode):
  """An exponential moving average of the weights."""
  loss = _mean_loss(features, labels)
  step = v1.train.get_global_step()
  average = tf.train.ExponentialMovingAverage(0.9, step)
  with tf.control_dependencies([parts.descend(loss)]):
    train_op = average.apply(v1.trainable_variables())
  return parts.spec(mode, loss, train_op)


@registry.model("x", tags="ordinary state")
def accumulated_by_hand(features, labels, mode):
  """The weights change in each second step, by the sum of two gradients."""
  loss = _mean_loss(features, labels)
  variables = v1.trainable_variables()
  optimizer = v1.train.GradientDescentOptimizer(0.1)
  sums = [parts.state(v.op.name + "/sum", v.shape) for v in variables]
  step = v1.train.get_global_step()
  gradients = tf.gradients(loss, variables)
  added = [s.assign_add(g) for s, g in zip(sums, gradients, strict=True)]

  def apply():
    pairs = [(s / 2.0, v) for s, v in zip(added, variables, strict=True)]
    with tf.control_dependencies([optimizer.apply_gradients(pairs)]):
      return tf.group(*(s.assign(tf.zeros_like(s)) for s in sums))

  with tf.control_dependencies(added):
    update = tf.cond(tf.equal(step % 2, 1), apply, tf.no_op)
  with tf.control_dependencies([update]):
    return parts.spec(mode, loss, v1.assign_add(step, 1))


@tf.custom_gradient
def _straight_through(x):
  """The sign, with the gradient of a clipped identity."""

  def gradient(upstream):
    return tf.where(tf.abs(x) < 1.0, upstream, tf.zeros_like(upstream))

  return tf.sign(x), gradient


@registry.model("x")
def straight_through(features, labels, mode):
  net = v1.layers.dense(features["x"], 16, tf.tanh)
  net = _straight_through(v1.layers.dense(net, 8))
  return parts.spec(mode, parts.loss_of(labels, net))


@tf.custom_gradient
def _unit_gradient(x):
  """The identity, whose gradient has the norm 1 over the batch."""

  def gradient(upstream):
    return upstream / (tf.norm(upstream) + 1e-6)

  return tf.identity(x), gradient


@registry.model("x")
def gradient_of_norm_one(features, labels, mode):
  """A gradient of its own that all examples decide on together."""
  net = _unit_gradient(parts.tower(features["x"]))
  return parts.spec(mode, parts.loss_of(labels, net))


@registry.model("x", "other")
def wgan_gp(features, labels, mode):
  """The slopes of the critic between real and fake are to be one."""
  del labels
  fake = v1.layers.dense(parts.tower(features["other"], scope="made"), 12)

  def critic(x):
    return tf.reduce_sum(parts.tower(x, scope="critic"), 1)

  real = features["x"]
  between = 0.4 * real + 0.6 * tf.stop_gradient(fake)
  (slopes,) = tf.gradients(critic(between), [between])
  norms = tf.sqrt(tf.reduce_sum(tf.square(slopes), 1) + 1e-6)
  penalty = tf.reduce_mean(tf.square(norms - 1.0))
  loss = tf.reduce_mean(critic(tf.stop_gradient(fake)) - critic(real)) + penalty
  made_loss = -tf.reduce_mean(critic(fake))
  optimizer = v1.train.AdamOptimizer(0.01)
  of_critic = v1.trainable_variables("critic/")
  others = [v for v in v1.trainable_variables() if v not in of_critic]
  critic_pairs = optimizer.compute_gradients(loss, of_critic)
  made_pairs = optimizer.compute_gradients(made_loss, others)
  train_op = optimizer.apply_gradients(
    critic_pairs + made_pairs, v1.train.get_global_step()
  )
  return parts.spec(mode, loss + made_loss, train_op)


@registry.model("x")
def decayed_rate(features, labels, mode):
  """A learning rate that decays, after a warm-up."""
  loss = _mean_loss(features, labels)
  step = v1.train.get_global_step()
  rate = v1.train.exponential_decay(0.05, step, 2, 0.7)
  warm = tf.cast(step + 1, tf.float32) / 3.0
  rate = rate * tf.minimum(warm, 1.0)
  v1.summary.scalar("rate", rate)
  train_op = v1.train.AdamOptimizer(rate).minimize(loss, step)
  return parts.spec(mode, loss, train_op)


@registry.model("x")
def cond_on_global_step(features, labels, mode):
  """The second layer is trained from the third step on."""
  net = v1.layers.dense(features["x"], 8, tf.tanh)
  step = v1.train.get_global_step()
  deeper = v1.layers.dense(net, 8, tf.tanh)
  net = tf.cond(step < 2, lambda: net, lambda: net + deeper)
  return parts.spec(mode, parts.loss_of(labels, net))


@registry.model("x")
def sharpness_aware(features, labels, mode):
  """SAM: the gradient where the loss is largest nearby."""
  x = features["x"]
  first = parts.weight("first", [12, 8])
  second = parts.weight("second", [8, 1])

  def loss_of(first, second):
    logits = tf.matmul(tf.tanh(tf.matmul(x, first)), second)
    return parts.mean_loss(labels, logits)

  variables = [first, second]
  loss = loss_of(*variables)
  slopes = tf.gradients(loss, variables)
  norm = tf.linalg.global_norm(slopes) + 1e-6
  moved = [
    v + tf.stop_gradient(0.1 * g / norm)
    for v, g in zip(variables, slopes, strict=True)
  ]
  gradients = tf.gradients(loss_of(*moved), moved)
  train_op = parts.apply(
    v1.train.GradientDescentOptimizer(0.1), gradients, variables
  )
  return parts.spec(mode, loss, train_op)


@registry.model("x")
def two_rates(features, labels, mode):
  """The head learns faster than the tower, and with weight decay."""
  loss = _mean_loss(features, labels)
  tower = v1.trainable_variables("tower/")
  head = v1.trainable_variables("head/")
  decay = tf.add_n([tf.nn.l2_loss(v) for v in head])
  step = v1.train.get_global_step()
  train_op = tf.group(
    v1.train.GradientDescentOptimizer(0.02).minimize(loss, None, tower),
    v1.train.AdamOptimizer(0.02).minimize(loss + 0.1 * decay, step, head),
  )
  return parts.spec(mode, loss, train_op)


@registry.model("x", labels=("label", "score"))
def balanced_by_norms(features, labels, mode):
  """GradNorm: two losses weigh by the norms of their gradients."""
  net = parts.tower(features["x"])
  first = tf.reduce_mean(parts.losses(labels["label"], v1.layers.dense(net, 1)))
  second = tf.reduce_mean(tf.square(labels["score"] - v1.layers.dense(net, 1)))
  shared = v1.trainable_variables("tower/")[0]
  norms = [tf.norm(tf.gradients(x, shared)[0]) for x in (first, second)]
  share = tf.stop_gradient(norms[1] / (norms[0] + norms[1]))
  return parts.spec(mode, share * first + (1.0 - share) * second)


@registry.model("x")
def tape_in_function(features, labels, mode):
  """A tape over layers, as in code that comes from TensorFlow 2."""
  with tf.GradientTape() as tape:
    loss = _mean_loss(features, labels)
  variables = v1.trainable_variables()
  gradients = tape.gradient(loss, variables)
  train_op = parts.apply(
    v1.train.MomentumOptimizer(0.05, 0.9), gradients, variables
  )
  return parts.spec(mode, loss, train_op)


@registry.model("x")
def persistent_tape(features, labels, mode):
  """A tape that is asked twice, and gradients by two optimizers."""
  with tf.GradientTape(persistent=True) as tape:
    loss = _mean_loss(features, labels)
  variables = v1.trainable_variables()
  lower, upper = variables[:2], variables[2:]
  gradients = tape.gradient(loss, lower) + tape.gradient(loss, upper)
  train_op = parts.apply(v1.train.AdamOptimizer(0.01), gradients, variables)
  return parts.spec(mode, loss, train_op)


@registry.model("x")
def tape_of_a_tape(features, labels, mode):
  """A penalty of slopes by one tape inside of another."""
  with tf.GradientTape() as outer:
    with tf.GradientTape() as inner:
      inner.watch(features["x"])
      logits = parts.logits(features["x"])
    slopes = inner.gradient(logits, features["x"])
    loss = tf.reduce_mean(tf.square(slopes))
    loss += parts.mean_loss(labels, logits)
  variables = v1.trainable_variables()
  train_op = v1.train.GradientDescentOptimizer(0.1).apply_gradients(
    zip(outer.gradient(loss, variables), variables, strict=True),
    v1.train.get_global_step(),
  )
  return parts.spec(mode, loss, train_op)


@registry.model("x")
def gradients_in_two_steps(features, labels, mode):
  """Those of the head, and then those of what it fed on."""
  net = parts.tower(features["x"])
  loss = tf.reduce_mean(
    parts.losses(labels, v1.layers.dense(net, 1, name="head"))
  )
  head, tower = map(v1.trainable_variables, ("head/", "tower/"))
  *upper, of_net = tf.gradients(loss, [*head, net])
  lower = v1.gradients(
    net, tower, grad_ys=[of_net], stop_gradients=[features["x"]]
  )
  train_op = parts.apply(
    v1.train.GradientDescentOptimizer(0.1), [*lower, *upper], [*tower, *head]
  )
  return parts.spec(mode, loss, train_op)


@registry.model("x")
def gradients_twice(features, labels, mode):
  """The same gradients, gated and aggregated in two ways."""
  loss = _mean_loss(features, labels)
  variables = v1.trainable_variables()
  first = v1.gradients(loss, variables, gate_gradients=True)
  second = v1.gradients(
    2 * loss,
    variables,
    aggregation_method=tf.AggregationMethod.EXPERIMENTAL_ACCUMULATE_N,
  )
  both = [a + b for a, b in zip(first, second, strict=True)]
  train_op = parts.apply(
    v1.train.GradientDescentOptimizer(0.05), both, variables
  )
  return parts.spec(mode, loss, train_op)


@registry.model("x")
def penalty_before_the_loss(features, labels, mode):
  """The first gradients wanted are of one layer, before the others exist."""
  net = v1.layers.dense(features["x"], 16, tf.tanh)
  (slopes,) = tf.gradients(net, [features["x"]])
  penalty = 0.01 * tf.reduce_mean(tf.square(slopes))
  net = v1.layers.dense(net, 8, tf.tanh)
  loss = parts.loss_of(labels, net)
  return parts.spec(mode, loss + penalty)


@registry.model("x")
def recomputed_layers(features, labels, mode):
  """Layers whose activations are computed again for the gradients."""
  net = features["x"]
  for name, units in (("first", 16), ("second", 8)):
    kernel = parts.weight(name, [net.shape[1], units])
    layer = tf.recompute_grad(lambda net, w: tf.tanh(tf.matmul(net, w)))
    net = layer(net, tf.convert_to_tensor(kernel))
  loss = parts.loss_of(labels, net)
  return parts.spec(mode, loss)


class _RunsFirst(tf.estimator.SessionRunHook):
  """Runs an op in a session step of its own before each step, as TF-GAN."""

  def __init__(self, op):
    self._op = op

  def before_run(self, run_context):
    run_context.session.run(self._op)


@registry.model("x", "other")
def gan_in_turns(features, labels, mode):
  """Two optimizers that take turns."""
  del labels
  fake = v1.layers.dense(parts.tower(features["other"], scope="made"), 12)
  on_fake, on_real = (
    tf.reduce_sum(parts.tower(x, scope="critic"), 1)
    for x in (fake, features["x"])
  )
  ones, zeros = tf.ones_like(on_real), tf.zeros_like(on_fake)
  loss = tf.reduce_mean(
    parts.losses(ones, on_real) + parts.losses(zeros, on_fake)
  )
  made_loss = tf.reduce_mean(parts.losses(ones, on_fake))
  of_critic = v1.trainable_variables("critic/")
  others = [v for v in v1.trainable_variables() if v not in of_critic]
  critic_op = v1.train.GradientDescentOptimizer(0.1).minimize(
    loss, var_list=of_critic
  )
  train_op = v1.train.MomentumOptimizer(0.1, 0.9).minimize(
    made_loss, v1.train.get_global_step(), others
  )
  return parts.spec(
    mode, loss + made_loss, train_op, training_hooks=[_RunsFirst(critic_op)]
  )


@registry.model("x", "other")
def gan_after_the_critic(features, labels, mode):
  """What the generator is trained by is made after the critic's update."""
  del labels
  fake = v1.layers.dense(parts.tower(features["other"], scope="made"), 12)
  on_real = parts.tower(features["x"], scope="critic")
  on_fake = parts.tower(tf.stop_gradient(fake), scope="critic")
  critic_loss = tf.reduce_mean(on_fake) - tf.reduce_mean(on_real)
  of_critic = v1.trainable_variables("critic/")
  critic_op = v1.train.GradientDescentOptimizer(0.1).minimize(
    critic_loss, var_list=of_critic
  )
  with tf.control_dependencies([critic_op]):
    loss = -tf.reduce_mean(parts.tower(fake, scope="critic"))
    others = [v for v in v1.trainable_variables() if v not in of_critic]
    train_op = v1.train.GradientDescentOptimizer(0.1).minimize(
      loss, v1.train.get_global_step(), others
    )
  return parts.spec(mode, loss + critic_loss, train_op)


@registry.model("x")
def step_of_one_optimizer_before_another(features, labels, mode):
  """The second one waits for the first one's train op, which counts steps."""
  net = v1.layers.dense(features["x"], 7, tf.tanh, name="below")
  above = v1.layers.dense(tf.stop_gradient(net), 1, name="above")
  loss = parts.mean_loss(labels, v1.layers.dense(net, 1, name="head"))
  gap = tf.sqrt(tf.reduce_mean((above - labels) ** 2) + 0.1)
  of_gap = v1.trainable_variables("above")
  others = [v for v in v1.trainable_variables() if v not in of_gap]
  first = v1.train.MomentumOptimizer(0.05, 0.9).minimize(
    loss, v1.train.get_global_step(), others
  )
  with tf.control_dependencies([first]):
    second = v1.train.AdamOptimizer(0.01).minimize(gap, var_list=of_gap)
  average = tf.train.ExponentialMovingAverage(0.9)
  with tf.control_dependencies([second]):
    train_op = average.apply(others)
  return parts.spec(mode, loss + gap, train_op)


_Optimizer: Any = v1.train.Optimizer


class _Normalizing(_Optimizer):
  """An optimizer around another one, as programs write them."""

  def __init__(self, inner):
    super().__init__(False, "Normalizing")
    self._inner = inner

  def compute_gradients(self, *args, **kwargs):
    pairs = self._inner.compute_gradients(*args, **kwargs)
    norm = tf.linalg.global_norm([gradient for gradient, _ in pairs])
    return [(gradient / (norm + 1e-6), v) for gradient, v in pairs]

  def apply_gradients(self, *args, **kwargs):
    return self._inner.apply_gradients(*args, **kwargs)


@registry.model("x")
def optimizer_around_another(features, labels, mode):
  loss = _mean_loss(features, labels)
  optimizer = _Normalizing(v1.train.MomentumOptimizer(0.05, 0.9))
  step = v1.train.get_global_step()
  return parts.spec(mode, loss, optimizer.minimize(loss, step))


@registry.model("x")
def nested_model_fns(features, labels, mode, config):
  """AdaNet's way: a canned Estimator's model_fn beside another one."""
  canned = v1.estimator.DNNClassifier(
    [16],
    [tf.feature_column.numeric_column("x", 12)],
    optimizer=v1.train.GradientDescentOptimizer(0.05),
    config=config,
  )
  with v1.variable_scope("first"):
    classes = tf.cast(labels, tf.int32)
    first = canned.model_fn(features, classes, mode, config)
  loss = _mean_loss(features, labels)
  optimizer = v1.train.AdamOptimizer(0.01)
  second = optimizer.minimize(loss, var_list=v1.trainable_variables("tower"))
  train_op = tf.group(first.train_op, second)
  return parts.spec(mode, loss + first.loss, train_op)
