"""Gating gives each token the place that Switch and GShard give it."""

from model_fns.transformers import gating

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_BATCH, _LENGTH, _WIDTH, _EXPERTS = 3, 10, 4, 3
_INPUTS = np.random.RandomState(1).randn(_BATCH, _LENGTH, _WIDTH)


def _routes(rules, capacity, inputs=_INPUTS):
  """Returns routes as arrays, and the gate's kernel."""
  with tf.Graph().as_default(), v1.Session() as session:
    v1.set_random_seed(2)
    found = gating.route(tf.constant(inputs, tf.float32), rules, capacity)
    # Larger than at first, so that experts differ.
    (kernel,) = v1.trainable_variables()
    session.run(kernel.initializer)
    kernel.load(40.0 * session.run(kernel), session)
    return session.run((vars(found), kernel))


def _softmax(logits):
  likely = np.exp(logits - logits.max())
  return likely / likely.sum()


def _expected(kernel, num_choices, capacity):
  """What a loop over tokens says: each expert's tokens, in their order."""
  dispatch = np.zeros([_BATCH, _LENGTH, _EXPERTS, capacity])
  combine = np.zeros_like(dispatch)
  losses = []
  for row in range(_BATCH):
    taken = [0] * _EXPERTS
    likely = [_softmax(vector @ kernel) for vector in _INPUTS[row]]
    firsts = [int(np.argmax(x)) for x in likely]
    for choice in range(num_choices):
      for token, p in enumerate(likely):
        order = np.argsort(-p)
        expert = order[choice]
        gate = p[expert]
        if num_choices == 2:
          gate /= p[order[0]] + p[order[1]]
        if taken[expert] < capacity:
          dispatch[row, token, expert, taken[expert]] = 1.0
          combine[row, token, expert, taken[expert]] = gate
        taken[expert] += 1
    shares = np.bincount(firsts, minlength=_EXPERTS) / _LENGTH
    losses.append(_EXPERTS * np.dot(shares, np.mean(likely, axis=0)))
  return dispatch, combine, losses


class RouteTest(parameterized.TestCase):
  @parameterized.product(num_choices=(1, 2), capacity=(1, 3, 10))
  def test_is_what_a_loop_over_tokens_says(self, num_choices, capacity):
    rules = gating.Gating(_EXPERTS, num_choices)
    found, kernel = _routes(rules, capacity)
    dispatch, combine, losses = _expected(kernel, num_choices, capacity)
    np.testing.assert_array_equal(found["dispatch"], dispatch)
    np.testing.assert_allclose(found["combine"], combine, atol=1e-5)
    np.testing.assert_allclose(found["balance_loss"], losses, rtol=1e-5)
    kept = dispatch.sum(axis=(2, 3)) / num_choices
    np.testing.assert_allclose(found["dropped"], 1.0 - kept)
    self.assertEqual(found["dropped"].any(), capacity < _LENGTH)

  def test_sequences_do_not_depend_on_each_other(self):
    rules = gating.Gating(_EXPERTS, 2)
    together, _ = _routes(rules, 3)
    for row in range(_BATCH):
      alone, _ = _routes(rules, 3, _INPUTS[row : row + 1])
      for name, value in alone.items():
        np.testing.assert_allclose(value[0], together[name][row], atol=1e-6)


class CapacityTest(parameterized.TestCase):
  @parameterized.parameters(
    (1, 1.0, 12, 3), (1, 1.25, 12, 4), (2, 1.25, 12, 8), (2, 9.0, 12, 12)
  )
  def test_is_a_share_of_the_choices_and_no_more_than_all(
    self, num_choices, factor, num_tokens, expected
  ):
    rules = gating.Gating(4, num_choices, factor)
    self.assertEqual(rules.capacity(num_tokens), expected)
    with v1.Session(graph=tf.Graph()) as session, session.graph.as_default():
      length = v1.placeholder(tf.int32, [])
      found = session.run(rules.capacity(length), {length: num_tokens})
    self.assertEqual(found, expected)

  @parameterized.parameters(
    ({"experts_per_token": 3}, "experts_per_token=3 is not known; use 1"),
    ({"num_experts": 1}, "num_experts=1 is too few; use at least 2"),
    ({"capacity_factor": 0.0}, "capacity_factor=0.0 leaves experts no room"),
    ({"balance_weight": -1.0}, "balance_weight=-1.0 is negative; use 0"),
  )
  def test_says_what_does_not_fit(self, fields, message):
    with self.assertRaisesRegex(ValueError, message):
      gating.Gating(**({"num_experts": 4} | fields))


if __name__ == "__main__":
  absltest.main()
