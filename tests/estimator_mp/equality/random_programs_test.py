"""Random model_fns train as they do plain, whatever is in them.

To try more of them, and others than in each run:

  MP_PROGRAMS=2000 MP_DRAW_ANEW=1 \
      python -m tests.estimator_mp.equality.random_programs_test
"""

import os
import warnings

import estimator_mp
from estimator_mp.comparison import whole_variables
from tests import tiers
from tests.estimator_mp import drawn
from tests.estimator_mp.equality import random_programs
from tests.estimator_mp.model_axis import random_graphs

import hypothesis
import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_PROGRAMS = int(os.environ.get("MP_PROGRAMS") or (4 if tiers.FAST else 100))


def train(program, config=None):
  """Trains a program from its first values.

  Args:
    program: The program.
    config: How it is sharded; None for the plain program.

  Returns:
    The losses of its steps, and all global variables after the last.
  """
  session_config = v1.ConfigProto(
    device_count={"CPU": 4},
    allow_soft_placement=False,
    operation_timeout_in_ms=60000,
  )
  session_config.graph_options.rewrite_options.disable_meta_optimizer = True
  model_fn = program.model_fn
  if config is not None:
    model_fn = estimator_mp.shard_model_fn(model_fn, config)
  with tf.Graph().as_default():
    v1.set_random_seed(3)
    inputs = program.inputs()
    v1.train.create_global_step()
    features = {k: v for k, v in inputs.items() if k != "labels"}
    spec = model_fn(
      features, inputs["labels"], mode=tf.estimator.ModeKeys.TRAIN
    )
    variables = whole_variables.by_name(v1.global_variables())
    losses = []
    with v1.train.SingularMonitoredSession(
      spec.training_hooks, spec.scaffold, config=session_config
    ) as session:
      for batch in program.batches():
        feed = {inputs[name]: value for name, value in batch.items()}
        losses.append(session.run([spec.loss, spec.train_op], feed)[0])
      fetches = {name: x.parts for name, x in variables.items()}
      fetched = session.raw_session().run(fetches)
      return losses, whole_variables.joined(variables, fetched)


def assert_as_plain(program):
  """Trains a program plain and sharded, and compares all numbers.

  Args:
    program: The program.
  """
  config = estimator_mp.ShardingConfig(**random_programs.MESHES[program.mesh])
  with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    losses, variables = train(program)
    own_losses, own_variables = train(program, config)
  np.testing.assert_allclose(own_losses, losses, rtol=1e-5, atol=1e-5)
  for name, value in variables.items():
    np.testing.assert_allclose(
      own_variables[name], value, rtol=1e-5, atol=1e-5, err_msg=name
    )


def _distances(x):
  return tf.reduce_mean(tf.abs(x[:, tf.newaxis] - x[tf.newaxis]), 2)


def _by_number(ids, x):
  """Has shares of as many rows as the batch, which are cut again."""
  n = tf.shape(x)[0]
  made = tf.math.unsorted_segment_sum(x, ids % n, n)
  return tf.ensure_shape(tf.reshape(made, tf.shape(x)), x.shape)


def _cond(x):
  scale = random_programs.variable("scale", x.shape[1:])
  return tf.cond(
    tf.reduce_max(x) > 0.6, lambda: x * scale, lambda: tf.sin(x) + scale
  )


def _calls(x):
  """A call in a call has a gradient, too."""

  @tf.function
  def inner(y):
    return tf.sin(y) * 0.9

  @tf.function
  def outer(y):
    return inner(y) + tf.tanh(y)

  return outer(x)


def _measured(x, net):
  """Asks for gradients twice; measures what a model axis splits."""
  with tf.GradientTape() as tape:
    tape.watch(x)
    made = tf.reduce_mean(tf.sin(x))
  places = tf.cast(tf.range(tf.size(net)), net.dtype)
  weights = tf.reshape(tf.cos(places), tf.shape(net))
  return x - tape.gradient(made, x), net + weights


def _scan(series, net):
  """A state that goes along a series, as in a recurrent network."""
  words = tf.transpose(series, [1, 0, 2])
  width = words.shape[-1]
  weights = random_programs.variable("scan_weights", [width, width])
  return tf.scan(
    lambda state, word: tf.tanh(state + tf.matmul(word, weights)), words, net
  )[-1]


def _two_dimensions_of_examples(series, x):
  """A size measures both, of a tensor that slices have along the second."""
  words = tf.transpose(series, [1, 0, 2])
  first, own = (random_programs.variable(name, [4, 4]) for name in "ab")

  def body(i, state):
    return i + 1, tf.tanh(tf.matmul(words[i], first) + tf.matmul(state, own))

  zeros = tf.zeros([tf.shape(series)[0], 4], x.dtype)
  _, state = tf.while_loop(lambda i, _: i < 3, body, [0, zeros])
  state = tf.ensure_shape(state, [x.shape[0], 4])
  pairs = tf.einsum("ab,cd->bcda", state, x)
  return _measured(x, x)[0], pairs


@tf.custom_gradient
def _centered_gradient(x):
  """A slice without an example has no gradient, whatever is subtracted."""
  return tf.sin(x), lambda dy: dy - tf.reduce_mean(dy, 0)


_IDS, _LABELS, _X, _SERIES, _NET = range(5)
_SQUARES = ("squares", "mean of rows")
# What was not as it is plain, once.
_FOUND = (
  ("activation_after_another_layer", tf.tanh, (_NET,), "stage"),
  ("rows_of_one_slice", lambda x: tf.concat([x, x], 0), (_NET,), "stage"),
  ("shares_in_rows", _by_number, (_IDS, _NET), "data"),
  ("shares_of_pairs", _distances, (_NET,), "data"),
  ("cond", _cond, (_NET,), "stage"),
  ("cond_on_replicas", _cond, (_NET,), "data"),
  ("measured", _measured, (_X, _NET), "stage_model"),
  ("calls", _calls, (_NET,), "data"),
  ("cond_of_numbers", _cond, (_LABELS,), "stage"),
  ("scan", _scan, (_SERIES, _NET), "stage"),
  ("centered_gradient", _centered_gradient, (_NET,), "stage"),
  (
    "a_size_of_two_dimensions_of_examples",
    _two_dimensions_of_examples,
    (_SERIES, _X),
    "data",
    ("largest",),
  ),
)


class RandomProgramsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (f"{name}_{batch}", batch, *case)
    for name, *case in _FOUND
    for batch in tiers.sample(random_programs.BATCHES)
  )
  def test_found(self, batch, make, inputs, mesh, losses=_SQUARES):
    step = random_graphs.Step("found", inputs, make)
    assert_as_plain(
      random_programs.Program([step], losses, 1, "descent", False, mesh, batch)
    )

  @hypothesis.given(program=random_programs.programs())
  @drawn.examples(_PROGRAMS, is_shortened=False)
  def test_as_the_plain_program(self, program):
    assert_as_plain(program)


if __name__ == "__main__":
  absltest.main()
