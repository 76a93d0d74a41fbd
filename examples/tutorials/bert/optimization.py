"""Adam with weight decay, a learning rate that warms up, and clipping."""

import re

import tensorflow as tf


def create_optimizer(loss, init_lr, num_train_steps, num_warmup_steps):
  """Returns the op that makes a training step."""
  step = tf.train.get_or_create_global_step()
  rate = tf.train.polynomial_decay(init_lr, step, num_train_steps, 0.0)
  warmup = init_lr * tf.to_float(step + 1) / float(num_warmup_steps)
  rate = tf.where(step < num_warmup_steps, warmup, rate)
  optimizer = AdamWeightDecayOptimizer(rate, 0.01, ["LayerNorm", "bias"])
  variables = tf.trainable_variables()
  gradients = tf.gradients(loss, variables)
  gradients, _ = tf.clip_by_global_norm(gradients, clip_norm=1.0)
  return optimizer.apply_gradients(zip(gradients, variables), step)


class AdamWeightDecayOptimizer(tf.train.Optimizer):
  """Adam without a correction of its bias, and decay beside the gradient."""

  def __init__(self, learning_rate, weight_decay_rate, excluded):
    super().__init__(False, "AdamWeightDecay")
    self._rate = learning_rate
    self._decay = weight_decay_rate
    self._excluded = excluded

  def apply_gradients(self, grads_and_vars, global_step=None, name=None):
    """Updates variables and their moments, and counts the step."""
    updates = []
    for gradient, variable in grads_and_vars:
      if gradient is None:
        continue
      gradient = tf.convert_to_tensor(gradient)
      kept = variable.op.name
      m = self._moment(kept + "/adam_m", variable)
      v = self._moment(kept + "/adam_v", variable)
      new_m = 0.9 * m + 0.1 * gradient
      new_v = 0.999 * v + 0.001 * tf.square(gradient)
      change = new_m / (tf.sqrt(new_v) + 1e-6)
      if not any(re.search(part, kept) for part in self._excluded):
        change += self._decay * variable
      new = variable - self._rate * change
      updates += [variable.assign(new), m.assign(new_m), v.assign(new_v)]
    with tf.control_dependencies(updates):
      return global_step.assign_add(1, name=name)

  def _moment(self, name, variable):
    return tf.get_variable(
      name,
      variable.shape.as_list(),
      trainable=False,
      initializer=tf.zeros_initializer(),
    )
