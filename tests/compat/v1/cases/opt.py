"""Optimizers of tf.contrib.opt, on references and resources."""

import numpy as np
import tensorflow as tf
from tensorflow.contrib import opt

_X = np.random.RandomState(1).normal(size=(4, 3)).astype(np.float32)
_IDS = np.array([1, 4, 1, 3])


def _net(x, ids):
  """A dense and an embedding layer; rows of the table are used twice or not."""
  hidden = tf.layers.dense(x, 3, tf.tanh, name="dense")
  table = tf.get_variable("table", [6, 3])
  return hidden + tf.nn.embedding_lookup(table, ids)


def _loss():
  x = tf.placeholder_with_default(_X, [4, 3])
  ids = tf.placeholder_with_default(_IDS, [4])
  with tf.variable_scope("references"):
    outputs = _net(x, ids)
  with tf.variable_scope("resources", use_resource=True):
    outputs += _net(x, ids)
  return tf.reduce_mean(tf.square(outputs - 1.0))


def _slots(optimizer):
  return {
    "slots": " ".join(optimizer.get_slot_names()),
    "name": optimizer.get_name(),
  }


def _train(optimizer, var_list=None):
  loss = _loss()
  step = tf.train.get_or_create_global_step()
  train_op = optimizer.minimize(loss, step, var_list)
  return dict(_slots(optimizer), loss=loss), train_op


def _values_of(pairs):
  return [g if isinstance(g, tf.Tensor) else g.values for g, _ in pairs]


class _Ordered(object):
  """Applies gradients when all of them are known.

  Weight decay of 1.15 does not wait for any, so the loss may see it or not.
  """

  def apply_gradients(self, pairs, *args, **kwargs):
    pairs = list(pairs)
    with tf.control_dependencies(_values_of(pairs)):
      return super(_Ordered, self).apply_gradients(pairs, *args, **kwargs)


class _AdamW(_Ordered, opt.AdamWOptimizer):
  pass


class _MomentumW(_Ordered, opt.MomentumWOptimizer):
  pass


def adam_w_by_position():
  return _train(_AdamW(0.01, 0.1, 0.8, 0.9, 1e-3, True, "Other"))


def adam_w_of_some():
  loss = _loss()
  optimizer = _AdamW(weight_decay=0.01, learning_rate=0.1)
  decayed = [v for v in tf.trainable_variables() if "bias" not in v.name]
  step = tf.train.get_or_create_global_step()
  return {"loss": loss}, optimizer.minimize(loss, step, decay_var_list=decayed)


def adam_w_by_parts():
  loss = _loss()
  step = tf.train.get_or_create_global_step()
  rate = tf.train.exponential_decay(0.1, step, 1, 0.5)
  optimizer = _AdamW(0.1 * rate, rate)
  pairs = optimizer.compute_gradients(loss)
  decayed = [v for _, v in pairs if "dense" in v.name]
  train_op = optimizer.apply_gradients(pairs, step, "named", decayed)
  return {"loss": loss}, train_op


def momentum_w():
  return _train(_MomentumW(0.01, 0.1, 0.9, use_nesterov=True))


def extended_with_weight_decay():
  kind = opt.extend_with_decoupled_weight_decay(tf.train.AdagradOptimizer)

  class AdagradW(_Ordered, kind):
    pass

  return _train(AdagradW(weight_decay=0.01, learning_rate=0.1))


def lazy_adam_otherwise():
  return _train(
    opt.LazyAdamOptimizer(
      lambda: 0.1, beta1=0.5, beta2=0.7, epsilon=0.1, name="Lazy"
    )
  )


def adam_gs():
  step = tf.train.get_or_create_global_step()
  return _train(opt.AdamGSOptimizer(step, 0.1, beta2=0.9))


def lazy_adam_gs():
  step = tf.train.get_or_create_global_step()
  return _train(opt.LazyAdamGSOptimizer(step, 0.1, beta1=0.5, name="LazyGS"))


def nadam_otherwise():
  return _train(opt.NadamOptimizer(0.1, 0.5, 0.7, 0.01, name="Nadam"))


def ada_max_otherwise():
  return _train(opt.AdaMaxOptimizer(0.1, 0.5, 0.7, 0.01, name="Max"))


def reg_adagrad():
  loss = _loss()
  optimizer = opt.RegAdagradOptimizer(0.1)
  step = tf.train.get_or_create_global_step()
  variables = tf.trainable_variables()
  train_op = optimizer.minimize(loss, step)
  with optimizer.avoid_updating_slots(), tf.control_dependencies([train_op]):
    penalty = 0.1 * sum(tf.nn.l2_loss(v.read_value()) for v in variables)
    rows = [v for v in variables if "table" in v.name]
    penalty += sum(
      tf.reduce_sum(tf.nn.embedding_lookup(v, [0, 0, 2])) for v in rows
    )
    with tf.control_dependencies([optimizer.minimize(penalty)]):
      train_op = tf.no_op()
  return dict(_slots(optimizer), loss=loss), train_op


def _train_dense(optimizer, use_resource=True, step=True):
  """Without the table, for optimizers that take no sparse gradients."""
  x = tf.placeholder_with_default(_X, [4, 3])
  outputs = tf.layers.dense(x, 5, tf.tanh, name="a")
  with tf.variable_scope("resources", use_resource=use_resource):
    outputs = tf.layers.dense(outputs, 2, name="b")
  loss = tf.reduce_mean(tf.square(outputs - 1.0))
  step = tf.train.get_or_create_global_step() if step else None
  train_op = optimizer.minimize(loss, step)
  return dict(_slots(optimizer), loss=loss), train_op


def add_sign_of_rows():
  return _train_references(opt.AddSignOptimizer(0.1))


def power_sign_of_rows():
  return _train_references(opt.PowerSignOptimizer(0.1))


def _train_references(optimizer):
  loss = _loss()
  step = tf.train.get_or_create_global_step()
  variables = tf.trainable_variables("references")
  return {"loss": loss}, optimizer.minimize(loss, step, variables)


def lars():
  return _train(opt.LARSOptimizer(1.0))


def lars_otherwise():
  return _train(
    opt.LARSOptimizer(
      2.0, 0.8, 0.01, 0.1, 0.001, "LARS", ["bias", "resources/table"], True
    )
  )


def ggt():
  return _train_dense(opt.GGTOptimizer(0.1, window=2, svd_eps=0.1))


def ggt_of_large_values_only():
  return _train_dense(
    opt.GGTOptimizer(0.01, 0.5, False, "Other", 5, 2.0, 0.2, 0.1)
  )


def moving_average():
  optimizer = opt.MovingAverageOptimizer(tf.train.AdamOptimizer(0.1), 0.5)
  return _train_average(optimizer)


def _train_average(optimizer):
  """With what the saver writes under each name: averages for weights."""
  loss = _loss()
  step = tf.train.get_or_create_global_step()
  train_op = optimizer.minimize(loss, step)
  saver = optimizer.swapping_saver()
  operations = tf.get_default_graph().get_operations()
  (save,) = [one for one in operations if one.type == "SaveV2"]
  names = tf.get_static_value(save.inputs[1])
  results = {
    "saved_" + name.decode(): tf.identity(tensor)
    for name, tensor in zip(names, save.inputs[3:])
  }
  return dict(
    results, loss=loss, saver=saver.saver_def.save_tensor_name
  ), train_op


def multitask():
  optimizer = opt.MultitaskOptimizerWrapper(
    tf.train.MomentumOptimizer(0.1, 0.9)
  )
  x = tf.placeholder_with_default(_X, [4, 3])
  mask = tf.get_variable(
    "mask", [], initializer=tf.ones_initializer(), trainable=False
  )
  losses = [
    tf.reduce_mean(tf.square(tf.layers.dense(x, 2, name=name) - 1.0))
    for name in "ab"
  ]
  pairs = optimizer.compute_gradients(losses[0] + mask * losses[1])
  pairs, norm = opt.clip_gradients_by_global_norm(pairs, 0.5)
  step = tf.train.get_or_create_global_step()
  with tf.control_dependencies([optimizer.apply_gradients(pairs, step)]):
    train_op = mask.assign(1.0 - mask)
  return {"first": losses[0], "second": losses[1], "norm": norm}, train_op.op


def variable_clipping():
  loss = _loss()
  clipped = {v: [1] for v in tf.trainable_variables() if "bias" not in v.name}
  optimizer = opt.VariableClippingOptimizer(
    tf.train.AdagradOptimizer(0.5), clipped, 0.4
  )
  step = tf.train.get_or_create_global_step()
  return dict(_slots(optimizer), loss=loss), optimizer.minimize(loss, step)


def variable_clipping_otherwise():
  loss = _loss()
  clipped = {v: [0] for v in tf.trainable_variables() if "kernel" in v.name}
  optimizer = opt.VariableClippingOptimizer(
    tf.train.GradientDescentOptimizer(0.5),
    clipped,
    max_norm=0.4,
    use_locking=True,
    colocate_clip_ops_with_vars=True,
  )
  return dict(_slots(optimizer), loss=loss), optimizer.minimize(loss)


def drop_stale_gradient():
  loss = _loss()
  step = tf.train.get_or_create_global_step()
  optimizer = opt.DropStaleGradientOptimizer(tf.train.AdamOptimizer(0.1), 3)
  pairs = optimizer.compute_gradients(loss)
  train_op = optimizer.apply_gradients(pairs, step)
  return dict(_slots(optimizer), loss=loss), train_op


def drop_stale_gradient_drops():
  """The others are always further than this worker allows."""
  loss = _loss()
  step = tf.train.get_or_create_global_step()
  optimizer = opt.DropStaleGradientOptimizer(tf.train.AdamOptimizer(0.1), 0)
  pairs = optimizer.compute_gradients(loss)
  with tf.control_dependencies(
    [g if isinstance(g, tf.Tensor) else g.values for g, _ in pairs]
  ):
    others = step.assign_add(1)
  with tf.control_dependencies([others]):
    pairs = [
      (tf.identity(tf.convert_to_tensor(g)), variable) for g, variable in pairs
    ]
    train_op = optimizer.apply_gradients(pairs, step)
  return {"loss": loss}, train_op


def add_sign_decayed():
  from tensorflow.contrib.opt.python.training import sign_decay

  decay = sign_decay.get_linear_decay_fn(5)
  return _train_dense(opt.AddSignOptimizer(0.1, 0.7, 0.5, decay, name="Sign"))


def power_sign_decayed():
  from tensorflow.contrib.opt.python.training import sign_decay

  decay = sign_decay.get_cosine_decay_fn(4, num_periods=1.5, zero_after=0.7)
  return _train_dense(
    opt.PowerSignOptimizer(0.1, 3.0, 0.5, sign_decay_fn=decay)
  )


def sign_decays():
  from tensorflow.contrib.opt.python.training import sign_decay

  decays = {
    "linear": sign_decay.get_linear_decay_fn(20),
    "cosine": sign_decay.get_cosine_decay_fn(20),
    "zero_after": sign_decay.get_cosine_decay_fn(20, 2, 1),
    "restart": sign_decay.get_restart_decay_fn(20, 4, 2),
  }
  steps = [tf.placeholder_with_default(n, []) for n in range(0, 30, 3)]
  return {
    name: tf.stack([decay(step) for step in steps])
    for name, decay in decays.items()
  }
