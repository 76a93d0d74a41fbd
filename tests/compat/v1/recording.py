"""Runs a case, a small TensorFlow 1 program, and writes down what came out.

A module of cases/ has cases: its public functions. Each builds a graph with
`import tensorflow as tf`, unedited TensorFlow 1.15, and returns

- the results, by name: tensors, or what is known without a session (numbers,
  strings, arrays); or
- (results, train_op): the op then runs three times, with the results before
  each time and after the last, and the variables at the end.

Recorded are the results; the names, shapes and initial values of all variables;
and the gradients of all trainable variables: of the result "loss" if there is
one, else of the sum of all results of floats, each element weighted otherwise.

This file runs on TensorFlow 1.15 under Python 3.7 (`tf` is given), and today.
"""

import contextlib
import inspect

import numpy as np

STEPS = 3


def cases_of(module):
  """Returns the cases of a module: its public functions, by name."""
  return {
    name: case
    for name, case in inspect.getmembers(module, inspect.isfunction)
    if not name.startswith("_") and case.__module__ == module.__name__
  }


@contextlib.contextmanager
def numbered_seeds(random_seed):
  """Random ops without a seed get theirs by the order in which they are made.

  TensorFlow takes the number of ops in the graph, which is not the same in two
  releases. The order of drawing, the distribution and its scale have to be.
  """
  original = random_seed.get_seed
  made = [0]

  def get_seed(op_seed):
    if op_seed is not None:
      return original(op_seed)
    made[0] += 1
    return 1234, made[0]

  random_seed.get_seed = get_seed
  try:
    yield
  finally:
    random_seed.get_seed = original


def record(tf, random_seed, case, optimized=True):
  """Runs one case.

  Args:
    tf: TensorFlow 1.15, or what compat shows as such.
    random_seed: the module tensorflow.python.framework.random_seed.
    case: the function.
    optimized: whether TensorFlow rewrites the graph for each session.run, which
      is a quarter of the time.

  Returns:
    Arrays by name: "results/NAME", "variables/NAME", "gradients/NAME", and
    "after/NAME" for what was there after the last step.
  """
  found = {}
  with numbered_seeds(random_seed), tf.Graph().as_default():
    results = case()
    results, train_op = (
      results if isinstance(results, tuple) else (results, None)
    )
    tensors = {name: _tensor(tf, value) for name, value in results.items()}
    for name, value in results.items():
      if tensors[name] is None:
        found["results/" + name] = np.asarray(value)
    tensors = {name: one for name, one in tensors.items() if one is not None}
    found.update(_run(tf, tensors, train_op, optimized))
  return found


def _tensor(tf, value):
  """A tensor to run, or None for what is known without a session."""
  if isinstance(value, (tf.Tensor, tf.SparseTensor, tf.Variable)):
    return value
  if isinstance(value, tf.IndexedSlices):
    return tf.convert_to_tensor(value)
  return None


def _run(tf, tensors, train_op, optimized):
  gradients = _gradients(tf, tensors) if train_op is None else {}
  variables = {one.op.name: one for one in tf.global_variables()}
  found = {}
  config = tf.ConfigProto(allow_soft_placement=False)
  config.graph_options.rewrite_options.disable_meta_optimizer = not optimized
  with tf.Session(config=config) as session:
    for initializer in (
      tf.global_variables_initializer(),
      tf.local_variables_initializer(),
      tf.tables_initializer(),
    ):
      if initializer.control_inputs:
        session.run(initializer)
    coordinator = tf.train.Coordinator()
    threads = []
    if tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS):
      threads = tf.train.start_queue_runners(session, coordinator)
    for name, value in session.run(variables).items():
      found["variables/" + name] = value
    if train_op is None:
      values, slopes = session.run([tensors, gradients])
      for name, value in slopes.items():
        found["gradients/" + name] = value
      found.update(_results("results/", values))
    else:
      for step in range(STEPS):
        found.update(_results("results/%d/" % step, session.run(tensors)))
        session.run(train_op)
      found.update(_results("after/results/", session.run(tensors)))
      for name, value in session.run(variables).items():
        found["after/variables/" + name] = value
    coordinator.request_stop()
    coordinator.join(threads, 10, ignore_live_threads=True)
  return found


def _results(start, values):
  found = {}
  for name, value in values.items():
    if hasattr(value, "dense_shape"):
      value = np.concatenate([np.ravel(value.indices), np.ravel(value.values)])
    value = np.asarray(value)
    # As numpy writes strings of any length without pickling.
    found[start + name] = value.astype("S") if value.dtype == object else value
  return found


def _gradients(tf, tensors):
  """Gradients of the loss by the trainable variables that it depends on."""
  variables = tf.trainable_variables()
  loss = tensors.get("loss")
  if loss is None:
    terms = [
      _weighted_sum(tf, one)
      for _, one in sorted(tensors.items())
      if isinstance(one, (tf.Tensor, tf.Variable)) and one.dtype.is_floating
    ]
    if not terms:
      return {}
    loss = tf.add_n(terms)
  found = tf.gradients(loss, variables)
  return {
    variable.op.name: tf.convert_to_tensor(gradient)
    for variable, gradient in zip(variables, found)
    if gradient is not None
  }


def _weighted_sum(tf, tensor):
  flat = tf.cast(tf.reshape(tensor, [-1]), tf.float32)
  weights = tf.cos(tf.cast(tf.range(tf.size(flat)), tf.float32))
  return tf.reduce_sum(flat * weights)
